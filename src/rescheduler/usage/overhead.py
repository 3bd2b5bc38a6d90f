"""What nodes use besides their pods: their system, and what nobody can move.

`SystemOverhead` computes it from one answer of a source, with the pods as they stand at that time. `OverheadHistory`
keeps the minimum over a window. It is the minimum, not the mean: a node's measurement is some seconds old, and still
includes pods that have left since. So the overhead can be too large for a moment after each move, and is hardly ever
too small. With means, a node would look hot for minutes after it was cooled, and would be emptied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from rescheduler.model.objects import Pod
from rescheduler.model.shape import Requests
from rescheduler.usage.samples import CELLS, UsageSample, amounts_of

_SHORTEST = 300.0  # seconds: moves and the measuring of what came of them take a good part of a minute
Amounts = tuple[float, ...]


class SystemOverhead:
    """One answer: what each node uses, less what its pods use.

    A node with a pod that was not measured, such as one that has only just started, tells nothing this time: what that
    pod uses would pass for the node's.
    """

    def __init__(self, pods: Iterable[Pod] = ()) -> None:
        self._unseen: dict[str, dict[str, str]] = {}
        """Namespace → pod → node, of those that run and have not been told of yet."""
        self._waiting: Counter[str] = Counter()
        self._nodes: dict[str, UsageSample] = {}
        self._used: dict[str, Amounts] = {}
        self.place(pods)

    def place(self, pods: Iterable[Pod]) -> None:
        """More pods that are known, and where they stand."""
        for pod in pods:
            if pod.node and pod.phase == "Running":
                self._unseen.setdefault(pod.namespace, {})[pod.name] = pod.node
                self._waiting[pod.node] += 1

    def take(self, samples: Iterable[UsageSample]) -> None:
        """A part of the answer."""
        if not self._waiting:
            return
        for sample in samples:
            namespace, name = sample.key
            if not namespace:
                self._nodes[name] = sample
                continue
            node = self._unseen.get(namespace, {}).pop(name, None)
            if node is not None:
                self._waiting[node] -= 1
                so_far = self._used.get(node)
                added = sample.amounts if so_far is None else tuple(map(float.__add__, so_far, sample.amounts))
                self._used[node] = added

    def found(self) -> Iterable[tuple[str, float, Amounts]]:
        """Node, time and amounts, of those whose pods are all known; NaN is what is not told of."""
        for name, whole in self._nodes.items():
            if self._waiting[name] == 0:
                used = self._used.get(name, (0.0,) * len(whole.amounts))
                rest = np.maximum(np.subtract(whole.amounts, used), 0.0)
                yield name, whole.time, tuple(rest.tolist())


class OverheadHistory:
    """The least remainder of each node over a window, which is cut into cells as that of samples is."""

    def __init__(self, window: float) -> None:
        self._window = max(window, _SHORTEST)
        self._cell = self._window / CELLS
        self._known: dict[str, dict[int, Amounts]] = {}

    def put(self, found: Iterable[tuple[str, float, Amounts]], now: float) -> None:
        """More of them; what is older than the window is forgotten."""
        oldest = self._oldest(now)
        for name, time, amounts in found:
            cells = self._known.setdefault(name, {})
            cell = int(time // self._cell)
            before = cells.get(cell)
            cells[cell] = amounts if before is None else tuple(np.fmin(before, amounts).tolist())
        for name in list(self._known):
            kept = {cell: amounts for cell, amounts in self._known[name].items() if cell >= oldest}
            if kept:
                self._known[name] = kept
            else:
                del self._known[name]

    def least(self, names: Iterable[str], now: float) -> Mapping[str, Requests]:
        """What each of these nodes uses at the least besides its pods."""
        oldest = self._oldest(now)
        known = {name: self._known[name] for name in names if name in self._known}
        counted = {name: [row for cell, row in cells.items() if cell >= oldest] for name, cells in known.items()}
        least = {name: np.fmin.reduce(np.array(rows)) for name, rows in counted.items() if rows}
        amounts = amounts_of(np.array(list(least.values()))) if least else []
        return {name: found for name, found in zip(least, amounts, strict=True) if found}

    def _oldest(self, now: float) -> int:
        return int((now - self._window) // self._cell)
