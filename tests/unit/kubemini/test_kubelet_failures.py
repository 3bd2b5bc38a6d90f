"""Pods that are told to fail: what their kubelet says of them, crash by crash, and how they recover.

The same is held against KWOK on a real control plane in `tests/contract/test_misbehaviour.py`; here time is virtual, so
paces and corners can be looked at.
"""

from __future__ import annotations

import re

import pytest

from kubemini.controllers.conditions import condition_of
from kubemini.kinds import CORE_EVENT
from kubemini.kubelet_node import NodeShape
from kubemini.refusals import Json
from tests.unit.kubemini.kubelet_world import World, container, in_virtual_time, pod, said, state

SIDECAR = {"name": "proxy", "image": "hollow:3", "restartPolicy": "Always"}
JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "work", "uid": "1", "controller": True}


def waits_for(found: Json, name: str = "main") -> str:
    return str(container(found, name)["state"].get("waiting", {}).get("reason", ""))


def test_a_crash_loop_counts_one_restart_each_time() -> None:
    async def scene(world: World) -> None:
        found = await world.create("web", fails="CrashLoopBackOff", restarts_every="10")
        for restarts in range(5):
            assert (state(found), container(found)["restartCount"]) == ("running", restarts)
            assert (container(found)["ready"], container(found)["started"]) == (False, True)
            await world.after(2)
            found = world.pod("web")
            assert (waits_for(found), container(found)["restartCount"]) == ("CrashLoopBackOff", restarts)
            assert said(found, "Ready") == said(found, "ContainersReady") == ("False", "ContainersNotReady")
            assert found["status"]["phase"] == "Running"
            await world.after(8)
            found = world.pod("web")

    in_virtual_time(scene)


def test_a_crash_is_described_as_the_kubelet_does() -> None:
    async def scene(world: World) -> None:
        uid = (await world.create("web", fails="CrashLoopBackOff"))["metadata"]["uid"]
        await world.after(0.5)
        found = world.pod("web")
        main = container(found)
        message = f"back-off 1s restarting failed container=main pod=web_default({uid})"
        assert main["state"] == {"waiting": {"reason": "CrashLoopBackOff", "message": message}}
        last = main["lastState"]["terminated"]
        assert (last["exitCode"], last["reason"]) == (1, "Error")
        assert condition_of(found, "Ready")["message"] == "containers with unready status: [main]"
        warning = f"Back-off restarting failed container main in pod web_default({uid})"
        assert ("Warning", "BackOff", warning) in world.events("web")

    in_virtual_time(scene)


def test_a_crash_that_is_repeated_is_one_event_that_counts() -> None:
    async def scene(world: World) -> None:
        await world.create("web", fails="CrashLoopBackOff")
        await world.after(60)
        assert len(world.events("web")) == 2  # Started, BackOff
        assert container(world.pod("web"))["restartCount"] >= 59

    in_virtual_time(scene)


@pytest.mark.parametrize("mode", ["CrashLoopBackOff", "SidecarRuns"])
def test_what_must_not_be_restarted_has_failed(mode: str) -> None:
    async def scene(world: World) -> None:
        body = pod("once", restartPolicy="Never", initContainers=[dict(SIDECAR)])
        await world.create("once", body, fails=mode)
        await world.after(60)
        found = world.pod("once")
        assert found["status"]["phase"] == "Failed"
        assert said(found, "Ready") == ("False", "PodFailed")
        assert (state(found), state(found, "proxy")) == ("terminated", "terminated")
        assert container(found)["restartCount"] == 0
        assert "reason" not in found["status"]

    in_virtual_time(scene)


def test_a_pod_that_must_not_be_restarted_runs_on_with_its_other_containers() -> None:
    async def scene(world: World) -> None:
        body = pod("once", restartPolicy="Never")
        body["spec"]["containers"].append({"name": "agent", "image": "hollow:2"})
        await world.create("once", body, fails="SidecarRuns")
        await world.after(60)
        found = world.pod("once")
        assert (found["status"]["phase"], state(found), state(found, "agent")) == ("Running", "terminated", "running")
        assert condition_of(found, "Ready")["message"] == "containers with unready status: [main]"

    in_virtual_time(scene)


def test_a_sidecar_of_either_kind_runs_on_while_the_first_container_crashes() -> None:
    async def scene(world: World) -> None:
        body = pod("web", initContainers=[dict(SIDECAR)])
        body["spec"]["containers"].append({"name": "agent", "image": "hollow:2"})
        await world.create("web", body, fails="SidecarRuns")
        await world.after(10.5)
        found = world.pod("web")
        assert waits_for(found) == "CrashLoopBackOff"
        assert container(found)["restartCount"] == 10
        for name in ("agent", "proxy"):
            running = container(found, name)
            assert (state(found, name), running["ready"], running["restartCount"]) == ("running", True, 0)
        assert found["status"]["phase"] == "Running"

    in_virtual_time(scene)


