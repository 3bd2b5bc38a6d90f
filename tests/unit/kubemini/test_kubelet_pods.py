"""Pods that fare as they should: they start, are ready, complete, and end when they are deleted."""

from __future__ import annotations

import pytest

from kubemini.controllers.conditions import condition_of, set_pod_condition
from kubemini.refusals import Json
from tests.unit.kubemini.kubelet_world import SPACE, World, container, in_virtual_time, pod, said, state

INIT = [{"name": "setup", "image": "hollow:2"}, {"name": "proxy", "image": "hollow:3", "restartPolicy": "Always"}]
JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "work", "uid": "1", "controller": True}


def of_job(body: Json) -> Json:
    body["metadata"]["ownerReferences"] = [dict(JOB)]
    return body


def test_a_pod_starts_at_once_and_is_ready() -> None:
    async def scene(world: World) -> None:
        found = await world.create("web")
        status = found["status"]
        assert status["phase"] == "Running"
        for kind in ("PodReadyToStartContainers", "Initialized", "ContainersReady", "Ready", "PodScheduled"):
            assert said(found, kind) == ("True", "")
        main = container(found)
        assert (main["ready"], main["started"], main["restartCount"]) == (True, True, 0)
        assert main["state"]["running"]["startedAt"] == status["startTime"]
        assert (status["hostIP"], status["hostIPs"]) == ("10.64.0.0", [{"ip": "10.64.0.0"}])
        assert (status["podIP"], status["podIPs"]) == ("10.128.0.1", [{"ip": "10.128.0.1"}])
        assert ("Normal", "Started", "Container started") in world.events("web")

    in_virtual_time(scene)


def test_a_pod_is_left_alone_once_it_is_as_it_should_be() -> None:
    async def scene(world: World) -> None:
        version = (await world.create("web"))["metadata"]["resourceVersion"]
        await world.after(3600)
        assert world.pod("web")["metadata"]["resourceVersion"] == version

    in_virtual_time(scene)


def test_a_pod_of_a_node_that_is_not_there_waits_for_it() -> None:
    async def scene(world: World) -> None:
        found = await world.create("web", pod("web", node_name="late"))
        assert found["status"]["phase"] == "Pending"
        await world.add_node("late")
        await world.settled()
        assert world.pod("web")["status"]["phase"] == "Running"

    in_virtual_time(scene)


def test_a_pod_on_the_host_network_has_its_address() -> None:
    async def scene(world: World) -> None:
        found = await world.create("web", pod("web", hostNetwork=True))
        assert found["status"]["podIP"] == found["status"]["hostIP"]

    in_virtual_time(scene)


def test_containers_are_listed_by_name_and_init_containers_in_their_order() -> None:
    async def scene(world: World) -> None:
        body = pod("web", initContainers=INIT)
        body["spec"]["containers"].append({"name": "agent", "image": "hollow:4"})
        found = await world.create("web", body)
        assert [each["name"] for each in found["status"]["containerStatuses"]] == ["agent", "main"]
        assert [each["name"] for each in found["status"]["initContainerStatuses"]] == ["setup", "proxy"]
        setup, proxy = container(found, "setup"), container(found, "proxy")
        assert (setup["state"]["terminated"]["reason"], setup["ready"], setup["started"]) == ("Completed", True, False)
        assert (state(found, "proxy"), proxy["ready"], proxy["started"]) == ("running", True, True)

    in_virtual_time(scene)


def test_a_slow_pod_says_that_it_is_being_created_and_starts_in_time() -> None:
    async def scene(world: World) -> None:
        found = await world.create("slow", starts_in="100")
        assert (found["status"]["phase"], state(found)) == ("Pending", "waiting")
        assert container(found)["state"]["waiting"] == {"reason": "ContainerCreating"}
        assert said(found, "Ready") == ("False", "ContainersNotReady")
        assert condition_of(found, "Ready")["message"] == "containers with unready status: [main]"
        assert "podIP" not in found["status"]
        await world.after(99)
        assert world.pod("slow")["status"]["phase"] == "Pending"
        await world.after(1)
        assert said(world.pod("slow"), "Ready") == ("True", "")
        assert world.pod("slow")["status"]["startTime"] == found["status"]["startTime"]

    in_virtual_time(scene)


