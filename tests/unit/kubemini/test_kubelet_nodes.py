"""Nodes: how kubelets register them, that they are heard of, and what becomes of pods when they are not."""

from __future__ import annotations

import pytest

from kubemini import clock
from kubemini.api import Target
from kubemini.controllers.conditions import condition_of
from kubemini.kinds import LEASE, NODE
from kubemini.kubelet_node import NodeShape, node
from kubemini.refusals import Json
from kubemini.store import Change
from tests.unit.kubemini.kubelet_world import World, in_virtual_time, said


def renewals(world: World) -> list[str]:
    """The nodes whose leases are renewed from now on, in order."""
    seen: list[str] = []

    def note(change: Change) -> None:
        seen.append(change.entry.key[1])

    world.api.store.subscribe(note, LEASE)
    return seen


async def give_up(world: World, name: str) -> None:
    """What the node controller does about a kubelet that is silent."""

    def unknown(body: Json) -> Json:
        for condition in body["status"]["conditions"]:
            condition["status"] = "Unknown"
        return body

    await world.api.edit(Target(NODE, name=name, subresource="status"), unknown)
    await world.settled()


def test_a_node_is_made_as_a_kubelet_registers_it() -> None:
    shape = NodeShape(cpu="8", memory="32Gi", labels={"disk": "ssd"}, taints=[{"key": "a", "effect": "NoSchedule"}])
    made = node("worker-7", 7, shape)
    assert made["metadata"]["labels"] == {
        "kubernetes.io/hostname": "worker-7",
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/region": "region-1",
        "topology.kubernetes.io/zone": "zone-b",
        "disk": "ssd",
    }
    assert made["spec"]["taints"] == [{"key": "a", "effect": "NoSchedule"}]
    assert made["status"]["capacity"] == made["status"]["allocatable"]
    assert made["status"]["allocatable"] | {} == {
        "cpu": "8",
        "memory": "32Gi",
        "pods": "110",
        "ephemeral-storage": "100Gi",
    }
    assert {"type": "InternalIP", "address": "10.64.0.7"} in made["status"]["addresses"]
    assert made["status"]["nodeInfo"]["kubeletVersion"].startswith("v1.")


def test_addresses_of_nodes_are_all_different() -> None:
    addresses = {node("n", number, NodeShape())["status"]["addresses"][0]["address"] for number in range(5000)}
    assert len(addresses) == 5000


def test_a_new_node_is_ready_and_has_a_lease() -> None:
    async def scene(world: World) -> None:
        found = world.node()
        assert said(found, "Ready") == ("True", "KubeletReady")
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure"):
            assert said(found, kind)[0] == "False"
        lease = world.api.get(Target(LEASE, "kube-node-lease", "node-0"))
        assert lease["spec"]["holderIdentity"] == "node-0"
        assert lease["spec"]["leaseDurationSeconds"] == 40
        (owner,) = lease["metadata"]["ownerReferences"]
        assert (owner["kind"], owner["uid"]) == ("Node", found["metadata"]["uid"])

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


def test_the_whole_status_is_repeated_every_five_minutes_and_else_not_written() -> None:
    async def scene(world: World) -> None:
        since = condition_of(world.node(), "Ready")["lastTransitionTime"]
        heard: list[str] = []
        world.api.store.subscribe(lambda change: heard.append(change.type), NODE)
        await world.after(299)
        assert heard == []
        await world.after(3600)
        assert 11 <= len(heard) <= 12
        ready = condition_of(world.node(), "Ready")
        assert ready["lastTransitionTime"] == since
        assert (clock.now() - clock.moment(ready["lastHeartbeatTime"])).total_seconds() <= 360

    in_virtual_time(scene)


def test_a_kubelet_that_says_that_it_is_not_ready_goes_on_with_its_pods() -> None:
    async def scene(world: World) -> None:
        await world.create("old")
        await world.kubelet("node-0", "NotReady")
        found = world.node()
        assert said(found, "Ready") == ("False", "KubeletNotReady")
        assert condition_of(found, "Ready")["message"].startswith("container runtime network not ready")
        assert said(found, "MemoryPressure")[0] == "False"
        assert ("Normal", "NodeNotReady", "Node node-0 status is now: NodeNotReady") in world.events("node-0")
        seen = renewals(world)
        await world.after(30)
        assert seen
        await world.delete("old")
        await world.after(1)
        assert not world.is_there("old")
        await world.kubelet("node-0", None)
        assert said(world.node(), "Ready") == ("True", "KubeletReady")
        assert ("Normal", "NodeReady", "Node node-0 status is now: NodeReady") in world.events("node-0")

    in_virtual_time(scene)


def test_a_dead_kubelet_says_and_does_nothing_until_it_recovers() -> None:
    async def scene(world: World) -> None:
        await world.create("old")
        await world.create("crashing", fails="CrashLoopBackOff")
        await world.kubelet("node-0", "Dead")
        seen = renewals(world)
        await world.delete("old")
        await world.create("new")
        at_death = world.pod("crashing")["metadata"]["resourceVersion"]
        await give_up(world, "node-0")
        await world.after(600)
        assert seen == []
        assert world.is_there("old")
        assert world.pod("new")["status"]["phase"] == "Pending"
        assert world.pod("crashing")["metadata"]["resourceVersion"] == at_death
        assert said(world.node(), "Ready")[0] == "Unknown"

        await world.kubelet("node-0", None)
        assert said(world.node(), "Ready") == ("True", "KubeletReady")
        assert seen == ["node-0"]
        assert world.pod("new")["status"]["phase"] == "Running"
        await world.after(1)
        assert not world.is_there("old")

    in_virtual_time(scene)


def test_a_node_that_was_given_up_by_mistake_says_that_it_lives() -> None:
    async def scene(world: World) -> None:
        await give_up(world, "node-0")
        assert said(world.node(), "Ready") == ("True", "KubeletReady")

    in_virtual_time(scene)


def test_a_label_that_makes_no_sense_is_told_and_the_kubelet_is_healthy() -> None:
    async def scene(world: World) -> None:
        await world.kubelet("node-0", "asleep")
        assert said(world.node(), "Ready") == ("True", "KubeletReady")
        (told,) = [each for each in world.events("node-0") if each[1] == "SimulationNotUnderstood"]
        assert told[2] == "simulate.rescheduler.io/kubelet: 'asleep' is not one of NotReady, Dead"

    in_virtual_time(scene)


@pytest.mark.parametrize("state", [None, "Dead"])
def test_a_node_that_is_deleted_is_heard_of_no_more(state: str | None) -> None:
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
