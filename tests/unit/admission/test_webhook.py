"""The webhook's answers: a patch for pods that it knows of, "allowed" for others, a reason for what is no review."""

from __future__ import annotations

import base64
import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from kubemini.patches import apply_json_patch
from rescheduler.admission.advisor import PlacementAdvisor
from rescheduler.admission.server import RequestError
from rescheduler.admission.webhook import PodMutator
from rescheduler.model import labels
from rescheduler.model.advice import NewPod, PlacementAdvice
from rescheduler.model.json import Json
from rescheduler.recovery.avoidance import avoided_nodes
from rescheduler.recovery.settings import RecoverySettings
from tests.unit.admission.worlds import NOW, RETRIES, World, pod_json, record, review

UID = "705ab4f5-6393-11e8-b7cc-42010a800002"
ALLOWED = {"uid": UID, "allowed": True}


def mutation(world: World | None = None) -> PodMutator:
    """The webhook of a cluster in which a migration waits for a pod and pods have failed on node three."""
    if world is None:
        world = World()
        world.migration()
        world.deployment(record("three"))
    return PodMutator(world.placement_advisor(), lambda: ("kube-system",), lambda: NOW)


def response(body: bytes, by: PodMutator | None = None) -> Json:
    """What the answer says."""
    answer = json.loads((by or mutation()).review(body))
    assert answer["kind"] == "AdmissionReview"
    assert answer["apiVersion"] == "admission.k8s.io/v1"
    found: Json = answer["response"]
    assert found["uid"] == UID
    return found


def patch_of(found: Json) -> list[Json]:
    operations: list[Json] = json.loads(base64.b64decode(found["patch"]))
    return operations


def test_a_pod_that_is_expected_gets_its_patch() -> None:
    found = response(review(pod_json()))
    assert found["allowed"] is True
    assert found["patchType"] == "JSONPatch"
    assert "warnings" not in found
    after = apply_json_patch(patch_of(found), pod_json())
    assert after["metadata"]["labels"][labels.MIGRATION_ID] == "m"
    assert avoided_nodes(after["spec"]["affinity"]) == {"three"}


def test_a_pod_that_could_go_nowhere_else_is_kept_off_no_node() -> None:
    picky = {"nodeSelector": {"disk": "fast"}}
    world = World()
    world.deployment(record("three"))
    world.node("three", labels={"disk": "fast"})
    by = mutation(world)
    assert response(review(pod_json(spec=picky)), by) == ALLOWED
    world.node("two", labels={"disk": "fast"})
    after = apply_json_patch(patch_of(response(review(pod_json(spec=picky)), by)), pod_json(spec=picky))
    assert avoided_nodes(after["spec"]["affinity"]) == {"three"}


def test_asked_again_with_the_patch_applied_it_has_nothing_to_add() -> None:
    after = apply_json_patch(patch_of(response(review(pod_json()))), pod_json())
    assert response(review(after)) == ALLOWED


def test_a_dry_run_gets_the_same_answer_and_leaves_no_trace() -> None:
    by = mutation()
    dry = response(review(pod_json(), dryRun=True), by)
    assert dry == response(review(pod_json()), by)


def test_a_pod_that_nobody_knows_about_is_allowed_as_it_is() -> None:
    assert response(review(pod_json(None))) == ALLOWED


@pytest.mark.parametrize(
    "request_",
    [
        {"operation": "UPDATE"},
        {"operation": "DELETE", "object": None},
        {"operation": "CONNECT"},
        {"operation": None},
        {"subResource": "eviction", "kind": {"group": "policy", "version": "v1", "kind": "Eviction"}},
        {"subResource": "status"},
        {"kind": {"group": "apps", "version": "v1", "kind": "Deployment"}},
        {"kind": {"group": "", "version": "v1", "kind": "Service"}},
        {"kind": "Pod"},
        {"kind": None},
        {"resource": {"group": "", "version": "v1", "resource": "podtemplates"}},
        {"object": None},
        {"object": "a pod"},
        {"object": []},
        {"object": {}},
        {"object": {"metadata": None, "spec": {}}},
        {"object": {"metadata": {}, "spec": None}},
        {"object": pod_json(labels={"a": 1})},
        {"object": pod_json(labels=["a"])},
        {"object": pod_json(annotations="a")},
        {"object": pod_json(ownerReferences={"kind": "x"})},
        {"object": pod_json(spec={"affinity": []})},
        {"object": pod_json(spec={"affinity": {"nodeAffinity": 5}})},
        {"object": pod_json(spec={"schedulingGates": ["x"]})},
        {"namespace": "kube-system"},
        {"namespace": 5, "object": {}},
    ],
)
def test_what_is_no_new_pod_or_makes_no_sense_is_allowed_without_a_patch(request_: Json) -> None:
    with capture_logs() as logs:
        assert response(review(pod_json(), **request_)) == ALLOWED
    assert not [each for each in logs if each["log_level"] == "error"]


