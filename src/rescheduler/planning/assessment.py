"""What a completed move came to: where its pod is now, what has been gained by that, and whether it has paid.

The controller asks some time after a move (`runtime.assessing`) and stores the outcome in the PodMigration. Moves that
have to be made (under maintenance, by hand) are looked at, too, but only for whether the pod has left its node: they
never count as not paid.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace

from rescheduler.model.migration import Migration, Outcome, OutcomeVerdict, Phase
from rescheduler.model.objects import Pod
from rescheduler.model.outcome import by_choice
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.gain import Realised

Key = tuple[str, str]
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


def outcomes(
    snapshot: ClusterSnapshot,
    policy: Policy,
    due: Sequence[Migration],
    known: Sequence[Migration],
    returned: Set[Key],
    now: float,
) -> list[Outcome]:
    """What the completed migrations that are due came to, in the cluster as it is now and of all that are known."""
    looked_at = _Look(snapshot, policy, [*known, *due])
    return [replace(looked_at.outcome(each, back=_key(each) in returned), assessed=now) for each in due]


@dataclass(frozen=True, slots=True)
class _Trip:
    """A move whose pod is still there."""

    turn: tuple[float, float, float, Key]
    pod: Pod
    home: str
    """The node that it came from."""


class _Look:
    """The cluster as it is now, and where the pods are that were moved."""

    def __init__(self, snapshot: ClusterSnapshot, policy: Policy, known: Iterable[Migration]) -> None:
        done = {_key(each): each for each in known if each.progress.phase is Phase.COMPLETED}
        names = {
            (each.namespace, each.progress.replacement.name) for each in done.values() if each.progress.replacement
        }
        pods = {key: pod for pod in snapshot.pods if (key := (pod.namespace, pod.name)) in names}
        self._trips: dict[Key, _Trip] = {}
        self._of_pod: defaultdict[tuple[str, str], list[_Trip]] = defaultdict(list)
        self._touching: defaultdict[str, set[tuple[str, str]]] = defaultdict(set)
        for key, each in done.items():
            if pod := _replacement(each, pods):
                self._trips[key] = trip = _Trip(_turn(each), pod, each.progress.source)
                self._of_pod[_name(pod)].append(trip)  # a pod of a StatefulSet keeps its name from move to move
                self._touching[pod.node].add(_name(pod))
                self._touching[each.progress.source].add(_name(pod))
        self._realised = Realised(snapshot, policy, self._touching)

    def outcome(self, migration: Migration, *, back: bool) -> Outcome:
        """What one of them came to."""
        trip = self._trips.get(_key(migration))
        if back or (trip is not None and trip.pod.node == trip.home):
            return Outcome(OutcomeVerdict.CAME_BACK, 0.0)
        gained = self._realised.gain(trip.pod, trip.home, self._since(trip)) if trip is not None else None
        if gained is None:
            return Outcome(OutcomeVerdict.UNKNOWN)
        if not by_choice(migration):
            return Outcome(OutcomeVerdict.PAID, gained)  # the pod was to leave its node, and it has
        return Outcome(verdict_of(migration.order.expected_gain, gained), gained)

    def _since(self, trip: _Trip) -> Iterator[tuple[Pod, str]]:
        """The pods that were moved after it to or from one of its nodes, each once, and where they came from then."""
        touching = self._touching[trip.home] | self._touching[trip.pod.node]
        for pod in touching - {_name(trip.pod)}:
            later = [each for each in self._of_pod[pod] if each.turn > trip.turn]
            if later:
                first = min(later, key=lambda each: each.turn)
                yield first.pod, first.home


def _turn(migration: Migration) -> tuple[float, float, float, Key]:
    """The order in which moves were planned, as far as it can be told: what is ordered together begins in order."""
    progress, created = migration.progress, migration.created or 0.0
    return created, progress.started or progress.finished or 0.0, progress.finished or 0.0, _key(migration)


def _replacement(migration: Migration, pods: Mapping[tuple[str, str], Pod]) -> Pod | None:
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


def _key(migration: Migration) -> Key:
    return migration.namespace, migration.name
