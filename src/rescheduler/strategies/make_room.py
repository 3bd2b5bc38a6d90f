from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from rescheduler.model.fields import Duration
from rescheduler.model.objects import Pod
from rescheduler.model.plan import Method
from rescheduler.planning.api import Arrival, PodMove, Proposal, Proposals, Strategy
from rescheduler.planning.columns import Floats, Ints, Mask
from rescheduler.planning.refusals import PlanGuard
from rescheduler.planning.view import Look, View
from rescheduler.strategies.support.settings import PodFilters, PodSelection

_TRIES = 4  # what the planner refuses is tried in another way, this often
_KEPT_FREE = 100  # so many pods that fit are expected; the scheduler is quick, so more are hardly ever there
_ELSEWHERE = 1000.0  # any other target comes after the one that was found
# How many nodes with other obstacles than room are looked at for one pending pod: each of their pods takes a look.
_OBSTRUCTED = 20
_STEPS = 1_000
"""Searches for targets and trials of moves for one pending pod."""
_STEPS_IN_ALL = 20_000
"""The same for all pending pods of one plan."""
_SETS = 20_000
"""Sets of pods of one size that are compared for one pending pod."""
_SETS_IN_ALL = 400_000
"""The same for all pending pods of one plan."""
_ENOUGH = 1_000
"""Enough sets to choose from whose leaving would be enough."""

Moves = tuple[tuple[int, int], ...]
"""Pods and their targets."""
Refused = set[tuple[int, ...]]
"""Sets of pods, each sorted, that the planner refused."""


class MakeRoomSettings(PodFilters):
    """Which pending pods get room, and how many moves one may cost."""

    min_pending_age: Duration = Field(
        30.0,
        description="Only pods that are at least this old, so that the scheduler and an autoscaler had their chance.",
    )
    max_moves_per_pod: int = Field(3, ge=1, le=10, description="At most this many pods are moved for one pending pod.")


class MakeRoom(Strategy[MakeRoomSettings]):
    """Moves a few pods out of the way of a Pending pod that fits nowhere, so that the scheduler can place it.

    Pods of highest priority come first, then the oldest. For each it finds the node on which the fewest pods have to
    make room; of equal numbers lower priorities are preferred, then smaller pods. Pods of higher priority than the
    pending pod are not moved. Each moved pod has its own target under the thresholds, and all of them move or none. A
    pod is in the way by its resources, its host ports, or rules that keep the two apart. Pending pods of one pod group
    get room together or not at all; running members of a group are not moved for others.

    A pod that fits somewhere is left to the scheduler, and its room is kept free in the plan. So are pods with
    scheduling gates or a nominated node, and DaemonSet pods. When the room is there, the scheduler places the pending
    pod by itself. The search is exact, unless there are so many sets of pods to try that it runs out of steps.
    """

    order = 170

    def propose(self, view: View) -> Proposals:
        """Propose room for each pending pod or group; retry when other moves may have made it possible."""
        search, kept, full = RoomSearch(view), 0, False
        helped = True
        while helped:
            helped = False
            stuck: set[tuple[Look, ...]] = set()
            for together, most_moves in self._pending(view):
                look = tuple(view.look(pod) for pod in together)
                if look in stuck and most_moves:
                    continue  # what there was no room for, there is none for its look-alike either
                refused: Refused = set()
                for _ in range(_TRIES):
                    most = min(most_moves, view.moves_left or 0) if full else most_moves
                    rooms = search.find(together, most, refused)
                    if rooms is None:
                        if most_moves:
                            stuck.add(look)
                        break
                    if not any(room.moves for room in rooms):
                        kept += len(rooms)
                        if kept > _KEPT_FREE:
                            break
                    result = yield _proposal(view, together, rooms)
                    if result.is_final:
                        return
                    if result.accepted or not any(room.moves for room in rooms):
                        helped |= result.accepted
                        break
                    if result.refused_by(PlanGuard.MAX_RESCHEDULE_PODS):
                        full = True  # people have seen that there was more to do
                        stuck.add(look)
                        break
                    refused |= {tuple(sorted(pod for pod, _ in room.moves)) for room in rooms}

    def _pending(self, view: View) -> list[tuple[tuple[int, ...], int]]:
        """Return pending pods that need room together, the pods of one pod group or a single pod, and how many moves.

        The highest priority comes first, then the oldest.
        """
        selection = PodSelection(self.settings, view)
        waiting = [pod for pod in (view.at < 0).nonzero()[0].tolist() if _waits(view.pods[pod])]
        waiting.sort(key=lambda pod: (-view.pods[pod].priority, view.pods[pod].created or 0.0, pod))
        groups: dict[tuple[str, str, int], list[int]] = {}
        for pod in waiting:
            group = view.groups.name(pod)
            groups.setdefault((view.pods[pod].namespace, group, -1 if group else pod), []).append(pod)
        found: list[tuple[tuple[int, ...], int]] = []
        for pods in groups.values():
            is_due = all(self._is_due(view, pod) and selection.matches(view.pods[pod]) for pod in pods)
            found.append((tuple(pods), self.settings.max_moves_per_pod if is_due else 0))
        return found

    def _is_due(self, view: View, pod: int) -> bool:
        created = view.pods[pod].created
        return view.now is None or created is None or view.now - created >= self.settings.min_pending_age


