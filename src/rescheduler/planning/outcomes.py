"""What is remembered of finished moves: which came back, which of a workload were bad in a row, how long it rests.

Memories are made anew from the PodMigrations whenever a plan is made, so that a new leader, and a command, know the
same. `planning.assessment` has judged each move; moves that have to be made (under maintenance, by hand) make nobody
rest. Recovery makes no moves. `app`, the page and the janitor ask here, too.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import MoveOutcome, OutcomeVerdict, Phase, PodMigration
from rescheduler.model.move_history import MoveBackoff, MoveHistory, PastMove, is_bad, is_by_choice, longest_streak
from rescheduler.model.objects import Pod, Workload
from rescheduler.model.plan import Method
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot, WorkloadKey
from rescheduler.model.strategy_traits import can_undo
from rescheduler.planning.budgets import count_by_namespace
from rescheduler.planning.gain import RealisedGains

Workloads = Mapping[WorkloadKey, Workload]

_LISTED = frozenset({"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"})
_HOW_LATE = 60.0  # seconds that looking at a move may come late, before nobody waits for it


def find_undone(
    migrations: Iterable[PodMigration], policy: Policy, workloads: Workloads | None = None
) -> set[ObjectKey]:
    """The completed migrations that a later one of the same workload has undone: a pod went the same way back.

    A later move undoes one earlier one, the newest. An operator who empties the target undoes nothing, nor does a pod's
    age; and what comes back only after longestRest is another story.
    """
    found: set[ObjectKey] = set()
    for moves in _by_workload(migrations, workloads).values():
        ways: defaultdict[tuple[str, str], list[PodMigration]] = defaultdict(list)
        for later in moves:
            undoes = can_undo(later.order.strategy)
            gone = ways[later.progress.target, later.progress.source] if undoes else []
            newest_first = reversed(range(len(gone)))
            undone = next((at for at in newest_first if _undoes(later, gone[at], policy.outcomes.longest_rest)), None)
            if undone is not None:
                found.add(_key(gone.pop(undone)))
            ways[later.progress.source, later.progress.target].append(later)
    return found


def move_histories(
    migrations: Iterable[PodMigration], workloads: Workloads | None = None
) -> dict[WorkloadKey, MoveHistory]:
    """What is remembered of each workload's moves; with `workloads` only of those that are still there."""
    return {key: _memory(moves) for key, moves in _by_workload(migrations, workloads).items()}


def with_move_histories(snapshot: ClusterSnapshot, migrations: Iterable[PodMigration]) -> ClusterSnapshot:
    """The snapshot with what is remembered of its workloads' moves, and what counts for the hour."""
    known = list(migrations)
    found, hourly = move_histories(known, snapshot.workloads), count_by_namespace(known, snapshot.taken_at)
    return replace(snapshot, memories=found, hourly=hourly) if found or hourly else snapshot


def find_backoffs(
    migrations: Iterable[PodMigration], policy: Policy, workloads: Workloads | None = None
) -> dict[WorkloadKey, MoveBackoff]:
    """The rests of all workloads whose last moves were bad, also those that are over: `until` tells."""
    found = ((key, memory.rest(policy)) for key, memory in move_histories(migrations, workloads).items())
    return {key: rest for key, rest in found if rest is not None}


def find_needed(migrations: Iterable[PodMigration], policy: Policy, assess_after: float, now: float) -> set[ObjectKey]:
    """The finished migrations that must not be forgotten yet: nobody has looked at them, or a rest depends on them.

    Of each workload only as many bad ones as make the longest rest, and none for longer than twice that rest. Those
    that paid for twice the cool-down: before it is over, nothing could bring them back. All of them for the cool-down.
    """
    known = list(migrations)
    found = {_key(each) for each in known if _is_unseen(each) and _age(each, now) < assess_after + _HOW_LATE}
    found |= {_key(each) for each in known if _has_paid(each) and _age(each, now) < 2 * policy.cool_down}
    found |= {_key(each) for each in known if _has_moved(each) and _age(each, now) < policy.cool_down}
    for key, memory in move_histories(known).items():
        rest = memory.rest(policy)
        if rest is not None and now < rest.forgotten:
            found.update((key[1], move.migration) for move in _kept(memory, longest_streak(policy)))
    return found


def is_due(migration: PodMigration, assess_after: float, now: float) -> bool:
    """Whether it is time to look at what a migration came to."""
    return _is_unseen(migration) and _age(migration, now) >= assess_after


