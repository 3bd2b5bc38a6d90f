"""How a pending pod that fits nowhere gets room: the fewest pods of one node that must go elsewhere for it.

MakeRoom asks for one pending pod, or for all of a pod group. It is tried in the what-if and taken back: what is found
is only proposed. The search goes by the number of moves: first all that one move could do, then two, and so on. It is
exact unless its steps run out, which are counted and not timed, so that the same input gives the same answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from rescheduler.model.plan import Method
from rescheduler.planning.clearing import Clearing, Clearings
from rescheduler.planning.view import View

_STEPS = 1_000
"""How often, for one pending pod, it is looked at where a pod could go, or tried whether the rules survive it."""
_STEPS_IN_ALL = 20_000
"""The same, for all pending pods of one plan."""
_SETS = 20_000
"""How many sets of pods of one size are weighed for one pending pod."""
_SETS_IN_ALL = 400_000
"""The same, for all pending pods of one plan."""
_ENOUGH = 1_000
"""So many of them whose leaving would be enough are a sufficient choice."""

Moves = tuple[tuple[int, int], ...]
"""Pods and their targets."""
Refused = set[tuple[int, ...]]
"""Sets of pods, each in order, that the planner did not let go."""


class Room(NamedTuple):
    """Where a pending pod is to be, and which pods go where for it."""

    node: int
    moves: Moves = ()


class _Leaving(NamedTuple):
    """Pods whose leaving would let the pending pod in; what sorts first is preferred."""

    rank: int
    size: float
    node: int
    pods: tuple[int, ...]


class RoomSearch:
    """Finds room for pending pods."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._clearings = Clearings(view)
        self._most_moves = 0
        self._refused: Refused = set()
        self._objecting: dict[int, bool] = {}
        """What is known of pods; a limit that is reached in the meantime, the planner tells."""
        self._steps = 0
        self._steps_left = _STEPS_IN_ALL
        self._sets_left = _SETS_IN_ALL
        self._nowhere: dict[tuple[int, int, str], set[int]] = {}
        """For pods of one look that no node takes, as things are: the nodes from which that was seen."""

    def find(self, pending: Iterable[int], most_moves: int, refused: Refused) -> list[Room] | None:
        """Room for all of these, or none."""
        self._most_moves, self._refused = most_moves, refused
        rooms: list[Room] = []
        with self._view.whatif.trial():
            for pod in pending:
                room = self._room(pod)
                if room is None:
                    break
                self._view.whatif.place(pod, room.node)
                rooms.append(room)
                self._clearings.taken.update(each for each, _ in room.moves)
                self._nowhere.clear()  # things have changed
        if rooms:
            # The trial is over, and the planner may do as it was told.
            self._clearings.taken.clear()
            self._nowhere.clear()
        return rooms if room is not None else None

    def _room(self, pending: int) -> Room | None:
        fits = self._view.feasibility.mask(pending)
        if fits.any():
            return Room(int(np.where(fits, self._view.cost(pending), np.inf).argmin()))
        if not self._most_moves:
            return None
        self._steps = allowed = min(_STEPS, self._steps_left)
        room = self._cleared(pending)
        self._steps_left -= allowed - max(self._steps, 0)
        return room

    def _cleared(self, pending: int) -> Room | None:
        """Room for a pod that fits nowhere, with the moves laid in."""
        obstructed = self._clearings.obstructed(pending)
        for number in range(1, self._most_moves + 1):
            for leaving in self._leavings(pending, number, obstructed):
                moves = self._gone(leaving.pods, pending, leaving.node)
                if moves is not None:
                    return Room(leaving.node, moves)
                if self._steps <= 0:
                    return None
        return None

    def _leavings(self, pending: int, number: int, obstructed: list[Clearing]) -> Iterator[_Leaving]:
        """The sets of so many pods of a node whose leaving could be enough, the preferred first."""
        clearings: Iterable[Clearing] = obstructed
        if number == 1:
            for node, pod in self._clearings.singles(pending):
                if (pod,) not in self._refused and self._may_go(pod):
                    yield self._leaving(node, (pod,))
        else:
            clearings = (*self._clearings.several(pending, number), *obstructed)
        yield from sorted(self._sets(clearings, number))

    def _sets(self, clearings: Iterable[Clearing], number: int) -> Iterator[_Leaving]:
        weighed = found = 0
        for clearing in clearings:
            for pods in clearing.sets(number):
                weighed += 1
                self._sets_left -= 1
                if weighed > _SETS or self._sets_left < 0 or found > _ENOUGH:
                    return
                if pods is not None and tuple(sorted(pods)) not in self._refused and all(map(self._may_go, pods)):
                    found += 1
                    yield self._leaving(clearing.node, pods)

    def _leaving(self, node: int, pods: tuple[int, ...]) -> _Leaving:
        size = float(self._clearings.sizes[list(pods)].sum())
        return _Leaving(max(self._view.pods[pod].rank for pod in pods), size, node, tuple(sorted(pods)))

    def _may_go(self, pod: int) -> bool:
        """Whether nobody objects to moving it, and it might find a place; of a pod group all would have to come."""
        if pod not in self._objecting:
            grouped = len(self._view.groups.members(pod)) > 1
            self._objecting[pod] = grouped or self._view.objection(pod) is not None
        return not self._objecting[pod] and len(self._nowhere.get(self._look(pod), ())) < 2

    def _look(self, pod: int) -> tuple[int, int, str]:
        row = self._view.pods[pod]
        return id(row.shape), id(row.labels), row.namespace

    def _gone(self, pods: tuple[int, ...], pending: int, node: int, done: Moves = ()) -> Moves | None:
        """Lay in moves of all these pods to elsewhere, the largest first, so that the pending pod fits; or nothing."""
        view = self._view
        if not pods:
            return done if view.feasibility.mask(pending)[node] else None
        pod = max(pods, key=lambda one: (self._clearings.sizes[one], -one))
        for target in self._targets(pod, node, first=not done):
            if self._steps <= 0:
                return None
            self._steps -= 1
            if not view.feasibility.try_move(pod, target, side_by_side=view.method(pod) is not Method.EVICT):
                rest = tuple(one for one in pods if one != pod)
                moves = self._gone(rest, pending, node, (*done, (pod, target)))
                if moves is not None:
                    return moves
            view.whatif.remove(pod, target)
            view.whatif.place(pod, node)
        return None

    def _targets(self, pod: int, node: int, *, first: bool) -> list[int]:
        """Where a pod could go, the best first."""
        if not self._may_go(pod):
            return []
        self._steps -= 1
        targets = np.flatnonzero(self._view.could_be(pod))
        if not len(targets) and first:
            self._nowhere.setdefault(self._look(pod), set()).add(node)  # its own node was not asked: that takes two
        found: list[int] = targets[np.argsort(self._view.cost(pod)[targets], kind="stable")].tolist()
        return found
