"""The gain of a move, in percentage points: predicted when it is planned, and realised when it is looked at afterwards.

    gain = max(source with the pod, target without it) − max(source without it, target with it)

where a node's use is the larger of its CPU and its memory, in per cent of allocatable. So it is by how many points the
busier of the two nodes is less busy than if the pod were still, or again, on the source. It is rounded, so that plans
print alike on every machine.

A move is predicted with the moves before it made, and those after it not. So it is looked at, too: what we have moved
since is put back in the reckoning. Else the moves that together have levelled two nodes would all look as if each of
them had been for nothing (of plans that came true to the letter, up to a sixth of the moves did).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from rescheduler.model.objects import Pod
from rescheduler.model.shape import Requests
from rescheduler.model.snapshot import ClusterSnapshot

Amounts = tuple[int, int]
"""CPU (thousandths) and memory (bytes)."""

_NOTHING: Amounts = (0, 0)


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two nodes: what others hold of it, what the pod takes of it, and what it has."""

    others: Amounts
    pod: Amounts
    capacity: Amounts

    @property
    def without(self) -> float:
        """Its use without the pod."""
        return _use(self.others, self.capacity)

    @property
    def laden(self) -> float:
        """Its use with the pod."""
        return _use(_sum(self.others, self.pod), self.capacity)


def gain(source: Side, target: Side) -> float:
    """By how many points the busier of the two nodes is less busy with the pod on the target."""
    there = max(source.without, target.laden)
    back = max(source.laden, target.without)
    return round(back - there, 2) + 0.0  # never minus zero


class Realised:
    """What gains have come to in one snapshot."""

    def __init__(self, snapshot: ClusterSnapshot, nodes: Iterable[str]) -> None:
        """Weigh these nodes, and no others: a large cluster has many."""
        wanted = frozenset(nodes)
        self._capacity = {node.name: _amounts(node.allocatable) for node in snapshot.nodes if node.name in wanted}
        self._used = dict.fromkeys(self._capacity, _NOTHING)
        for pod in snapshot.pods:
            place = pod.node or pod.nominated
            if place in self._used and not pod.finished:
                self._used[place] = _sum(self._used[place], _amounts(pod.held))

    def gain(self, pod: Pod, source: str, since: Iterable[tuple[Pod, str]] = ()) -> float | None:
        """The gain of having the pod where it is rather than on the source; None if one of the two is gone.

        `since` are the pods that were moved after it, and the nodes that they came from.
        """
        if source not in self._capacity or pod.node not in self._capacity:
            return None
        used = {name: self._used[name] for name in (source, pod.node)}
        for other, home in since:
            if other.node in used:
                used[other.node] = _less(used[other.node], _amounts(other.held))
            if home in used:
                used[home] = _sum(used[home], _amounts(other.shape.requests))
        held = _amounts(pod.held)
        back = Side(used[source], _amounts(pod.shape.requests), self._capacity[source])
        return gain(back, Side(_less(used[pod.node], held), held, self._capacity[pod.node]))


def _use(used: Amounts, capacity: Amounts) -> float:
    """Per cent of what there is more used of; a node without capacity is full as soon as anything is on it."""
    return max(amount * 100.0 / max(whole, 1) for amount, whole in zip(used, capacity, strict=True))


def _sum(one: Amounts, other: Amounts) -> Amounts:
    return one[0] + other[0], one[1] + other[1]


def _less(one: Amounts, other: Amounts) -> Amounts:
    return one[0] - other[0], one[1] - other[1]


def _amounts(requests: Requests) -> Amounts:
    found = dict(requests)
    return found.get("cpu", 0), found.get("memory", 0)
