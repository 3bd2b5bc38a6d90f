"""Pods that have failed just now, by their controllers: known from the watch before anybody could record them.

`knowledge` asks it. A ReplicaSet or a Job makes another pod as soon as one has failed, and a StatefulSet deletes the
failed one at once; the leader writes its record seconds later. Until then the new pod would go to the same node.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from rescheduler.decode import structs
from rescheduler.decode.cache import ClusterCache
from rescheduler.decode.pods import PodDecoder
from rescheduler.decode.sections import SectionError
from rescheduler.kube.record_owner import asks_for_retries, is_known_above, workload_of
from rescheduler.migration.lifecycle import ROLL_BACK
from rescheduler.migration.steps.evict import Evict
from rescheduler.migration.steps.rebuild import AwaitRebuilt
from rescheduler.migration.steps.steering import HOSTNAME
from rescheduler.model import labels
from rescheduler.model.advice import ExpectedMove, NewPod, PlacementAdvice
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import Phase, PodMigration
from rescheduler.model.objects import NOTHING, Node, Owner, Pod
from rescheduler.model.plan import Method
from rescheduler.model.shape import NodeTerm, Taint
from rescheduler.model.time import InstantError, format_instant
from rescheduler.recovery import record
from rescheduler.recovery.record import NodeFailure, Record, RecordEntry, RecordError
from rescheduler.recovery.settings import FAILED_REASONS
from rescheduler.runtime.migration_cache import MigrationCache
from rescheduler.runtime.places import NodeFinder

JUST_NOW = 60.0
"""What failed longer ago is recorded by now, or was not worth a record."""


class RecentFailure(NamedTuple):
    """One pod that has failed."""

    pod: str
    uid: str
    owner: ObjectKey
    """Its namespace, and its controller's UID: who writes an owner's UID on pods elsewhere is no kin of its."""
    node: str
    reason: str
    seen: float


class RecentFailures:
    """The failed pods of every controller; those that are gone are remembered for as long as they are fresh."""

    def __init__(self, cache: ClusterCache, reasons: Callable[[], tuple[str, ...]], now: Callable[[], float]) -> None:
        self._cache = cache
        self._reasons = reasons
        self._now = now
        self._falls: dict[ObjectKey, dict[str, RecentFailure]] = {}
        self._known: dict[ObjectKey, RecentFailure] = {}
        self._gone: deque[RecentFailure] = deque()

    def __len__(self) -> int:
        """How many pods are remembered."""
        return sum(map(len, self._falls.values()))

    def of(self, namespace: str, owner: str) -> Iterator[RecentFailure]:
        """Those of one controller that are fresh."""
        oldest = self._now() - JUST_NOW
        yield from (fall for fall in self._falls.get((namespace, owner), {}).values() if fall.seen > oldest)

    def changed(self, key: ObjectKey) -> None:
        """Look at a pod that has changed or gone."""
        row: Pod | None = self._cache.row("Pod", key)
        known = self._known.get(key)
        fall = self._fall(row) if row is not None and row.phase == "Failed" else None
        if fall is None:
            if known is not None:
                self._forget(key)
        elif known is None or known.uid != fall.uid:  # else it is said once more, and not fresher for that
            self._forget(key)
            self._known[key] = fall
            self._falls.setdefault(fall.owner, {})[fall.uid] = fall

    def _fall(self, row: Pod) -> RecentFailure | None:
        """What a failed pod tells about its node, if anything."""
        if row.owner is None or row.ailment is None or not row.node:
            return None
        reason = row.ailment.reason
        if not any(reason.startswith(each[:-1]) if each.endswith("*") else reason == each for each in self._reasons()):
            return None
        return RecentFailure(row.name, row.uid, (row.namespace, row.owner.uid), row.node, reason, self._now())

    def _forget(self, key: ObjectKey) -> None:
        """A failed pod is gone, or another has its name: it is remembered for as long as it is fresh."""
        fall = self._known.pop(key, None)
        if fall is not None:
            self._gone.append(fall)
        oldest = self._now() - JUST_NOW
        while self._gone and self._gone[0].seen <= oldest:
            stale = self._gone.popleft()
            siblings = self._falls.get(stale.owner, {})
            siblings.pop(stale.uid, None)
            if not siblings:
                self._falls.pop(stale.owner, None)


class FailureRecordOwner(NamedTuple):
    """Who keeps the record, and the annotations that say so."""

    kind: str
    name: str
    annotations: Mapping[str, str]
    retries: bool
    """Whether pods are to be rescheduled when they fail: pod, controller or holder say how often."""

    @property
    def record(self) -> str:
        """The text of the record; empty if there is none."""
        return self.annotations.get(labels.FAILURES, "")


def holder_of(newcomer: NewPod, cache: ClusterCache) -> FailureRecordOwner:
    """Of a pod that nobody manages it is the pod itself, or who has its name; of any other its top owner."""
    asked = asks_for_retries(newcomer.annotations)
    owner = newcomer.owner
    if owner is None:
        notes = newcomer.annotations
        if labels.FAILURES not in notes:
            row: Pod | None = cache.row("Pod", (newcomer.namespace, newcomer.name)) if newcomer.name else None
            notes = row.annotations if row is not None and row.owner is None else NOTHING
        return FailureRecordOwner("Pod", newcomer.name or newcomer.generate_name, notes, asked)
    namespace = newcomer.namespace
    controller = top = workload_of(cache, namespace, owner)
    above = controller.owner if controller is not None else _guessed_above(newcomer, cache)
    if controller is not None:
        asked = asked or asks_for_retries(controller.annotations)
    if above is not None and is_known_above(cache, namespace, owner.kind, above):
        top = workload_of(cache, namespace, above)  # the copy of a Deployment's record is never the record
    if top is None:
        return FailureRecordOwner(owner.kind, owner.name, NOTHING, asked)
    return FailureRecordOwner(top.kind, top.name, top.annotations, asked or asks_for_retries(top.annotations))


def _guessed_above(newcomer: NewPod, cache: ClusterCache) -> Owner | None:
    """Who made a controller that is not known yet: a Deployment adds the template's hash, a CronJob minutes."""
    owner = newcomer.owner
    if owner is None:
        return None
    name, _, ending = owner.name.rpartition("-")
    if owner.kind == "ReplicaSet" and name and ending == newcomer.labels.get(labels.TEMPLATE_HASH):
        kind = "Deployment"
    elif owner.kind == "Job" and name and ending.isdecimal():
        kind = "CronJob"
    else:
        return None
    known = cache.row(owner.kind, (owner.kind, newcomer.namespace, owner.name)) is not None
    return None if known else Owner(kind, name)  # known, and yet another one: of that nothing can be told


