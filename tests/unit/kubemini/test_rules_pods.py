"""What holds for pods: what a new one begins with, what may change, and how long it takes to end.

That all of it is as in the real API server is the business of `tests/contract/test_rules_agree.py`; here is what the
product leans on.
"""

from __future__ import annotations

from typing import Any

import pytest

from kubemini.api import Api, Deletion
from kubemini.kinds import POD
from kubemini.refusals import Json
from kubemini.rules.images import pull_policy
from kubemini.rules.pod import update_condition
from tests.unit.kubemini.rule_cases import CONTAINER, at, cluster, create, fields_of, pod, refused, running

GATES = [{"name": "example.com/one"}, {"name": "example.com/two"}]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
IN_ZONE = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}


@pytest.fixture
async def api() -> Api:
    return await cluster()


def setting(path: str, value: Any) -> Any:
    """An edit that puts a value somewhere."""

    def edit(body: Json) -> Json:
        *steps, last = path.split(".")
        place: Any = body
        for step in steps:
            place = place[int(step)] if isinstance(place, list) else place.setdefault(step, {})
        place[last] = value
        return body

    return edit


async def test_a_new_pod_is_pending_and_has_its_defaults(api: Api) -> None:
    made = await create(api, POD, pod() | {"status": {"phase": "Running"}})
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    spec = made["spec"]
    assert (spec["restartPolicy"], spec["dnsPolicy"], spec["schedulerName"]) == (
        "Always",
        "ClusterFirst",
        "default-scheduler",
    )
    assert (spec["terminationGracePeriodSeconds"], spec["enableServiceLinks"], spec["securityContext"]) == (
        30,
        True,
        {},
    )
    assert spec["containers"][0]["imagePullPolicy"] == "IfNotPresent"
    assert made["metadata"]["generation"] == 1


async def test_limits_are_requests_too_and_make_a_pod_guaranteed(api: Api) -> None:
    limits = {"cpu": "1000m", "memory": "1Gi"}
    made = await create(api, POD, pod(containers=[CONTAINER | {"resources": {"limits": limits}}]))
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1", "memory": "1Gi"}
    assert made["status"]["qosClass"] == "Guaranteed"


async def test_a_gated_pod_says_that_it_waits(api: Api) -> None:
    made = await create(api, POD, pod(schedulingGates=GATES))
    (condition,) = made["status"]["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == ("PodScheduled", "False", "SchedulingGated")


async def test_a_negative_weight_is_refused(api: Api) -> None:
    liked = {"nodeAffinity": {PREFERRED: [{"weight": -50, "preference": IN_ZONE}]}}
    refusal = await refused(create(api, POD, pod(affinity=liked)))
    assert (refusal.code, refusal.reason) == (422, "Invalid")
    assert fields_of(refusal) == [f"spec.affinity.nodeAffinity.{PREFERRED}[0].weight"]


async def test_every_fault_of_a_pod_is_named(api: Api) -> None:
    refusal = await refused(create(api, POD, pod(containers=[{"name": "A"}], tolerations=[{"key": "b c"}])))
    assert set(fields_of(refusal)) == {
        "spec.containers[0].name",
        "spec.containers[0].image",
        "spec.tolerations[0].key",
    }


async def test_keys_that_shall_match_are_merged_into_the_selector_once(api: Api) -> None:
    spread = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["app"]}
    made = await create(api, POD, pod(topologySpreadConstraints=[spread | {"labelSelector": {}}]))
    selector = made["spec"]["topologySpreadConstraints"][0]["labelSelector"]
    assert selector == {"matchExpressions": [{"key": "app", "operator": "In", "values": ["a"]}]}


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("spec.nodeName", "node-1"),
        ("spec.schedulerName", "other"),
        ("spec.nodeSelector", {"zone": "a"}),
        ("spec.affinity", {"nodeAffinity": {}}),
        ("spec.containers.0.resources", {"requests": {"cpu": "1"}}),
        ("spec.terminationGracePeriodSeconds", 5),
    ],
)
async def test_the_spec_of_a_pod_is_fixed(api: Api, path: str, value: Any) -> None:
    await create(api, POD, pod())
    refusal = await refused(api.edit(at(POD, "a"), setting(path, value)))
    assert fields_of(refusal) == ["spec"]
    assert "pod updates may not change fields other than `spec.containers[*].image`" in refusal.message


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("metadata.labels", {"b": "c"}),
        ("metadata.annotations", {"controller.kubernetes.io/pod-deletion-cost": "-2147483647"}),
        ("spec.containers.0.image", "other:2"),
        ("spec.activeDeadlineSeconds", 60),
        ("spec.tolerations", [{"key": "a", "operator": "Exists"}]),
    ],
)
async def test_some_things_of_a_pod_may_change(api: Api, path: str, value: Any) -> None:
    await create(api, POD, pod())
    await api.edit(at(POD, "a"), setting(path, value))


async def test_gates_can_only_be_taken_off(api: Api) -> None:
    await create(api, POD, pod(schedulingGates=GATES))
    made = await api.edit(at(POD, "a"), setting("spec.schedulingGates", GATES[1:]))
    assert made["metadata"]["generation"] == 2
    refusal = await refused(api.edit(at(POD, "a"), setting("spec.schedulingGates", [{"name": "new"}])))
    assert fields_of(refusal) == ["spec.schedulingGates[0].name"]


