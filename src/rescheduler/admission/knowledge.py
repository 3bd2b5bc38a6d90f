"""What every replica knows about a pod that is being made or placed, from memory: no request, no waiting, no writing.

The webhook (`mutation`) and the extender ask `advise`. It goes by what the watches have brought: the board says which
migration waits for a pod like this one, the cache says on which nodes its like have failed. What would take long to
find out (nodes that are open, pods that failed just now, pods that are marked) is kept up to date as it changes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from msgspec import Raw

from rescheduler.admission.fresh_failures import FreshFailures, Key
from rescheduler.admission.holders import Holder, holder_of
from rescheduler.admission.reach import Reach
from rescheduler.decode.cache import Cache
from rescheduler.migration.eviction import Evict
from rescheduler.migration.lifecycle import ROLL_BACK
from rescheduler.migration.rebuilding import AwaitRebuilt
from rescheduler.migration.steering import HOSTNAME
from rescheduler.model import marks
from rescheduler.model.advice import Advice, Expected, Newcomer
from rescheduler.model.instant import format_instant
from rescheduler.model.migration import Migration, Phase
from rescheduler.model.objects import Node, Pod
from rescheduler.model.plan import Method
from rescheduler.recovery import record
from rescheduler.recovery.record import Entry, Failure, Record, RecordError
from rescheduler.recovery.settings import FAILED_REASONS
from rescheduler.runtime.board import Board

NO_ADVICE = Advice()
_WAITING = frozenset({Evict.name, AwaitRebuilt.name})
"""Steps in which the controller may make the new pod at any moment."""
_LONGEST_RECORD = 2**18
_RECORDS_KEPT = 128
_REVISIONS = {
    "Deployment": marks.TEMPLATE_HASH,
    "ReplicaSet": marks.TEMPLATE_HASH,
    "StatefulSet": "controller-revision-hash",
}
"""By which label pods tell what template they were made from, as `recovery.revisions` notes it in records."""


@dataclass(frozen=True, slots=True)
class KnowledgeSettings:
    """What the operator says about it."""

    forget_after: float
    """A failure that is so many seconds old says nothing about its node any more."""
    gate: bool
    """Whether expected pods are held back until room is reserved for them (`steering: nominate`)."""
    failed_reasons: tuple[str, ...] = FAILED_REASONS
    """Which pods in phase Failed count, as in `recovery.settings`; none where recovery is switched off."""


class Knowledge:
    """All that is known, ready to be asked."""

    def __init__(
        self, cache: Cache, board: Board, settings: Callable[[], KnowledgeSettings], now: Callable[[], float]
    ) -> None:
        self._cache = cache
        self._board = board
        self._settings = settings
        self._now = now
        self._reach = Reach(cache, now)
        self._open: set[str] = set()
        self._fresh = FreshFailures(cache, lambda: settings().failed_reasons, now)
        self._marked: dict[Key, dict[Key, str]] = {}
        """By migration, the pods that carry its mark, and their UIDs."""
        self._marks: dict[Key, Key] = {}
        for node in cache.rows("Node"):
            self._changed("Node", node.name, "")
        for pod in cache.rows("Pod"):
            self._changed("Pod", (pod.namespace, pod.name), "")
        cache.listen(self._changed)

    def advise(self, newcomer: Newcomer) -> Advice:
        """Where it is expected, and which nodes it had better avoid; nothing about pods that we place ourselves."""
        if marks.PLACEHOLDER in newcomer.labels or marks.WITHHELD in newcomer.annotations:
            return NO_ADVICE
        expected, avoid = self._expected(newcomer), self._avoid(newcomer)
        return Advice(expected, avoid) if expected is not None or avoid else NO_ADVICE

    def leaves_any(self, avoid: Collection[str], pod: Raw) -> bool:
        """Whether a pod that avoids these nodes has any other to go to, be there room now or not."""
        return self._reach.has_any(pod, (name for name in self._open if name not in avoid))

    def _expected(self, newcomer: Newcomer) -> Expected | None:
        owner = newcomer.owner
        if owner is None or not owner.uid:
            return None
        known = [each for key in self._board.of_owner(owner.uid) if (each := self._board.get(key)) is not None]
        # An owner's UID may be written on a pod anywhere; only in its own namespace it can be true.
        near = (each for each in known if each.namespace == newcomer.namespace)
        under_way = [each for each in near if _steers(each, owner.uid)]
        found = next((each for each in under_way if _is_its_pod(each, newcomer)), None)
        if found is None:
            waiting = (each for each in under_way if self._waits_for(each, newcomer))
            found = min(waiting, key=lambda each: (each.progress.started or 0.0, each.name), default=None)
        if found is None:
            return None
        progress, order = found.progress, found.order
        return Expected(
            migration=found.name,
            source=progress.source,
            target=progress.target,
            target_host=self._host(progress.target),
            source_host=self._host(progress.source),
            strategy=order.strategy,
            original_uid=progress.uid,
            original_name=order.pod,
            gate=self._settings().gate and progress.replacement is None,
        )

    def _host(self, name: str) -> str:
        """A node's label by which preferences go: it need not be its name."""
        row: Node | None = self._cache.row("Node", name)
        return row.labels.get(HOSTNAME, "") if row is not None else ""

    def _waits_for(self, migration: Migration, newcomer: Newcomer) -> bool:
        """Whether a pod of this controller is the one that it waits for, as far as can be told before it is there."""
        progress = migration.progress
        if progress.step not in _WAITING or progress.replacement is not None:
            return False
        if newcomer.owner is not None and newcomer.owner.kind == "StatefulSet":
            return newcomer.name == migration.order.pod
        # Another that was made since, and is marked already, is the one: this is a pod of a scale-up.
        others = self._marked.get((migration.namespace, migration.name), {})
        mine = (newcomer.namespace, newcomer.name)
        return all(uid == progress.uid or key == mine for key, uid in others.items())

    def _avoid(self, newcomer: Newcomer) -> Mapping[str, str]:
        if newcomer.labels.get(marks.RESCHEDULING) == "disabled":
            return {}
        holder = holder_of(newcomer, self._cache)
        if holder.kind == "DaemonSet":
            return {}
        failures: dict[str, Failure] = {}
        if holder.record:
            known = _record(holder.record).get(record.slot(holder.kind, newcomer.name, ""))
            if known is not None and not _is_of_another_template(known, holder, newcomer):
                failures = known.avoided(self._now(), self._settings().forget_after)
        if holder.retries and newcomer.owner is not None:
            for fall in self._fresh.of(newcomer.namespace, newcomer.owner.uid):
                if newcomer.owner.kind != "StatefulSet" or fall.pod == newcomer.name:
                    failures.setdefault(fall.node, Failure(fall.seen, fall.reason))
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

    def _note_mark(self, key: Key) -> None:
        row: Pod | None = self._cache.row("Pod", key)
        before, now = self._marks.pop(key, None), _mark(row)
        if before is not None:
            self._marked[before].pop(key)
            if not self._marked[before]:
                del self._marked[before]
        if row is not None and now is not None:
            self._marks[key] = now
            self._marked.setdefault(now, {})[key] = row.uid


