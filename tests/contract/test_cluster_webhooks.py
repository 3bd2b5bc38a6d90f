"""Mutating admission webhooks: who is asked about, what is asked, how the answer is applied, and what if none comes.

Our own webhook gives recreated pods their preference; others inject sidecars into our copies.
"""

from __future__ import annotations

import base64
import contextlib
import json
import secrets
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rescheduler.model.json import Json
from tests.support.both_clusters import Space, name_of, refusal
from tests.support.loopback import Loopback, answering
from tests.support.manifests import deployment, gated, lease, pod, stateful_set
from tests.testbed.api import ApiError
from tests.testbed.pki import Authority
from tests.testbed.processes import free_port, until

CONFIGURATIONS = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
PODS = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
Review = Callable[[Json], Json]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "pki")


def labelling(key: str, value: str = "yes") -> Review:
    """Allows, and patches one label onto the object."""
    path = f"/metadata/labels/{key}"

    def review(request: Json) -> Json:
        patch = [{"op": "add", "path": path, "value": value}]
        return allowed(request) | {"patchType": "JSONPatch", "patch": encoded(patch)}

    return review


def allowed(request: Json) -> Json:
    return {"uid": request["uid"], "allowed": True}


def encoded(patch: list[Json]) -> str:
    return base64.b64encode(json.dumps(patch).encode()).decode()


@contextlib.contextmanager
def serving(authority: Authority, review: Review) -> Iterator[Loopback]:
    def answer(path: str, asked: Json) -> object:
        return {"apiVersion": asked["apiVersion"], "kind": asked["kind"], "response": review(asked["request"])}

    with answering(answer, authority.server("webhook")) as server:
        yield server


@contextlib.contextmanager
def registered(space: Space, authority: Authority, url: str, **fields: Any) -> Iterator[None]:
    """A webhook for the pods of this namespace; soon it is called."""
    name = f"contract-{secrets.token_hex(4)}"
    ours = {"matchLabels": {"kubernetes.io/metadata.name": space.name}}
    webhook = {
        "name": "hook.contract.test",
        "clientConfig": {"url": url, "caBundle": base64.b64encode(authority.certificate.read_bytes()).decode()},
        "rules": [PODS],
        "namespaceSelector": ours,
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 30,
    } | fields
    space.api.post(CONFIGURATIONS, {"metadata": {"name": name}, "webhooks": [webhook]})
    try:
        yield
    finally:
        space.api.delete(f"{CONFIGURATIONS}/{name}")


@contextlib.contextmanager
def webhook(space: Space, authority: Authority, review: Review, **fields: Any) -> Iterator[Loopback]:
    """One that answers, and that the API server has begun to ask: it takes note of new ones in its own time."""
    with serving(authority, review) as server, registered(space, authority, server.url + "/mutate", **fields):
        until("it is asked", lambda: probed(space, server))
        server.asked.clear()
        yield server


def probed(space: Space, server: Loopback) -> bool:
    """Whether a pod that is never made is asked about."""
    before = len(server.asked)
    with contextlib.suppress(ApiError):  # some refuse it
        space.create(gated("probe"), dryRun="All")
    return len(server.asked) > before


def requests(server: Loopback) -> list[Json]:
    return [body["request"] for body in server.bodies("/mutate")]


def test_a_created_pod_carries_what_the_webhook_patched(space: Space, authority: Authority) -> None:
    with webhook(space, authority, labelling("touched")) as server:
        made = space.create(gated("new", labels={"a": "b"}))
    assert made["metadata"]["labels"] == {"app": "new", "a": "b", "touched": "yes"}
    assert space.get("Pod", "new")["metadata"]["labels"]["touched"] == "yes"
    (asked,) = requests(server)
    assert (asked["operation"], asked["namespace"], asked["name"]) == ("CREATE", space.name, "new")
    assert asked["kind"] == {"group": "", "version": "v1", "kind": "Pod"}
    assert asked["resource"] == {"group": "", "version": "v1", "resource": "pods"}
    assert asked["object"]["metadata"]["labels"] == {"app": "new", "a": "b"}
    assert asked["oldObject"] is None
    assert asked["dryRun"] is False
    assert asked["userInfo"]["username"]


def test_the_pods_of_a_replica_set_pass_through_the_webhook(
    space: Space, authority: Authority, nodes: list[str]
) -> None:
    with webhook(space, authority, labelling("touched")) as server:
        space.create(deployment("web", 2))
        space.rolled_out("web")
    assert all(found["metadata"]["labels"]["touched"] == "yes" for found in space.pods("web"))
    for asked in requests(server):
        assert asked["object"]["metadata"]["ownerReferences"][0]["kind"] == "ReplicaSet"
        assert (
            asked["object"]["metadata"]["generateName"]
            == asked["object"]["metadata"]["ownerReferences"][0]["name"] + "-"
        )


def test_the_webhook_sees_the_names_of_a_stateful_sets_pods(
    space: Space, authority: Authority, nodes: list[str]
) -> None:
    """Their controller gives them a name and a generateName, and they are recognised by the name."""
    with webhook(space, authority, labelling("touched")) as server:
        space.create(stateful_set("database", 2))
        space.exactly("database", 2, "Running")
    named = [(asked["name"], asked["object"]["metadata"]["name"]) for asked in requests(server)]
    assert named == [("database-0", "database-0"), ("database-1", "database-1")]


