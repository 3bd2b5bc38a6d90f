"""Evictions by taints: a pod goes when its node has a NoExecute taint that it does not tolerate, or no longer.

A toleration with seconds is counted from when the taint was first seen, and a taint that goes in time cancels the
eviction. These are deletions, not evictions by the API: no budget is asked. Daemon pods tolerate what nodes suffer
from; others have 300 seconds for nodes that are not ready or not reachable, by admission.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from kubemini.api import Api, Deletion, Target
from kubemini.controllers.conditions import set_pod_condition
from kubemini.controllers.pod_index import NODE_NAME, PodsByNode
from kubemini.controllers.selectors import taints_of, toleration
from kubemini.events import EventRecorder
from kubemini.kinds import NODE, POD, Kind
from kubemini.refusals import Json, Refusal
from kubemini.store import Change, Entry, Key
from rescheduler.model.shape import Taint


def tolerated_for(taints: Sequence[Taint], tolerations: Sequence[Json]) -> float | None:
    """For how many seconds a pod may stay with these taints: 0 is not at all, None for ever."""
    shortest: float | None = None
    for taint in taints:
        used = next((each for each in tolerations if toleration(each).tolerates(taint)), None)
        if used is None:
            return 0.0
        seconds = used.get("tolerationSeconds")
        if seconds is not None:
            shortest = max(float(seconds), 0.0) if shortest is None else min(shortest, max(float(seconds), 0.0))
    return shortest


class TaintEvictionController:
    """Deletes pods that may not stay on their node."""

    name = "taint-eviction-controller"
    kinds: tuple[Kind, ...] = (NODE, POD)

    def __init__(self, api: Api) -> None:
        self._api = api
        self._store = api.store
        self._events = EventRecorder(api.store, self.name)
        self._pods = PodsByNode(api.store)
        self._taints: dict[str, list[Taint]] = {}
        """The NoExecute taints of nodes that have any."""
        self._due: dict[str, float] = {}
        """When pods that are tolerated for a while have to go, by uid."""

    def concerned(self, change: Change) -> Iterable[Key]:
        """The pods of a node whose taints have changed; a pod on a tainted node; one that waited and is gone."""
        if change.kind.resource == NODE.resource:
            return self._node_changed(change)
        self._pods.note(change)
        if change.type == "DELETED":
            self._due.pop(change.entry.uid, None)
            return ()
        return (change.entry.key,) if change.entry.fields[NODE_NAME] in self._taints else ()

    def _node_changed(self, change: Change) -> Iterable[Key]:
        name = change.entry.key[1]
        before = self._taints.get(name, [])
        gone = change.type == "DELETED"
        taints = [] if gone else [each for each in taints_of(change.entry.object()) if each.effect == "NoExecute"]
        if taints == before:
            return ()
        if taints:
            self._taints[name] = taints
        else:
            del self._taints[name]
        # When the node itself is gone, what becomes of its pods is for others to say.
        return () if gone else self._pods.keys(name)

    async def reconcile(self, key: Key) -> float | None:
        """Let one pod stay, go, or go later."""
        entry = self._store.get(POD, key)
        if entry is None or entry.deleting:
            return None
        taints = self._taints.get(entry.fields[NODE_NAME], [])
        body = entry.object()
        seconds = tolerated_for(taints, body["spec"].get("tolerations") or ())
        if seconds is None:
            if self._due.pop(entry.uid, None) is not None:
                self._events.say(body, "TaintManagerEviction", f"Cancelling deletion of Pod {'/'.join(key)}")
            return None
        # The first taint's time counts, as in Kubernetes: a node that turns from not ready to unreachable wins nothing.
        now = asyncio.get_running_loop().time()
        due = self._due.setdefault(entry.uid, now + seconds) if seconds else now
        if due > now:
            return due - now
        self._events.say(body, "TaintManagerEviction", f"Marking for deletion Pod {'/'.join(key)}")
        await self._evict(entry)
        self._due.pop(entry.uid, None)
        return None

    async def _evict(self, entry: Entry) -> None:
        def marked(pod: Json) -> Json:
            reason, message = "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"
            set_pod_condition(pod, "DisruptionTarget", "True", reason=reason, message=message)
            return pod

        try:
            await self._api.edit(Target(POD, *entry.key, "status"), marked)
            await self._api.delete(Target(POD, *entry.key), Deletion(uid=entry.uid))
        except Refusal as refusal:
            if refusal.code != 404:
                raise