def _steers(migration: Migration, controller: str) -> bool:
    """Whether it is a move that leads a pod which this controller makes."""
    progress = migration.progress
    return (
        progress.phase is Phase.IN_PROGRESS
        and progress.method is Method.EVICT
        and progress.step != ROLL_BACK
        and bool(progress.target)
        and progress.controller is not None
        and progress.controller.uid == controller
    )


def _is_its_pod(migration: Migration, newcomer: Newcomer) -> bool:
    """Whether the pod says so itself, or the migration has recorded it."""
    if newcomer.labels.get(marks.MIGRATION_ID) == migration.name:
        return newcomer.uid != migration.progress.uid
    known = migration.progress.replacement
    if known is None or not newcomer.name:
        return False
    return known.uid == newcomer.uid if known.uid and newcomer.uid else known.name == newcomer.name


def _is_of_another_template(entry: Entry, holder: Holder, newcomer: Newcomer) -> bool:
    """Whether those who failed were made from another template: whoever corrects one starts anew."""
    revision = newcomer.labels.get(_REVISIONS.get(holder.kind, ""), "")
    return bool(entry.revision) and bool(revision) and entry.revision != revision


def _is_open(node: Node) -> bool:
    # Nodes of the control plane count: where nothing keeps pods off them, as on a laptop, pods run there.
    shut = node.unschedulable or node.maintenance or node.deleting
    return node.ready and not node.problem and not shut


def _mark(row: Pod | None) -> Key | None:
    """The migration that a pod is being moved by; the trace of a finished move is none."""
    if row is None or row.deleting or row.finished or marks.MIGRATION_ID not in row.labels:
        return None
    if row.labels.get(marks.MIGRATION_STATUS) not in marks.RUNNING_MIGRATIONS:
        return None
    return row.namespace, row.labels[marks.MIGRATION_ID]


def _record(text: str) -> Record:
    """The record in a text; one that is longer than annotations may be was never one of ours."""
    return _read(text) if len(text) <= _LONGEST_RECORD else {}


@lru_cache(maxsize=_RECORDS_KEPT)
def _read(text: str) -> Record:
    """The record that an annotation holds; one that is none is told of by the leader, and says nothing here."""
    try:
        return record.read(text)
    except RecordError:
        return {}


def _told(holder: Holder, failures: Mapping[str, Failure]) -> dict[str, str]:
    """Why each node is avoided.

    kube-scheduler puts the number of nodes that share a reason in front of it: "3 node(s) where …". So the time, which
    no two nodes share, is only told where a reason is one node's.
    """
    shared = Counter(failure.reason for failure in failures.values())
    return {node: _reason(holder, failure, alone=shared[failure.reason] == 1) for node, failure in failures.items()}


def _reason(holder: Holder, failure: Failure, *, alone: bool) -> str:
    details: Iterable[str] = filter(None, (failure.reason, f"at {format_instant(failure.at)}" if alone else ""))
    said = " ".join(details)
    whose = f"pod {holder.name}" if holder.kind == "Pod" else f"pods of {holder.kind} {holder.name}"
    return f"node(s) where {whose} failed" + (f" ({said})" if said else "")
