"""Gathers all that recovery decides by: one workload with failing pods, its nodes, its guards, and where it could go.

The recovery loop asks by the record's holder and gives the answer to `recovery.deciding`. Holder, controllers and pods
are read anew, as are nodes that seem lost; that a node is well, and which nodes are open, is the cache's word, because
a workload may have pods on hundreds of them and nobody loses a pod by it. Pods that failed and are gone already are
those that `fallen` remembers.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Protocol

import msgspec
import structlog

from rescheduler.decode.cache import ClusterCache
from rescheduler.decode.reader import ObjectReader
from rescheduler.kube.errors import ClusterError
from rescheduler.kube.events import EventQueue, EventRecorder
from rescheduler.kube.record_owner import OwnedObjects, RecordOwnerKey, asks_for_retries
from rescheduler.migration import commands
from rescheduler.migration.commands import Command
from rescheduler.migration.observation import FailedCommand, find_condition, is_terminating
from rescheduler.model import labels
from rescheduler.model.json import Json, annotations_of
from rescheduler.model.migration import Phase
from rescheduler.model.objects import Node, Pod, Workload
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.guards import objection_to_recovery
from rescheduler.planning.guards.base import GuardContext
from rescheduler.planning.workloads import MethodChooser, Workloads
from rescheduler.recovery.avoidance import allow_nodes
from rescheduler.recovery.decide import decide
from rescheduler.recovery.model import RecoveryDecision, RecoveryReason, WorkloadState, make_events
from rescheduler.recovery.record import EMPTY, WHOLE, RecordEntry, RecordError, parse_record
from rescheduler.recovery.settings import RecoverySettings
from rescheduler.runtime.failure_detector import FailureDetector, VanishedPods
from rescheduler.runtime.migration_cache import MigrationCache
from rescheduler.runtime.places import NodeFinder
from rescheduler.runtime.reconciler import WorkQueue

_SOURCE = "the API server"
_SLICE = 200  # pods; then others have a turn


class Reads(Protocol):
    """Who reads workloads, as they are now."""

    async def look(self, key: RecordOwnerKey) -> OwnedObjects | RecordOwnerKey | None: ...
    async def find(self, kind: str, namespace: str, name: str) -> Json | None: ...


@dataclass(frozen=True, slots=True)
class Known:
    """What is known without asking."""

    cache: ClusterCache
    board: MigrationCache
    policy: Callable[[], Policy]
    settings: Callable[[], RecoverySettings]
    now: Callable[[], float]


class WorkloadStateReader:
    """Makes cases."""

    def __init__(self, reads: Reads, known: Known, fallen: VanishedPods) -> None:
        self._reads = reads
        self._known = known
        self._fallen = fallen
        self._places = NodeFinder(known.cache, known.now)

    async def read(self, key: RecordOwnerKey) -> WorkloadState | RecordOwnerKey | None:
        """All there is to say about a holder; or who keeps the record instead; or None where nothing is."""
        found = await self._reads.look(key)
        if not isinstance(found, OwnedObjects):
            return found
        entry = _entry(found.holder) if key[0] == "Pod" else EMPTY
        reader = ObjectReader()  # it remembers all that it has read, so each case has its own
        # A pod that is Ready has not failed, so nobody asks what guards it and where else it could be.
        doubtful = [pod for pod in found.pods if find_condition(pod, "Ready").get("status") != "True"]
        rows: dict[str, Pod] = {}
        for index, pod in enumerate(doubtful, start=1):
            rows[pod["metadata"]["uid"]] = _row(reader, pod, entry)
            if index % _SLICE == 0:
                await asyncio.sleep(0)
        there = {pod["metadata"]["uid"] for pod in found.pods if not is_terminating(pod)}
        owners = {each["metadata"]["uid"] for each in found.controllers}
        vanished = [fall for fall in self._fallen.of(owners) if fall.pod.uid not in there]
        rows |= {fall.pod.uid: fall.pod for fall in vanished}
        free = self._free(rows, [_template(reader, each) for each in _by_age(found.controllers)])
        everywhere = next(iter(free.values()), frozenset[str]())
        return WorkloadState(
            workload=found.holder,
            controllers=found.controllers,
            pods=found.pods,
            vanished=tuple(fall.as_pod() for fall in vanished),
            nodes=await self._nodes(pod["spec"].get("nodeName", "") for pod in found.pods),
            unready_share=self._places.unready_share,
            feasible_nodes=everywhere,
            feasible_by_pod={uid: nodes for uid, nodes in free.items() if nodes != everywhere},
            objections=self._objections(rows),
            replacement=await self._reads.find("Pod", key[1], entry.replacement) if entry.replacement else None,
            settings=self._known.settings(),
            now=self._known.now(),
        )

    async def refresh(self, key: RecordOwnerKey, case: WorkloadState) -> WorkloadState | RecordOwnerKey | None:
        """The same with the holder as it is now. A Deployment whose pods fail changes all the time, and between a
        whole look and the writing of its record too much of that goes by."""
        holder = await self._reads.find(*key)
        if key[0] == "Pod" or holder is None or holder["metadata"]["uid"] != case.workload["metadata"]["uid"]:
            return await self.read(key)
        controllers = tuple(holder if each is case.workload else each for each in case.controllers)
        return replace(case, workload=holder, controllers=controllers, now=self._known.now())

    def _free(self, rows: dict[str, Pod], templates: list[Workload | None]) -> dict[str, frozenset[str]]:
        """By UID, where each pod's replacement could be; pods of the newest controller come first."""
        by_owner = {each.uid: each for each in templates if each is not None}
        ages = {uid: age for age, uid in enumerate(by_owner)}
        owners = {uid: row.owner.uid if row.owner is not None else "" for uid, row in rows.items()}
        known: dict[object, frozenset[str]] = {}
        free: dict[str, frozenset[str]] = {}
        for uid, row in sorted(rows.items(), key=lambda item: (-ages.get(owners[item[0]], -1), item[0])):
            shape, volumes, template = row.shape, self._places.volume_terms(row), by_owner.get(owners[uid])
            # What a pod wants itself is not asked where it has a template: each pod of a DaemonSet wants another node.
            wants = () if template is not None else (shape.node_selector, shape.node_affinity)
            alike = (owners[uid], wants, shape.tolerations, volumes)
            if alike not in known:
                known[alike] = self._places.find(shape, template, volumes)
            free[uid] = known[alike]
        return free

    async def _nodes(self, names: Iterable[str]) -> dict[str, Json]:
        found: dict[str, Json] = {}
        for name in sorted({name for name in names if name}):
            row: Node | None = self._known.cache.row("Node", name)
            if row is not None and row.ready:
                found[name] = _well(name)
            elif (node := await self._reads.find("Node", "", name)) is not None:
                found[name] = node
        return found

    def _objections(self, rows: dict[str, Pod]) -> dict[str, str]:
        policy = self._known.policy()
        spoken_for = {(row.namespace, row.name): why for row in rows.values() if (why := self._moving(row))}
        snapshot = replace(ClusterSnapshot(), spoken_for=spoken_for)
        workloads = Workloads(snapshot)
        context = GuardContext(policy, snapshot, workloads, MethodChooser(snapshot, workloads, policy.migration_method))
        return {uid: why for uid, row in rows.items() if (why := objection_to_recovery(row, context))}

    def _moving(self, row: Pod) -> str:
        """Which migration moves a pod. One that only waits would find it gone; but a copy of a single pod that begins
        while we make another is one too many."""
        for key in sorted(self._known.board.by_pod((row.namespace, row.name))):
            migration = self._known.board.get(key)
            if migration is None or migration.status.over:
                continue
            if migration.status.phase is Phase.IN_PROGRESS or row.owner is None:
                return f"migration {migration.name} moves it"
        return ""


