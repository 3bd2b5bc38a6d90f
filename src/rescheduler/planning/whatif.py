"""What would be: a mutable layer over the columns in which pods are placed and removed without anything happening.

The planner tries moves in it, predicates ask it, strategies see it through a view. Whatever keeps counts of its own
(affinity, spread, ports, volumes) listens to its changes. Going back is doing the opposite change, so a trial costs
only what it changed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Protocol

import numpy as np

from rescheduler.planning.columns import Columns, Indexes, Ints, Mask


class Listener(Protocol):
    """Whoever keeps counts: told after each change."""

    def changed(self, pod: int, node: int, delta: int) -> None:
        """A pod came to a node (+1) or left it (-1)."""


class WhatIf:
    """The snapshot with moves laid on top."""

    def __init__(self, columns: Columns) -> None:
        self.columns = columns
        self.used = columns.used.copy()
        self.free = columns.allocatable - self.used
        self.room: Ints = self.free.copy()
        """[R, N]: what is free less what is reserved."""
        self.at: Indexes = columns.pod_at.copy()
        self._listeners: list[Listener] = []
        self._came: dict[int, list[int]] = {}
        self._log: list[tuple[int, int, int]] | None = None

    def grown(self) -> None:
        """The columns have taken in more pods: they are nowhere yet."""
        if len(self.at) < len(self.columns.pod_at):
            self.at = np.concatenate([self.at, self.columns.pod_at[len(self.at) :]])

    def listen(self, listener: Listener) -> None:
        """Be told of changes from now on."""
        self._listeners.append(listener)

    def reserve(self, amounts: Ints) -> None:
        """Keep amounts [R, N] out of `room`: moves by choice don't use them."""
        self.room -= amounts

    def pods_on(self, node: int) -> list[int]:
        """The pods that are on a node now."""
        here = self.columns.pods_on(node)
        stayed = here[self.at[here] == node]
        return [*map(int, stayed), *self._came.get(node, ())]

    @cached_property
    def _nominated(self) -> list[int]:
        columns = self.columns
        return [i for i, pod in enumerate(columns.pods) if pod.nominated and not pod.node and columns.pod_at[i] >= 0]

    def for_sure(self, judge: Callable[[], Mask]) -> Mask:
        """A judgement with nominated pods and without them: they may come or not, so both must agree.

        Rules that another pod's presence can only make stricter need one look. Company and evenness are not so.
        """
        mask = judge()
        for pod in self._nominated:
            self.remove(pod, int(self.columns.pod_at[pod]))
        if self._nominated:
            mask = mask & judge()
        for pod in reversed(self._nominated):
            self.place(pod, int(self.columns.pod_at[pod]))
        return mask

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
            self.room[:, node] -= amounts
            self.at[pod] = node
            if not came_home:
                self._came.setdefault(node, []).append(pod)
        else:
            self.used[:, node] -= amounts
            self.free[:, node] += amounts
            self.room[:, node] += amounts
            if not came_home:
                self._came[node].remove(pod)
            if self.at[pod] == node:
                # The copy is undone: the original is where it was, unless it is the one that goes.
                self.at[pod] = -1 if came_home else columns.pod_at[pod]
        for listener in self._listeners:
            listener.changed(pod, node, delta)
        if self._log is not None:
            self._log.append((pod, node, delta))
