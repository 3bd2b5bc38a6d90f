"""The recovery controller: reschedules pods that fail on their node.

The failure detector queues workloads; workers read the state of each, let `recovery.decide` decide, record the
decision on the workload, and act on it.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable

import structlog

from rescheduler.config.live import LiveConfig
from rescheduler.kube.errors import ClusterError
from rescheduler.kube.events import EventQueue, EventRecorder
from rescheduler.kube.objects import CommandSender
from rescheduler.kube.record_owner import RecordOwnerKey, RecordOwners, asks_for_retries
from rescheduler.migration import commands
from rescheduler.migration.commands import Command
from rescheduler.migration.observation import is_terminating
from rescheduler.model import labels
from rescheduler.model.json import Json, annotations_of
from rescheduler.recovery.decide import decide
from rescheduler.recovery.decision import RecoveryDecision, RecoveryReason, WorkloadState, make_events
from rescheduler.runtime.failure_detector import FailureDetector
from rescheduler.runtime.informers import Informers
from rescheduler.runtime.reconciler import Reconciler
from rescheduler.runtime.recovery_reader import WorkloadStateReader

_log = structlog.stdlib.get_logger(__name__)
WORKERS = 4
_TRIES = 5  # in a row while others change the workload; then with back-off
_REST = 0.2  # seconds at least between two looks at one workload; a later look may miss a crash
_SHARE = 10.0  # … and this many times as long as the look took, which is long with thousands of pods
_NOT_READY_DELAY = 2.0  # seconds until `may_act` is checked again
_RETRY_DELAY = 60.0  # seconds between tries once the back-off is exhausted
_MOST = 10_000  # workloads with a cooldown
_MANY = 500  # pods; with so many, deciding is done in a thread
_OVERTAKEN = frozenset({404, 409})


class RecoveryWriteRefusedError(ClusterError):
    """The API server refuses a write of recovery; it is retried later."""


class RecoveryController(Reconciler[RecordOwnerKey]):
    """Recovers workloads."""

    noun = "workload"

    def __init__(
        self,
        owners: RecordOwners,
        informers: Informers,
        live: LiveConfig,
        sender: CommandSender,
        recorder: EventRecorder,
        may_act: Callable[[], bool] = lambda: True,
    ) -> None:
        """Nothing is done unless `may_act`: it says whether new pods are kept off nodes where they failed.

        Otherwise each try would only use up a retry.
        """
        super().__init__(WORKERS)
        self._live = live
        self._sender = sender
        self.count_outcome: Callable[[str], None] = lambda outcome: None
        """Called with each outcome."""
        self._may_act = may_act
        self._detector = FailureDetector(informers.cache, live, informers.now, self._suspect)
        self._reader = WorkloadStateReader(owners, informers, live, self._detector.vanished)
        self._cooldowns: OrderedDict[RecordOwnerKey, float] = OrderedDict()
        """Until when each workload is left alone, by the loop's clock."""
        self._events = EventQueue(recorder)

    async def run(self) -> None:
        """Recover until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._detector.run())
            group.create_task(self._events.run())
            group.create_task(super().run())

    def restart(self) -> None:
        """Look at everything again, because the configuration has changed."""
        self._detector.restart()

    async def flush(self) -> None:
        """Write the Events that are still queued."""
        await self._events.flush()

    def format_key(self, key: RecordOwnerKey) -> str:
        """The workload with its kind."""
        kind, namespace, name = key
        return f"{kind} {namespace}/{name}"

    def retry_delay(self, key: RecordOwnerKey) -> float | None:
        """Retry forever: a failing pod may never change again, so no event would queue it."""
        return _RETRY_DELAY

    def on_failure(self, key: RecordOwnerKey, delay: float | None) -> None:
        """Ignore events of its crashing pods until shortly before the next try."""
        if delay is not None:
            self._start_cooldown(key, 0.9 * delay)

    def _cooldown_left(self, key: RecordOwnerKey) -> float:
        return self._cooldowns.get(key, 0.0) - asyncio.get_running_loop().time()

    def _start_cooldown(self, key: RecordOwnerKey, seconds: float) -> None:
        self._cooldowns[key] = asyncio.get_running_loop().time() + seconds
        self._cooldowns.move_to_end(key)
        if len(self._cooldowns) > _MOST:
            self._cooldowns.popitem(last=False)

    def _suspect(self, key: RecordOwnerKey) -> None:
        if key[1] in self._live.policy().excluded_namespaces:
            return
        if (left := self._cooldown_left(key)) > 0:
            self._queue.add_later(key, left)
        else:
            self._queue.add(key)

    async def reconcile(self, key: RecordOwnerKey) -> float | None:
        """Recover a workload, unless recovery is disabled or the workload was handled just now."""
        if not self._live.recovery().enabled:
            return None
        if not self._may_act():
            return _NOT_READY_DELAY
        if (left := self._cooldown_left(key)) > 0:  # it changed while it was handled
            return left
        clock = asyncio.get_running_loop().time
        started = clock()
        again = await self._recover(key)
        self._start_cooldown(key, max(_REST, _SHARE * (clock() - started)))
        return again

    async def _recover(self, key: RecordOwnerKey) -> float | None:
        """Read one workload, decide, record and act."""
        state = await self._reader.read(key)
        for _ in range(_TRIES):
            if state is None:
                return None
            if not isinstance(state, WorkloadState):
                self._suspect(state)
                return None
            many = len(state.pods) >= _MANY
            decision = await asyncio.to_thread(decide, state) if many else decide(state)
            if not await self._record(state, decision):
                state = await self._reader.refresh(key, state)
                continue
            self._detector.vanished.settle(_list_settled(state, decision))
            self._announce(key, decision)
            # A record on the pod that is to be deleted changes its version.
            untouched = decision.record is None and not decision.adopted_annotation
            if (untouched or key[0] != "Pod") and await self._act_or_report(key, state, decision):
                return decision.requeue_after
            state = await self._reader.read(key)
        raise RecoveryWriteRefusedError("it changes before every write")

    async def _record(self, state: WorkloadState, decision: RecoveryDecision) -> bool:
        """Write the record if it has changed; return False if the workload was changed meanwhile."""
        notes: dict[str, str | None] = {} if decision.record is None else {labels.FAILURES: decision.record or None}
        if decision.adopted_annotation:
            notes[decision.adopted_annotation] = None
        if not notes:
            return True
        changes = {"resourceVersion": state.workload["metadata"]["resourceVersion"], "annotations": notes}
        return await self._send(commands.patch(state.workload, {"metadata": changes}, "record that its pods failed"))

    async def _act_or_report(self, key: RecordOwnerKey, state: WorkloadState, decision: RecoveryDecision) -> bool:
        """Act, and record an Event when a quota or a policy refuses it."""
        try:
            return await self._act(key, state, decision)
        except RecoveryWriteRefusedError as error:
            occasion = f"{state.workload['metadata'].get('uid', '')}/{error}"
            self._events.add(make_events(state.workload, None, RecoveryReason.REFUSED, str(error), occasion))
            raise

    async def _act(self, key: RecordOwnerKey, state: WorkloadState, decision: RecoveryDecision) -> bool:
        """Carry out the recorded decision; return False if an object was changed or deleted meanwhile."""
        if decision.creation is not None:
            await self._send(commands.create(decision.creation, "take the place of a pod that failed"), certain=True)
        all_done = True
        todo = [_remove_record(each, labels.FAILURES) for each in decision.stale_copies]
        todo += _remove_copies(state, decision)
        todo += [commands.delete(pod, "it fails on its node", as_seen=True) for pod in decision.deletions]
        for command in todo:
            if not await self._send(command):
                all_done = False
                _log.debug("object changed concurrently, retrying", workload=self.format_key(key), command=str(command))
        return all_done

    async def _send(self, command: Command, *, certain: bool = False) -> bool:
        """Send a command; return False if the object has changed or is gone, or raise if `certain`."""
        refused = await self._sender.carry_out(command)
        if refused is not None and (certain or refused.code not in _OVERTAKEN):
            raise RecoveryWriteRefusedError(f"{command} was refused: {refused.message}")
        if refused is None:
            _log.debug("command done", command=str(command))
        return refused is None

    def _announce(self, key: RecordOwnerKey, decision: RecoveryDecision) -> None:
        for outcome in decision.outcomes:
            self.count_outcome(outcome)
        fresh = self._events.add(decision.events)
        for reason, note in dict.fromkeys((each.reason, each.note) for each in fresh):
            _log.info(note, workload=self.format_key(key), reason=reason)


def _list_settled(state: WorkloadState, decision: RecoveryDecision) -> list[str]:
    """The UIDs of failed pods that are fully decided."""
    seen = [pod for pod in state.pods if (pod.get("status") or {}).get("phase") == "Failed" and not is_terminating(pod)]
    return [uid for pod in (*seen, *state.vanished) if (uid := pod["metadata"]["uid"]) not in decision.deferred]


def _remove_copies(state: WorkloadState, decision: RecoveryDecision) -> list[Command]:
    """Commands that remove the copies of kse-rescheduler's record from a Deployment's ReplicaSets, once it is gone.

    Also when nothing is taken over any more: a controller may have been killed before it removed the copies.
    """
    theirs, notes = labels.KSE_RECORDS["Deployment"], annotations_of(state.workload)
    is_gone = decision.adopted_annotation or (theirs not in notes and asks_for_retries(notes))
    if state.workload["kind"] != "Deployment" or not is_gone:
        return []
    return [_remove_record(each, theirs) for each in state.controllers if theirs in annotations_of(each)]


def _remove_record(replica_set: Json, key: str) -> Command:
    """The command that removes the copy of a record from a ReplicaSet."""
    return commands.patch(replica_set, {"metadata": {"annotations": {key: None}}}, "the record is gone")