def test_a_name_that_the_api_server_makes_up_is_not_known_to_the_webhook_yet(
    space: Space, authority: Authority
) -> None:
    body = gated("generated")
    body["metadata"] = {"generateName": "generated-", "labels": {"app": "generated"}}
    with webhook(space, authority, labelling("touched")) as server:
        made = space.create(body)
    assert name_of(made).startswith("generated-")
    (asked,) = requests(server)
    assert "name" not in asked["object"]["metadata"]
    assert not asked.get("name")


def test_a_preference_that_the_webhook_gives_steers_the_pod(
    space: Space, authority: Authority, nodes: list[str]
) -> None:
    term = {"key": "kubernetes.io/hostname", "operator": "In", "values": [nodes[2]]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchExpressions": [term]}]}}

    def steering(request: Json) -> Json:
        patch = [{"op": "add", "path": "/spec/affinity", "value": {"nodeAffinity": required}}]
        return allowed(request) | {"patchType": "JSONPatch", "patch": encoded(patch)}

    with webhook(space, authority, steering):
        for number in range(3):
            space.create(pod(f"steered-{number}"))
        assert {space.bound(f"steered-{number}") for number in range(3)} == {nodes[2]}


def test_a_webhook_that_denies_refuses_the_pod_with_its_words(space: Space, authority: Authority) -> None:
    def denying(request: Json) -> Json:
        return {"uid": request["uid"], "allowed": False, "status": {"code": 403, "message": "not on my watch"}}

    # The webhook gave a code and no reason.
    with webhook(space, authority, denying), refusal(403, "") as refused:
        space.create(gated("unwanted"))
    assert refused.message == 'admission webhook "hook.contract.test" denied the request: not on my watch'
    assert space.find("Pod", "unwanted") is None


def test_only_objects_that_the_rules_and_selectors_mean_are_asked_about(space: Space, authority: Authority) -> None:
    wanted = {"matchExpressions": [{"key": "skip", "operator": "DoesNotExist"}]}
    with webhook(space, authority, labelling("touched"), objectSelector=wanted) as server:
        space.create(gated("meant"))
        space.create(gated("skipped", labels={"skip": "me"}))
        space.create(lease("another-kind"))
        space.patch("Pod", "meant", {"metadata": {"labels": {"later": "yes"}}})
        space.delete("Pod", "meant")
    assert [asked["name"] for asked in requests(server)] == ["meant"]


def test_pods_of_other_namespaces_are_not_asked_about(space: Space, authority: Authority) -> None:
    elsewhere = {"matchLabels": {"kubernetes.io/metadata.name": "elsewhere"}}
    with webhook(space, authority, labelling("touched")) as ours:
        with serving(authority, labelling("theirs")) as server:
            with registered(space, authority, server.url + "/elsewhere", namespaceSelector=elsewhere):
                made = space.create(gated("here"))
            assert server.asked == []
        assert ours.asked
    assert "theirs" not in made["metadata"]["labels"]


@pytest.mark.parametrize(("policy", "created"), [("Ignore", True), ("Fail", False)])
def test_a_webhook_that_is_down_is_ignored_or_refuses_everything(
    space: Space, authority: Authority, policy: str, created: bool
) -> None:
    with webhook(space, authority, labelling("touched"), failurePolicy=policy) as server:
        (mine,) = [each for each in space.api.get(CONFIGURATIONS)["items"] if server.url in str(each)]
        nobody = f"https://127.0.0.1:{free_port()}/mutate"
        move = [{"op": "replace", "path": "/webhooks/0/clientConfig/url", "value": nobody}]
        space.api.patch(f"{CONFIGURATIONS}/{name_of(mine)}", move, "json")
        until("the one that answers is asked no more", lambda: not probed(space, server))
        if created:
            assert "touched" not in space.create(gated("while-down"))["metadata"]["labels"]
        else:
            with refusal(500, "InternalError") as refused:
                space.create(gated("while-down"))
            assert 'failed calling webhook "hook.contract.test"' in refused.message


def test_a_webhook_that_takes_too_long_is_given_up(space: Space, authority: Authority) -> None:
    enough = threading.Event()
    slow = threading.Event()

    def dawdling(request: Json) -> Json:
        if slow.is_set():
            enough.wait(30)
        return labelling("touched")(request)

    with webhook(space, authority, dawdling, timeoutSeconds=1, failurePolicy="Ignore"):
        slow.set()
        try:
            made = space.create(gated("impatient"))
        finally:
            enough.set()
    assert "touched" not in made["metadata"]["labels"]


def test_a_broken_answer_counts_as_a_failure(space: Space, authority: Authority) -> None:
    broken = threading.Event()

    def answer(request: Json) -> Json:
        return {"uid": "another-uid", "allowed": True} if broken.is_set() else allowed(request)

    with webhook(space, authority, answer):
        broken.set()
        with refusal(500, "InternalError"):
            space.create(gated("refused"))


def test_a_dry_run_says_so_to_the_webhook(space: Space, authority: Authority) -> None:
    with webhook(space, authority, labelling("touched")) as server:
        made = space.create(gated("dry"), dryRun="All")
    assert made["metadata"]["labels"]["touched"] == "yes"
    assert [asked["dryRun"] for asked in requests(server)] == [True]
