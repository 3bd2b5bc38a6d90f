"""Recovers failed pods: the leader's loop over workloads whose pods fail on their nodes (`scheduling-retries`).

`runtime.failing` says which workloads to look at. A worker takes one, has its case gathered (`runtime.recovery_look`),
asks `recovery.deciding`, and carries the decision out: the record first, so that after a crash nothing is counted
twice; then what takes a pod's place; then the pod goes. An error ends nothing but the attempt. What people are told is
told beside the work.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import structlog

from rescheduler.kube.errors import ClusterError
from rescheduler.kube.record_owner import HolderKey, asks
from rescheduler.migration import commands
from rescheduler.migration.commands import Command, Json
from rescheduler.migration.observation import Refused, is_leaving, notes_of
from rescheduler.model import marks
from rescheduler.recovery import telling
from rescheduler.recovery.case import Case, Decision
from rescheduler.recovery.deciding import decide
from rescheduler.runtime.bulletins import Bulletins, Teller
from rescheduler.runtime.failing import Failing
from rescheduler.runtime.queue import WorkQueue
from rescheduler.runtime.recovery_look import Cases, Known, Reads

_log = structlog.stdlib.get_logger(__name__)
WORKERS = 4
_TRIES = 5  # to write to what others change meanwhile; then with back-off
_REST = 0.2  # seconds at least between two looks at one workload; who looks late may miss a crash between two runs
_SHARE = 10.0  # … and so many times as long as a look took: one at thousands of pods is dear
_UNSTEERED = 2.0  # seconds until it is asked again whether we may act
_STUBBORN = 60.0  # seconds between tries when all tries with back-off have failed
_MOST = 10_000  # workloads that are left in peace
_MANY = 500  # pods
_OVERTAKEN = frozenset({404, 409})


class Writer(Protocol):
    """Who acts."""

    async def carry_out(self, command: Command) -> Refused | None: ...


class RefusedError(ClusterError):
    """The API server will not have what recovery needs; tried again later."""


@dataclass(frozen=True, slots=True)
class Hands:
    """By whom recovery reads and acts."""

    reads: Reads
    writer: Writer
    teller: Teller
    count: Callable[[str], None]
    """Told each of `recovery.case.OUTCOMES` that happens."""
    may_act: Callable[[], bool] = lambda: True
    """Whether new pods are kept off nodes where they failed: else each try would only use up a retry."""


@dataclass
class _Peace:
    """Until when each workload is left in peace."""

    until: OrderedDict[HolderKey, float] = field(default_factory=OrderedDict)

    def left(self, key: HolderKey) -> float:
        """For how many seconds more."""
        return self.until.get(key, 0.0) - asyncio.get_running_loop().time()

    def leave(self, key: HolderKey, seconds: float) -> None:
        """For so many seconds from now."""
        self.until.pop(key, None)
        self.until[key] = asyncio.get_running_loop().time() + seconds
        if len(self.until) > _MOST:
            self.until.popitem(last=False)


class Recovery:
    """The loop."""

    def __init__(self, known: Known, hands: Hands) -> None:
        self._known = known
        self._hands = hands
        self._queue: WorkQueue[HolderKey] = WorkQueue()
        self._failing = Failing(known.cache, known.settings, known.now, self._suspect)
        self._cases = Cases(hands.reads, known, self._failing.fallen)
        self._peace = _Peace()
        self._bulletins = Bulletins(hands.teller)

    async def run(self) -> None:
        """Recover until cancelled."""
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._failing.run())
                group.create_task(self._bulletins.run())
                for _ in range(WORKERS):
                    group.create_task(self._work())
        finally:
            self._queue.close()

    def renew(self) -> None:
        """Look at everything again: the operator wants something else."""
        self._failing.renew()

    async def flush(self) -> None:
        """Tell what is still to be told."""
        await self._bulletins.flush()

    def _suspect(self, key: HolderKey) -> None:
        if key[1] in self._known.policy().excluded_namespaces:
            return
        if (left := self._peace.left(key)) > 0:
            self._queue.add_later(key, left)
        else:
            self._queue.add(key)

    async def _work(self) -> None:
        clock = asyncio.get_running_loop().time
        while True:
            key = await self._queue.take()
            if not self._known.settings().enabled:
                self._queue.done(key, None)
                continue
            if not self._hands.may_act():
                self._queue.done(key, _UNSTEERED)
                continue
            if (left := self._peace.left(key)) > 0:  # something has changed while it was looked at
                self._queue.done(key, left)
                continue
            started = clock()
            try:
                again = await self._recover(key)
            except ClusterError as error:
                self._failed(key, str(error))
            except Exception as error:  # noqa: BLE001 - one bad object never stops the loop
                _log.exception("a bug of ours, or an object that makes no sense", workload=_title(key))
                self._failed(key, f"{type(error).__name__}: {error}")
            else:
                self._peace.leave(key, max(_REST, _SHARE * (clock() - started)))
                self._queue.done(key, again)

    async def _recover(self, key: HolderKey) -> float | None:
        """Look at one workload and do what there is to do; in how many seconds to look again, if at all."""
        case = await self._cases.case(key)
        for _ in range(_TRIES):
            if case is None:
                return None
            if not isinstance(case, Case):
                self._suspect(case)
                return None
            decision = await _decided(case)
            if not await self._recorded(case, decision):
                case = await self._cases.renewed(key, case)
                continue
            self._failing.fallen.settle(_settled(case, decision))
            self._announce(key, decision)
            # A record on the very pod that is to go makes another version of it than was seen.
            untouched = decision.record is None and not decision.taken_over
            if (untouched or key[0] != "Pod") and await self._acted_or_told(key, case, decision):
                return decision.wait
            case = await self._cases.case(key)
        raise RefusedError("it changes all the time, and each time before anything could be written")

    async def _recorded(self, case: Case, decision: Decision) -> bool:
        """Write the record, if there is something new in it; False if somebody else changed the holder meanwhile."""
        notes: dict[str, str | None] = {} if decision.record is None else {marks.FAILURES: decision.record or None}
        if decision.taken_over:
            notes[decision.taken_over] = None
        if not notes:
            return True
        changes = {"resourceVersion": case.holder["metadata"]["resourceVersion"], "annotations": notes}
        return await self._done(commands.patch(case.holder, {"metadata": changes}, "record that its pods failed"))

    async def _acted_or_told(self, key: HolderKey, case: Case, decision: Decision) -> bool:
        """The same as `_acted`; what a quota or a policy refuses, people are told."""
        try:
            return await self._acted(key, case, decision)
        except RefusedError as error:
            occasion = f"{case.holder['metadata'].get('uid', '')}/{error}"
            self._bulletins.hear(telling.news_of(case.holder, None, telling.REFUSED, str(error), occasion))
            raise

    async def _acted(self, key: HolderKey, case: Case, decision: Decision) -> bool:
        """Do what was decided, now that it is recorded; False if somebody else was faster with a part of it."""
        if decision.creation is not None:
            await self._done(commands.create(decision.creation, "take the place of a pod that failed"), certain=True)
        all_done = True
        unnoted = [_unnoted(each, marks.FAILURES) for each in decision.strays]
        unnoted += _copies(case, decision)
        for command in (*unnoted, *map(_deletion, decision.deletions)):
            if not await self._done(command):
                all_done = False
                _log.debug("somebody else was faster; looked at again", workload=_title(key), command=str(command))
        return all_done

    async def _done(self, command: Command, *, certain: bool = False) -> bool:
        """Whether it was done; not if the object has changed or gone, unless it must be certain to go on."""
        refused = await self._hands.writer.carry_out(command)
        if refused is not None and (certain or refused.code not in _OVERTAKEN):
            raise RefusedError(f"{command} was refused: {refused.message}")
        if refused is None:
            _log.debug("done", command=str(command))
        return refused is None

    def _announce(self, key: HolderKey, decision: Decision) -> None:
        for outcome in decision.outcomes:
            self._hands.count(outcome)
        fresh = self._bulletins.hear(decision.news)
        for reason, note in dict.fromkeys((each.reason, each.note) for each in fresh):
            _log.info(note, workload=_title(key), reason=reason)

    def _failed(self, key: HolderKey, why: str) -> None:
        delay = self._queue.failed(key)
        if delay is None:
            # A pod that fails may never change again, so nothing else would have it looked at.
            delay = _STUBBORN
            self._queue.add_later(key, delay)
        # Its pods go on crashing, which is no reason to try much sooner; but when that time has come it is free.
        self._peace.leave(key, 0.9 * delay)
        _log.warning("a workload could not be recovered", workload=_title(key), why=why, again=f"in {delay:.1f} s")


async def _decided(case: Case) -> Decision:
    """What to do; thousands of pods are not gone through in the event loop."""
    return decide(case) if len(case.pods) < _MANY else await asyncio.to_thread(decide, case)


def _settled(case: Case, decision: Decision) -> list[str]:
    """The pods that have failed as a whole and that all is decided about, by UID."""
    seen = [pod for pod in case.pods if (pod.get("status") or {}).get("phase") == "Failed" and not is_leaving(pod)]
    return [uid for pod in (*seen, *case.vanished) if (uid := pod["metadata"]["uid"]) not in decision.undecided]


def _copies(case: Case, decision: Decision) -> list[Command]:
    """The copies of kse-rescheduler's record that a Deployment's ReplicaSets have, when that is gone, are taken off.

    Also where nothing is taken over any more: a controller may have been killed before it came to the copies.
    """
    theirs, notes = marks.KSE_RECORDS["Deployment"], notes_of(case.holder)
    is_gone = decision.taken_over or (theirs not in notes and asks(notes))
    if case.holder["kind"] != "Deployment" or not is_gone:
        return []
    return [_unnoted(each, theirs) for each in case.controllers if theirs in notes_of(each)]


def _unnoted(replica_set: Json, key: str) -> Command:
    """What takes the copy of a record off a ReplicaSet."""
    return commands.patch(replica_set, {"metadata": {"annotations": {key: None}}}, "the record is gone")


def _deletion(pod: Json) -> Command:
    return commands.delete(pod, "it fails on its node", as_seen=True)


def _title(key: HolderKey) -> str:
    return f"{key[0]} {key[1]}/{key[2]}"