def _entry(holder: Json) -> RecordEntry:
    """What a single pod's record says; one that cannot be read is told of by whoever decides."""
    try:
        return parse_record(annotations_of(holder).get(labels.FAILURES, "")).get(WHOLE, EMPTY)
    except RecordError:
        return EMPTY


def _row(reader: ObjectReader, pod: Json, entry: RecordEntry) -> Pod:
    """The pod as planning knows it; where we told a pod that nobody manages not to go counts as not said."""
    spec = pod["spec"]
    if entry.avoids and "affinity" in spec:
        pod = pod | {"spec": spec | {"affinity": allow_nodes(spec["affinity"], entry.avoids)}}
    row = reader.read("Pod", msgspec.json.encode(pod), _SOURCE).row
    if not isinstance(row, Pod):
        raise TypeError(f"pod {pod['metadata']['name']} has no name")
    return row


def _template(reader: ObjectReader, controller: Json) -> Workload | None:
    row = reader.read(controller["kind"], msgspec.json.encode(controller), _SOURCE).row
    return row if isinstance(row, Workload) else None


def _by_age(controllers: Iterable[Json]) -> list[Json]:
    return sorted(controllers, key=lambda each: str(each["metadata"].get("creationTimestamp")))


def _well(name: str) -> Json:
    """A node that the cache knows to be well, as far as anybody decides by it."""
    ready = {"type": "Ready", "status": "True"}
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "status": {"conditions": [ready]}}


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

    async def carry_out(self, command: Command) -> FailedCommand | None: ...


