"""What nodes are used for, in the resources that count, as pods come and go in the what-if.

By requests that is what the what-if sums already. By measured use each pod brings its own amounts, and what a node uses
besides its pods (its system, and what nobody told us of) stays with the node.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from rescheduler.model.policy import Utilization
from rescheduler.planning.columns import Columns, Ints
from rescheduler.planning.measure import Measure
from rescheduler.planning.whatif import WhatIf

_LABELS = {"cpu": "CPU"}


class Load:
    """Amounts by counted resource [R]; a listener of the what-if where they are measured."""

    def __init__(self, whatif: WhatIf, utilization: Utilization, resources: Sequence[str]) -> None:
        self._whatif = whatif
        self._columns: Columns = whatif.columns
        self._utilization = utilization
        known = [name for name in resources if name in whatif.columns.resource_index]
        self._rows = np.array([whatif.columns.resource_index[name] for name in known], np.intp)
        # CPU and memory are the first rows: what is asked most often is then no copy.
        self._plain = len(known) == 2
        self.names = known
        self.labels = [_LABELS.get(name, name) for name in known]
        """What people call the resources."""
        self.measure = Measure.of(whatif.columns.snapshot, utilization, known)
        self._of_pods: Ints | None = None
        self._used: Ints | None = None
        if self.measure.measured:
            self._of_pods = self._measured()
            self._used = self._summed(self._of_pods)
            whatif.listen(self)
        self.capacity: Ints = whatif.columns.allocatable[:2] if self._plain else whatif.columns.allocatable[self._rows]
        """[R, N]: what is allocatable."""
        self.first: Ints = self.used.copy()
        """[R, N]: what was used before any move."""
        self._of_expected: Ints = np.zeros_like(self.first)
        self._counted_ahead = 0

    @property
    def used(self) -> Ints:
        """[R, N]: what is used now."""
        if self._used is not None:
            return self._used
        return self._whatif.used[:2] if self._plain else self._whatif.used[self._rows]

    @property
    def present(self) -> Ints:
        """[R, N]: what is used now by those who are there: pods that are only expected may come elsewhere, or never."""
        return self.used - self._ahead if self._whatif.expected else self.used

    def of_node(self, node: int) -> Ints:
        """[R]: what is used of one node."""
        found: Ints = self._used[:, node] if self._used is not None else self._whatif.used[self._rows, node]
        return found

    def present_of(self, node: int) -> Ints:
        """[R]: what is used of one node by those who are there."""
        found: Ints = self.of_node(node)
        return found - self._ahead[:, node] if self._whatif.expected else found

    @property
    def _ahead(self) -> Ints:
        """[R, N]: what pods that are only expected would use."""
        expected = self._whatif.expected
        if self._counted_ahead < len(expected):  # nobody who was expected once is not any more
            for pod, node in list(expected.items())[self._counted_ahead :]:
                self._of_expected[:, node] += self.asked(pod)
            self._counted_ahead = len(expected)
        return self._of_expected

    def asked(self, pod: int) -> Ints:
        """[R]: what a pod would count for on another node."""
        if self._of_pods is not None:
            mine: Ints = self._of_pods[pod]
            return mine
        row = self._columns.requests(pod)
        found: Ints = row[:2] if self._plain else row[self._rows]
        return found

    def held(self, pods: Sequence[int]) -> Ints:
        """[n, R]: what each of these pods gives back when it leaves its node."""
        if self._of_pods is not None:
            mine: Ints = self._of_pods[list(pods)]
            return mine
        found: Ints = self._columns.shape_requests[self._columns.pod_shape[list(pods)]][:, self._rows]
        for position, pod in enumerate(pods):
            if pod in self._columns.resized and self._whatif.at[pod] == self._columns.pod_at[pod]:
                found[position] = self._columns.resized[pod][self._rows]
        return found

    def at_home(self, pod: int) -> Ints:
        """[R]: what a pod counts for where the snapshot has it."""
        if self._of_pods is not None:
            mine: Ints = self._of_pods[pod]
            return mine
        found: Ints = self._columns.held(pod)[self._rows]
        return found

    def changed(self, pod: int, node: int, delta: int) -> None:
        """Follow a change of the what-if."""
        if self._used is not None and self._of_pods is not None:
            self._used[:, node] += delta * self._of_pods[pod]

    def warnings(self) -> Iterator[str]:
        """What is said to be measured and is not, so that requests count instead."""
        snapshot = self._columns.snapshot
        if self._utilization is Utilization.REQUESTS:
            return
        if snapshot.measured is None:
            yield f"utilization is {self._utilization}, but nothing was measured: requests count instead"
            return
        yield from snapshot.measured.warnings

    def _measured(self) -> Ints:
        rows = [self.measure.asked(pod) for pod in self._columns.pods]
        return np.array(rows, np.int64).reshape(len(rows), len(self.names))

    def _summed(self, of_pods: Ints) -> Ints:
        """[R, N]: the pods of each node, and what the node uses besides them."""
        nodes, at = self._columns.nodes, self._columns.pod_at
        pods = np.zeros((len(nodes), len(self.names)), np.int64)
        placed = np.flatnonzero(at >= 0)
        np.add.at(pods, at[placed], of_pods[placed])
        whole = [self.measure.whole(node.name, tuple(sums)) for node, sums in zip(nodes, pods.tolist(), strict=True)]
        used: Ints = np.array(whole, np.int64).reshape(pods.shape).T.copy()
        return used
