"""The kubelets' part for their pods: start those that are bound to their nodes, and end those that were deleted.

A controller over pods. After each change of a pod it looks at what comes next (`next_step`), waits for as long as the
pod's annotations say, and writes the next status. Waiting is a timer of the event loop, so a pod costs only what it
changes. A kubelet that comes back to life finds from the pod alone what there is to do.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum, auto
from ipaddress import IPv4Address
from itertools import count

from kubemini import clock
from kubemini.api import Api, Deletion, Target
from kubemini.controllers.base import Runner
from kubemini.controllers.pods import NODE_NAME, pods_on
from kubemini.events import EventRecorder
from kubemini.kinds import NODE, POD, Kind
from kubemini.kubelet import failures, status
from kubemini.kubelet.failures import CRASH_LOOP, PULL_BACK_OFF, PULL_FAILED
from kubemini.kubelet.node import RENEW_EVERY, HeartbeatController
from kubemini.kubelet.status import Place
from kubemini.refusals import Json, Refusal, conflict
from kubemini.simulation import KUBELET_LABEL, Behaviour, Kubelet, Mode, behaviour, kubelet_of
from kubemini.store import Change, Entry, Key

_log = logging.getLogger(__name__)
_EARLY = 0.001
"""By how much a timer may be early, in seconds: event loops round."""
_FIRST_ADDRESS = IPv4Address("10.128.0.1")
_CORRECTION = 2.0
"""Seconds until a kubelet corrects a Ready condition that another component wrote; 10 in a real one."""
_RUNNING_SHARE = 0.2
"""Of the time from crash to crash, how much a container that crashes is running."""
_PULL_RETRY = 0.2
_CRASHING = (Mode.CRASH, Mode.CRASH_BESIDE_SIDECAR)


class Kubelets:
    """All kubelets at work. The node controller must wait for several times as long as `renew_every` seconds."""

    def __init__(self, api: Api, renew_every: float = RENEW_EVERY) -> None:
        controllers = (PodController(api), HeartbeatController(api, renew_every))
        self._runners = [Runner(api.store, controller) for controller in controllers]

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do now; timers do not count."""
        return all(runner.idle for runner in self._runners)

    async def run(self) -> None:
        """Work until cancelled."""
        async with asyncio.TaskGroup() as group:
            for runner in self._runners:
                group.create_task(runner.run())


class Action(Enum):
    """The next status that a kubelet writes."""

    CREATE = auto()
    RUN = auto()
    CRASH = auto()
    PULL = auto()
    BACK_OFF = auto()
    REJECT = auto()
    FAIL = auto()
    READY = auto()
    COMPLETE = auto()
    END = auto()


