"""What the tests of DaemonSets say: make one, have its pods bound and started, see where they are."""

import asyncio
from typing import Any

from kubemini.kinds import DAEMON_SET, NODE, POD
from kubemini.refusals import Json
from kubemini.store import Change
from tests.unit.kubemini.controllers_at_work import IMAGE, SPACE, Cluster

LABELS = {"app": "agent"}
HASH = "controller-revision-hash"


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


def images(cluster: Cluster) -> list[str]:
    return sorted(pod["spec"]["containers"][0]["image"] for pod in cluster.all(POD))


def status(cluster: Cluster) -> Json:
    found: Json = cluster.get(DAEMON_SET, "agent")["status"]
    return found
