"""The kubelets' part for their pods: start those that are bound to their nodes, and end those that were deleted.

A controller over pods. After each change of a pod it looks at what comes next (`next_step`), waits for as long as the
pod's annotations say, and writes the next status. Waiting is a timer of the event loop, so a pod costs only what it
changes. A kubelet that comes back to life finds from the pod alone what there is to do.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from ipaddress import IPv4Address
from itertools import count

from kubemini import clock
from kubemini.api import Api, Deletion, Target
from kubemini.controllers.pods import NODE_NAME, pods_on
from kubemini.errors import Json, StatusError, conflict
from kubemini.events import EventRecorder
from kubemini.kinds import NODE, POD, Kind
from kubemini.kubelet import status
from kubemini.kubelet.node import EARLY
from kubemini.kubelet.status import PodContext
from kubemini.simulation import KUBELET_LABEL, Kubelet, Mode, PodBehavior, behaviour, kubelet_of
from kubemini.store import Change, Entry, Key

_FIRST_ADDRESS = IPv4Address("10.128.0.1")
_CORRECTION = 2.0
"""Seconds until a kubelet corrects a Ready condition that another component wrote; 10 in a real one."""
_RUNNING_SHARE = 0.2
"""Of the time from crash to crash, how much a container that crashes is running."""
_CRASHING = (Mode.CRASH, Mode.CRASH_BESIDE_SIDECAR)

Action = Callable[[Json, PodContext], None]
"""Writes the next status into a pod."""


@dataclass(frozen=True, slots=True)
class PodStep:
    """What to do, and how many seconds after it was first the next thing to do."""

    action: Action
    delay: float = 0.0


@dataclass(slots=True)
class _Pending:
    """The next step of a pod, and since when, in the event loop's time."""

    action: Action
    since: float
    grace: int = -1
    deadline: float = 0.0
    """When the grace period ends that the pod was given last."""


class PodController:
    """What all kubelets do about their pods."""

    name = "kubelet"
    kinds: tuple[Kind, ...] = (POD, NODE)

    def __init__(self, api: Api) -> None:
        self._api = api
        self._store = api.store
        self._events = EventRecorder(api.store, self.name)
        self._addresses = count()
        self._pending: dict[str, _Pending] = {}

    def keys_for(self, change: Change) -> Iterable[Key]:
        """A pod that is bound; all pods of a node whose kubelet comes, or comes back."""
        entry = change.entry
        if change.kind.resource == NODE.resource:
            before = change.before.labels.get(KUBELET_LABEL) if change.before else None
            if change.type == "DELETED" or (change.before and before == entry.labels.get(KUBELET_LABEL)):
                return ()
            return [pod.key for pod in pods_on(self._store, entry.key[1])]
        if change.type == "DELETED":
            self._pending.pop(entry.uid, None)
            return ()
        return (entry.key,) if entry.fields[NODE_NAME] else ()

    async def reconcile(self, key: Key) -> float | None:
        """Take a pod's next step if it is due; otherwise return in how many seconds it will be."""
        entry = self._store.get(POD, key)
        node = self._store.get(NODE, ("", entry.fields[NODE_NAME])) if entry else None
        if entry is None or node is None or kubelet_of(node.labels) is Kubelet.DEAD:
            return None
        pod = entry.object()
        how = behaviour(pod["metadata"].get("annotations"), node.key[1])
        step = next_step(pod, how)
        if step is None:
            self._pending.pop(entry.uid, None)
            return None
        if (wait := self._wait(pod, step)) > EARLY:
            return wait
        try:
            await self._take(step.action, entry, node, how)
        except StatusError as error:
            if error.code not in (404, 409):  # gone, or another pod has its name: that change comes here, too
                raise
        return None

    def _wait(self, pod: Json, step: PodStep) -> float:
        """For how many seconds a step has to wait, counted from when it was first the next one."""
        now = asyncio.get_running_loop().time()
        uid, grace = pod["metadata"]["uid"], pod["metadata"].get("deletionGracePeriodSeconds", 0)
        pending = self._pending.get(uid)
        if pending is None or pending.action is not step.action:
            pending = self._pending[uid] = _Pending(step.action, now)
        wait = pending.since + step.delay - now
        if step.action is status.set_ended:
            if pending.grace != grace:
                pending.grace, pending.deadline = grace, now + grace
            wait = min(wait, pending.deadline - now)
        return wait

    async def _take(self, action: Action, entry: Entry, node: Entry, how: PodBehavior) -> None:
        """Write what comes next about a pod; that change brings the pod back here."""
        place = self._place(entry.object(), node.object(), how)

        def edit(pod: Json) -> Json:
            if pod["metadata"]["uid"] != entry.uid:
                raise conflict(POD, entry.key[1])
            action(pod, place)
            return pod

        pod = await self._api.edit(Target(POD, *entry.key, "status"), edit)
        self._pending.pop(entry.uid, None)
        self._report_failure(pod)
        if action is status.set_ended:
            await self._api.delete(Target(POD, *entry.key), Deletion(grace=0, uid=entry.uid))

    def _place(self, pod: Json, node: Json, how: PodBehavior) -> PodContext:
        addresses = node.get("status", {}).get("addresses", ())
        host = next((each["address"] for each in addresses if each["type"] == "InternalIP"), "")
        own = pod["status"].get("podIP")
        if not own:
            own = host if pod["spec"].get("hostNetwork") else str(_FIRST_ADDRESS + next(self._addresses))
        return PodContext(clock.stamp(clock.now()), host, own, how)

    def _report_failure(self, pod: Json) -> None:
        """Tell in Events why a pod does not run."""
        if pod["status"]["phase"] == "Failed" and pod["status"].get("reason"):
            self._events.record(pod, pod["status"]["reason"], pod["status"]["message"], warning=True)
        for each in pod["status"].get("containerStatuses", ()):
            if message := each["state"].get("waiting", {}).get("message"):
                self._events.record(pod, "BackOff", message, warning=True)


