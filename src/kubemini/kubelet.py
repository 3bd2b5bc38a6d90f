"""The kubelets of all nodes, in one place: they start the pods that are bound to their nodes, and end those deleted.

`cluster` runs `Kubelets`; it is two controllers, this one over pods and `heartbeat` over nodes. After each change of a
pod its kubelet looks at what the pod is like and what comes next (`kubelet_steps`), waits for as long as the pod's
annotations say, and writes the next status (`kubelet_status`, `kubelet_failures`). There is no task per pod: whatever
waits is a timer of the event loop, so thirty thousand pods cost what they change.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

from kubemini import clock, kubelet_failures, kubelet_status
from kubemini.api import Api, Deletion, Target
from kubemini.controllers.base import Runner
from kubemini.controllers.facts import Facts
from kubemini.controllers.pod_index import NODE_NAME, PodsByNode
from kubemini.heartbeat import RENEW_EVERY, Heartbeat
from kubemini.kinds import NODE, POD, Kind
from kubemini.kubelet_addresses import Addresses
from kubemini.kubelet_events import KubeletEvents
from kubemini.kubelet_room import Amounts, Rooms, Shortage, allocatable_of, asked_by
from kubemini.kubelet_status import Place
from kubemini.kubelet_steps import Action, PodView, Step, next_step, read
from kubemini.refusals import Json, Refusal, conflict
from kubemini.simulation import KUBELET_LABEL, Behaviour, Kubelet, behaviour, kubelet_of
from kubemini.store import Change, Entry, Key

_log = logging.getLogger(__name__)
_A_HAIR = 0.001
"""By how much a timer may be early, in seconds: event loops round."""
_ADDRESS, _HOST_NETWORK = "status.podIP", "spec.hostNetwork"


class Kubelets:
    """All kubelets at work. The node controller must be patient for several times as long as `renew_every` seconds."""

    def __init__(self, api: Api, renew_every: float = RENEW_EVERY) -> None:
        self._runners = [Runner(api.store, PodKeeper(api)), Runner(api.store, Heartbeat(api, renew_every))]

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do now; what waits for its time does not count."""
        return all(runner.idle for runner in self._runners)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for runner in self._runners:
                group.create_task(runner.run())


class _Node(NamedTuple):
    """What a kubelet knows of its own node."""

    address: str
    allocatable: Amounts


@dataclass(slots=True)
class _Pending:
    """What is to be done next about a pod, and since when, in the event loop's time."""

    action: Action
    since: float
    grace: int = -1
    deadline: float = 0.0
    """When the grace period ends that the pod was given last, if it is about its end."""


