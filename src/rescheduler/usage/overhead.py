"""What nodes use besides their pods: their system, and what nobody can move.

Of each answer of a source `Remainder` reckons it with the pods as they stand then; `Remainders` keeps the least of a
while. The least, and not a mean: what a node is said to use is some seconds old, and pods that have left it meanwhile
are still in it. So a remainder may be too large for a moment after each move, and is hardly ever too small. If it were
taken from means, a node would look hot for minutes after it was cooled, and be emptied.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import numpy as np

from rescheduler.model.objects import Pod
from rescheduler.model.shape import Requests
from rescheduler.usage.samples import CELLS, Sample, amounts_of

_SHORTEST = 300.0  # seconds: moves and the measuring of what came of them take a good part of a minute
Amounts = tuple[float, ...]


class Remainder:
    """One answer: what each node uses, less what its pods use.

    A node with a pod that was not measured, such as one that has only just started, tells nothing this time: what that
    pod uses would pass for the node's.
    """

    def __init__(self, pods: Iterable[Pod] = ()) -> None:
        self._unseen: dict[str, dict[str, str]] = {}
        """Namespace → pod → node, of those that run and have not been told of yet."""
        self._waiting: Counter[str] = Counter()
        self._nodes: dict[str, Sample] = {}
        self._used: dict[str, Amounts] = {}
        self.place(pods)

    def place(self, pods: Iterable[Pod]) -> None:
        """More pods that are known, and where they stand."""
        for pod in pods:
            if pod.node and pod.phase == "Running":
                self._unseen.setdefault(pod.namespace, {})[pod.name] = pod.node
                self._waiting[pod.node] += 1

    def take(self, samples: Iterable[Sample]) -> None:
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


class Remainders:
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
