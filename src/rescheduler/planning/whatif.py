"""What would be: a mutable layer over the columns in which pods are placed and removed without anything happening.

The planner tries moves in it, predicates ask it, strategies see it through a view. Whatever keeps counts of its own
(affinity, spread, ports, volumes) listens to its changes. Going back is doing the opposite change, so a trial costs
only what it changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Protocol

from rescheduler.planning.columns import Columns, Indexes, Mask

_Kinds = dict[tuple[int, int], dict[int, int]]
"""Pods and their nodes, by shape and group: all of a kind are counted by the same counts."""


class PlacementListener(Protocol):
    """Whoever keeps counts: told after each change."""

    def changed(self, pod: int, node: int, delta: int) -> None:
        """A pod came to a node (+1) or left it (-1)."""


class PlacementCounter(PlacementListener, Protocol):
    """Whoever counts, for company and evenness, where pods stand."""

    def follows(self, shape: int, group: int) -> bool:
        """Whether pods of this shape and this group are counted by now."""


class WhatIf:
    """The snapshot with moves laid on top."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.used = columns.used.copy()
        self.free = columns.allocatable - self.used
        self.at: Indexes = columns.pod_at.copy()
        self._listeners: list[PlacementListener] = []
        self._followers: list[PlacementCounter] = []
        self._came: dict[int, list[int]] = {}
        self.expected: dict[int, int] = {}
        """Pending pods that were laid in, and the nodes that they are expected on: the scheduler may choose others."""
        self._unsure: _Kinds = {}
        self._log: list[tuple[int, int, int]] | None = None

    def add_listener(self, listener: PlacementListener) -> None:
        """Be told of changes from now on."""
        self._listeners.append(listener)

    def add_counter(self, follower: PlacementCounter) -> None:
        """The same for who counts where pods stand: he is also told when pods that may come are thought away."""
        self._listeners.append(follower)
        self._followers.append(follower)

    def expect(self, arrivals: Iterable[tuple[int, int]]) -> None:
        """Pending pods that were placed are only expected where they are."""
        places = dict(arrivals)
        self.expected.update(places)
        self._by_kind(places.items(), self._unsure)

    def _by_kind(self, places: Iterable[tuple[int, int]], found: _Kinds) -> None:
        for pod, node in places:
            kind = int(self.columns.pod_shape[pod]), int(self.columns.pod_group[pod])
            found.setdefault(kind, {})[pod] = node

    def pods_on(self, node: int) -> list[int]:
        """The pods that are on a node now."""
        here = self.columns.pods_on(node)
        stayed = here[self.at[here] == node]
        return [*map(int, stayed), *self._came.get(node, ())]

    @cached_property
    def _nominated(self) -> _Kinds:
        columns = self.columns
        found: _Kinds = {}
        nominated = (i for i, pod in enumerate(columns.pods) if pod.nominated and not pod.node)
        self._by_kind(((i, int(columns.pod_at[i])) for i in nominated if columns.pod_at[i] >= 0), found)
        return found

    def certain_mask(self, judge: Callable[[], Mask]) -> Mask:
        """A judgement with nominated and expected pods and without them: they may come or not, so both must agree.

        Rules that another pod's presence can only make stricter need one look. Company and evenness are not so.
        """
        mask = judge()
        if self._nominated or self._unsure:
            with self._thought_away(self._nominated), self._thought_away(self._unsure):
                mask = mask & judge()
        return mask

    @contextmanager
    def without_expected(self) -> Iterator[None]:
        """For company and evenness, the world in which pods that are only expected have not come."""
        with self._thought_away(self._unsure):
            yield

    @contextmanager
    def _thought_away(self, kinds: _Kinds) -> Iterator[None]:
        """Counts of where pods stand are without these. What is used stays as it is: that would take much longer."""
        self._told(kinds, -1)
        for pods in kinds.values():
            self.at[list(pods)] = -1  # for counts that are begun now
        yield
        for pods in kinds.values():
            self.at[list(pods)] = list(pods.values())
        self._told(kinds, +1)

    def _told(self, kinds: _Kinds, delta: int) -> None:
        for kind, pods in kinds.items():
            for follower in self._followers:
                if follower.follows(*kind):
                    for pod, node in pods.items():
                        follower.changed(pod, node, delta)

    def place(self, pod: int, node: int) -> None:
        """Let a pod (or the copy that replaces it) be on a node as well; `at` follows the newest place."""
        self._change(pod, node, +1)

    def remove(self, pod: int, node: int) -> None:
        """Let a pod be gone from a node."""
        self._change(pod, node, -1)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Try changes: when the block ends they are undone, newest first. Trials do not nest."""
        if self._log is not None:
            raise RuntimeError("a trial is already under way")
        self._log = []
        try:
            yield
        finally:
            log, self._log = self._log, None
            for pod, node, delta in reversed(log):
                self._change(pod, node, -delta)

    def _change(self, pod: int, node: int, delta: int) -> None:
        columns = self.columns
        came_home = columns.pod_at[pod] == node
        # A pod leaves its first node with what it holds there, and comes to any other with what it asks.
        amounts = columns.held(pod) if came_home else columns.requests(pod)
        if delta > 0:
            self.used[:, node] += amounts
            self.free[:, node] -= amounts
            self.at[pod] = node
            if not came_home:
                self._came.setdefault(node, []).append(pod)
        else:
            self.used[:, node] -= amounts
            self.free[:, node] += amounts
            if not came_home:
                self._came[node].remove(pod)
            if self.at[pod] == node:
                # The copy is undone: the original is where it was, unless it is the one that goes.
                self.at[pod] = -1 if came_home else columns.pod_at[pod]
        for listener in self._listeners:
            listener.changed(pod, node, delta)
        if self._log is not None:
            self._log.append((pod, node, delta))
