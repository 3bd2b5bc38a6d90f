"""The kubelets' part for their nodes: they say what their node is like, and that they live.

A Controller over nodes, run by `kubelet.Kubelets`. A new node is Ready as soon as its kubelet has spoken. From then on
it renews a Lease every ten seconds, or as often as `cluster` wants, and repeats its whole status every five minutes;
each node at its own moment, so that a thousand of them are a hundred small writes a second and no burst. A label of
the node makes its kubelet say that it is not ready, or nothing at all (see `simulation`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from zlib import crc32

from kubemini import clock
from kubemini.api import Api, Target
from kubemini.controllers.conditions import condition_of
from kubemini.controllers.facts import Facts
from kubemini.events import EventRecorder
from kubemini.kinds import LEASE, NODE, Kind
from kubemini.kubelet_node import reported
from kubemini.refusals import Json
from kubemini.simulation import Kubelet, kubelet_of
from kubemini.store import Change, Entry, Key

RENEW_EVERY = 10.0
REPORT_EVERY = 300.0
_RENEWALS_IN_A_LEASE = 4
_LEASES = "kube-node-lease"
_A_HAIR = 0.001
"""By how much a timer may be early, in seconds: event loops round."""

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Schedule:
    """When a kubelet has to speak next, in the event loop's time."""

    uid: str
    renewal: float
    report: float
    pace: float
    """The share of the usual time until the renewal after the next; afterwards it is all of it."""
    problem: str = ""


class Heartbeat:
    """What all kubelets say about their nodes."""

    name = "kubelet-heartbeat"
    kinds: tuple[Kind, ...] = (NODE,)

    def __init__(self, api: Api, renew_every: float = RENEW_EVERY) -> None:
        self._api = api
        self._renew_every = renew_every
        self._events = EventRecorder(api.store, "kubelet")
        self._schedules: dict[str, _Schedule] = {}
        self._ready: Facts[str] = Facts(_ready)

    def concerned(self, change: Change) -> Iterable[Key]:
        """Each node is its own kubelet's business."""
        self._ready.note(change)
        return (change.entry.key,)

    async def reconcile(self, key: Key) -> float | None:
        """Say what is due; the answer is in how many seconds something will be again."""
        name = key[1]
        entry = self._api.store.get(NODE, key)
        if entry is None:
            self._schedules.pop(name, None)
            return None
        now = asyncio.get_running_loop().time()
        schedule = self._schedule(name, entry, now)
        kubelet, problem = kubelet_of(entry.labels)
        self._complain(schedule, entry, problem)
        if kubelet is Kubelet.DEAD:
            return None
        wanted = "False" if kubelet is Kubelet.NOT_READY else "True"
        due = now + _A_HAIR
        if self._ready.of(entry) != wanted or schedule.report <= due:
            await self._report(name, ready=wanted == "True")
            schedule.report = now + REPORT_EVERY
        if schedule.renewal <= due:
            await self._renew(name, entry.uid)
            schedule.renewal, schedule.pace = now + self._renew_every * schedule.pace, 1.0
        return max(min(schedule.renewal, schedule.report) - now, 0.0)

    def _schedule(self, name: str, entry: Entry, now: float) -> _Schedule:
        """The first renewal is now; the second one, and so all others, at a moment of the node's own."""
        schedule = self._schedules.get(name)
        if schedule is None or schedule.uid != entry.uid:
            share = crc32(name.encode()) % 1000 / 1000
            report = now + REPORT_EVERY * (1 + share / 5)
            schedule = _Schedule(entry.uid, renewal=now, report=report, pace=0.05 + 0.95 * share)
            self._schedules[name] = schedule
        return schedule

    async def _report(self, name: str, *, ready: bool) -> None:
        before = ""

        def said(body: Json) -> Json:
            nonlocal before
            before = condition_of(body, "Ready").get("status", "")
            return reported(body, clock.now(), ready=ready)

        node = await self._api.edit(Target(NODE, name=name, subresource="status"), said)
        if before and before != condition_of(node, "Ready")["status"]:
            what = "NodeReady" if ready else "NodeNotReady"
            self._events.say(node, what, f"Node {name} status is now: {what}")

    async def _renew(self, name: str, uid: str) -> None:
        def renewed(lease: Json) -> Json:
            lease["spec"]["renewTime"] = clock.micro_stamp(clock.now())
            lease["metadata"]["ownerReferences"] = [owner]
            return lease

        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": uid}
        target = Target(LEASE, _LEASES, name)
        if self._api.store.get(LEASE, target.key) is not None:
            await self._api.edit(target, renewed)
            return
        seconds = max(round(self._renew_every * _RENEWALS_IN_A_LEASE), 1)
        spec = {"holderIdentity": name, "leaseDurationSeconds": seconds}
        await self._api.create(target, renewed({"metadata": {"name": name, "namespace": _LEASES}, "spec": spec}))

    def _complain(self, schedule: _Schedule, entry: Entry, problem: str) -> None:
        if problem and problem != schedule.problem:
            _log.warning("node %s: %s", entry.key[1], problem)
            self._events.say(entry.object(), "SimulationNotUnderstood", problem, warning=True)
        schedule.problem = problem


def _ready(entry: Entry) -> str:
    return str(condition_of(entry.object(), "Ready").get("status", ""))