def test_a_slow_pod_is_not_slower_because_somebody_changes_it_meanwhile() -> None:
    async def scene(world: World) -> None:
        await world.create("slow", starts_in="100")
        await world.after(60)
        await world.mark("slow", ends_in="7")
        await world.after(40)
        assert world.pod("slow")["status"]["phase"] == "Running"

    in_virtual_time(scene)


def test_a_slow_pod_that_is_told_to_hurry_hurries() -> None:
    async def scene(world: World) -> None:
        await world.create("slow", starts_in="100")
        assert (await world.mark("slow", starts_in="0"))["status"]["phase"] == "Running"

    in_virtual_time(scene)


def test_a_readiness_gate_is_waited_for_and_heeded_ever_after() -> None:
    async def scene(world: World) -> None:
        gate = "example.com/in-service"
        found = await world.create("web", pod("web", readinessGates=[{"conditionType": gate}]))
        assert said(found, "ContainersReady") == ("True", "")
        assert said(found, "Ready") == ("False", "ReadinessGatesNotReady")
        message = condition_of(found, "Ready")["message"]
        assert message == f'corresponding condition of pod readiness gate "{gate}" does not exist.'
        for status, ready in (("True", ("True", "")), ("False", ("False", "ReadinessGatesNotReady"))):

            def speak(body: Json, status: str = status) -> Json:
                set_pod_condition(body, gate, status)
                return body

            await world.edit_status("web", speak)
            assert said(world.pod("web"), "Ready") == ready

    in_virtual_time(scene)


def test_what_somebody_else_said_about_readiness_is_put_right_after_a_while() -> None:
    async def scene(world: World) -> None:
        await world.create("web")

        def doubt(body: Json) -> Json:
            set_pod_condition(body, "Ready", "False")
            return body

        await world.edit_status("web", doubt)
        assert said(world.pod("web"), "Ready") == ("False", "")
        await world.after(3)
        assert said(world.pod("web"), "Ready") == ("True", "")

    in_virtual_time(scene)


def test_the_pod_of_a_job_completes() -> None:
    async def scene(world: World) -> None:
        await world.create("work", of_job(pod("work", restartPolicy="Never", initContainers=INIT)), completes_in="30")
        await world.after(29)
        assert world.pod("work")["status"]["phase"] == "Running"
        await world.after(1)
        found = world.pod("work")
        assert found["status"]["phase"] == "Succeeded"
        assert said(found, "Ready") == ("False", "PodCompleted")
        done = container(found)["state"]["terminated"]
        assert (done["exitCode"], done["reason"]) == (0, "Completed")
        assert state(found, "proxy") == "terminated"

    in_virtual_time(scene)


def test_a_deleted_pod_ends_and_is_gone() -> None:
    async def scene(world: World) -> None:
        await world.create("web")
        changes: list[Json] = []
        world.api.store.subscribe(lambda change: changes.append(change.entry.object()))
        await world.delete("web")
        assert state(world.pod("web")) == "running"
        assert ("Normal", "Killing", "Stopping container main") in world.events("web")
        await world.after(0.2)
        assert not world.is_there("web")
        last = [each for each in changes if each["kind"] == "Pod"][-1]
        assert last["status"]["phase"] == "Succeeded"
        assert said(last, "Ready") == ("False", "PodCompleted")

    in_virtual_time(scene)