def _waits(pod: Pod) -> bool:
    """Whether the scheduler would place the pod if it could, and we can tell where it fits."""
    if pod.phase != "Pending" or pod.node or pod.nominated or pod.deleting or pod.problem or pod.shape.resource_claims:
        return False
    if pod.owner is not None and pod.owner.kind == "DaemonSet":
        return False
    return all(each.reason != "SchedulingGated" for each in pod.trouble.conditions if each.type == "PodScheduled")


def _proposal(view: View, together: Sequence[int], rooms: Sequence[Room]) -> Proposal:
    pod_moves: list[PodMove] = []
    for pending, room in zip(together, rooms, strict=True):
        name, place = view.pods[pending].full_name, view.nodes[room.node].name
        why = f"pending {name} fits nowhere: this makes room for it on {place}"
        for pod, target in room.moves:
            cost = view.cost(pod) + _ELSEWHERE
            cost[target] = 0.0
            pod_moves.append(PodMove(pod, why, cost))
    arrivals = tuple(Arrival(pod, room.node) for pod, room in zip(together, rooms, strict=True))
    return Proposal(tuple(pod_moves), arrivals)


@dataclass(frozen=True, slots=True)
class RoomCandidate:
    """A node, the pods that must leave it, others that could, and how much must be freed."""

    node: int
    must: tuple[int, ...]
    others: tuple[int, ...]
    need: tuple[tuple[Ints, int], ...]
    """For each resource that lacks: how much every pod holds of it, and how much must be freed."""

    def sets(self, number: int) -> Iterator[tuple[int, ...] | None]:
        """Yield sets of this many pods whose leaving would be enough, and None for each set that would not."""
        rest = number - len(self.must)
        if rest < 0:
            return
        others = list(self.others) if rest else []
        lacks: list[tuple[dict[int, int], int]] = []
        for held, amount in self.need:
            of_pods = dict(zip(others, held[others].tolist(), strict=True))
            lacking = amount - int(held[list(self.must)].sum())
            most = max(of_pods.values(), default=0)
            # Pods so small that the largest others could not make up for them are no help.
            others = [pod for pod in others if of_pods[pod] + (rest - 1) * most >= lacking]
            lacks.append((of_pods, lacking))
        for pods in combinations(others, rest):
            enough = all(sum([of_pods[pod] for pod in pods]) >= lacking for of_pods, lacking in lacks)
            yield (*self.must, *pods) if enough else None