class RecoveryWriteRefusedError(ClusterError):
    """The API server will not have what recovery needs; tried again later."""


@dataclass(frozen=True, slots=True)
class Hands:
    """By whom recovery reads and acts."""

    reads: Reads
    writer: Writer
    teller: EventRecorder
    count: Callable[[str], None]
    """Told each of `RecoveryOutcome` that happens."""
    may_act: Callable[[], bool] = lambda: True
    """Whether new pods are kept off nodes where they failed: else each try would only use up a retry."""


@dataclass
class _Cooldown:
    """Until when each workload is left in peace."""

    until: OrderedDict[RecordOwnerKey, float] = field(default_factory=OrderedDict)

    def left(self, key: RecordOwnerKey) -> float:
        """For how many seconds more."""
        return self.until.get(key, 0.0) - asyncio.get_running_loop().time()

    def leave(self, key: RecordOwnerKey, seconds: float) -> None:
        """For so many seconds from now."""
        self.until.pop(key, None)
        self.until[key] = asyncio.get_running_loop().time() + seconds
        if len(self.until) > _MOST:
            self.until.popitem(last=False)


class RecoveryController:
    """The loop."""

    def __init__(self, known: Known, hands: Hands) -> None:
        self._known = known
        self._hands = hands
        self._queue: WorkQueue[RecordOwnerKey] = WorkQueue()
        self._failing = FailureDetector(known.cache, known.settings, known.now, self._suspect)
        self._cases = WorkloadStateReader(hands.reads, known, self._failing.fallen)
        self._peace = _Cooldown()
        self._bulletins = EventQueue(hands.teller)

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

    def restart(self) -> None:
        """Look at everything again: the operator wants something else."""
        self._failing.restart()

    async def flush(self) -> None:
        """Tell what is still to be told."""
        await self._bulletins.flush()

    def _suspect(self, key: RecordOwnerKey) -> None:
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

    async def _recover(self, key: RecordOwnerKey) -> float | None:
        """Look at one workload and do what there is to do; in how many seconds to look again, if at all."""
        case = await self._cases.read(key)
        for _ in range(_TRIES):
            if case is None:
                return None
            if not isinstance(case, WorkloadState):
                self._suspect(case)
                return None
            decision = await _decided(case)
            if not await self._recorded(case, decision):
                case = await self._cases.refresh(key, case)
                continue
            self._failing.fallen.settle(_settled(case, decision))
            self._announce(key, decision)
            # A record on the very pod that is to go makes another version of it than was seen.
            untouched = decision.record is None and not decision.adopted_annotation
            if (untouched or key[0] != "Pod") and await self._acted_or_told(key, case, decision):
                return decision.requeue_after
            case = await self._cases.read(key)
        raise RecoveryWriteRefusedError("it changes all the time, and each time before anything could be written")

    async def _recorded(self, case: WorkloadState, decision: RecoveryDecision) -> bool:
        """Write the record, if there is something new in it; False if somebody else changed the holder meanwhile."""
        notes: dict[str, str | None] = {} if decision.record is None else {labels.FAILURES: decision.record or None}
        if decision.adopted_annotation:
            notes[decision.adopted_annotation] = None
        if not notes:
            return True
        changes = {"resourceVersion": case.workload["metadata"]["resourceVersion"], "annotations": notes}
        return await self._done(commands.patch(case.workload, {"metadata": changes}, "record that its pods failed"))

    async def _acted_or_told(self, key: RecordOwnerKey, case: WorkloadState, decision: RecoveryDecision) -> bool:
        """The same as `_acted`; what a quota or a policy refuses, people are told."""
        try:
            return await self._acted(key, case, decision)
        except RecoveryWriteRefusedError as error:
            occasion = f"{case.workload['metadata'].get('uid', '')}/{error}"
            self._bulletins.add(make_events(case.workload, None, RecoveryReason.REFUSED, str(error), occasion))
            raise

    async def _acted(self, key: RecordOwnerKey, case: WorkloadState, decision: RecoveryDecision) -> bool:
        """Do what was decided, now that it is recorded; False if somebody else was faster with a part of it."""
        if decision.creation is not None:
            await self._done(commands.create(decision.creation, "take the place of a pod that failed"), certain=True)
        all_done = True
        unnoted = [_unnoted(each, labels.FAILURES) for each in decision.stale_copies]
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
            raise RecoveryWriteRefusedError(f"{command} was refused: {refused.message}")
        if refused is None:
            _log.debug("done", command=str(command))
        return refused is None

    def _announce(self, key: RecordOwnerKey, decision: RecoveryDecision) -> None:
        for outcome in decision.outcomes:
            self._hands.count(outcome)
        fresh = self._bulletins.add(decision.events)
        for reason, note in dict.fromkeys((each.reason, each.note) for each in fresh):
            _log.info(note, workload=_title(key), reason=reason)

    def _failed(self, key: RecordOwnerKey, why: str) -> None:
        delay = self._queue.failed(key)
        if delay is None:
            # A pod that fails may never change again, so nothing else would have it looked at.
            delay = _STUBBORN
            self._queue.add_later(key, delay)
        # Its pods go on crashing, which is no reason to try much sooner; but when that time has come it is free.
        self._peace.leave(key, 0.9 * delay)
        _log.warning("a workload could not be recovered", workload=_title(key), why=why, again=f"in {delay:.1f} s")