_REMEMBERED = 1000
_MOST = 200_000  # requirements that are looked at for one pod, which takes some hundredths of a second
_pods = msgspec.json.Decoder(structs.ApiPod)


class NodeMatcher:
    """Judges nodes one by one, and stops at the first that suits: with most pods that is the first of all."""

    def __init__(self, cache: ClusterCache, now: Callable[[], float]) -> None:
        self._cache = cache
        self._places = NodeFinder(cache, now)
        self._decoder, self._reads = PodDecoder(), 0

    def has_any(self, pod: Raw, names: Iterable[str]) -> bool:
        """Whether one of these nodes suits a pod; if its rules cannot be understood, the scheduler shall judge."""
        try:
            row = self._row(pod)
        except (msgspec.MsgspecError, UnicodeDecodeError, SectionError, InstantError):
            return True
        volumes = self._places.volume_terms(row)
        left, cost = _MOST, _cost(row, volumes)
        for name in names:
            node: Node | None = self._cache.row("Node", name)
            if node is not None and _suits(row, node, volumes):
                return True
            left -= cost
            if left < 0:
                return True  # whoever writes such rules shall not keep everybody else waiting
        return False

    def _row(self, pod: Raw) -> Pod:
        """A decoder remembers what pods have in common, which makes it quick; for ever it need not remember it."""
        self._reads += 1
        if self._reads > _REMEMBERED:
            self._decoder, self._reads = PodDecoder(), 0
        decoded = _pods.decode(pod)
        return self._decoder.row(decoded, decoded.metadata or structs.ApiMeta())