class RoomCandidates:
    """Finds sets of pods whose leaving would be enough for a pending pod, in the current what-if.

    Resources are compared for all nodes at once. Where other rules (host ports, anti-affinity, volumes) keep the pod
    away, the node is cleared in the what-if to find the pods that violate them.
    """

    def __init__(self, view: View) -> None:
        self._view = view
        self._columns = view.columns
        self._priority: Ints = np.fromiter((pod.priority for pod in view.pods), np.int64, len(view.pods))
        standing = np.fromiter((bool(pod.node) for pod in view.pods), np.bool_, len(view.pods))
        self._standing: Mask = standing & view.residents.placed
        self._held: dict[int, Ints] = {}
        self.taken: set[int] = set()
        """Pods that have been moved out of the way already."""

    def singles(self, pending: int) -> Iterator[tuple[int, int]]:
        """Yield node and pod wherever the leaving of one pod is enough: lower ranks first, then smaller pods."""
        pods = self._movable(pending, self._lacks_only_room(pending))
        at = self._view.at[pods]
        for resource, amount in self._view.feasibility.fit.requests(pending):
            lacking = amount - self._view.whatif.free[resource]
            enough = self._held_of(resource)[pods] >= lacking[at]
            pods, at = pods[enough], at[enough]
        order = np.lexsort((pods, self.sizes[pods], self._ranks[pods]))
        yield from zip(at[order].tolist(), pods[order].tolist(), strict=True)

    def several(self, pending: int, number: int) -> Iterator[RoomCandidate]:
        """Yield nodes that lack only room and where this many pods could be enough; the smallest lack first."""
        nodes = self._lacks_only_room(pending)
        pods = self._movable(pending, nodes)
        at = self._view.at[pods]
        lacks = np.zeros(len(nodes))
        for resource, amount in self._view.feasibility.fit.requests(pending):
            lacking = amount - self._view.whatif.free[resource]
            largest = np.zeros(len(nodes), np.int64)
            np.maximum.at(largest, at, self._held_of(resource)[pods])
            nodes = nodes & (number * largest >= lacking)
            lacks = np.maximum(lacks, lacking / np.maximum(self._columns.allocatable[resource], 1))
        found = np.flatnonzero(nodes)
        by_node = np.argsort(at, kind="stable")
        first, last = (np.searchsorted(at[by_node], found, side) for side in ("left", "right"))
        for number_of_node in np.argsort(lacks[found], kind="stable").tolist():
            here = pods[by_node[first[number_of_node] : last[number_of_node]]]
            node = int(found[number_of_node])
            yield RoomCandidate(node, (), tuple(here.tolist()), self._need(pending, node))

    def obstructed(self, pending: int) -> list[RoomCandidate]:
        """Return nodes with enough capacity on which other rules keep the pod away because of pods there."""
        view, feasibility = self._view, self._view.feasibility
        roomy = feasibility.fit.fits(pending, self._columns.allocatable) & feasibility.node_mask(pending) & view.open
        nodes = np.flatnonzero(roomy & ~self._lacks_only_room(pending))
        fewest_first = nodes[np.argsort(view.residents.counts[nodes], kind="stable")]
        found = (self._clear(pending, node) for node in fewest_first[:_OBSTRUCTED].tolist())
        return [candidate for candidate in found if candidate is not None]

    @cached_property
    def sizes(self) -> Floats:
        """[P]: each pod's largest share of its node, of CPU or memory."""
        at = self._columns.pod_at
        whole = np.maximum(self._columns.allocatable[:2, at], 1)
        found: Floats = np.maximum(self._held_of(0) / whole[0], self._held_of(1) / whole[1])
        return found

    @cached_property
    def _ranks(self) -> Ints:
        """[P]: by priority, then by eviction cost."""
        return np.fromiter((pod.rank for pod in self._view.pods), np.int64, len(self._view.pods))

    def _clear(self, pending: int, node: int) -> RoomCandidate | None:
        """Remove all pods that may leave, then put them back one by one to find those in the way."""
        view, whatif = self._view, self._view.whatif
        only = np.zeros(len(view.nodes), np.bool_)
        only[node] = True
        pods = self._movable(pending, only).tolist()
        for pod in pods:
            whatif.remove(pod, node)
        must: list[int] = []
        fits = bool(view.feasibility.mask(pending)[node])
        for pod in pods:
            whatif.place(pod, node)
            if fits and not view.feasibility.mask(pending, self._columns.allocatable)[node]:
                must.append(pod)
            whatif.remove(pod, node)
        for pod in pods:
            whatif.place(pod, node)
        others = tuple(pod for pod in pods if pod not in must)
        return RoomCandidate(node, tuple(must), others, self._need(pending, node)) if fits else None

    def _need(self, pending: int, node: int) -> tuple[tuple[Ints, int], ...]:
        free = self._view.whatif.free[:, node]
        asked = self._view.feasibility.fit.requests(pending)
        return tuple((self._held_of(r), int(amount - free[r])) for r, amount in asked if amount > free[r])

    def _lacks_only_room(self, pending: int) -> Mask:
        """[N]: nodes that the pod would fit on if they were empty."""
        found: Mask = self._view.open & self._view.feasibility.mask(pending, self._columns.allocatable)
        return found

    def _movable(self, pending: int, nodes: Mask) -> NDArray[np.int64]:
        """Return the pods on these nodes that may make room for the pending one: none of higher priority."""
        view, at = self._view, self._view.at
        allowed = self._standing & (at >= 0) & nodes[at] & (self._priority <= view.pods[pending].priority)
        unavailable = [*self.taken, *view.moved]
        allowed[unavailable] = False
        return np.flatnonzero(allowed)

    def _held_of(self, resource: int) -> Ints:
        """[P]: how much of a resource each pod holds."""
        if resource not in self._held:
            held: Ints = self._columns.shape_requests[self._columns.pod_shape, resource]
            for pod, amounts in self._columns.resized.items():
                held[pod] = amounts[resource]
            self._held[resource] = held
        return self._held[resource]