def test_the_pod_of_a_job_that_crashes_never_completes() -> None:
    async def scene(world: World) -> None:
        body = pod("work", restartPolicy="OnFailure")
        body["metadata"]["ownerReferences"] = [dict(JOB)]
        await world.create("work", body, fails="CrashLoopBackOff", completes_in="0")
        await world.after(30)
        assert world.pod("work")["status"]["phase"] == "Running"

    in_virtual_time(scene)


def test_an_image_that_cannot_be_pulled_is_named() -> None:
    async def scene(world: World) -> None:
        body = pod("web", initContainers=[{"name": "setup", "image": "hollow:2"}, dict(SIDECAR)])
        found = await world.create("web", body, fails="ImagePullBackOff")
        assert waits_for(found) == "ErrImagePull"
        await world.after(60)
        found = world.pod("web")
        waiting = container(found)["state"]["waiting"]
        assert waiting["reason"] == "ImagePullBackOff"
        assert waiting["message"].startswith('Back-off pulling image "hollow:1": ErrImagePull: rpc error: ')
        assert found["status"]["phase"] == "Pending"
        assert found["status"]["podIP"]
        assert (state(found, "setup"), state(found, "proxy")) == ("terminated", "running")
        assert condition_of(found, "Ready")["message"] == "containers with unready status: [main]"
        assert said(found, "Initialized") == ("True", "")

    in_virtual_time(scene)


def test_a_rejected_pod_has_failed_and_nothing_else_is_said() -> None:
    async def scene(world: World) -> None:
        await world.create("web", pod("web", cpu="1500m"), fails="OutOfcpu")
        assert world.pod("web")["status"]["phase"] == "Pending"
        await world.after(1)
        status = world.pod("web")["status"]
        shortage = "Node didn't have enough resource: cpu, requested: 1500, used: 4000, capacity: 4000"
        assert status.pop("qosClass") == "Burstable"
        assert status.pop("startTime")
        assert status == {"phase": "Failed", "reason": "OutOfcpu", "message": f"Pod was rejected: {shortage}"}
        assert world.events("web") == [("Warning", "OutOfcpu", shortage)]

    in_virtual_time(scene)


@pytest.mark.parametrize(
    ("reason", "message", "disruption"),
    [
        (None, "The node was low on resource: memory", True),
        ("Terminated", "Pod was terminated in response to imminent node shutdown", True),
        ("DeadlineExceeded", "Pod was active on the node longer than", False),
        ("Sabotage", "The pod was made to fail: Sabotage", False),
    ],
)
def test_a_pod_that_the_kubelet_ends_says_why(reason: str | None, message: str, disruption: bool) -> None:
    async def scene(world: World) -> None:
        marks = {"reason": reason} if reason else {}
        await world.create("web", pod("web", initContainers=[dict(SIDECAR)]), fails="Failed", starts_in="5", **marks)
        assert waits_for(world.pod("web")) == "PodInitializing"
        await world.after(5)
        found = world.pod("web")
        assert (found["status"]["phase"], found["status"]["reason"]) == ("Failed", reason or "Evicted")
        assert found["status"]["message"].startswith(message)
        assert said(found, "Ready") == ("False", "PodFailed")
        ended = container(found)["state"]["terminated"]
        assert (ended["exitCode"], ended["reason"]) == (137, "Error")
        assert said(found, "DisruptionTarget") == (("True", "TerminationByKubelet") if disruption else ("", ""))
        assert world.events("web")[-1][:2] == ("Warning", reason or "Evicted")

    in_virtual_time(scene)


@pytest.mark.parametrize("mode", ["CrashLoopBackOff", "SidecarRuns", "NeverReady", "ImagePullBackOff"])
def test_a_running_pod_that_is_told_to_fail_fails_and_recovers(mode: str) -> None:
    async def scene(world: World) -> None:
        address = (await world.create("web"))["status"]["podIP"]
        await world.mark("web", fails=mode)
        await world.after(0.5)
        found = world.pod("web")
        assert said(found, "Ready") == ("False", "ContainersNotReady")
        assert found["status"]["phase"] == "Running"
        await world.mark("web", fails=None)
        await world.after(1)
        found = world.pod("web")
        assert said(found, "Ready") == ("True", "")
        assert container(found)["restartCount"] == (0 if mode == "NeverReady" else 1)
        assert found["status"]["podIP"] == address

    in_virtual_time(scene)