async def _decided(case: WorkloadState) -> RecoveryDecision:
    """What to do; thousands of pods are not gone through in the event loop."""
    return decide(case) if len(case.pods) < _MANY else await asyncio.to_thread(decide, case)


def _settled(case: WorkloadState, decision: RecoveryDecision) -> list[str]:
    """The pods that have failed as a whole and that all is decided about, by UID."""
    seen = [pod for pod in case.pods if (pod.get("status") or {}).get("phase") == "Failed" and not is_terminating(pod)]
    return [uid for pod in (*seen, *case.vanished) if (uid := pod["metadata"]["uid"]) not in decision.deferred]


def _copies(case: WorkloadState, decision: RecoveryDecision) -> list[Command]:
    """The copies of kse-rescheduler's record that a Deployment's ReplicaSets have, when that is gone, are taken off.

    Also where nothing is taken over any more: a controller may have been killed before it came to the copies.
    """
    theirs, notes = labels.KSE_RECORDS["Deployment"], annotations_of(case.workload)
    is_gone = decision.adopted_annotation or (theirs not in notes and asks_for_retries(notes))
    if case.workload["kind"] != "Deployment" or not is_gone:
        return []
    return [_unnoted(each, theirs) for each in case.controllers if theirs in annotations_of(each)]


def _unnoted(replica_set: Json, key: str) -> Command:
    """What takes the copy of a record off a ReplicaSet."""
    return commands.patch(replica_set, {"metadata": {"annotations": {key: None}}}, "the record is gone")


def _deletion(pod: Json) -> Command:
    return commands.delete(pod, "it fails on its node", as_seen=True)


def _title(key: RecordOwnerKey) -> str:
    return f"{key[0]} {key[1]}/{key[2]}"
