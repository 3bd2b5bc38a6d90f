"""What a kubelet says about the pods on its node while nothing misbehaves, and the Leases and Events beside it."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping

from rescheduler.model.json import Json
from tests.support.both_clusters import Space, condition, is_ready, name_of, refusal
from tests.support.manifests import lease, pod, simulated
from tests.testbed.processes import until

IN_SERVICE = "contract.test/in-service"
NEW_EVENTS = "/apis/events.k8s.io/v1/namespaces/{}/events"


def conditions(found: Json) -> Mapping[str, str]:
    return {each["type"]: each["status"] for each in found["status"]["conditions"]}


def test_a_running_pod_has_what_everybody_looks_at(space: Space, nodes: list[str]) -> None:
    found = space.runs(pod("web"))
    status = found["status"]
    assert status["phase"] == "Running"
    usual = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    assert {kind: conditions(found).get(kind) for kind in usual} == dict.fromkeys(usual, "True")
    assert status["podIP"] == status["podIPs"][0]["ip"]
    node = space.api.get(f"/api/v1/nodes/{found['spec']['nodeName']}")
    assert status["hostIP"] in [each["address"] for each in node["status"]["addresses"]]
    assert status["startTime"] >= found["metadata"]["creationTimestamp"]
    (container,) = status["containerStatuses"]
    assert (container["name"], container["image"], container["restartCount"]) == ("main", "hollow:1", 0)
    assert (container["ready"], container["started"]) == (True, True)
    assert container["state"]["running"]["startedAt"] >= status["startTime"]


def test_two_pods_have_two_addresses(space: Space, nodes: list[str]) -> None:
    first, second = (space.runs(pod(name))["status"]["podIP"] for name in ("a", "b"))
    assert first != second


def test_init_containers_are_done_and_sidecars_run(space: Space, nodes: list[str]) -> None:
    init = {"name": "init", "image": "hollow:1"}
    sidecar = {"name": "sidecar", "image": "hollow:1", "restartPolicy": "Always"}
    found = space.runs(pod("web", initContainers=[init, sidecar]))
    by_name = {each["name"]: each for each in found["status"]["initContainerStatuses"]}
    assert by_name["init"]["state"]["terminated"]["exitCode"] == 0
    assert by_name["init"]["ready"]
    assert "running" in by_name["sidecar"]["state"]
    assert by_name["sidecar"]["ready"]


def test_a_pod_that_starts_slowly_is_bound_and_pending(space: Space, nodes: list[str]) -> None:
    space.create(simulated(pod("slow"), starts_in="600"))
    assert space.bound("slow") in nodes
    found = space.get("Pod", "slow")
    assert found["status"]["phase"] == "Pending"
    assert condition(found, "PodScheduled")["status"] == "True"
    assert not is_ready(found)


def test_a_pod_is_ready_once_its_readiness_gate_is_passed(space: Space, nodes: list[str]) -> None:
    space.create(pod("gated", readinessGates=[{"conditionType": IN_SERVICE}]))
    found = space.reaches("Pod", "gated", "runs", lambda found: found["status"]["phase"] == "Running")
    assert condition(found, "ContainersReady")["status"] == "True"
    assert (condition(found, "Ready")["status"], condition(found, "Ready")["reason"]) == (
        "False",
        "ReadinessGatesNotReady",
    )
    space.patch_status("Pod", "gated", {"conditions": [{"type": IN_SERVICE, "status": "True"}]}, "strategic")
    space.ready("gated")


def test_a_deleted_pod_ends_with_its_last_phase(space: Space, nodes: list[str]) -> None:
    space.runs(pod("web"))
    since = space.version("Pod")
    space.delete("Pod", "web")
    seen = space.events("Pod", since, lambda event: event["type"] == "DELETED")
    last = seen[-1]["object"]
    assert last["status"]["phase"] in ("Succeeded", "Failed")
    assert condition(last, "Ready")["status"] == "False"
    assert "terminated" in last["status"]["containerStatuses"][0]["state"]


def test_the_scheduler_tells_of_what_it_did_in_events(space: Space, nodes: list[str]) -> None:
    space.create(pod("placed"))
    space.create(pod("misplaced", nodeSelector={"no": "where"}))

    def told(name: str, reason: str) -> list[Json]:
        return space.list("Event", fieldSelector=f"involvedObject.name={name},reason={reason}")

    (scheduled,) = until("it is told", lambda: told("placed", "Scheduled"))
    assert scheduled["type"] == "Normal"
    node = space.bound("placed")
    assert scheduled["message"] == f"Successfully assigned {space.name}/placed to {node}"
    failed = until("it is told", lambda: told("misplaced", "FailedScheduling"))
    assert failed[0]["type"] == "Warning"
    assert failed[0]["message"].startswith("0/4 nodes are available")


def test_a_new_event_is_seen_in_both_groups(space: Space) -> None:
    regarding = {"apiVersion": "v1", "kind": "Pod", "name": "web", "namespace": space.name, "uid": "some-uid"}
    made = space.api.post(NEW_EVENTS.format(space.name), {
        "metadata": {"generateName": "web-"},
        "eventTime": "2026-01-02T03:04:05.678901Z",
        "reportingController": "contract.test/rescheduler",
        "reportingInstance": "here",
        "action": "Moving",
        "reason": "Rescheduled",
        "type": "Normal",
        "note": "moved from a to b",
        "regarding": regarding,
    })  # fmt: skip
    old = space.get("Event", name_of(made))
    assert (old["message"], old["reason"], old["action"]) == ("moved from a to b", "Rescheduled", "Moving")
    assert old["involvedObject"] == regarding
    assert old["reportingComponent"] == "contract.test/rescheduler"
    assert old["eventTime"] == "2026-01-02T03:04:05.678901Z"
    both = [name_of(each) for each in space.list("Event", fieldSelector="involvedObject.uid=some-uid")]
    assert both == [name_of(made)]
    assert [name_of(each) for each in space.api.get(NEW_EVENTS.format(space.name))["items"]] == [name_of(made)]


def test_an_old_event_is_created_too(space: Space) -> None:
    involved = {"apiVersion": "v1", "kind": "Pod", "name": "web", "namespace": space.name}
    body = {"kind": "Event", "metadata": {"name": "old"}, "involvedObject": involved, "reason": "Moved", "message": "m"}
    space.create(body)
    (seen,) = space.api.get(NEW_EVENTS.format(space.name))["items"]
    assert (seen["note"], seen["regarding"]["name"]) == ("m", "web")


def test_a_lease_keeps_its_times_to_the_microsecond(space: Space) -> None:
    now = dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC).isoformat(timespec="microseconds")
    sent = now.replace("+00:00", "Z")
    made = space.create(lease("leader", acquireTime=sent, renewTime=sent, leaseDurationSeconds=15, leaseTransitions=3))
    assert made["spec"] == {
        "holderIdentity": "somebody",
        "acquireTime": sent,
        "renewTime": sent,
        "leaseDurationSeconds": 15,
        "leaseTransitions": 3,
    }


def test_of_two_who_take_a_lease_at_once_one_gets_it(space: Space) -> None:
    read = space.create(lease("leader", holderIdentity="nobody"))
    path = space.path("Lease", "leader")
    space.api.put(path, read | {"spec": {"holderIdentity": "a"}})
    with refusal(409, "Conflict"):
        space.api.put(path, read | {"spec": {"holderIdentity": "b"}})
    assert space.get("Lease", "leader")["spec"]["holderIdentity"] == "a"