def _is_unseen(migration: PodMigration) -> bool:
    is_open = migration.progress.phase is Phase.COMPLETED and migration.progress.outcome is None
    return is_open and not _is_removal(migration)


def _is_removal(migration: PodMigration) -> bool:
    """Whether it moved nothing, so that there is nothing to judge and nobody rests for it."""
    return migration.progress.method is Method.REMOVE


def _has_moved(migration: PodMigration) -> bool:
    """Whether its workload has been moved, and rests."""
    return migration.progress.phase is Phase.COMPLETED and not _is_removal(migration)


def _has_paid(migration: PodMigration) -> bool:
    """Whether a move that was made by choice has paid so far."""
    outcome = migration.progress.outcome
    return outcome is not None and outcome.verdict is OutcomeVerdict.PAID and is_by_choice(migration)


def _age(migration: PodMigration, now: float) -> float:
    return now - (migration.progress.finished or 0.0)


def _key(migration: PodMigration) -> ObjectKey:
    return migration.namespace, migration.name


def _undoes(later: PodMigration, earlier: PodMigration, longest: float) -> bool:
    """Whether it began after the other had ended, and soon enough to have to do with it."""
    one, other = earlier.progress, later.progress
    began, ended = other.started or other.finished or 0.0, one.finished or 0.0
    return 0 <= began - ended <= longest


def _by_workload(
    migrations: Iterable[PodMigration], workloads: Workloads | None
) -> dict[WorkloadKey, list[PodMigration]]:
    """The completed migrations of each workload, the oldest first."""
    over = (each for each in migrations if each.progress.phase is Phase.COMPLETED and not _is_removal(each))
    done = [each for each in over if each.progress.finished is not None]
    done.sort(key=lambda each: (each.progress.finished or 0.0, each.namespace, each.name), reverse=True)
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
    """Which workload was moved; None if it is gone. `heirs` has what pods that nobody manages are called now."""
    progress, namespace = migration.progress, migration.namespace
    reference = progress.workload or progress.controller
    if reference is None:
        name = progress.replacement.name if progress.replacement is not None else migration.order.pod
        heir = heirs.get((namespace, name), name)
        heirs[namespace, migration.order.pod] = heir
        return ("Pod", namespace, heir)
    key = (reference.kind, namespace, reference.name)
    if workloads is None:
        return key
    known = workloads.get(key)
    if known is None:
        return None if reference.kind in _LISTED else key
    if reference.uid and known.uid and reference.uid != known.uid:
        return None  # another one of that name
    above = (known.owner.kind, namespace, known.owner.name) if known.owner is not None else key
    return above if above in workloads else key


def _memory(migrations: Sequence[PodMigration]) -> MoveHistory:
    moves = tuple(_past(each) for each in reversed(migrations))
    return MoveHistory(moves, tuple(_streak(moves)))


def _past(migration: PodMigration) -> PastMove:
    order, progress = migration.order, migration.progress
    outcome = progress.outcome
    return PastMove(
        migration.name,
        order.pod,
        progress.source,
        progress.target,
        order.strategy,
        progress.finished or 0.0,
        order.expected_gain,
        outcome.gain if outcome is not None else None,
        outcome.verdict if outcome is not None else None,
        is_by_choice(migration),
    )


def _streak(moves: Sequence[PastMove]) -> Iterator[PastMove]:
    """The bad ones since the last that paid. One that only brought back what should not have gone forgives nothing."""
    counted = [move for move in moves if move.counts]
    for number, move in enumerate(counted):
        if is_bad(move.verdict):
            yield move
        elif move.verdict is OutcomeVerdict.PAID and _undone(move, counted[number + 1 :]) is None:
            return


def _undone(move: PastMove, older: Iterable[PastMove]) -> PastMove | None:
    """The move that this one has taken back, if there is one."""
    back = (move.target, move.source)
    return next(
        (one for one in older if one.verdict is OutcomeVerdict.CAME_BACK and (one.source, one.target) == back), None
    )


def _kept(memory: MoveHistory, most: int) -> Iterator[PastMove]:
    """What a rest is reckoned from: the last move, so many bad ones, and those that others have only taken back."""
    counted = [move for move in memory.moves if move.counts]
    yield from counted[:1]
    wanted = frozenset(memory.streak[:most])
    for number, move in enumerate(counted):
        if not wanted:
            return
        if move in wanted:
            wanted -= {move}
            yield move
        elif move.verdict is OutcomeVerdict.PAID and (undone := _undone(move, counted[number + 1 :])) is not None:
            yield undone


