"""A mutable layer over the columns, in which pods are placed and removed without anything happening to the cluster.

The planner tries moves in it, predicates read it, strategies see it through a view. Whatever keeps counts of its own
(affinity, spread, ports, volumes) listens to its changes. Undoing is the opposite change, so a trial costs only what it
changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import cached_property
from typing import Protocol

from rescheduler.planning.columns import Columns, Indexes, Mask

_Kinds = dict[tuple[int, int], dict[int, int]]
"""Pods and their nodes, by shape and group: all of a kind are counted by the same counts."""


class PlacementListener(Protocol):
    """Keeps counts; called after each change."""

    def on_change(self, pod: int, node: int, delta: int) -> None:
        """Handle a pod that came to a node (+1) or left it (-1)."""


class PlacementCounter(PlacementListener, Protocol):
    """Counts where pods are, for affinity and spread."""

    def follows(self, shape: int, group: int) -> bool:
        """Whether pods of this shape and this group are counted."""


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
        """Pending pods that a plan makes room for, and their expected nodes; the scheduler may choose others."""
        self._unsure: _Kinds = {}
        self._log: list[tuple[int, int, int]] | None = None

    def add_listener(self, listener: PlacementListener) -> None:
        """Call a listener after each change from now on."""
        self._listeners.append(listener)

    def add_counter(self, follower: PlacementCounter) -> None:
        """Like `add_listener`, for counters that must also see expected pods being hidden."""
        self._listeners.append(follower)
        self._followers.append(follower)

    def expect(self, arrivals: Iterable[tuple[int, int]]) -> None:
        """Mark pending pods that were placed as only expected there."""
        places = dict(arrivals)
        self.expected.update(places)
        self._by_kind(places.items(), self._unsure)

    def _by_kind(self, places: Iterable[tuple[int, int]], found: _Kinds) -> None:
        for pod, node in places:
            kind = int(self.columns.pod_shape[pod]), int(self.columns.pod_group[pod])
            found.setdefault(kind, {})[pod] = node

    def pods_on(self, node: int) -> list[int]:
        """List the pods that are on a node now."""
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

    def certain_mask(self, compute: Callable[[], Mask]) -> Mask:
        """Combine a mask computed with nominated and expected pods and one without them: they may come or not.

        Rules that another pod can only make stricter don't need this; affinity and spread do.
        """
        mask = compute()
        if self._nominated or self._unsure:
            with self._hidden(self._nominated), self._hidden(self._unsure):
                mask = mask & compute()
        return mask

    def without_expected(self) -> AbstractContextManager[None]:
        """Hide expected pods from the counts for affinity and spread."""
        return self._hidden(self._unsure)

    @contextmanager
    def _hidden(self, kinds: _Kinds) -> Iterator[None]:
        """Hide these pods from counters. What is used stays as it is: changing that would take much longer."""
        self._notify_counters(kinds, -1)
        for pods in kinds.values():
            self.at[list(pods)] = -1  # for counts that start now
        yield
        for pods in kinds.values():
            self.at[list(pods)] = list(pods.values())
        self._notify_counters(kinds, +1)

    def _notify_counters(self, kinds: _Kinds, delta: int) -> None:
        for kind, pods in kinds.items():
            for follower in self._followers:
                if follower.follows(*kind):
                    for pod, node in pods.items():
                        follower.on_change(pod, node, delta)

    def place(self, pod: int, node: int) -> None:
        """Put a pod (or the copy that replaces it) on a node as well; `at` follows the newest place."""
        self._change(pod, node, +1)

    def remove(self, pod: int, node: int) -> None:
        """Take a pod off a node."""
        self._change(pod, node, -1)

    @contextmanager
    def trial(self) -> Iterator[None]:
        """Undo all changes of the block at its end, newest first. Trials do not nest."""
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
        # A pod gives back what it holds on its first node, and takes what it requests on any other.
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
                # If the copy is undone, the original is where it was; if the original goes, nothing is left.
                self.at[pod] = -1 if came_home else columns.pod_at[pod]
        for listener in self._listeners:
            listener.on_change(pod, node, delta)
        if self._log is not None:
            self._log.append((pod, node, delta))