@dataclass(frozen=True, slots=True)
class Step:
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
        self._events = EventRecorder(api.store, "kubelet")
        self._addresses = count()
        self._pending: dict[str, _Pending] = {}
        self._problems: dict[str, tuple[str, ...]] = {}
        """Problems with annotations that were reported already, by the pods' uids."""

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
            self._problems.pop(entry.uid, None)
            return ()
        return (entry.key,) if entry.fields[NODE_NAME] else ()

    async def reconcile(self, key: Key) -> float | None:
        """Take a pod's next step if it is due; otherwise return in how many seconds it will be."""
        entry = self._store.get(POD, key)
        node = self._store.get(NODE, ("", entry.fields[NODE_NAME])) if entry else None
        if entry is None or node is None or kubelet_of(node.labels)[0] is Kubelet.DEAD:
            return None
        pod = entry.object()
        how = behaviour(pod["metadata"].get("annotations"), node.key[1])
        self._report_problems(pod, how)
        step = next_step(pod, how)
        if step is None:
            self._pending.pop(entry.uid, None)
            return None
        if (wait := self._wait(pod, step)) > _EARLY:
            return wait
        try:
            await self._take(step.action, entry, node, how)
        except Refusal as refusal:
            if refusal.code not in (404, 409):  # gone, or another pod has its name: that change comes here, too
                raise
        return None

    def _report_problems(self, pod: Json, how: Behaviour) -> None:
        uid = pod["metadata"]["uid"]
        if how.problems == self._problems.get(uid, ()):
            return
        self._problems[uid] = how.problems
        for problem in how.problems:
            _log.warning("pod %s: %s", failures.full_name(pod), problem)
            self._events.say(pod, "SimulationNotUnderstood", problem, warning=True)

    def _wait(self, pod: Json, step: Step) -> float:
        """For how many seconds a step has to wait, counted from when it was first the next one."""
        now = asyncio.get_running_loop().time()
        uid, grace = pod["metadata"]["uid"], pod["metadata"].get("deletionGracePeriodSeconds", 0)
        pending = self._pending.get(uid)
        if pending is None or pending.action is not step.action:
            pending = self._pending[uid] = _Pending(step.action, now)
            if step.action is Action.END and grace:
                self._report_killing(pod)
        wait = pending.since + step.delay - now
        if step.action is Action.END:
            if pending.grace != grace:
                pending.grace, pending.deadline = grace, now + grace
            wait = min(wait, pending.deadline - now)
        return wait

    async def _take(self, action: Action, entry: Entry, node: Entry, how: Behaviour) -> None:
        """Write what comes next about a pod; that change brings the pod back here."""
        node_object = node.object()
        place = self._place(action, entry.object(), node_object)

        def edit(pod: Json) -> Json:
            if pod["metadata"]["uid"] != entry.uid:
                raise conflict(POD, entry.key[1])
            _set_status(pod, action, place, how, node_object)
            return pod

        pod = await self._api.edit(Target(POD, *entry.key, "status"), edit)
        self._pending.pop(entry.uid, None)
        self._report(action, pod, how, place.stamp)
        if action is Action.END:
            await self._api.delete(Target(POD, *entry.key), Deletion(grace=0, uid=entry.uid))

    def _place(self, action: Action, pod: Json, node: Json) -> Place:
        """Where a pod is; one that gets as far as having a network has an address from then on."""
        addresses = node.get("status", {}).get("addresses", ())
        host = next((each["address"] for each in addresses if each["type"] == "InternalIP"), "")
        if action not in (Action.RUN, Action.PULL) or pod["status"].get("podIP"):
            return Place(clock.now(), host)
        own = host if pod["spec"].get("hostNetwork") else str(_FIRST_ADDRESS + next(self._addresses))
        return Place(clock.now(), host, own)

    def _report_killing(self, pod: Json) -> None:
        for container in pod["status"].get("containerStatuses", ()):
            if "running" in container["state"]:
                self._events.say(pod, "Killing", f"Stopping container {container['name']}")

    def _report(self, action: Action, pod: Json, how: Behaviour, at: str) -> None:
        """Tell what has been done about a pod in Events, as far as a real kubelet does."""
        statuses = pod["status"].get("containerStatuses", ())
        match action:
            case Action.RUN:
                if any(each["state"].get("running", {}).get("startedAt") == at for each in statuses):
                    self._events.say(pod, "Started", "Container started")
                if how.fails is Mode.NEVER_READY:
                    self._events.say(pod, "Unhealthy", "Readiness probe failed: told to", warning=True)
            case Action.CRASH:
                for each in statuses:
                    if each["state"].get("waiting", {}).get("reason") == CRASH_LOOP:
                        whole = failures.full_name(pod)
                        message = f"Back-off restarting failed container {each['name']} in pod {whole}"
                        self._events.say(pod, "BackOff", message, warning=True)
            case Action.PULL:
                for each in pod["spec"]["containers"]:
                    why = f'Failed to pull image "{each["image"]}": {failures.pull_error(each["image"])}'
                    self._events.say(pod, "Failed", why, warning=True)
            case Action.BACK_OFF:
                for each in pod["spec"]["containers"]:
                    self._events.say(pod, "BackOff", f'Back-off pulling image "{each["image"]}"')
            case Action.FAIL | Action.REJECT:
                message = pod["status"]["message"].removeprefix("Pod was rejected: ")
                self._events.say(pod, pod["status"]["reason"], message, warning=True)
            case _:
                pass


