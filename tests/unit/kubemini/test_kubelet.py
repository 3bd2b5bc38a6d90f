"""Corner cases of the kubelets that the contract tests do not show: paces, second thoughts, and leases."""

from __future__ import annotations

import pytest

from kubemini.api import Target
from kubemini.conditions import condition_of, set_condition
from kubemini.errors import Json
from kubemini.kinds import LEASE, NODE
from kubemini.kubelet.node import NodeShape, node
from kubemini.simulation import PREFIX, Mode, behaviour
from tests.unit.kubemini.kubelet_world import World, container, in_virtual_time, pod, said, state

SIDECAR = {"name": "proxy", "image": "hollow:3", "restartPolicy": "Always"}
JOB = {"apiVersion": "batch/v1", "kind": "Job", "name": "work", "uid": "1", "controller": True}


def marks(**values: str) -> dict[str, str]:
    return {PREFIX + key.replace("_", "-"): value for key, value in values.items()}


def renewals(world: World) -> list[str]:
    """The nodes whose leases are renewed from now on, in order."""
    seen: list[str] = []
    world.api.store.subscribe(lambda change: seen.append(change.entry.key[1]), LEASE)
    return seen


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


def test_a_slow_pod_is_not_slower_because_it_changes_meanwhile() -> None:
    async def scene(world: World) -> None:
        await world.create("slow", starts_in="100")
        await world.after(60)
        await world.mark("slow", ends_in="7")
        await world.after(40)
        assert world.pod("slow")["status"]["phase"] == "Running"

    in_virtual_time(scene)


def test_a_ready_condition_that_another_component_wrote_is_corrected() -> None:
    async def scene(world: World) -> None:
        await world.create("web")

        def doubt(body: Json) -> Json:
            set_condition(body["status"], {"type": "Ready", "status": "False"})
            return body

        await world.edit_status("web", doubt)
        assert said(world.pod("web"), "Ready") == ("False", "")
        await world.after(3)
        assert said(world.pod("web"), "Ready") == ("True", "")

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
        body = pod("work", restartPolicy="Never")
        body["metadata"]["ownerReferences"] = [dict(JOB)]
        body["metadata"]["finalizers"] = ["batch.kubernetes.io/job-tracking"]
        await world.create("work", body, completes_in="600")
        await world.delete("work")
        await world.after(1)
        found = world.pod("work")  # the Job has to see it before it may go
        assert found["status"]["phase"] == "Failed"
        assert container(found)["state"]["terminated"]["exitCode"] == 143
        assert found["metadata"]["deletionGracePeriodSeconds"] == 0

    in_virtual_time(scene)


def test_a_pod_that_a_finalizer_holds_ends_even_without_any_grace() -> None:
    async def scene(world: World) -> None:
        body = pod("web")
        body["metadata"]["finalizers"] = ["example.com/hold"]
        await world.create("web", body)
        await world.delete("web", 0)
        assert world.pod("web")["status"]["phase"] == "Succeeded"

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


def test_a_crash_loop_counts_one_restart_each_time() -> None:
    async def scene(world: World) -> None:
        found = await world.create("web", fails="CrashLoopBackOff", restarts_every="10")
        for restarts in range(5):
            assert (state(found), container(found)["restartCount"]) == ("running", restarts)
            assert (container(found)["ready"], container(found)["started"]) == (False, True)
            await world.after(2)
            found = world.pod("web")
            assert (state(found), container(found)["restartCount"]) == ("waiting", restarts)
            assert said(found, "Ready") == said(found, "ContainersReady") == ("False", "ContainersNotReady")
            assert found["status"]["phase"] == "Running"
            await world.after(8)
            found = world.pod("web")

    in_virtual_time(scene)


def test_a_repeated_crash_is_one_event_that_counts() -> None:
    async def scene(world: World) -> None:
        await world.create("web", fails="CrashLoopBackOff")
        await world.after(60)
        assert len(world.events("web")) == 1  # BackOff
        assert container(world.pod("web"))["restartCount"] >= 59

    in_virtual_time(scene)


@pytest.mark.parametrize("mode", ["CrashLoopBackOff", "SidecarRuns"])
def test_a_pod_that_must_not_be_restarted_fails_as_a_whole(mode: str) -> None:
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


def test_leases_are_renewed_every_ten_seconds_and_not_all_at_once() -> None:
    async def scene(world: World) -> None:
        seen = renewals(world)
        await world.after(100)
        counts = {name: seen.count(name) for name in set(seen)}
        assert len(counts) == 50
        assert set(counts.values()) <= {10, 11}
        before = len(seen)
        await world.after(1)
        assert 0 < len(seen) - before < 20

    in_virtual_time(scene, nodes=50)


def test_a_living_kubelet_corrects_conditions_that_say_otherwise() -> None:
    async def scene(world: World) -> None:
        def unknown(body: Json) -> Json:
            for condition in body["status"]["conditions"]:
                condition["status"] = "Unknown"
            return body

        await world.api.edit(Target(NODE, name="node-0", subresource="status"), unknown)
        await world.settled()
        assert said(world.node(), "Ready") == ("True", "KubeletReady")

    in_virtual_time(scene)


@pytest.mark.parametrize("state", [None, "Dead"])
def test_a_deleted_node_has_no_kubelet_until_it_is_added_again(state: str | None) -> None:
    async def scene(world: World) -> None:
        await world.kubelet("node-0", state)
        await world.api.delete(Target(NODE, name="node-0"))
        seen = renewals(world)
        await world.after(60)
        assert seen == []
        await world.add_node("node-0")
        await world.settled()
        assert said(world.node(), "Ready") == ("True", "KubeletReady")
        assert seen == ["node-0"]

    in_virtual_time(scene)


def test_addresses_of_nodes_are_all_different() -> None:
    addresses = {node("n", number, NodeShape())["status"]["addresses"][0]["address"] for number in range(5000)}
    assert len(addresses) == 5000


@pytest.mark.parametrize(("nodes", "fails"), [("a", True), ("b, a", True), ("b,c", False), ("ab", False), ("", False)])
def test_a_pod_fails_on_the_nodes_that_are_named(nodes: str, fails: bool) -> None:
    how = behaviour(marks(fails="NeverReady", fails_on=nodes), "a")
    assert how.fails is (Mode.NEVER_READY if fails else None)


def test_crashes_have_a_shortest_interval() -> None:
    assert behaviour(marks(restarts_every="0"), "a").restarts_every == 0.1


@pytest.mark.parametrize("text", ["soon", "", "-1", "inf", "nan", "1s"])
def test_a_wrong_time_counts_as_not_given(text: str) -> None:
    how = behaviour(marks(starts_in=text, ends_in="4", fails="Crash"), "a")
    assert (how.starts_in, how.ends_in, how.fails) == (None, 4, None)