class PodKeeper:
    """What all kubelets do about their pods."""

    name = "kubelet"
    kinds: tuple[Kind, ...] = (POD, NODE)

    def __init__(self, api: Api) -> None:
        self._api = api
        self._store = api.store
        self._events = KubeletEvents(api.store)
        self._pods = PodsByNode(api.store)
        self._nodes: Facts[_Node] = Facts(_node)
        self._rooms = Rooms()
        self._addresses = Addresses()
        self._pending: dict[str, _Pending] = {}
        self._problems: dict[str, tuple[str, ...]] = {}
        """What was complained of already, by the pods' uids."""

    def concerned(self, change: Change) -> Iterable[Key]:
        """A pod that is bound; all pods of a node whose kubelet comes, or comes back."""
        if change.kind.resource == NODE.resource:
            self._nodes.note(change)
            return self._woken(change)
        self._pods.note(change)
        entry = change.entry
        if change.type == "DELETED":
            self._forget(entry)
            return ()
        if change.before is None and entry.fields[_ADDRESS] and entry.fields[_HOST_NETWORK] != "true":
            self._addresses.note(entry.fields[_ADDRESS])
        return (entry.key,) if entry.fields[NODE_NAME] else ()

    async def reconcile(self, key: Key) -> float | None:
        """Do what is next about a pod, if its time has come; else the answer is in how many seconds it will have."""
        entry = self._store.get(POD, key)
        node = self._store.get(NODE, ("", entry.fields[NODE_NAME])) if entry else None
        if entry is None or node is None or kubelet_of(node.labels)[0] is Kubelet.DEAD:
            return None
        pod = read(entry.raw)
        how = behaviour(pod.metadata.annotations, node.key[1])
        self._complain(entry, how)
        shortage = self._admitted(entry, pod, node)
        controller = entry.controller
        step = next_step(pod, how, of_job=controller is not None and controller.kind == "Job")
        if step is None:
            self._pending.pop(entry.uid, None)
            return None
        if not shortage and (wait := self._wait(entry, pod, step)) > _A_HAIR:
            return wait
        try:
            if shortage:
                await self._reject(entry, shortage)
            else:
                await self._do(step.action, entry, node, how)
        except Refusal as refusal:
            if refusal.code not in (404, 409):
                raise
            # It is gone, or another one has its name: that change is told to us too.
        return None

    def _woken(self, change: Change) -> Iterable[Key]:
        if change.type == "DELETED":
            return ()
        before = change.before.labels.get(KUBELET_LABEL) if change.before else None
        if change.before is not None and before == change.entry.labels.get(KUBELET_LABEL):
            return ()
        return self._pods.keys(change.entry.key[1])

    def _forget(self, entry: Entry) -> None:
        self._pending.pop(entry.uid, None)
        self._problems.pop(entry.uid, None)
        self._rooms.leave(entry.fields[NODE_NAME], entry.uid)
        if entry.fields[_HOST_NETWORK] != "true":
            self._addresses.give_back(entry.fields[_ADDRESS])

    def _complain(self, entry: Entry, how: Behaviour) -> None:
        if how.problems == self._problems.get(entry.uid, ()):
            return
        self._problems[entry.uid] = how.problems
        for problem in how.problems:
            _log.warning("pod %s: %s", "/".join(entry.key), problem)
            self._events.complain(entry.object(), problem)

    def _admitted(self, entry: Entry, pod: PodView, node: Entry) -> Shortage | None:
        """Room is taken from when a pod is first seen until it has ended; a new one that finds none is turned away."""
        name = node.key[1]
        if pod.finished:
            self._rooms.leave(name, entry.uid)
            return None
        if self._rooms.holds(name, entry.uid):
            return None
        asked = asked_by(entry.object())
        is_new = pod.pending and pod.status.start_time is None and not entry.deleting
        if is_new and (shortage := self._rooms.shortage(name, self._nodes.of(node).allocatable, asked)):
            return shortage
        self._rooms.take(name, entry.uid, asked)
        return None

    def _wait(self, entry: Entry, pod: PodView, step: Step) -> float:
        """For how many seconds a step has to wait; from when it was first the next one, whatever happened meanwhile."""
        now = asyncio.get_running_loop().time()
        pending = self._pending.get(entry.uid)
        if pending is None or pending.action is not step.action:
            pending = self._pending[entry.uid] = _Pending(step.action, now)
            if step.action is Action.END and pod.metadata.deletion_grace_period_seconds:
                self._events.killing(entry.object())
        wait = pending.since + step.delay - now
        if step.action is Action.END:
            grace = pod.metadata.deletion_grace_period_seconds
            if pending.grace != grace:
                pending.grace, pending.deadline = grace, now + grace
            wait = min(wait, pending.deadline - now)
        return wait

    async def _reject(self, entry: Entry, shortage: Shortage) -> None:
        place = Place(clock.now())

        def change(pod: Json) -> Json:
            return kubelet_failures.rejected(pod, place, shortage.reason, str(shortage))

        self._events.rejected(await self._write(entry, change), shortage.reason, str(shortage))

    async def _do(self, action: Action, entry: Entry, node: Entry, how: Behaviour) -> None:
        """Write what comes next about a pod; the change brings us back to see what comes then."""
        place = self._place(action, entry, node)
        allocatable = self._nodes.of(node).allocatable

        def change(pod: Json) -> Json:
            match action:
                case Action.CREATE:
                    return kubelet_status.created(pod, place)
                case Action.RUN:
                    return kubelet_status.running(pod, place, how.fails)
                case Action.READY:
                    return kubelet_status.ready_or_not(pod, place)
                case Action.COMPLETE:
                    return kubelet_status.completed(pod, place)
                case Action.END:
                    return kubelet_status.ended(pod, place)
                case Action.PULL:
                    return kubelet_failures.unpulled(pod, place)
                case Action.BACK_OFF:
                    return kubelet_failures.waits_to_pull(pod)
                case Action.FAIL:
                    return kubelet_failures.ended_for(pod, place, how.reason)
                case Action.REJECT:
                    return kubelet_failures.rejected(pod, place, "OutOfcpu", str(_pretended(pod, allocatable)))
                case Action.CRASH:
                    return kubelet_failures.crashed(pod, place, how)

        try:
            pod = await self._write(entry, change)
        except Refusal:
            self._addresses.give_back(place.pod)  # the next attempt takes another
            raise
        self._pending.pop(entry.uid, None)
        self._events.tell(action, pod, how, place.stamp)
        if action is Action.END:
            await self._api.delete(Target(POD, *entry.key), Deletion(grace=0, uid=entry.uid))

    async def _write(self, entry: Entry, change: Callable[[Json], Json]) -> Json:
        def edit(pod: Json) -> Json:
            if pod["metadata"]["uid"] != entry.uid:
                raise conflict(POD, entry.key[1])
            return change(pod)

        return await self._api.edit(Target(POD, *entry.key, "status"), edit)

    def _place(self, action: Action, entry: Entry, node: Entry) -> Place:
        """Where a pod is; one that gets as far as having a network has an address from then on."""
        host = self._nodes.of(node).address
        if action not in (Action.RUN, Action.PULL) or entry.fields[_ADDRESS]:
            return Place(clock.now(), host)
        if entry.fields[_HOST_NETWORK] == "true":
            return Place(clock.now(), host, host)
        return Place(clock.now(), host, self._addresses.take())


def _node(entry: Entry) -> _Node:
    body = entry.object()
    addresses = body.get("status", {}).get("addresses", ())
    internal = next((each["address"] for each in addresses if each["type"] == "InternalIP"), "")
    return _Node(internal, allocatable_of(body))


def _pretended(pod: Json, allocatable: Amounts) -> Shortage:
    """A pod that is to be turned away finds the node full, whatever is on it."""
    capacity = allocatable.get("cpu", 0)
    return Shortage("cpu", asked_by(pod).get("cpu", 0), capacity, capacity)