def test_a_pod_that_is_only_not_ready_was_started_once() -> None:
    async def scene(world: World) -> None:
        await world.create("web")
        await world.after(60)
        await world.mark("web", fails="NeverReady")
        events = [entry.object() for entry in world.api.store.entries(CORE_EVENT)]
        counts = {event["reason"]: event["count"] for event in events if event["involvedObject"]["name"] == "web"}
        assert counts == {"Started": 1, "Unhealthy": 1}

    in_virtual_time(scene)


@pytest.mark.parametrize("mode", ["Failed", "OutOfcpu"])
def test_a_running_pod_is_ended_at_once(mode: str) -> None:
    async def scene(world: World) -> None:
        await world.create("web")
        assert (await world.mark("web", fails=mode))["status"]["phase"] == "Failed"
        assert (await world.mark("web", fails=None))["status"]["phase"] == "Failed"

    in_virtual_time(scene)


def test_a_pod_fails_on_one_node_and_runs_on_another() -> None:
    async def scene(world: World) -> None:
        marks = {"fails": "NeverReady", "fails_on": "node-1"}
        here = await world.create("here", pod("here", node_name="node-0"), **marks)
        there = await world.create("there", pod("there", node_name="node-1"), **marks)
        assert (said(here, "Ready")[0], said(there, "Ready")[0]) == ("True", "False")

    in_virtual_time(scene, nodes=2)


def test_a_pod_that_crashes_ends_when_it_is_deleted() -> None:
    async def scene(world: World) -> None:
        body = pod("web")
        body["metadata"]["finalizers"] = ["example.com/hold"]
        await world.create("web", body, fails="CrashLoopBackOff", restarts_every="10")
        await world.after(5)
        await world.delete("web")
        await world.after(60)
        found = world.pod("web")
        assert (found["status"]["phase"], container(found)["restartCount"]) == ("Failed", 0)
        assert container(found)["state"]["terminated"]["exitCode"] == 1

    in_virtual_time(scene)


@pytest.mark.parametrize(
    ("shape", "reason", "shortage"),
    [
        (NodeShape(cpu="1"), "OutOfcpu", "cpu, requested: 600, used: 600, capacity: 1000"),
        (NodeShape(memory="100Mi"), "OutOfmemory", "memory, requested: 67108864, used: 67108864, capacity: 104857600"),
        (NodeShape(pods=1), "OutOfpods", "pods, requested: 1, used: 1, capacity: 1"),
    ],
)
def test_a_pod_that_was_bound_where_it_does_not_fit_is_turned_away(
    shape: NodeShape, reason: str, shortage: str
) -> None:
    async def scene(world: World) -> None:
        assert (await world.create("first", pod("first", cpu="600m")))["status"]["phase"] == "Running"
        status = (await world.create("second", pod("second", cpu="600m")))["status"]
        assert (status["phase"], status["reason"]) == ("Failed", reason)
        assert status["message"] == f"Pod was rejected: Node didn't have enough resource: {shortage}"
        await world.delete("first", 0)
        assert (await world.create("third", pod("third", cpu="600m")))["status"]["phase"] == "Running"

    in_virtual_time(scene, shape=shape)


def test_a_pod_holds_its_room_until_it_has_ended() -> None:
    async def scene(world: World) -> None:
        await world.create("first", pod("first", cpu="600m"), ends_in="20")
        await world.delete("first")
        status = (await world.create("early", pod("early", cpu="600m")))["status"]
        assert status["reason"] == "OutOfcpu"
        await world.after(20)
        assert (await world.create("late", pod("late", cpu="600m")))["status"]["phase"] == "Running"
        await world.mark("late", fails="Failed")
        assert (await world.create("later", pod("later", cpu="600m")))["status"]["phase"] == "Running"

    in_virtual_time(scene, shape=NodeShape(cpu="1"))


def test_an_extended_resource_counts_where_the_node_knows_it() -> None:
    async def scene(world: World) -> None:
        for name, phase in (("first", "Running"), ("second", "Failed")):
            body = pod(name)
            gpu = {"example.com/gpu": "1"}
            body["spec"]["containers"][0]["resources"] = {"requests": dict(gpu), "limits": dict(gpu)}
            status = (await world.create(name, body))["status"]
            assert status["phase"] == phase
        assert re.match(r"OutOfexample\.com/gpu", status["reason"])

    in_virtual_time(scene, shape=NodeShape(extended={"example.com/gpu": "1"}))
