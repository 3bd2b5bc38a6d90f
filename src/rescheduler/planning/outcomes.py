"""Judges finished moves and remembers them: which came back, how many were bad in a row, how long a workload rests.

Histories are built from the PodMigrations for every plan, so that a new leader and commands have the same. Mandatory
moves (maintenance, by hand) cause no rest. Recovery makes no moves.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Literal

from msgspec import structs

from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import MoveOutcome, OutcomeVerdict, Phase, PodMigration
from rescheduler.model.move_history import (
    FAILED,
    MoveBackoff,
    MoveHistory,
    PastMove,
    is_bad,
    is_by_choice,
    longest_streak,
)
from rescheduler.model.objects import Pod, Workload
from rescheduler.model.plan import Method
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot, WorkloadKey
from rescheduler.model.strategy_traits import can_undo
from rescheduler.planning.budgets import count_by_namespace
from rescheduler.planning.gain import RealisedGains

Workloads = Mapping[WorkloadKey, Workload]

_LISTED = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"})
_HOW_LATE = 60.0  # seconds by which the assessment of a move may be late


def find_undone(
    migrations: Iterable[PodMigration], policy: Policy, workloads: Workloads | None = None
) -> set[ObjectKey]:
    """Find the completed migrations that a later one of the same workload has undone: a pod went the same way back.

    A later move undoes at most one earlier move, the newest. Some strategies undo nothing (`Strategy.can_undo`), and
    neither does a move that comes after longestRest.
    """
    found: set[ObjectKey] = set()
    completed = (each for each in migrations if each.status.phase is Phase.COMPLETED)
    for moves in _by_workload(completed, workloads).values():
        ways: defaultdict[tuple[str, str], list[PodMigration]] = defaultdict(list)
        for later in moves:
            undoes = can_undo(later.spec.strategy)
            gone = ways[later.status.target, later.status.source] if undoes else []
            newest_first = reversed(range(len(gone)))
            undone = next((at for at in newest_first if _undoes(later, gone[at], policy.outcomes.longest_rest)), None)
            if undone is not None:
                found.add(gone.pop(undone).key)
            ways[later.status.source, later.status.target].append(later)
    return found


def move_histories(
    migrations: Iterable[PodMigration], workloads: Workloads | None = None
) -> dict[WorkloadKey, MoveHistory]:
    """Build each workload's history of moves; with `workloads`, only of those that still exist."""
    found = ((key, tuple(map(_past_move, moves))) for key, moves in _by_workload(migrations, workloads).items())
    return {key: MoveHistory(moves[::-1], tuple(_find_streak(moves[::-1]))) for key, moves in found}


def with_move_histories(snapshot: ClusterSnapshot, migrations: Iterable[PodMigration]) -> ClusterSnapshot:
    """Return the snapshot with the histories of its workloads, and the moves that count for the hour."""
    known = list(migrations)
    found, hourly = move_histories(known, snapshot.workloads), count_by_namespace(known, snapshot.taken_at)
    return replace(snapshot, memories=found, hourly=hourly) if found or hourly else snapshot


def find_backoffs(
    migrations: Iterable[PodMigration], policy: Policy, workloads: Workloads | None = None
) -> dict[WorkloadKey, MoveBackoff]:
    """Find the rests of all workloads whose last moves were bad, also those that are over (see `until`)."""
    found = ((key, memory.rest(policy)) for key, memory in move_histories(migrations, workloads).items())
    return {key: rest for key, rest in found if rest is not None}


def find_needed(migrations: Iterable[PodMigration], policy: Policy, assess_after: float, now: float) -> set[ObjectKey]:
    """Find the finished migrations that must be kept: not assessed yet, or a rest depends on them.

    Bad ones: as many of a workload as make the longest rest, and no longer than twice that rest. Those that paid: for
    twice the cool-down, since nothing can undo them before it is over. All of them: for the cool-down.
    """
    known = list(migrations)
    found = {each.key for each in known if _is_unassessed(each) and _age(each, now) < assess_after + _HOW_LATE}
    found |= {each.key for each in known if _has_paid(each) and _age(each, now) < 2 * policy.cool_down}
    found |= {each.key for each in known if _starts_rest(each) and _age(each, now) < policy.cool_down}
    for key, memory in move_histories(known).items():
        rest = memory.rest(policy)
        if rest is not None and now < rest.until + (rest.until - memory.ended):
            found.update((key[1], move.migration) for move in _find_relevant(memory, longest_streak(policy)))
    return found


def is_due(migration: PodMigration, assess_after: float, now: float) -> bool:
    """Whether it is time to assess a migration."""
    return _is_unassessed(migration) and _age(migration, now) >= assess_after


def _is_unassessed(migration: PodMigration) -> bool:
    is_open = migration.status.phase is Phase.COMPLETED and migration.status.outcome is None
    return is_open and not _is_removal(migration)


