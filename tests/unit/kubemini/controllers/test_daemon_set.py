"""DaemonSets of the embedded cluster: on which nodes they have pods, and how a new template reaches them."""

import asyncio
from typing import Any

from kubemini.controllers.daemon_set import DaemonSetController
from kubemini.errors import Json
from kubemini.kinds import DAEMON_SET, NODE, POD
from kubemini.store import Change
from tests.support.workloads import SPACE
from tests.unit.kubemini.controllers_at_work import IMAGE, Cluster, at_work

LABELS = {"app": "agent"}


class Scheduler:
    """Binds daemon pods to the node that they name, and starts and ends them like a kubelet, as its switches say."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._waiting: asyncio.Queue[str] = asyncio.Queue()
        self.starts = True
        self.ends = True
        self.most: dict[str, int] = {}
        """The most pods that were on each node at a time."""
        cluster.store.subscribe(self._changed, POD)

    def _changed(self, change: Change) -> None:
        if change.type != "DELETED":
            self._waiting.put_nowait(change.entry.key[1])
        on_nodes = [entry.fields["spec.nodeName"] for entry in self._cluster.store.entries(POD)]
        for node in filter(None, set(on_nodes)):
            self.most[node] = max(self.most.get(node, 0), on_nodes.count(node))

    async def settled(self) -> None:
        """Until all that the controller wants is done, as far as the switches allow."""
        await self._cluster.settled()
        while not self._waiting.empty():
            await self._look_at(self._waiting.get_nowait())
            await self._cluster.settled()

    async def _look_at(self, name: str) -> None:
        entry = self._cluster.store.get(POD, (SPACE, name))
        if entry is None:
            return
        pod = entry.object()
        if entry.deleting:
            if self.ends:
                await self._cluster.ends(name)
        elif not entry.fields["spec.nodeName"]:
            pod["spec"]["nodeName"] = target(pod)
            self._cluster.store.replace(POD, pod, entry.version)
        elif self.starts and pod["status"]["phase"] == "Pending":
            await self._cluster.runs(name)


def target(pod: Json) -> str:
    affinity = pod["spec"]["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    ((rule,),) = [term["matchFields"] for term in affinity["nodeSelectorTerms"]]
    assert (rule["key"], rule["operator"]) == ("metadata.name", "In")
    (name,) = rule["values"]
    return str(name)


def body(*, image: str = IMAGE, pod: Json | None = None, **spec: Any) -> Json:
    template = {
        "metadata": {"labels": LABELS},
        "spec": {"containers": [{"name": "main", "image": image}], **(pod or {})},
    }
    return {"metadata": {"labels": LABELS}, "spec": {"selector": {"matchLabels": LABELS}, "template": template} | spec}


async def started(cluster: Cluster, nodes: int = 3, **options: Any) -> Scheduler:
    """A DaemonSet that runs on so many nodes: n0, n1…"""
    scheduler = Scheduler(cluster)
    for number in range(nodes):
        await cluster.node(f"n{number}", labels={"zone": f"z{number}"})
    await cluster.make(DAEMON_SET, "agent", body(**options))
    await scheduler.settled()
    return scheduler


async def roll(cluster: Cluster, image: str) -> None:
    def newer(found: Json) -> None:
        found["spec"]["template"]["spec"]["containers"][0]["image"] = image

    await cluster.edit(DAEMON_SET, "agent", newer)


async def taint(cluster: Cluster, node: str, effect: str) -> None:
    taints = [{"key": "mine", "effect": effect}]
    await cluster.edit(NODE, node, lambda found: found["spec"].update(taints=taints))


def nodes(cluster: Cluster) -> list[str]:
    """Where pods are that stay."""
    staying = [pod for pod in cluster.all(POD) if "deletionTimestamp" not in pod["metadata"]]
    return sorted(target(pod) for pod in staying)


def status(cluster: Cluster) -> Json:
    found: Json = cluster.get(DAEMON_SET, "agent")["status"]
    return found


@at_work(DaemonSetController)
async def test_a_pod_that_waits_for_a_node_that_is_gone_is_deleted(cluster: Cluster) -> None:
    await cluster.node("gone")
    await cluster.make(DAEMON_SET, "agent", body())
    await cluster.settled()
    assert nodes(cluster) == ["gone"]
    await cluster.delete(NODE, "gone")
    await cluster.settled()
    assert nodes(cluster) == []


@at_work(DaemonSetController)
async def test_labels_and_affinity_say_which_nodes(cluster: Cluster) -> None:
    scheduler = await started(cluster, 3, pod={"nodeSelector": {"zone": "z1"}})
    assert nodes(cluster) == ["n1"]
    await cluster.edit(NODE, "n0", lambda node: node["metadata"]["labels"].update(zone="z1"))
    await scheduler.settled()
    assert nodes(cluster) == ["n0", "n1"]
    await cluster.edit(NODE, "n1", lambda node: node["metadata"]["labels"].update(zone="elsewhere"))
    await scheduler.settled()
    assert nodes(cluster) == ["n0"]


@at_work(DaemonSetController)
async def test_taints_keep_it_away_and_drive_it_off(cluster: Cluster) -> None:
    scheduler = await started(cluster, 2)
    for effect, left, misplaced in (("NoSchedule", ["n0", "n1"], 1), ("NoExecute", ["n1"], 0)):
        await taint(cluster, "n0", effect)
        await scheduler.settled()
        assert nodes(cluster) == left
        assert status(cluster)["desiredNumberScheduled"] == 1
        assert status(cluster)["numberMisscheduled"] == misplaced
    await cluster.edit(NODE, "n0", lambda node: node["spec"].pop("taints"))
    await scheduler.settled()
    assert nodes(cluster) == ["n0", "n1"]


@at_work(DaemonSetController)
async def test_a_pod_that_failed_is_replaced(cluster: Cluster) -> None:
    scheduler = await started(cluster, 1)
    scheduler.starts = False
    (pod,) = cluster.all(POD)
    name: str = pod["metadata"]["name"]
    await cluster.runs(name, ready="False", phase="Failed")
    await scheduler.settled()
    assert cluster.find(POD, name) is None
    assert len(cluster.all(POD)) == 1


@at_work(DaemonSetController)
async def test_as_many_as_may_be_unavailable_are_replaced_at_once(cluster: Cluster) -> None:
    rolling = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "50%", "maxSurge": 0}}
    scheduler = await started(cluster, 5, updateStrategy=rolling)
    scheduler.ends = False
    await roll(cluster, "hollow:2")
    await scheduler.settled()
    assert len(nodes(cluster)) == 2


@at_work(DaemonSetController)
async def test_pods_that_do_not_work_are_replaced_first_and_without_limit(cluster: Cluster) -> None:
    scheduler = await started(cluster, 3)
    broken = cluster.all(POD)[:2]
    for pod in broken:
        await cluster.runs(pod["metadata"]["name"], ready="False")
    scheduler.ends = False
    await roll(cluster, "hollow:2")
    await scheduler.settled()
    assert len(nodes(cluster)) == 1