def next_step(pod: Json, how: PodBehavior) -> PodStep | None:
    """The next thing to do about a pod on a node whose kubelet lives; None if there is nothing to do."""
    phase = pod["status"].get("phase") or "Pending"
    finished, pending = phase in ("Succeeded", "Failed"), phase == "Pending"
    statuses = pod["status"].get("containerStatuses", [])
    if "deletionTimestamp" in pod["metadata"]:
        if pod["metadata"].get("deletionGracePeriodSeconds"):
            return PodStep(status.set_ended, how.ends_in)
        # Without any grace left the object goes by itself, unless a finalizer holds it: then the pod has yet to end.
        return None if finished else PodStep(status.set_ended)
    if finished:
        return None
    if how.fails is Mode.REJECTED:
        return PodStep(status.set_rejected, how.fails_in if pending else 0.0)
    if pending and not statuses and how.starts_in is not None:
        return PodStep(status.set_creating)
    if how.fails is Mode.ENDED:
        return PodStep(status.set_failed, how.fails_in if pending else 0.0)
    if how.fails is Mode.NO_IMAGE:
        unpulled = any(each["state"].get("waiting", {}).get("reason") == status.PULL_BACK_OFF for each in statuses)
        return None if unpulled else PodStep(status.set_unpulled, (how.starts_in or 0.0) if pending else 0.0)
    if pending:
        return PodStep(status.set_running, how.starts_in or 0.0)
    return _running_step(pod, statuses, how)


def _running_step(pod: Json, statuses: list[Json], how: PodBehavior) -> PodStep | None:
    """The next step of a pod that has begun to run: restart, crash, correct what is ready, or complete."""
    if any("waiting" in each["state"] for each in statuses):
        return PodStep(status.set_running, how.restarts_every * (1 - _RUNNING_SHARE))
    running = [each for each in statuses if "running" in each["state"]]
    unready = status.unready_names(pod, how.fails)
    if how.fails in _CRASHING:
        if any(each["name"] in unready for each in running):
            return PodStep(status.set_crashed, how.restarts_every * _RUNNING_SHARE)
    elif any(each["ready"] == (each["name"] in unready) for each in running):
        return PodStep(status.set_running)
    true = {each["type"] for each in pod["status"].get("conditions", ()) if each["status"] == "True"}
    if "ContainersReady" in true and status.passes_gates(pod) != ("Ready" in true):
        return PodStep(status.update_ready, 0.0 if pod["spec"].get("readinessGates") else _CORRECTION)
    return PodStep(status.set_completed, how.completes_in) if status.is_of_job(pod) and running == statuses else None
