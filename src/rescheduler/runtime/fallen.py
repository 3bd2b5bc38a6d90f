"""Remembers pods that have failed as a whole, because they may be gone before anybody could read them.

A StatefulSet or a DaemonSet deletes such a pod itself, within milliseconds; so may whoever clears up. `failing` tells
of them when the watch does, `recovery_look` puts those that it does not find any more into its case, and the loop says
about which of them all is decided. It is the memory of one leader: what fell just before another one took over is not
counted.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from typing import NamedTuple

from rescheduler.migration.commands import Json
from rescheduler.model.instant import format_instant
from rescheduler.model.objects import Owner, Pod

_MOST = 10_000  # pods that are remembered; and those that are known to be settled
_KEPT = 600.0  # seconds; nobody looks at a workload that is gone, so nobody settles its pods


class Fall(NamedTuple):
    """A pod of a controller that has failed as a whole."""

    pod: Pod
    owner: Owner
    reason: str
    seen: float

    def as_pod(self) -> Json:
        """What is known of it, as the API server would have given it out."""
        pod, owner = self.pod, self.owner
        metadata = {
            "name": pod.name,
            "namespace": pod.namespace,
            "uid": pod.uid,
            "labels": dict(pod.labels),
            "annotations": dict(pod.annotations),
            "ownerReferences": [{"kind": owner.kind, "name": owner.name, "uid": owner.uid, "controller": True}],
        }
        if pod.created is not None:
            metadata["creationTimestamp"] = format_instant(pod.created)
        status = {"phase": "Failed", "reason": self.reason, "startTime": format_instant(self.seen)}
        spec = {"nodeName": pod.node, "containers": []}
        return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


class Fallen:
    """The pods that have failed and are not settled, the oldest first."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._falls: OrderedDict[str, Fall] = OrderedDict()
        self._settled: OrderedDict[str, None] = OrderedDict()
        """The watch may still tell of a pod that was read, counted and deleted: it does not count twice."""

    def __len__(self) -> int:
        """How many pods are remembered."""
        return len(self._falls)

    def saw(self, pod: Pod) -> None:
        """Take note of a pod, if it has failed as a whole and was not seen so before."""
        if pod.phase != "Failed" or pod.ailment is None or pod.owner is None or not pod.node:
            return
        if pod.uid in self._settled or pod.uid in self._falls:
            return
        self._falls[pod.uid] = Fall(pod, pod.owner, pod.ailment.reason, self._now())
        oldest = self._now() - _KEPT
        while len(self._falls) > _MOST or next(iter(self._falls.values())).seen < oldest:
            self._falls.popitem(last=False)

    def of(self, owners: Collection[str]) -> list[Fall]:
        """Those of these controllers, by UID."""
        return [fall for fall in self._falls.values() if fall.owner.uid in owners]

    def settle(self, uids: Iterable[str]) -> None:
        """Forget these for good: they are counted, or nothing is to be counted."""
        for uid in uids:
            self._falls.pop(uid, None)
            self._settled[uid] = None
            self._settled.move_to_end(uid)
        while len(self._settled) > _MOST:
            self._settled.popitem(last=False)

    def clear(self) -> None:
        """Forget all, when others lead."""
        self._falls.clear()
        self._settled.clear()