"""Namespace and name of a migration."""

_LEAST = 0.25  # of what was predicted must come true, else the move did not pay
_NOISE = 1.0  # points; what was not expected to gain anything may come out that much worse


def verdict_of(predicted: float | None, realised: float) -> OutcomeVerdict:
    """Whether enough of the predicted gain has come true."""
    if predicted is None:
        paid = True  # it had another purpose than the busier node, and its pod has left
    elif predicted <= 0:
        # The strategy had another reason than the busier node, such as the other resource's spread.
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
    """What the completed migrations that are due came to, in the cluster as it is now and of all that are known."""
    looked_at = _Look(snapshot, policy, [*known, *due])
    return [replace(looked_at.outcome(each, back=_key(each) in returned), assessed=now) for each in due]


@dataclass(frozen=True, slots=True)
class _Trip:
    """A move whose pod is still there."""

    turn: tuple[float, float, float, ObjectKey]
    pod: Pod
    home: str
    """The node that it came from."""


class _Look:
    """The cluster as it is now, and where the pods are that were moved."""

    def __init__(self, snapshot: ClusterSnapshot, policy: Policy, known: Iterable[PodMigration]) -> None:
        done = {_key(each): each for each in known if each.progress.phase is Phase.COMPLETED}
        names = {
            (each.namespace, each.progress.replacement.name) for each in done.values() if each.progress.replacement
        }
        pods = {key: pod for pod in snapshot.pods if (key := (pod.namespace, pod.name)) in names}
        self._trips: dict[ObjectKey, _Trip] = {}
        self._of_pod: defaultdict[tuple[str, str], list[_Trip]] = defaultdict(list)
        self._touching: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
        for key, each in done.items():
            if pod := _replacement(each, pods):
                self._trips[key] = trip = _Trip(_turn(each), pod, each.progress.source)
                self._of_pod[_name(pod)].append(trip)  # a pod of a StatefulSet keeps its name from move to move
                self._touching[pod.node].add(_name(pod))
                self._touching[each.progress.source].add(_name(pod))
        self._realised = RealisedGains(snapshot, policy, self._touching)

    def outcome(self, migration: PodMigration, *, back: bool) -> MoveOutcome:
        """What one of them came to."""
        trip = self._trips.get(_key(migration))
        if back or (trip is not None and trip.pod.node == trip.home):
            return MoveOutcome(OutcomeVerdict.CAME_BACK, 0.0)
        gained = self._realised.gain(trip.pod, trip.home, self._since(trip)) if trip is not None else None
        if gained is None:
            return MoveOutcome(OutcomeVerdict.UNKNOWN)
        if not is_by_choice(migration):
            return MoveOutcome(OutcomeVerdict.PAID, gained)  # the pod was to leave its node, and it has
        return MoveOutcome(verdict_of(migration.order.expected_gain, gained), gained)

    def _since(self, trip: _Trip) -> Iterator[tuple[Pod, str]]:
        """The pods that were moved after it to or from one of its nodes, each once, and where they came from then."""
        touching = self._touching[trip.home] | self._touching[trip.pod.node]
        for pod in touching - {_name(trip.pod)}:
            later = [each for each in self._of_pod[pod] if each.turn > trip.turn]
            if later:
                first = min(later, key=lambda each: each.turn)
                yield first.pod, first.home


def _turn(migration: PodMigration) -> tuple[float, float, float, ObjectKey]:
    """The order in which moves were planned, as far as it can be told: what is ordered together begins in order."""
    progress, created = migration.progress, migration.created or 0.0
    return created, progress.started or progress.finished or 0.0, progress.finished or 0.0, _key(migration)


def _replacement(migration: PodMigration, pods: Mapping[tuple[str, str], Pod]) -> Pod | None:
    """The pod that took over, if it is still there and on a node."""
    known = migration.progress.replacement
    pod = pods.get((migration.namespace, known.name)) if known is not None else None
    if known is None or pod is None or pod.deleting or pod.finished or not pod.node:
        return None
    # A pod of a StatefulSet that was made anew is the same one by its name.
    same = not known.uid or pod.uid == known.uid or (pod.owner is not None and pod.owner.kind == "StatefulSet")
    return pod if same else None


def _name(pod: Pod) -> tuple[str, str]:
    return pod.namespace, pod.name
