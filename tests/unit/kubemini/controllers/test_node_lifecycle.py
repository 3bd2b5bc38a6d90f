"""Nodes in trouble in the embedded cluster: silence noticed, taints put on and taken off, pods marked."""

import asyncio

from kubemini import clock
from kubemini.api import Target
from kubemini.controllers.node_lifecycle import NodeLifecycleController
from kubemini.kinds import LEASE, NODE
from tests.unit.kubemini.controllers_at_work import Cluster, at_work, condition

NOT_READY = "node.kubernetes.io/not-ready"


def taints(cluster: Cluster, name: str) -> set[str]:
    found = cluster.get(NODE, name)["spec"].get("taints", [])
    assert all(taint.get("timeAdded") for taint in found if taint["key"].startswith("node.kubernetes.io/"))
    return {f"{taint['key'].removeprefix('node.kubernetes.io/')}:{taint['effect']}" for taint in found}


def both(key: str) -> set[str]:
    return {f"{key}:NoSchedule", f"{key}:NoExecute"}


async def renew(cluster: Cluster, name: str) -> None:
    """The kubelet says that it is alive, and nothing else."""
    spec = {"holderIdentity": name, "renewTime": clock.micro_stamp(clock.now())}
    if cluster.find(LEASE, name, "kube-node-lease") is None:
        await cluster.make(LEASE, name, {"spec": spec}, namespace="kube-node-lease")
    else:
        await cluster.api.edit(Target(LEASE, "kube-node-lease", name), lambda body: body | {"spec": spec})


@at_work(NodeLifecycleController)
async def test_a_lease_that_is_renewed_is_a_sign_of_life(cluster: Cluster) -> None:
    for name in ("a", "b"):
        await cluster.node(name)
    for _ in range(20):
        await renew(cluster, "a")
        await renew(cluster, "b")
        await asyncio.sleep(10)
    assert taints(cluster, "a") == set()
    await renew(cluster, "b")
    await asyncio.sleep(38)
    await renew(cluster, "b")
    assert taints(cluster, "a") == set()
    await asyncio.sleep(3)
    assert taints(cluster, "a") == both("unreachable")
    assert taints(cluster, "b") == set()


@at_work(NodeLifecycleController)
async def test_a_kubelet_that_never_spoke_has_longer(cluster: Cluster) -> None:
    await cluster.node("alive")
    await cluster.make(NODE, "new")
    await asyncio.sleep(45)
    await cluster.heartbeat("alive")
    await asyncio.sleep(14)
    assert condition(cluster.get(NODE, "new"), "Ready") == {}
    await asyncio.sleep(2)
    said = condition(cluster.get(NODE, "new"), "Ready")
    assert (said["status"], said["reason"]) == ("Unknown", "NodeStatusUnknown")
    assert taints(cluster, "new") == both("unreachable")


@at_work(NodeLifecycleController)
async def test_taints_of_people_stay(cluster: Cluster) -> None:
    mine = {"key": "team", "value": "a", "effect": "NoExecute"}
    await cluster.node("a", taints=[mine, {"key": NOT_READY, "effect": "NoSchedule"}])
    await cluster.node("b")
    await cluster.settled()
    assert cluster.get(NODE, "a")["spec"]["taints"] == [mine]
    await cluster.heartbeat("a", "False")
    await cluster.settled()
    assert taints(cluster, "a") == both("not-ready") | {"team:NoExecute"}