class Room(NamedTuple):
    """The node for a pending pod, and the moves that make room there."""

    node: int
    moves: Moves = ()


class _PodSet(NamedTuple):
    """Pods whose leaving would let the pending pod in; the smallest sorts first."""

    rank: int
    size: float
    node: int
    pods: tuple[int, ...]


class RoomSearch:
    """Finds room for pending pods: the candidates whose pods have targets."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._candidates = RoomCandidates(view)
        self._most_moves = 0
        self._refused: Refused = set()
        self._objecting: dict[int, bool] = {}
        """Cached objections of guards to moving pods; limits reached in the meantime are left to the planner."""
        self._steps = 0
        self._steps_left = _STEPS_IN_ALL
        self._sets_left = _SETS_IN_ALL
        self._nowhere: dict[Look, set[int]] = {}
        """Pods of one look that no node takes in the current what-if: the nodes from which that was found."""

    def find(self, pending: Iterable[int], most_moves: int, refused: Refused) -> list[Room] | None:
        """Return room for all of these pods, or None."""
        self._most_moves, self._refused = most_moves, refused
        rooms: list[Room] = []
        with self._view.whatif.trial():
            for pod in pending:
                room = self._room(pod)
                if room is None:
                    break
                self._view.whatif.place(pod, room.node)
                rooms.append(room)
                self._candidates.taken.update(each for each, _ in room.moves)
                self._nowhere.clear()  # things have changed
        if rooms:
            # The trial is over, and the planner may make these moves.
            self._candidates.taken.clear()
            self._nowhere.clear()
        return rooms if room is not None else None

    def _room(self, pending: int) -> Room | None:
        fits = self._view.feasibility.mask(pending)
        if fits.any():
            return Room(int(np.where(fits, self._view.cost(pending), np.inf).argmin()))
        if not self._most_moves:
            return None
        self._steps = allowed = min(_STEPS, self._steps_left)
        room = self._clear(pending)
        self._steps_left -= allowed - max(self._steps, 0)
        return room

    def _clear(self, pending: int) -> Room | None:
        """Find room for a pod that fits nowhere, and apply the moves to the what-if."""
        obstructed = self._candidates.obstructed(pending)
        for number in range(1, self._most_moves + 1):
            for pod_set in self._pod_sets(pending, number, obstructed):
                moves = self._move_all(pod_set.pods, pending, pod_set.node)
                if moves is not None:
                    return Room(pod_set.node, moves)
                if self._steps <= 0:
                    return None
        return None

    def _pod_sets(self, pending: int, number: int, obstructed: list[RoomCandidate]) -> Iterator[_PodSet]:
        """Yield sets of this many pods of a node whose leaving could be enough, the preferred first."""
        candidates: Iterable[RoomCandidate] = obstructed
        if number == 1:
            for node, pod in self._candidates.singles(pending):
                if (pod,) not in self._refused and self._may_go(pod):
                    yield self._pod_set(node, (pod,))
        else:
            candidates = (*self._candidates.several(pending, number), *obstructed)
        yield from sorted(self._sets(candidates, number))

    def _sets(self, candidates: Iterable[RoomCandidate], number: int) -> Iterator[_PodSet]:
        weighed = found = 0
        for candidate in candidates:
            for pods in candidate.sets(number):
                weighed += 1
                self._sets_left -= 1
                if weighed > _SETS or self._sets_left < 0 or found > _ENOUGH:
                    return
                if pods is not None and tuple(sorted(pods)) not in self._refused and all(map(self._may_go, pods)):
                    found += 1
                    yield self._pod_set(candidate.node, pods)

    def _pod_set(self, node: int, pods: tuple[int, ...]) -> _PodSet:
        size = float(self._candidates.sizes[list(pods)].sum())
        return _PodSet(max(self._view.pods[pod].rank for pod in pods), size, node, tuple(sorted(pods)))

    def _may_go(self, pod: int) -> bool:
        """Whether no guard objects, and it may find a target; members of pod groups would all have to move."""
        if pod not in self._objecting:
            grouped = len(self._view.groups.members(pod)) > 1
            self._objecting[pod] = grouped or self._view.objection(pod) is not None
        return not self._objecting[pod] and len(self._nowhere.get(self._view.look(pod), ())) < 2

    def _move_all(self, pods: tuple[int, ...], pending: int, node: int, done: Moves = ()) -> Moves | None:
        """Apply moves of all these pods to other nodes, the largest first, so that the pending pod fits; or none."""
        view = self._view
        if not pods:
            return done if view.feasibility.mask(pending)[node] else None
        pod = max(pods, key=lambda one: (self._candidates.sizes[one], -one))
        for target in self._targets(pod, node, first=not done):
            if self._steps <= 0:
                return None
            self._steps -= 1
            if not view.feasibility.try_move(pod, target, side_by_side=view.method(pod) is not Method.EVICT):
                rest = tuple(one for one in pods if one != pod)
                moves = self._move_all(rest, pending, node, (*done, (pod, target)))
                if moves is not None:
                    return moves
            view.whatif.remove(pod, target)
            view.whatif.place(pod, node)
        return None

    def _targets(self, pod: int, node: int, *, first: bool) -> list[int]:
        """Return the feasible targets of a pod, the best first."""
        if not self._may_go(pod):
            return []
        self._steps -= 1
        targets = np.flatnonzero(self._view.feasible_targets(pod))
        if not len(targets) and first:
            self._nowhere.setdefault(self._view.look(pod), set()).add(
                node
            )  # its own node was not asked: that takes two
        found: list[int] = targets[np.argsort(self._view.cost(pod)[targets], kind="stable")].tolist()
        return found