def _cost(pod: Pod, volumes: tuple[tuple[NodeTerm, ...], ...]) -> int:
    """About how many requirements are looked at for one node."""
    terms = [*(pod.shape.node_affinity or ()), *(term for each in volumes for term in each)]
    asked = sum(1 + len(each.values) for term in terms for each in (*term.expressions, *term.fields))
    return 1 + len(terms) + asked + len(pod.shape.node_selector) + len(pod.shape.tolerations)


def _suits(pod: Pod, node: Node, volumes: tuple[tuple[NodeTerm, ...], ...]) -> bool:
    shape = pod.shape
    return (
        all(node.labels.get(key) == value for key, value in shape.node_selector)
        and (shape.node_affinity is None or _is_meant(node, shape.node_affinity))
        and all(_is_meant(node, terms) for terms in volumes)
        and not any(_keeps_off(taint) and not shape.tolerates(taint) for taint in node.taints)
    )


def _is_meant(node: Node, terms: tuple[NodeTerm, ...]) -> bool:
    return any(term.matches(node.labels, node.name) for term in terms)


def _keeps_off(taint: Taint) -> bool:
    return taint.effect in ("NoSchedule", "NoExecute")


NO_ADVICE = PlacementAdvice()
_WAITING = frozenset({Evict.name, AwaitRebuilt.name})
"""Steps in which the controller may make the new pod at any moment."""
_LONGEST_RECORD = 2**18
_RECORDS_KEPT = 128
_REVISIONS = {
    "Deployment": labels.TEMPLATE_HASH,
    "ReplicaSet": labels.TEMPLATE_HASH,
    "StatefulSet": "controller-revision-hash",
}
"""By which label pods tell what template they were made from, as `recovery.revisions` notes it in records."""


@dataclass(frozen=True, slots=True)
class AdvisorSettings:
    """What the operator says about it."""

    forget_after: float
    """A failure that is so many seconds old says nothing about its node any more."""
    gate: bool
    """Whether expected pods are held back until room is reserved for them (`steering: nominate`)."""
    failed_reasons: tuple[str, ...] = FAILED_REASONS
    """Which pods in phase Failed count, as in `recovery.settings`; none where recovery is switched off."""