def _is_removal(migration: PodMigration) -> bool:
    """Whether it moved nothing, so that there is nothing to assess and no reason to rest."""
    return migration.status.method is Method.REMOVE


def _starts_rest(migration: PodMigration) -> bool:
    """Whether it has moved its pod, or evicted it and then failed, so that the workload rests."""
    if migration.status.phase is Phase.FAILED:
        return migration.status.eviction_time is not None
    return migration.status.phase is Phase.COMPLETED and not _is_removal(migration)


def _has_paid(migration: PodMigration) -> bool:
    """Whether a move by choice has paid so far."""
    outcome = migration.status.outcome
    return outcome is not None and outcome.verdict is OutcomeVerdict.PAID and is_by_choice(migration)


def _age(migration: PodMigration, now: float) -> float:
    return now - (migration.status.completion_time or 0.0)


def _undoes(later: PodMigration, earlier: PodMigration, longest: float) -> bool:
    """Whether it began after the other had ended, and soon enough to be related."""
    one, other = earlier.status, later.status
    began, ended = other.start_time or other.completion_time or 0.0, one.completion_time or 0.0
    return 0 <= began - ended <= longest


def _by_workload(
    migrations: Iterable[PodMigration], workloads: Workloads | None
) -> dict[WorkloadKey, list[PodMigration]]:
    """Group the migrations after which a workload rests by workload, the oldest first."""
    done = [each for each in migrations if _starts_rest(each) and each.status.completion_time is not None]
    done.sort(key=lambda each: (each.status.completion_time or 0.0, each.namespace, each.name), reverse=True)
    heirs: dict[tuple[str, str], str] = {}
    found: defaultdict[WorkloadKey, list[PodMigration]] = defaultdict(list)
    for each in done:
        key = _workload_of(each, workloads, heirs)
        if key is not None:
            found[key].append(each)
    return {key: moves[::-1] for key, moves in sorted(found.items())}


def _workload_of(
    migration: PodMigration, workloads: Workloads | None, heirs: dict[tuple[str, str], str]
) -> WorkloadKey | None:
    """Find the workload that was moved; None if it is gone. `heirs` has the present names of bare pods."""
    progress, namespace = migration.status, migration.namespace
    reference = progress.workload or progress.controller
    if reference is None:
        name = progress.replacement.name if progress.replacement is not None else migration.spec.pod.name
        heir = heirs.get((namespace, name), name)
        heirs[namespace, migration.spec.pod.name] = heir
        return ("Pod", namespace, heir)
    key = (reference.kind, namespace, reference.name)
    if workloads is None:
        return key
    known = workloads.get(key)
    if known is None:
        return None if reference.kind in _LISTED else key
    if reference.uid and known.uid and reference.uid != known.uid:
        return None  # another workload of that name
    above = (known.owner.kind, namespace, known.owner.name) if known.owner is not None else key
    return above if above in workloads else key


def _past_move(migration: PodMigration) -> PastMove:
    order, progress = migration.spec, migration.status
    outcome = progress.outcome
    verdict: OutcomeVerdict | Literal["", "Failed"] = outcome.verdict if outcome is not None else ""
    if progress.phase is Phase.FAILED:
        verdict = FAILED
    return PastMove(
        migration.name,
        order.pod.name,
        progress.source,
        progress.target,
        order.strategy,
        progress.completion_time or 0.0,
        order.expected_gain,
        outcome.gain if outcome is not None else None,
        verdict,
        is_by_choice(migration),
    )


def _find_streak(moves: Sequence[PastMove]) -> Iterator[PastMove]:
    """Find the bad moves since the last that paid. A move that only undid a bad one does not end the streak."""
    counted = [move for move in moves if move.counts]
    for number, move in enumerate(counted):
        if is_bad(move.verdict):
            yield move
        elif move.verdict is OutcomeVerdict.PAID and _undone_by(move, counted[number + 1 :]) is None:
            return


def _undone_by(move: PastMove, older: Iterable[PastMove]) -> PastMove | None:
    """Find the move that this one has undone."""
    back = (move.target, move.source)
    return next(
        (one for one in older if one.verdict is OutcomeVerdict.CAME_BACK and (one.source, one.target) == back), None
    )


def _find_relevant(memory: MoveHistory, most: int) -> Iterator[PastMove]:
    """Find the moves that a rest depends on: the last, so many bad ones, and those that others have undone."""
    counted = [move for move in memory.ended_moves if move.counts]
    yield from counted[:1]
    wanted = frozenset(memory.streak[:most])
    for number, move in enumerate(counted):
        if not wanted:
            return
        if move in wanted:
            wanted -= {move}
            yield move
        elif move.verdict is OutcomeVerdict.PAID and (undone := _undone_by(move, counted[number + 1 :])) is not None:
            yield undone


