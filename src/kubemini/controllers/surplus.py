"""Which pods a ReplicaSet gives up first when it has too many: the order of kube-controller-manager.

Pods that do least come first: those without a node, Pending, not Ready. Then the cheaper one by its deletion cost,
the one that shares its node with more pods of the same Deployment, the one that became Ready or was created more
recently (on a logarithmic scale, so that of about equally old ones any may go), the one with more restarts. The
handoff of a pod relies on this order.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cmp_to_key

from kubemini.controllers.pod_state import PodState
from kubemini.store import Entry

_PHASES = {"Pending": 0, "Unknown": 1, "Running": 2}


@dataclass(frozen=True, slots=True)
class Candidate:
    """A pod that may have to go."""

    entry: Entry
    state: PodState

    @property
    def node(self) -> str:
        return self.entry.fields["spec.nodeName"]


def first_to_go(pods: Sequence[Candidate], related: Iterable[Candidate], now: float) -> list[Candidate]:
    """All pods, those to be deleted first in front; `related` are all active pods of the same Deployment."""
    crowd = Counter(each.node for each in related)
    order = _Order(now)
    # What comes before the times is a plain key; among equals of that, the times are compared pair by pair.
    return sorted(sorted(pods, key=cmp_to_key(order.by_times)), key=lambda each: _plain_key(each, crowd))


def _plain_key(each: Candidate, crowd: Counter[str]) -> tuple[int, int, bool, int, int]:
    return (
        int(bool(each.node)),
        _PHASES.get(each.state.phase, 0),
        each.state.ready,
        each.state.cost,
        -crowd[each.node],
    )


@dataclass(frozen=True)
class _Order:
    now: float

    def by_times(self, one: Candidate, other: Candidate) -> int:
        """Negative if the first goes first."""
        a, b = one.state, other.state
        if a.ready_since is not None and b.ready_since is not None and a.ready_since != b.ready_since:
            return self._younger(one, other, a.ready_since, b.ready_since)
        if a.restarts != b.restarts:
            return -1 if a.restarts > b.restarts else 1
        if a.created != b.created:
            return self._younger(one, other, a.created, b.created)
        return 0

    def _younger(self, one: Candidate, other: Candidate, since: float, others: float) -> int:
        """Younger first; no time at all counts as youngest, about the same age is decided by the identity."""
        if not since or not others:
            return -1 if not since else 1
        difference = self._magnitude(since) - self._magnitude(others)
        return difference or (-1 if one.entry.uid < other.entry.uid else 1)

    def _magnitude(self, since: float) -> int:
        age = self.now - since
        return int(math.log2(age * 1e9)) if age > 0 else -1
