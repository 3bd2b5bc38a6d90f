"""The gain of a move, in percentage points: predicted with the plan, and realised when it is assessed afterwards.

    gain = max(source with the pod, target without it) − max(source without it, target with it)

where a node's use is that of its scarcest resource, in per cent of allocatable. It is the number of points by which
the busier of the two nodes is less busy than with the pod on the source. It is rounded, so that plans print alike on
every machine.

A prediction includes the moves before it and not those after it. The realised gain is computed in the same way: pods
moved since are put back first. Otherwise moves that together have levelled two nodes would each seem useless (up to a
sixth of the moves of plans that came true exactly).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from rescheduler.model.objects import Pod
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.columns import Ints
from rescheduler.planning.load import PodMeasure
from rescheduler.planning.thresholds import counted_resources


@dataclass(frozen=True, slots=True)
class MoveSide:
    """One of the two nodes: what other pods use, what the pod takes, and the capacity."""

    others: Ints
    pod: Ints
    capacity: Ints

    @property
    def without(self) -> float:
        """Its use without the pod."""
        return self._percent(self.others)

    @property
    def with_pod(self) -> float:
        """Its use with the pod."""
        return self._percent(self.others + self.pod)

    def _percent(self, used: Ints) -> float:
        """Per cent of the scarcest resource; a node without capacity is full as soon as anything is on it."""
        return float((used * 100.0 / np.maximum(self.capacity, 1)).max())


def gain_of(source: MoveSide, target: MoveSide) -> float:
    """Compute by how many points the busier of the two nodes is less busy with the pod on the target."""
    there = max(source.without, target.with_pod)
    back = max(source.with_pod, target.without)
    return round(back - there, 2) + 0.0  # never minus zero


class RealisedGains:
    """Computes realised gains in one snapshot."""

    def __init__(self, snapshot: ClusterSnapshot, policy: Policy, nodes: Iterable[str]) -> None:
        """Sum up the use of these nodes only: a large cluster has many."""
        wanted, names = frozenset(nodes), counted_resources(policy)
        self._measure = PodMeasure.of(snapshot, policy.utilization, names)
        self._capacity: dict[str, Ints] = {
            node.name: np.array([dict(node.allocatable).get(name, 0) for name in names])
            for node in snapshot.nodes
            if node.name in wanted
        }
        self._used: dict[str, Ints] = dict.fromkeys(self._capacity, np.zeros(len(names), np.int64))
        for pod in snapshot.pods:
            place = pod.node or pod.nominated
            if place in self._used and not pod.finished:
                self._used[place] = self._used[place] + self._measure.held(pod)
        for node, amounts in self._used.items():
            self._used[node] = np.array(self._measure.add_overhead(node, tuple(amounts.tolist())))

    def gain(self, pod: Pod, source: str, since: Iterable[tuple[Pod, str]] = ()) -> float | None:
        """Compute the gain of having the pod where it is rather than on the source; None if a node is gone.

        `since` are the pods that were moved after it, and the nodes that they came from.
        """
        if source not in self._capacity or pod.node not in self._capacity:
            return None
        used = {name: self._used[name] for name in (source, pod.node)}
        for other, home in since:
            if other.node in used:
                used[other.node] = used[other.node] - self._measure.held(other)
            if home in used:
                used[home] = used[home] + self._measure.requests(other)
        held = np.array(self._measure.held(pod))
        back = MoveSide(used[source], np.array(self._measure.requests(pod)), self._capacity[source])
        return gain_of(back, MoveSide(used[pod.node] - held, held, self._capacity[pod.node]))