class PlacementAdvisor:
    """All that is known, ready to be asked."""

    def __init__(
        self,
        cache: ClusterCache,
        board: MigrationCache,
        settings: Callable[[], AdvisorSettings],
        now: Callable[[], float],
    ) -> None:
        self._cache = cache
        self._board = board
        self._settings = settings
        self._now = now
        self._reach = NodeMatcher(cache, now)
        self._open: set[str] = set()
        self._fresh = RecentFailures(cache, lambda: settings().failed_reasons, now)
        self._marked: dict[ObjectKey, dict[ObjectKey, str]] = {}
        """By migration, the pods that carry its mark, and their UIDs."""
        self._marks: dict[ObjectKey, ObjectKey] = {}
        for node in cache.rows("Node"):
            self._changed("Node", node.name, "")
        for pod in cache.rows("Pod"):
            self._changed("Pod", (pod.namespace, pod.name), "")
        cache.listen(self._changed)

    def advise(self, newcomer: NewPod) -> PlacementAdvice:
        """Where it is expected, and which nodes it had better avoid; nothing about pods that we place ourselves."""
        if labels.PLACEHOLDER in newcomer.labels or labels.WITHHELD in newcomer.annotations:
            return NO_ADVICE
        expected, avoid = self._expected(newcomer), self._avoid(newcomer)
        return PlacementAdvice(expected, avoid) if expected is not None or avoid else NO_ADVICE

    def leaves_any(self, avoid: Collection[str], pod: Raw) -> bool:
        """Whether a pod that avoids these nodes has any other to go to, be there room now or not."""
        return self._reach.has_any(pod, (name for name in self._open if name not in avoid))

    def _expected(self, newcomer: NewPod) -> ExpectedMove | None:
        owner = newcomer.owner
        if owner is None or not owner.uid:
            return None
        known = [each for key in self._board.by_owner(owner.uid) if (each := self._board.get(key)) is not None]
        # An owner's UID may be written on a pod anywhere; only in its own namespace it can be true.
        near = (each for each in known if each.namespace == newcomer.namespace)
        under_way = [each for each in near if _steers(each, owner.uid)]
        found = next((each for each in under_way if _is_its_pod(each, newcomer)), None)
        if found is None:
            waiting = (each for each in under_way if self._waits_for(each, newcomer))
            found = min(waiting, key=lambda each: (each.status.start_time or 0.0, each.name), default=None)
        if found is None:
            return None
        progress, order = found.status, found.spec
        return ExpectedMove(
            migration=found.name,
            source=progress.source,
            target=progress.target,
            target_host=self._host(progress.target),
            source_host=self._host(progress.source),
            strategy=order.strategy,
            original_uid=progress.pod_uid,
            original_name=order.pod.name,
            gate=self._settings().gate and progress.replacement is None,
        )

    def _host(self, name: str) -> str:
        """A node's label by which preferences go: it need not be its name."""
        row: Node | None = self._cache.row("Node", name)
        return row.labels.get(HOSTNAME, "") if row is not None else ""

    def _waits_for(self, migration: PodMigration, newcomer: NewPod) -> bool:
        """Whether a pod of this controller is the one that it waits for, as far as can be told before it is there."""
        progress = migration.status
        if progress.step not in _WAITING or progress.replacement is not None:
            return False
        if newcomer.owner is not None and newcomer.owner.kind == "StatefulSet":
            return newcomer.name == migration.spec.pod.name
        # Another that was made since, and is marked already, is the one: this is a pod of a scale-up.
        others = self._marked.get((migration.namespace, migration.name), {})
        mine = (newcomer.namespace, newcomer.name)
        return all(uid == progress.pod_uid or key == mine for key, uid in others.items())

    def _avoid(self, newcomer: NewPod) -> Mapping[str, str]:
        if newcomer.labels.get(labels.RESCHEDULING) == "disabled":
            return {}
        holder = holder_of(newcomer, self._cache)
        if holder.kind == "DaemonSet":
            return {}
        failures: dict[str, NodeFailure] = {}
        if holder.record:
            known = _record(holder.record).get(record.entry_name(holder.kind, newcomer.name, ""))
            if known is not None and not _is_of_another_template(known, holder, newcomer):
                failures = known.recent_failures(self._now(), self._settings().forget_after)
        if holder.retries and newcomer.owner is not None:
            for fall in self._fresh.of(newcomer.namespace, newcomer.owner.uid):
                if newcomer.owner.kind != "StatefulSet" or fall.pod == newcomer.name:
                    failures.setdefault(fall.node, NodeFailure(fall.seen, fall.reason))
        # What is no node (any more) is not avoided: an annotation may name anything.
        failures = {node: each for node, each in failures.items() if self._cache.row("Node", node) is not None}
        if not failures or self._open <= failures.keys():
            return {}  # if every node would be refused, none is; the leader clears the record then
        return _told(holder, failures)

    def _changed(self, kind: str, key: Any, _version: str) -> None:
        if kind == "Pod":
            self._fresh.changed(key)
            self._note_mark(key)
        elif kind == "Node":
            row: Node | None = self._cache.row("Node", key)
            if row is not None and _is_open(row):
                self._open.add(key)
            else:
                self._open.discard(key)

    def _note_mark(self, key: ObjectKey) -> None:
        row: Pod | None = self._cache.row("Pod", key)
        before, now = self._marks.pop(key, None), _mark(row)
        if before is not None:
            self._marked[before].pop(key)
            if not self._marked[before]:
                del self._marked[before]
        if row is not None and now is not None:
            self._marks[key] = now
            self._marked.setdefault(now, {})[key] = row.uid