@pytest.mark.parametrize(("ends_in", "grace", "gone_after"), [("10", 30, 10), ("600", 30, 30), ("0", 30, 0)])
def test_a_deleted_pod_takes_its_time_within_its_grace(ends_in: str, grace: int, gone_after: float) -> None:
    async def scene(world: World) -> None:
        await world.create("web", ends_in=ends_in)
        await world.delete("web", grace)
        if gone_after:
            await world.after(gone_after - 0.5)
            assert world.is_there("web")
            await world.after(0.5)
        assert not world.is_there("web")

    in_virtual_time(scene)


def test_a_grace_that_is_cut_short_counts_from_then() -> None:
    async def scene(world: World) -> None:
        await world.create("web", ends_in="600")
        await world.delete("web", 300)
        await world.after(100)
        await world.delete("web", 10)
        await world.after(9)
        assert world.is_there("web")
        await world.after(1)
        assert not world.is_there("web")

    in_virtual_time(scene)


def test_a_deleted_pod_of_a_job_has_failed() -> None:
    async def scene(world: World) -> None:
        body = of_job(pod("work", restartPolicy="Never"))
        body["metadata"]["finalizers"] = ["batch.kubernetes.io/job-tracking"]
        await world.create("work", body, completes_in="600")
        await world.delete("work")
        await world.after(1)
        found = world.pod("work")  # the Job has to see it before it may go
        assert found["status"]["phase"] == "Failed"
        assert container(found)["state"]["terminated"]["exitCode"] == 143
        assert found["metadata"]["deletionGracePeriodSeconds"] == 0

    in_virtual_time(scene)


def test_a_pod_that_a_finalizer_holds_ends_even_if_it_was_given_no_grace() -> None:
    async def scene(world: World) -> None:
        body = pod("web")
        body["metadata"]["finalizers"] = ["example.com/hold"]
        await world.create("web", body)
        await world.delete("web", 0)
        assert world.pod("web")["status"]["phase"] == "Succeeded"

    in_virtual_time(scene)


def test_a_pod_that_is_deleted_before_it_starts_has_failed() -> None:
    async def scene(world: World) -> None:
        body = pod("slow")
        body["metadata"]["finalizers"] = ["example.com/hold"]
        await world.create("slow", body, starts_in="600")
        await world.delete("slow")
        await world.after(1)
        found = world.pod("slow")
        assert found["status"]["phase"] == "Failed"
        assert container(found)["state"]["terminated"]["reason"] == "ContainerStatusUnknown"

    in_virtual_time(scene)


def test_the_address_of_a_pod_that_is_gone_is_not_soon_another_ones() -> None:
    async def scene(world: World) -> None:
        first = (await world.create("one"))["status"]["podIP"]
        await world.delete("one", 0)
        assert (await world.create("two"))["status"]["podIP"] != first

    in_virtual_time(scene)


def test_a_new_pod_of_the_same_name_is_a_new_pod() -> None:
    async def scene(world: World) -> None:
        await world.create("web", starts_in="100")
        await world.after(90)
        await world.delete("web", 0)
        await world.create("web", starts_in="100")
        await world.after(20)
        assert world.pod("web")["status"]["phase"] == "Pending"

    in_virtual_time(scene)


def test_annotations_that_make_no_sense_are_told_once_and_the_pod_runs() -> None:
    async def scene(world: World) -> None:
        found = await world.create("web", fails="Crash")
        assert found["status"]["phase"] == "Running"
        await world.mark("web", ends_in="1")
        told = [each for each in world.events("web") if each[1] == "SimulationNotUnderstood"]
        assert len(told) == 1
        assert told[0][0] == "Warning"
        assert "'Crash' is not one of CrashLoopBackOff" in told[0][2]

    in_virtual_time(scene)


def test_pods_of_one_namespace_and_node_are_told_apart() -> None:
    async def scene(world: World) -> None:
        found = [await world.create(f"web-{number}") for number in range(20)]
        assert len({each["status"]["podIP"] for each in found}) == 20
        assert {each["metadata"]["namespace"] for each in found} == {SPACE}

    in_virtual_time(scene)