def _set_status(pod: Json, action: Action, place: Place, how: Behaviour, node: Json) -> None:
    match action:
        case Action.CREATE:
            status.set_creating(pod, place)
        case Action.RUN:
            status.set_running(pod, place, how.fails)
        case Action.READY:
            status.update_ready(pod, place)
        case Action.COMPLETE:
            status.set_completed(pod, place)
        case Action.END:
            status.set_ended(pod, place)
        case Action.PULL:
            failures.set_pull_failed(pod, place)
        case Action.BACK_OFF:
            failures.set_pull_backoff(pod)
        case Action.FAIL:
            failures.set_failed(pod, place, how.reason)
        case Action.REJECT:
            failures.set_rejected(pod, place, node)
        case Action.CRASH:
            failures.set_crashed(pod, place, how)


def next_step(pod: Json, how: Behaviour) -> Step | None:
    """The next thing to do about a pod on a node whose kubelet lives; None if it is as it should be."""
    phase = pod["status"].get("phase") or "Pending"
    finished, pending = phase in ("Succeeded", "Failed"), phase == "Pending"
    statuses = pod["status"].get("containerStatuses", [])
    if "deletionTimestamp" in pod["metadata"]:
        if pod["metadata"].get("deletionGracePeriodSeconds"):
            return Step(Action.END, how.ends_in)
        # Without any grace left the object goes by itself, unless a finalizer holds it: then the pod has yet to end.
        return None if finished else Step(Action.END)
    if finished:
        return None
    if how.fails is Mode.REJECTED:
        return Step(Action.REJECT, how.fails_in if pending else 0.0)
    if pending and not statuses and how.starts_in is not None:
        return Step(Action.CREATE)
    if how.fails is Mode.ENDED:
        return Step(Action.FAIL, how.fails_in if pending else 0.0)
    if how.fails is Mode.NO_IMAGE:
        return _pull_step(statuses, (how.starts_in or 0.0) if pending else 0.0)
    if pending:
        return Step(Action.RUN, how.starts_in or 0.0)
    return _running_step(pod, statuses, how)


def _pull_step(statuses: list[Json], delay: float) -> Step | None:
    reasons = {each["state"].get("waiting", {}).get("reason") for each in statuses}
    if PULL_FAILED in reasons:
        return Step(Action.BACK_OFF, _PULL_RETRY)
    return None if PULL_BACK_OFF in reasons else Step(Action.PULL, delay)


def _running_step(pod: Json, statuses: list[Json], how: Behaviour) -> Step | None:
    """The next step of a pod that has begun to run: restart, crash, correct what is ready, or complete."""
    if any("waiting" in each["state"] for each in statuses):
        return Step(Action.RUN, how.restarts_every * (1 - _RUNNING_SHARE))
    running = [each for each in statuses if "running" in each["state"]]
    unready = status.unready_names(pod, how.fails)
    if how.fails in _CRASHING:
        if any(each["name"] in unready for each in running):
            return Step(Action.CRASH, how.restarts_every * _RUNNING_SHARE)
    elif any(each["ready"] == (each["name"] in unready) for each in running):
        return Step(Action.RUN)
    if step := _ready_step(pod):
        return step
    owners = pod["metadata"].get("ownerReferences", ())
    of_job = any(each["kind"] == "Job" and each.get("controller") for each in owners)
    return Step(Action.COMPLETE, how.completes_in) if of_job and len(running) == len(statuses) else None


def _ready_step(pod: Json) -> Step | None:
    true = {each["type"] for each in pod["status"].get("conditions", ()) if each["status"] == "True"}
    gates = [gate["conditionType"] for gate in pod["spec"].get("readinessGates", ())]
    if "ContainersReady" not in true or all(gate in true for gate in gates) == ("Ready" in true):
        return None
    return Step(Action.READY, 0.0 if gates else _CORRECTION)
