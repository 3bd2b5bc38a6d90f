"""Pods that may not stay: evictions by NoExecute taints, and the garbage of nodes that are gone.

Both delete pods without asking a disruption budget, as kube-controller-manager does.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from kubemini.api import Api, Deletion, Target
from kubemini.conditions import set_pod_condition
from kubemini.controllers.pods import NODE_NAME, pods_on
from kubemini.controllers.writes import delete_if_present, edit_if_present
from kubemini.errors import Json
from kubemini.events import EventRecorder
from kubemini.kinds import NODE, POD, Kind
from kubemini.pods import TERMINAL
from kubemini.selectors import taints_of, toleration
from kubemini.store import Change, Entry, Key
from rescheduler.model.shape import Taint

QUARANTINE = 40.0
"""For how many seconds a node must be gone before its pods are deleted: it may come back."""


def tolerated_for(taints: Sequence[Taint], tolerations: Sequence[Json]) -> float | None:
    """For how many seconds a pod may stay with these taints: 0 is not at all, None forever."""
    shortest: float | None = None
    for taint in taints:
        used = next((each for each in tolerations if toleration(each).tolerates(taint)), None)
        if used is None:
            return 0.0
        seconds = used.get("tolerationSeconds")
        if seconds is not None:
            shortest = min(float(max(seconds, 0)), shortest if shortest is not None else float("inf"))
    return shortest


class TaintEvictionController:
    """Deletes pods that do not tolerate a NoExecute taint of their node, or no longer.

    A toleration with seconds counts from when the first taint was seen. A taint that goes in time cancels the eviction.
    """

    name = "taint-eviction-controller"
    kinds: tuple[Kind, ...] = (NODE, POD)

    def __init__(self, api: Api) -> None:
        self._api = api
        self._store = api.store
        self._events = EventRecorder(api.store, self.name)
        self._taints: dict[str, list[Taint]] = {}
        """The NoExecute taints of nodes that have any."""
        self._due: dict[str, float] = {}
        """When pods that are tolerated for a while have to go, by uid."""

    def keys_for(self, change: Change) -> Iterable[Key]:
        """The pods of a node whose taints have changed; a pod on a tainted node."""
        if change.kind.resource == NODE.resource:
            return self._node_changed(change)
        if change.type == "DELETED":
            self._due.pop(change.entry.uid, None)
            return ()
        return (change.entry.key,) if change.entry.fields[NODE_NAME] in self._taints else ()

    async def reconcile(self, key: Key) -> float | None:
        """Let one pod stay, or delete it now or later."""
        entry = self._store.get(POD, key)
        if entry is None or entry.deleting:
            return None
        body = entry.object()
        taints = self._taints.get(entry.fields[NODE_NAME], [])
        seconds = tolerated_for(taints, body["spec"].get("tolerations") or ())
        if seconds is None:
            self._due.pop(entry.uid, None)
            return None
        now = asyncio.get_running_loop().time()
        due = self._due.setdefault(entry.uid, now + seconds) if seconds else now
        if due > now:
            return due - now
        self._events.record(body, "TaintManagerEviction", f"Marking for deletion Pod {'/'.join(key)}")
        await self._evict(entry)
        return None

    def _node_changed(self, change: Change) -> Iterable[Key]:
        name = change.entry.key[1]
        if change.type == "DELETED":  # `PodGarbageCollector` deletes its pods
            self._taints.pop(name, None)
            return ()
        taints = [each for each in taints_of(change.entry.object()) if each.effect == "NoExecute"]
        if taints == self._taints.get(name, []):
            return ()
        self._taints[name] = taints
        if not taints:
            del self._taints[name]
        return [pod.key for pod in pods_on(self._store, name)]

    async def _evict(self, entry: Entry) -> None:
        def mark(pod: Json) -> Json:
            reason, message = "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"
            set_pod_condition(pod, "DisruptionTarget", "True", reason, message)
            return pod

        await edit_if_present(self._api, Target(POD, *entry.key, "status"), entry.uid, mark)
        await delete_if_present(self._api, Target(POD, *entry.key), Deletion(uid=entry.uid))


class PodGarbageCollector:
    """Deletes pods that no kubelet can end any more: those of nodes that are gone. Keys are nodes."""

    name = "pod-garbage-collector-controller"
    kinds: tuple[Kind, ...] = (NODE, POD)

    def __init__(self, api: Api, quarantine: float = QUARANTINE) -> None:
        self._api = api
        self._store = api.store
        self._quarantine = quarantine
        self._missing: dict[str, float] = {}
        """Nodes that have pods but do not exist, and since when that is known."""

    def keys_for(self, change: Change) -> Iterable[Key]:
        """A node that comes or goes, and one that a pod is bound to but does not exist."""
        if change.kind.resource == NODE.resource:
            return (change.entry.key,) if change.type != "MODIFIED" else ()
        node = change.entry.fields[NODE_NAME]
        return (("", node),) if node and self._store.get(NODE, ("", node)) is None else ()

    async def reconcile(self, key: Key) -> float | None:
        """Delete the pods of a node that has been gone for long enough."""
        name, pods = key[1], pods_on(self._store, key[1])
        if self._store.get(NODE, key) is not None or not pods:
            self._missing.pop(name, None)
            return None
        now = asyncio.get_running_loop().time()
        left = self._missing.setdefault(name, now) + self._quarantine - now
        if left > 0:
            return left
        for pod in pods:
            await self._remove(pod)
        del self._missing[name]
        return None

    async def _remove(self, entry: Entry) -> None:
        """Mark a pod as failed, and delete it without grace."""

        def fail(pod: Json) -> Json:
            status = pod.setdefault("status", {})
            if status.get("phase") not in TERMINAL:
                status["phase"] = "Failed"
                reason, message = "DeletionByPodGC", "PodGC: node no longer exists"
                set_pod_condition(pod, "DisruptionTarget", "True", reason, message)
            return pod

        await edit_if_present(self._api, Target(POD, *entry.key, "status"), entry.uid, fail)
        await delete_if_present(self._api, Target(POD, *entry.key), Deletion(grace=0, uid=entry.uid))