async def test_a_gated_pod_can_be_narrowed_and_not_widened(api: Api) -> None:
    needed = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [IN_ZONE]}}}
    await create(api, POD, pod(schedulingGates=GATES, nodeSelector={"a": "b"}, affinity=needed))
    await api.edit(at(POD, "a"), setting("spec.nodeSelector", {"a": "b", "c": "d"}))
    refusal = await refused(api.edit(at(POD, "a"), setting("spec.nodeSelector", {"c": "d"})))
    assert fields_of(refusal) == ["spec.nodeSelector"]
    narrower = {"matchExpressions": [*IN_ZONE["matchExpressions"], {"key": "x", "operator": "Exists"}]}
    path = f"spec.affinity.nodeAffinity.{REQUIRED}.nodeSelectorTerms"
    await api.edit(at(POD, "a"), setting(path, [narrower]))
    refusal = await refused(api.edit(at(POD, "a"), setting(path, [IN_ZONE])))
    assert fields_of(refusal) == [f"{path}[0]"]


async def test_a_waiting_pod_can_be_nominated_and_a_bound_one_not(api: Api) -> None:
    await create(api, POD, pod("waits"))
    nominated = await api.edit(at(POD, "waits", "status"), setting("status.nominatedNodeName", "node-1"))
    assert nominated["status"]["nominatedNodeName"] == "node-1"
    await create(api, POD, pod("bound", nodeName="node-1"))
    refusal = await refused(api.edit(at(POD, "bound", "status"), setting("status.nominatedNodeName", "node-2")))
    assert fields_of(refusal) == ["status.nominatedNodeName"]


async def test_a_write_to_the_status_reaches_labels_but_neither_spec_nor_owners(api: Api) -> None:
    await create(api, POD, pod())

    def edit(body: Json) -> Json:
        body["spec"]["nodeName"] = "node-1"
        body["metadata"]["labels"]["b"] = "c"
        body["metadata"]["ownerReferences"] = [{"apiVersion": "v1", "kind": "Pod", "name": "o", "uid": "u"}]
        body["status"]["message"] = "so"
        return body

    made = await api.edit(at(POD, "a", "status"), edit)
    assert made["status"]["message"] == "so"
    assert made["metadata"]["labels"] == {"app": "a", "b": "c"}
    assert "nodeName" not in made["spec"]
    assert "ownerReferences" not in made["metadata"]


async def test_a_write_to_the_pod_does_not_reach_its_status(api: Api) -> None:
    await create(api, POD, pod())
    made = await api.edit(at(POD, "a"), setting("status.phase", "Running"))
    assert made["status"]["phase"] == "Pending"


async def test_one_address_is_the_first_of_many(api: Api) -> None:
    await create(api, POD, pod())
    made = await api.edit(at(POD, "a", "status"), setting("status.podIP", "10.0.0.1"))
    assert made["status"]["podIPs"] == [{"ip": "10.0.0.1"}]


async def test_a_container_that_ended_for_good_does_not_come_back(api: Api) -> None:
    await create(api, POD, pod(restartPolicy="Never", nodeName="node-1"))
    status = {"name": "main", "image": "a", "imageID": "", "ready": False, "restartCount": 0}
    ended = status | {"state": {"terminated": {"exitCode": 1}}}
    await api.edit(at(POD, "a", "status"), setting("status.containerStatuses", [ended]))
    again = [status | {"state": {"running": {}}}]
    refusal = await refused(api.edit(at(POD, "a", "status"), setting("status.containerStatuses", again)))
    assert fields_of(refusal) == ["status.containerStatuses[0].state"]


@pytest.mark.parametrize(("asked", "grace"), [(None, 30), (5, 5), (0, 0)])
async def test_a_running_pod_ends_in_its_own_time_or_in_that_which_is_asked_for(
    api: Api, asked: int | None, grace: int
) -> None:
    await running(api)
    gone = await api.delete(at(POD, "a"), Deletion(grace=asked))
    assert gone["metadata"]["deletionGracePeriodSeconds"] == grace
    assert (api.find(POD, ("default", "a")) is None) == (grace == 0)


@pytest.mark.parametrize("phase", ["Pending", "Failed", "Succeeded"])
async def test_a_pod_that_nobody_runs_goes_at_once(api: Api, phase: str) -> None:
    await create(api, POD, pod(nodeName="" if phase == "Pending" else "node-1"))
    await api.edit(at(POD, "a", "status"), setting("status.phase", phase))
    await api.delete(at(POD, "a"))
    assert api.find(POD, ("default", "a")) is None


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("a", "Always"), ("a:latest", "Always"), ("a:1", "IfNotPresent"), ("host:5000/a", "Always"),
        ("host:5000/a/b:v1", "IfNotPresent"), (f"a@sha256:{'0' * 64}", "IfNotPresent"), ("A B", "IfNotPresent"),
    ],
)  # fmt: skip
def test_an_image_without_a_version_is_always_pulled(image: str, policy: str) -> None:
    assert pull_policy(image) == policy


def test_a_condition_keeps_its_time_as_long_as_its_status_stays() -> None:
    status: Json = {}
    assert update_condition(status, {"type": "A", "status": "True"})
    status["conditions"][0]["lastTransitionTime"] = "2026-01-01T00:00:00Z"
    assert update_condition(status, {"type": "A", "status": "True", "reason": "B"})
    assert status["conditions"][0]["lastTransitionTime"] == "2026-01-01T00:00:00Z"
    assert update_condition(status, {"type": "A", "status": "False"})
    assert status["conditions"][0]["lastTransitionTime"] != "2026-01-01T00:00:00Z"