_LEAST = 0.25  # the part of the predicted gain that must come true
_NOISE = 1.0  # points by which a move without expected gain may be worse


def verdict_of(predicted: float | None, realised: float) -> OutcomeVerdict:
    """Judge whether enough of the predicted gain has come true."""
    if predicted is None:
        paid = True  # it had another purpose than a less busy node, and its pod has left
    elif predicted <= 0:
        # The strategy had another purpose than a less busy node, such as the spread of another resource.
        paid = realised >= predicted - _NOISE
    else:
        paid = realised > 0 and realised >= predicted * _LEAST
    return OutcomeVerdict.PAID if paid else OutcomeVerdict.NOT_PAID


def assess_outcomes(
    snapshot: ClusterSnapshot,
    policy: Policy,
    due: Sequence[PodMigration],
    known: Sequence[PodMigration],
    returned: Set[ObjectKey],
    now: float,
) -> list[MoveOutcome]:
    """Assess completed migrations that are due, in the cluster as it is now; `known` are all migrations."""
    assessment = _Assessment(snapshot, policy, [*known, *due])
    return [structs.replace(assessment.outcome(each, back=each.key in returned), assessed_time=now) for each in due]


@dataclass(frozen=True, slots=True)
class _Trip:
    """A move whose pod is still there."""

    turn: tuple[float, float, float, ObjectKey]
    pod: Pod
    home: str
    """The node that it came from."""


class _Assessment:
    """The cluster as it is now, and where the pods are that were moved."""

    def __init__(self, snapshot: ClusterSnapshot, policy: Policy, known: Iterable[PodMigration]) -> None:
        done = {each.key: each for each in known if each.status.phase is Phase.COMPLETED}
        names = {(each.namespace, each.status.replacement.name) for each in done.values() if each.status.replacement}
        pods = {key: pod for pod in snapshot.pods if (key := (pod.namespace, pod.name)) in names}
        self._trips: dict[ObjectKey, _Trip] = {}
        self._of_pod: defaultdict[tuple[str, str], list[_Trip]] = defaultdict(list)
        self._touching: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
        for key, each in done.items():
            if pod := _replacement(each, pods):
                self._trips[key] = trip = _Trip(_plan_order(each), pod, each.status.source)
                self._of_pod[_name(pod)].append(trip)  # a pod of a StatefulSet keeps its name from move to move
                self._touching[pod.node].add(_name(pod))
                self._touching[each.status.source].add(_name(pod))
        self._realised = RealisedGains(snapshot, policy, self._touching)

    def outcome(self, migration: PodMigration, *, back: bool) -> MoveOutcome:
        """Assess one of them."""
        trip = self._trips.get(migration.key)
        if back or (trip is not None and trip.pod.node == trip.home):
            return MoveOutcome(OutcomeVerdict.CAME_BACK, 0.0)
        gained = self._realised.gain(trip.pod, trip.home, self._since(trip)) if trip is not None else None
        if gained is None:
            return MoveOutcome(OutcomeVerdict.UNKNOWN)
        if not is_by_choice(migration):
            return MoveOutcome(OutcomeVerdict.PAID, gained)  # the pod had to leave its node, and it has
        return MoveOutcome(verdict_of(migration.spec.expected_gain, gained), gained)

    def _since(self, trip: _Trip) -> Iterator[tuple[Pod, str]]:
        """Find the pods that were moved later to or from one of its nodes, each once, and where they came from."""
        touching = self._touching[trip.home] | self._touching[trip.pod.node]
        for pod in touching - {_name(trip.pod)}:
            later = [each for each in self._of_pod[pod] if each.turn > trip.turn]
            if later:
                first = min(later, key=lambda each: each.turn)
                yield first.pod, first.home


def _plan_order(migration: PodMigration) -> tuple[float, float, float, ObjectKey]:
    """Sort key for the order in which moves were planned, as far as it is known."""
    progress, created = migration.status, migration.metadata.creation_timestamp or 0.0
    return (
        created,
        progress.start_time or progress.completion_time or 0.0,
        progress.completion_time or 0.0,
        migration.key,
    )


def _replacement(migration: PodMigration, pods: Mapping[tuple[str, str], Pod]) -> Pod | None:
    """Find the replacement, if it still exists and is on a node."""
    known = migration.status.replacement
    pod = pods.get((migration.namespace, known.name)) if known is not None else None
    if known is None or pod is None or pod.deleting or pod.finished or not pod.node:
        return None
    # A pod of a StatefulSet that was created again is the same one by its name.
    same = not known.uid or pod.uid == known.uid or (pod.owner is not None and pod.owner.kind == "StatefulSet")
    return pod if same else None


def _name(pod: Pod) -> tuple[str, str]:
    return pod.namespace, pod.name
