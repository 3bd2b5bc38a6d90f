"""The embedded cluster's scheduler: gives pods a node, as the stock kube-scheduler would.

It follows the store through a cache and tries one pod after the other on a view of the cluster. The result is a
binding, or a condition and an event that say why not. Pods of other schedulers are left alone. It does not preempt,
and it does not wait for volumes: claims are bound at once.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from contextlib import suppress

from kubemini.api import Api, Target
from kubemini.binding import bind
from kubemini.conditions import set_condition
from kubemini.errors import Json, StatusError
from kubemini.events import EventRecorder
from kubemini.kinds import POD
from kubemini.scheduler.cache import SCHEDULER, Cache, CachedPod, ClusterChanges, PodChange
from kubemini.scheduler.extender import Extender, ExtenderError
from kubemini.scheduler.queue import SchedulingQueue
from kubemini.scheduler.view import View
from kubemini.store import Key
from rescheduler.model.objects import Pod

_log = logging.getLogger(__name__)
_SLICE = 200  # objects decoded before other tasks have their turn: a few milliseconds


class UnschedulableError(Exception):
    """No node fits a pod; the message says why."""


class Scheduler:
    """`default-scheduler`. It runs once."""

    def __init__(self, api: Api) -> None:
        self._wake = asyncio.Event()
        self._cache = Cache(api.store, self._wake.set)
        self._queue = SchedulingQueue()
        self._extender = Extender(api.store)
        self._api = api
        self._events = EventRecorder(api.store, SCHEDULER)
        self._view: View | None = None
        self._assumed: dict[Key, str] = {}
        """Pods that were given a node, until the cache shows them there."""
        self._busy = True

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do now; pods that wait for something to change don't count."""
        return not self._busy and not self._wake.is_set()

    def configure(self, extender: Json | None) -> None:
        """Ask this extender from now on, or none: an entry of `extenders` of a KubeSchedulerConfiguration."""
        self._extender.configure(extender)
        self._queue.retry_refused(_now())
        self._wake.set()

    async def run(self) -> None:
        """Schedule until cancelled."""
        close = self._cache.open()
        try:
            while True:
                self._wake.clear()
                await self._work()
                await self._pause()
        finally:
            close()
            await self._extender.close()

    async def _work(self) -> None:
        """Do all that can be done now, yielding to other tasks in between."""
        while True:
            while self._cache.behind:
                self._follow(self._cache.read(_SLICE))
                await asyncio.sleep(0)
            key = self._queue.pop(_now())
            if key is not None:
                await self._attempt(key)
                await asyncio.sleep(0)
            elif not self._cache.behind:
                return

    async def _pause(self) -> None:
        """Wait until something happens, or refused pods are to be tried again."""
        due = self._queue.retry_at
        self._busy = False
        with suppress(TimeoutError):
            async with asyncio.timeout_at(due if due < math.inf else None):
                await self._wake.wait()
        self._busy = True

    def _follow(self, changes: ClusterChanges) -> None:
        counts = changes.others
        if changes.others:
            self._view = None
        for change in changes.pods:
            counts |= self._follow_pod(change)
        if counts:
            self._queue.retry_refused(_now())

    def _follow_pod(self, change: PodChange) -> bool:
        """Bring the queue and the view up to date; whether the change may help pods that were refused."""
        key, before, after = change
        if after is None or not after.schedulable:
            self._queue.drop(key)
        elif before is None or not before.schedulable or _differ(before.row, after.row):
            self._queue.add(key, after.row.priority)
        moved = (before and before.footprint) != (after and after.footprint)
        assumed = self._assumed.get(key, "")
        if assumed and after is not None and after.row.node == assumed:
            del self._assumed[key]  # our own binding: the view has the pod there already
        elif moved or (before is not None and (after is None or _differ(before.row, after.row))):
            self._assumed.pop(key, None)
            self._view = None
        return moved

    async def _attempt(self, key: Key) -> None:
        pod = self._cache.pods.get(key)
        if pod is None or not pod.schedulable or key in self._assumed:
            return
        try:
            node = await self._schedule(key, pod)
            self._assumed[key] = node
            if self._view is not None:
                self._view.place(key, node)
            await self._bind(pod.row, node)
        except UnschedulableError as error:
            self._queue.refuse(key, pod.row.priority)
            await self._refuse(pod, "Unschedulable", str(error))
        except (ExtenderError, StatusError) as error:
            await self._fail(key, pod, str(error))
        except Exception as error:  # noqa: BLE001  one pod that trips the scheduler must not stop it for the others
            _log.exception("pod %s could not be scheduled; tried again", pod.row.full_name)
            await self._fail(key, pod, repr(error))

    async def _fail(self, key: Key, pod: CachedPod, message: str) -> None:
        """Try a pod again soon: not that it fits nowhere, but something went wrong."""
        if self._assumed.pop(key, None) is not None:
            self._view = None
        self._queue.refuse(key, pod.row.priority)
        self._queue.retry_refused(_now())
        await self._refuse(pod, "SchedulerError", message)

    async def _schedule(self, key: Key, pod: CachedPod) -> str:
        """Choose a node: the one that the pod is nominated to, else the best of those that let it in."""
        if pod.row.problem:
            raise UnschedulableError(pod.row.problem)
        if self._view is None or key not in self._view:
            self._view = View(self._cache.snapshot(), self._cache.pods, self._assumed)
        view = self._view
        if not view.nodes:
            raise UnschedulableError("no nodes available to schedule pods")
        feasible = view.feasible(key, pod.row.priority)
        if pod.nominated in feasible and (await self._extender.filter(key, [pod.nominated])).nodes:
            return pod.nominated
        filtered = await self._extender.filter(key, feasible)
        if not filtered.nodes:
            reasons = view.reasons(key, pod.row.priority) + Counter(filtered.failed.values())
            listed = ", ".join(sorted(f"{count} {reason}" for reason, count in reasons.items()))
            raise UnschedulableError(
                f"0/{len(view.nodes)} nodes are available: {listed or 'the extender refuses all'}."
            )
        if len(filtered.nodes) == 1:
            return filtered.nodes[0]
        return view.best(key, filtered.nodes, await self._extender.scores(key, filtered.nodes))

    async def _bind(self, pod: Pod, node: str) -> None:
        """Bind a pod to its node."""
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await bind(self._api, Target(POD, pod.namespace, pod.name, "binding"), binding)
        self._events.record(_reference(pod), "Scheduled", f"Successfully assigned {pod.full_name} to {node}")

    async def _refuse(self, pod: CachedPod, reason: str, message: str) -> None:
        """Report why a pod has no node, if that is new, and withdraw its nomination."""
        row, is_new = pod.row, False

        def edit(body: Json) -> Json:
            nonlocal is_new
            if body["metadata"]["uid"] == row.uid and not body["spec"].get("nodeName"):
                body["status"].pop("nominatedNodeName", None)
                condition = {"type": "PodScheduled", "status": "False", "reason": reason, "message": message}
                is_new = set_condition(body["status"], condition | {"lastProbeTime": None})
            return body

        try:
            await self._api.edit(Target(POD, row.namespace, row.name, "status"), edit)
        except StatusError as error:
            if error.code != 404:  # deleted meanwhile
                _log.warning("the status of pod %s could not be written: %s", row.full_name, error)
            return
        if is_new:
            self._events.record(_reference(row), "FailedScheduling", message, warning=True)


def _now() -> float:
    return asyncio.get_running_loop().time()


def _differ(before: Pod, after: Pod) -> bool:
    """Whether a pod is another one, or its spec or labels changed; the status does not count."""
    return before.uid != after.uid or before.shape is not after.shape or before.labels is not after.labels


def _reference(pod: Pod) -> Json:
    metadata = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    return {"apiVersion": POD.api_version, "kind": POD.name, "metadata": metadata}
