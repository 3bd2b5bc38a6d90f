"""What one pod counts for: what it requests, what was measured of it, or the larger of the two.

`utilization` decides which. Without a measurement, the mean of the pod's workload counts, and without that its
requests. Only CPU and memory are measured; requests count for all other resources. Feasibility always uses requests, as
kube-scheduler does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from rescheduler.model.objects import Pod
from rescheduler.model.policy import Utilization
from rescheduler.model.shape import Requests
from rescheduler.model.snapshot import MEASURED, ClusterSnapshot, MeasuredUsage, WorkloadKey
from rescheduler.planning.columns import CAP, PODS, Columns, Ints
from rescheduler.planning.whatif import WhatIf
from rescheduler.planning.workloads import Workloads

Amounts = tuple[int, ...]
"""One number per counted resource: CPU in thousandths, memory in bytes, others as Kubernetes counts them."""


class PodMeasure:
    """Computes the amounts of single pods, in the order of the counted resources."""

    def __init__(
        self,
        measured: MeasuredUsage | None,
        utilization: Utilization,
        resources: Sequence[str],
        workload: Callable[[Pod], WorkloadKey],
    ) -> None:
        self._resources = resources
        self._larger = utilization is Utilization.MAX
        self._found = measured if utilization is not Utilization.REQUESTS else None
        self._workload = workload

    @classmethod
    def of(cls, snapshot: ClusterSnapshot, utilization: Utilization, resources: Sequence[str]) -> PodMeasure:
        """Make one for a snapshot."""
        return cls(snapshot.measured, utilization, resources, Workloads(snapshot).key)

    @property
    def measured(self) -> bool:
        """Whether measured use counts."""
        return self._found is not None

    def held(self, pod: Pod) -> Amounts:
        """Compute what a pod counts for on its node."""
        return self._count(pod, pod.held)

    def requests(self, pod: Pod) -> Amounts:
        """Compute what a pod would count for on another node: the same, if its use was measured."""
        return self._count(pod, pod.shape.requests)

    def find_measured(self, pod: Pod) -> Requests | None:
        """Return the measured use of a pod, completed from its workload; None if nothing was measured."""
        if self._found is None:
            return None
        own = self._found.pods.get((pod.namespace, pod.name))
        if own is not None and len(own) == len(MEASURED):
            return own
        # A new pod's memory may be known before its CPU: requests for the one beside use for the other would mislead.
        like = self._found.workloads.get(self._workload(pod))
        return tuple((dict(like) | dict(own)).items()) if own and like else own or like

    def node(self, name: str) -> Amounts | None:
        """Return the measured use of a node, with everything on it; None if it was not measured."""
        found = self._found.nodes.get(name) if self._found is not None else None
        if found is None:
            return None
        amounts = dict(found)
        return tuple([min(amounts.get(each, 0), CAP) if each in MEASURED else 0 for each in self._resources])

    def add_overhead(self, name: str, pods: Amounts) -> Amounts:
        """Compute what a node counts for from the sum of its pods: system overhead is added."""
        found = self._found
        if found is None:
            return pods
        if name in found.besides:
            own = dict(found.besides[name])
            return tuple([mine + min(own.get(each, 0), CAP) for mine, each in zip(pods, self._resources, strict=True)])
        measured = self.node(name)
        return pods if measured is None else tuple(map(max, pods, measured))

    def _count(self, pod: Pod, requests: Requests) -> Amounts:
        amounts = dict(requests)
        for resource, used in self.find_measured(pod) or ():
            if resource in MEASURED:
                amounts[resource] = max(amounts.get(resource, 0), used) if self._larger else used
        return tuple([1 if each == PODS else min(amounts.get(each, 0), CAP) for each in self._resources])


_LABELS = {"cpu": "CPU"}


class Load:
    """Amounts by counted resource [R] of all nodes; a listener of the what-if if use is measured."""

    def __init__(self, whatif: WhatIf, utilization: Utilization, resources: Sequence[str]) -> None:
        self._whatif = whatif
        self._columns: Columns = whatif.columns
        self._utilization = utilization
        known = [name for name in resources if name in whatif.columns.resource_index]
        self._rows = np.array([whatif.columns.resource_index[name] for name in known], np.intp)
        # CPU and memory are the first rows, so that the common case needs no copy.
        self._plain = len(known) == 2
        self.names = known
        self.labels = [_LABELS.get(name, name) for name in known]
        """Display names of the resources."""
        self.measure = PodMeasure.of(whatif.columns.snapshot, utilization, known)
        columns = whatif.columns
        self._of_pods: Ints = columns.shape_requests[:, self._rows][columns.pod_shape]
        """[P, R]: what each pod would use of another node."""
        self._at_home: dict[int, Ints] = {pod: held[self._rows] for pod, held in columns.resized.items()}
        """[R] for pods that use other amounts of their node in the snapshot."""
        self._used: Ints | None = None
        """[R, N]: what is used now, if use is measured."""
        if self.measure.measured:
            self._of_pods, self._at_home = self._measure_pods(), {}
            self._used = self._sum_by_node(self._of_pods)
            whatif.add_listener(self)
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
        """[R, N]: what is used now without expected pods, which may come elsewhere, or never."""
        return self.used - self._ahead if self._whatif.expected else self.used

    def of_node(self, node: int) -> Ints:
        """[R]: what is used of one node."""
        found: Ints = self._used[:, node] if self._used is not None else self._whatif.used[self._rows, node]
        return found

    def present_of(self, node: int) -> Ints:
        """[R]: what is used of one node without expected pods."""
        found: Ints = self.of_node(node)
        return found - self._ahead[:, node] if self._whatif.expected else found

    @property
    def _ahead(self) -> Ints:
        """[R, N]: what expected pods would use."""
        expected = self._whatif.expected
        if self._counted_ahead < len(expected):  # expected pods stay expected
            for pod, node in list(expected.items())[self._counted_ahead :]:
                self._of_expected[:, node] += self.requests(pod)
            self._counted_ahead = len(expected)
        return self._of_expected

    def requests(self, pod: int) -> Ints:
        """[R]: what a pod would use of another node."""
        found: Ints = self._of_pods[pod]
        return found

    def held(self, pods: Sequence[int]) -> Ints:
        """[n, R]: what each of these pods gives back when it leaves its node."""
        found: Ints = self._of_pods[list(pods)]
        for position, pod in enumerate(pods if self._at_home else ()):
            if pod in self._at_home and self._whatif.at[pod] == self._columns.pod_at[pod]:
                found[position] = self._at_home[pod]
        return found

    def at_home(self, pod: int) -> Ints:
        """[R]: what a pod uses of its node in the snapshot."""
        return self._at_home.get(pod, self.requests(pod))

    def on_change(self, pod: int, node: int, delta: int) -> None:
        """Follow a change of the what-if."""
        if self._used is not None:
            self._used[:, node] += delta * self._of_pods[pod]

    def warnings(self) -> Iterator[str]:
        """Warn if use should be measured but was not, so that requests count instead."""
        snapshot = self._columns.snapshot
        if self._utilization is Utilization.REQUESTS:
            return
        if snapshot.measured is None:
            yield f"utilization is {self._utilization}, but nothing was measured: requests count instead"
            return
        yield from snapshot.measured.warnings

    def _measure_pods(self) -> Ints:
        rows = [self.measure.requests(pod) for pod in self._columns.pods]
        return np.array(rows, np.int64).reshape(len(rows), len(self.names))

    def _sum_by_node(self, of_pods: Ints) -> Ints:
        """[R, N]: the pods of each node, and what the node uses besides them."""
        nodes, at = self._columns.nodes, self._columns.pod_at
        pods = np.zeros((len(nodes), len(self.names)), np.int64)
        placed = np.flatnonzero(at >= 0)
        np.add.at(pods, at[placed], of_pods[placed])
        by_node = zip(nodes, map(tuple, pods.tolist()), strict=True)
        sums = [self.measure.add_overhead(node.name, amounts) for node, amounts in by_node]
        used: Ints = np.array(sums, np.int64).reshape(pods.shape).T.copy()
        return used