def test_a_review_of_an_older_version_is_answered_in_kind_and_without_a_patch() -> None:
    old = json.loads(review(pod_json())) | {"apiVersion": "admission.k8s.io/v1beta1"}
    answer = json.loads(mutation().review(json.dumps(old).encode()))
    assert answer == {"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "response": ALLOWED}


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "no AdmissionReview"),
        (b"{", "no AdmissionReview"),
        (b"\xff\xfe", "no AdmissionReview"),
        (b"null", "no AdmissionReview"),
        (b"[]", "no AdmissionReview"),
        (b'{"kind":"AdmissionReview","request":{"uid":"\\ud800"}}', "no AdmissionReview"),
        (b"[" * 100_000, "no AdmissionReview"),
        (b'{"kind":"AdmissionReview","request":' + b'{"a":' * 100_000, "no AdmissionReview"),
        (b"{}", "must be an AdmissionReview"),
        (b'{"kind":"Pod"}', "'Pod'"),
        (b'{"kind":"AdmissionReview"}', "no request"),
        (b'{"kind":"AdmissionReview","request":null}', "no request"),
        (b'{"kind":"AdmissionReview","request":[]}', "no AdmissionReview"),
        (b'{"kind":"AdmissionReview","request":{}}', "request.uid"),
        (b'{"kind":"AdmissionReview","request":{"uid":""}}', "request.uid"),
        (b'{"kind":"AdmissionReview","request":{"uid":7}}', "request.uid"),
    ],
)
def test_what_is_no_review_is_refused_with_the_reason(body: bytes, why: str) -> None:
    with pytest.raises(RequestError) as caught:
        mutation().review(body)
    assert caught.value.status == 400
    assert why in caught.value.message


def test_a_fault_of_ours_is_logged_and_the_pod_is_created_all_the_same() -> None:
    class Broken(PlacementAdvisor):
        def advise(self, new_pod: NewPod) -> PlacementAdvice:
            raise RuntimeError(f"no idea about {new_pod.namespace}")

    world = World()
    broken = Broken(world.cache, world.migrations, RecoverySettings, lambda: NOW, gate=False)
    with capture_logs() as logs:
        found = response(review(pod_json()), PodMutator(broken, tuple, lambda: NOW))
    assert found["allowed"] is True
    assert "patch" not in found
    assert "created unchanged" in found["warnings"][0]
    assert [each["log_level"] for each in logs] == ["error"]


@pytest.mark.parametrize("namespace", ["shop", "kube-system"])
def test_a_probe_is_answered_in_every_namespace(namespace: str) -> None:
    pod = pod_json(None, labels={labels.PROBE: "token"}, namespace=namespace)
    found = response(review(pod, namespace=namespace))
    assert patch_of(found) == [{"op": "add", "path": "/metadata/annotations", "value": {labels.ANSWER: "token"}}]


def test_whoever_makes_a_pod_with_the_misspelt_annotation_is_told() -> None:
    misspelt = {labels.MISSPELT_RETRIES: "3"}
    (warning,) = response(review(pod_json(None, annotations=misspelt)))["warnings"]
    assert labels.SCHEDULING_RETRIES in warning
    assert "warnings" not in response(review(pod_json(None, annotations=misspelt | RETRIES)))
    assert "warnings" not in response(review(pod_json(annotations=misspelt))), "a controller would only log it"


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["metadata", "spec", "labels", "annotations", "affinity", "kind", "uid", "items", "name"])
            | st.text(max_size=4),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(st.binary(max_size=200))
def test_garbage_is_refused_and_nothing_else(body: bytes) -> None:
    with pytest.raises(RequestError):
        mutation().review(body)


@given(st.sampled_from(["uid", "kind", "resource", "subResource", "operation", "namespace", "object"]), JUNK)
def test_a_review_with_junk_in_it_is_answered_or_refused(field: str, junk: Any) -> None:
    with contextlib.suppress(RequestError):
        answer = json.loads(mutation().review(review(pod_json(), **{field: junk})))
        assert answer["response"]["allowed"] is True


@given(
    st.sampled_from(["metadata", "spec", "labels", "annotations", "ownerReferences", "affinity", "schedulingGates"]),
    JUNK,
)
def test_a_pod_with_junk_in_it_is_allowed_and_its_patch_fits(field: str, junk: Any) -> None:
    pod = pod_json()
    if field in ("metadata", "spec"):
        pod[field] = junk
    else:
        pod["spec" if field in ("affinity", "schedulingGates") else "metadata"][field] = junk
    with capture_logs() as logs:
        found = response(review(pod))
    assert found["allowed"] is True
    assert not [each for each in logs if each["log_level"] == "error"]
    if "patch" in found:
        apply_json_patch(patch_of(found), json.loads(json.dumps(pod)))


@given(st.data())
def test_a_review_that_was_cut_or_changed_on_the_way_is_answered_or_refused(data: st.DataObject) -> None:
    body = bytearray(review(pod_json()))
    for _ in range(data.draw(st.integers(0, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    cut = bytes(body[: data.draw(st.integers(0, len(body)))])
    with contextlib.suppress(RequestError):
        answer = json.loads(mutation().review(cut))
        assert answer["response"]["allowed"] is True
