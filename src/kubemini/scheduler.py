"""The embedded cluster's scheduler: gives pods that wait a node, as the stock kube-scheduler would.

It reads the store through a ledger, keeps the planner's what-if of the cluster on a board, and takes one pod after the
other. The result is a binding, or a condition and an event that say why not. Pods of other schedulers are left alone.
Two things it doesn't do: preempt (a pod that would need it waits, whatever its priority), and bind a claim to a volume
that was made beforehand (claims of a class that waits for its first consumer have their volume made).
"""

from __future__ import annotations

import asyncio
import logging

from kubemini.api import Api
from kubemini.extender import ExtenderError, Extenders
from kubemini.refusals import Json, Refusal
from kubemini.scheduling.board import Board
from kubemini.scheduling.causes import Cause, causes_of
from kubemini.scheduling.choice import Chooser
from kubemini.scheduling.ledger import Changes, KnownPod, Ledger, PodChange
from kubemini.scheduling.reports import Reports
from kubemini.scheduling.unschedulable import Unschedulable
from kubemini.scheduling.volumes import Outcome, VolumeWaits, unmade
from kubemini.scheduling.waiting import Waiting
from kubemini.store import Key
from rescheduler.model.objects import Pod

_log = logging.getLogger(__name__)
_SLICE = 200  # objects read before others have their turn: a few milliseconds


class Scheduler:
    """`default-scheduler`. It runs once."""

    def __init__(self, api: Api) -> None:
        self._wake = asyncio.Event()
        self._ledger = Ledger(api.store, self._wake.set)
        self._board = Board(self._ledger, api.store)
        self._waiting = Waiting()
        self._volumes = VolumeWaits(self._ledger.rows.claims)
        self._extenders = Extenders()
        self._chooser = Chooser(api.store, self._extenders)
        self._reports = Reports(api)
        self._busy = True

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do now; pods that wait for something to change don't count."""
        return not self._busy and not self._wake.is_set()

    def configure(self, extenders: list[Json]) -> None:
        """Hear these extenders from now on: the `extenders` list of a KubeSchedulerConfiguration."""
        self._extenders.configure(extenders)
        self._waiting.happened(set(Cause))
        self._wake.set()

    async def run(self) -> None:
        """Schedule until cancelled."""
        close = self._ledger.open()
        try:
            while True:
                self._wake.clear()
                await self._work()
                await self._pause()
        finally:
            close()
            await self._extenders.close()

    async def _work(self) -> None:
        """Do all that can be done now, a little at a time."""
        loop = asyncio.get_running_loop()
        while True:
            while self._ledger.behind:
                self._follow(self._ledger.take(_SLICE))
                await asyncio.sleep(0)
            for outcome in self._volumes.ended(loop.time()):
                await self._end_wait(outcome)
            key = self._waiting.next(loop.time())
            if key is None and not self._ledger.behind:
                return
            if key is not None:
                await self._attempt(key)
                await asyncio.sleep(0)  # placing seldom waits for anything: let others have their turn

    async def _pause(self) -> None:
        """Until something happens, or somebody has waited long enough."""
        loop = asyncio.get_running_loop()
        due = min(self._waiting.next_due(), self._volumes.next_due())
        self._busy = False
        try:
            async with asyncio.timeout_at(due if due < loop.time() + 3600 else None):
                await self._wake.wait()
        except TimeoutError:
            pass
        finally:
            self._busy = True

    def _follow(self, changes: Changes) -> None:
        self._board.follow(changes)
        for change in changes.pods:
            self._queue(change)
        if causes := causes_of(changes):
            self._waiting.happened(causes)

    def _queue(self, change: PodChange) -> None:
        key, before, after = change
        if after is None or not after.schedulable:
            self._waiting.drop(key)
            self._volumes.give_up(key)
            self._reports.forget(key)
        elif before is None or not before.schedulable or _is_another(before.row, after.row):
            self._waiting.add(key, after.row.priority)

    async def _attempt(self, key: Key) -> None:
        known = self._ledger.pods.get(key)
        if known is None or not known.schedulable or key in self._board.assumed:
            return
        try:
            await self._schedule(key, known)
        except Exception:  # noqa: BLE001  one pod that trips the scheduler must not stop it for the others
            _log.exception("pod %s could not be scheduled; tried again", known.row.full_name)
            self._board.forget(key)
            self._board.discard()
            self._waiting.failed(key, asyncio.get_running_loop().time())

    async def _schedule(self, key: Key, known: KnownPod) -> None:
        if known.row.problem:
            await self._fail(key, known.row, known.row.problem)
            return
        try:
            chosen = await self._chooser.choose(self._board.view(key), key, known)
        except ExtenderError as error:
            await self._fail(key, known.row, str(error))
            return
        if isinstance(chosen, Unschedulable):
            self._waiting.refuse(key, chosen.rules, asyncio.get_running_loop().time())
            renounce = chosen.renounces and bool(known.nominated)
            await self._reports.refuse(known.row, "Unschedulable", chosen.message, renounce=renounce)
            return
        self._board.assume(key, chosen)
        claims = unmade(known.row, self._ledger.rows.claims)
        if claims:
            await self._await_volumes(key, known.row, chosen, claims)
        else:
            await self._bind(key, known.row, chosen)

    async def _await_volumes(self, key: Key, pod: Pod, node: str, claims: list[Key]) -> None:
        await self._reports.nominate(pod, node)
        try:
            for claim in claims:
                await self._reports.select(claim, node)
        except Refusal as refusal:
            await self._fail(key, pod, _binding_volumes(str(refusal)))
        else:
            self._volumes.begin(key, node, claims, asyncio.get_running_loop().time())

    async def _end_wait(self, outcome: Outcome) -> None:
        known = self._ledger.pods.get(outcome.key)
        if known is None:
            return
        if outcome.problem:
            await self._fail(outcome.key, known.row, _binding_volumes(outcome.problem))
        else:
            await self._bind(outcome.key, known.row, outcome.node)

    async def _bind(self, key: Key, pod: Pod, node: str) -> None:
        try:
            await self._reports.bind(pod, node)
        except Refusal as refusal:
            await self._fail(key, pod, f'running Bind plugin "DefaultBinder": {refusal}')
        else:
            self._waiting.drop(key)

    async def _fail(self, key: Key, pod: Pod, message: str) -> None:
        """Not that it fits nowhere: something went wrong that may go well the next time."""
        self._board.forget(key)
        self._waiting.failed(key, asyncio.get_running_loop().time())
        await self._reports.refuse(pod, "SchedulerError", message, renounce=True)


def _is_another(before: Pod, after: Pod) -> bool:
    """Whether a pod that was looked at must be looked at again: what it is has changed, not only its status."""
    return before.uid != after.uid or before.shape is not after.shape or before.labels is not after.labels


def _binding_volumes(problem: str) -> str:
    return f'running PreBind plugin "VolumeBinding": binding volumes: {problem}'
