"""Pods that nobody can end any more: those of nodes that are gone, and those that no node was found for.

No kubelet will ever say that they have ended, so they are marked as failed and removed without grace: the pods of a
node that has been gone for a while (it may come back), pods being deleted that were never bound, and pods being
deleted on a node that people have declared out of service.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from kubemini.api import Api, Deletion, Target
from kubemini.controllers.conditions import condition_of, set_pod_condition
from kubemini.controllers.pod_index import NODE_NAME, PodsByNode
from kubemini.kinds import NODE, POD, Kind
from kubemini.refusals import Json, Refusal
from kubemini.store import Change, Entry, Key

QUARANTINE = 40.0
"""For how many seconds a node must be gone before its pods are."""

_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
_FINISHED = ("Succeeded", "Failed")
_ORPHANED = {"reason": "DeletionByPodGC", "message": "PodGC: node no longer exists"}


class PodGarbageController:
    """Removes pods that are beyond help. Keys are pods, and nodes with an empty namespace."""

    name = "pod-garbage-collector-controller"
    kinds: tuple[Kind, ...] = (NODE, POD)

    def __init__(self, api: Api, quarantine: float = QUARANTINE) -> None:
        self._api = api
        self._store = api.store
        self._quarantine = quarantine
        self._pods = PodsByNode(api.store)
        self._missing: dict[str, float] = {}
        """Nodes that have pods and are not there, and since when that is known."""
        self._out_of_service: set[str] = set()

    def concerned(self, change: Change) -> Iterable[Key]:
        """The node that is gone, or the pod that cannot end."""
        if change.kind.resource == NODE.resource:
            return self._node_changed(change)
        self._pods.note(change)
        if change.type == "DELETED":
            return ()
        entry = change.entry
        node = entry.fields[NODE_NAME]
        if not node:
            return (entry.key,) if entry.deleting else ()
        if node in self._out_of_service and entry.deleting:
            return (("", node),)
        return (("", node),) if self._store.get(NODE, ("", node)) is None else ()

    def _node_changed(self, change: Change) -> Iterable[Key]:
        name = change.entry.key[1]
        if change.type != "DELETED" and _is_out_of_service(change.entry):
            self._out_of_service.add(name)
            return (change.entry.key,)
        self._out_of_service.discard(name)
        return (change.entry.key,) if change.type != "MODIFIED" else ()

    async def reconcile(self, key: Key) -> float | None:
        """Remove one pod, or those of one node."""
        namespace, name = key
        if namespace:
            entry = self._store.get(POD, key)
            if entry is not None and entry.deleting and not entry.fields[NODE_NAME]:
                await self._remove(entry)
            return None
        if self._store.get(NODE, key) is not None:
            self._missing.pop(name, None)
            if name in self._out_of_service:
                await self._remove_all(pod for pod in self._pods.entries(name) if pod.deleting)
            return None
        if not self._pods.keys(name):
            self._missing.pop(name, None)
            return None
        now = asyncio.get_running_loop().time()
        left = self._missing.setdefault(name, now) + self._quarantine - now
        if left > 0:
            return left
        await self._remove_all(self._pods.entries(name), _ORPHANED)
        self._missing.pop(name, None)
        return None

    async def _remove_all(self, pods: Iterable[Entry], why: Json | None = None) -> None:
        for pod in list(pods):
            await self._remove(pod, why)

    async def _remove(self, entry: Entry, why: Json | None = None) -> None:
        def failed(pod: Json) -> Json:
            status = pod.setdefault("status", {})
            if status.get("phase") not in _FINISHED:
                status["phase"] = "Failed"
                if why:
                    set_pod_condition(pod, "DisruptionTarget", "True", **why)
            return pod

        try:
            await self._api.edit(Target(POD, *entry.key, "status"), failed)
            await self._api.delete(Target(POD, *entry.key), Deletion(grace=0, uid=entry.uid))
        except Refusal as refusal:
            if refusal.code != 404:
                raise


def _is_out_of_service(entry: Entry) -> bool:
    if _OUT_OF_SERVICE.encode() not in entry.raw:  # nearly always: nothing to decode
        return False
    node = entry.object()
    tainted = any(taint["key"] == _OUT_OF_SERVICE for taint in node.get("spec", {}).get("taints") or ())
    return tainted and condition_of(node, "Ready").get("status") != "True"