def _steers(migration: PodMigration, controller: str) -> bool:
    """Whether it is a move that leads a pod which this controller makes."""
    progress = migration.status
    return (
        progress.phase is Phase.IN_PROGRESS
        and progress.method is Method.EVICT
        and progress.step != ROLL_BACK
        and bool(progress.target)
        and progress.controller is not None
        and progress.controller.uid == controller
    )


def _is_its_pod(migration: PodMigration, newcomer: NewPod) -> bool:
    """Whether the pod says so itself, or the migration has recorded it."""
    if newcomer.labels.get(labels.MIGRATION_ID) == migration.name:
        return newcomer.uid != migration.status.pod_uid
    known = migration.status.replacement
    if known is None or not newcomer.name:
        return False
    return known.uid == newcomer.uid if known.uid and newcomer.uid else known.name == newcomer.name


def _is_of_another_template(entry: RecordEntry, holder: FailureRecordOwner, newcomer: NewPod) -> bool:
    """Whether those who failed were made from another template: whoever corrects one starts anew."""
    revision = newcomer.labels.get(_REVISIONS.get(holder.kind, ""), "")
    return bool(entry.revision) and bool(revision) and entry.revision != revision


def _is_open(node: Node) -> bool:
    # Nodes of the control plane count: where nothing keeps pods off them, as on a laptop, pods run there.
    shut = node.unschedulable or node.maintenance or node.deleting
    return node.ready and not node.problem and not shut


def _mark(row: Pod | None) -> ObjectKey | None:
    """The migration that a pod is being moved by; the trace of a finished move is none."""
    if row is None or row.deleting or row.finished or labels.MIGRATION_ID not in row.labels:
        return None
    if row.labels.get(labels.MIGRATION_STATUS) not in labels.RUNNING_MIGRATIONS:
        return None
    return row.namespace, row.labels[labels.MIGRATION_ID]


def _record(text: str) -> Record:
    """The record in a text; one that is longer than annotations may be was never one of ours."""
    return _read(text) if len(text) <= _LONGEST_RECORD else {}


@lru_cache(maxsize=_RECORDS_KEPT)
def _read(text: str) -> Record:
    """The record that an annotation holds; one that is none is told of by the leader, and says nothing here."""
    try:
        return record.parse_record(text)
    except RecordError:
        return {}


def _told(holder: FailureRecordOwner, failures: Mapping[str, NodeFailure]) -> dict[str, str]:
    """Why each node is avoided.

    kube-scheduler puts the number of nodes that share a reason in front of it: "3 node(s) where …". So the time, which
    no two nodes share, is only told where a reason is one node's.
    """
    shared = Counter(failure.reason for failure in failures.values())
    return {node: _reason(holder, failure, alone=shared[failure.reason] == 1) for node, failure in failures.items()}


def _reason(holder: FailureRecordOwner, failure: NodeFailure, *, alone: bool) -> str:
    details: Iterable[str] = filter(None, (failure.reason, f"at {format_instant(failure.at)}" if alone else ""))
    said = " ".join(details)
    whose = f"pod {holder.name}" if holder.kind == "Pod" else f"pods of {holder.kind} {holder.name}"
    return f"node(s) where {whose} failed" + (f" ({said})" if said else "")
