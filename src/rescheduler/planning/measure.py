"""What one pod counts for: what it requests, what was measured of it, or the larger of the two.

`utilization` decides. What was not measured of a pod is taken from its workload's mean, and where there is none of that
either, from its requests. Only CPU and memory are measured; of every other resource requests count. Whether a pod
fits on a node is another matter: kube-scheduler goes by requests, so feasibility does too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rescheduler.model.objects import Pod
from rescheduler.model.policy import Utilization
from rescheduler.model.shape import Requests
from rescheduler.model.snapshot import ClusterSnapshot, WorkloadKey
from rescheduler.model.usage import Measured
from rescheduler.planning.columns import CAP, PODS
from rescheduler.planning.workloads import Workloads

Amounts = tuple[int, ...]
"""One number a counted resource: CPU in thousandths, memory in bytes, everything else as Kubernetes counts it."""

MEASURED = ("cpu", "memory")


class Measure:
    """Amounts of pods, in the order of the resources that are counted."""

    def __init__(
        self,
        measured: Measured | None,
        utilization: Utilization,
        resources: Sequence[str],
        workload: Callable[[Pod], WorkloadKey],
    ) -> None:
        self._resources = resources
        self._larger = utilization is Utilization.MAX
        self._found = measured if utilization is not Utilization.REQUESTS else None
        self._workload = workload

    @classmethod
    def of(cls, snapshot: ClusterSnapshot, utilization: Utilization, resources: Sequence[str]) -> Measure:
        """As a snapshot has it."""
        return cls(snapshot.measured, utilization, resources, Workloads(snapshot).key)

    @property
    def measured(self) -> bool:
        """Whether anything else than requests counts."""
        return self._found is not None

    def held(self, pod: Pod) -> Amounts:
        """What it counts for on its node."""
        return self._counted(pod, pod.held)

    def asked(self, pod: Pod) -> Amounts:
        """What it would count for on another node: as much as here, if that was measured."""
        return self._counted(pod, pod.shape.requests)

    def known(self, pod: Pod) -> Requests | None:
        """What was measured of it, and what was not of its workload; None when nothing was."""
        if self._found is None:
            return None
        own = self._found.pods.get((pod.namespace, pod.name))
        if own is not None and len(own) == len(MEASURED):
            return own
        # A new pod's memory may be known before its CPU: requests for the one beside use for the other would mislead.
        like = self._found.workloads.get(self._workload(pod))
        return tuple((dict(like) | dict(own)).items()) if own and like else own or like

    def node(self, name: str) -> Amounts | None:
        """What was measured of a node, pods and everything else on it; None when nothing was."""
        found = self._found.nodes.get(name) if self._found is not None else None
        if found is None:
            return None
        amounts = dict(found)
        return tuple([min(amounts.get(each, 0), CAP) if each in MEASURED else 0 for each in self._resources])

    def whole(self, name: str, pods: Amounts) -> Amounts:
        """What a node counts for whose pods count for so much: what it uses besides them is its own."""
        found = self._found
        if found is None:
            return pods
        if name in found.besides:
            own = dict(found.besides[name])
            return tuple([mine + min(own.get(each, 0), CAP) for mine, each in zip(pods, self._resources, strict=True)])
        measured = self.node(name)
        return pods if measured is None else tuple(map(max, pods, measured))

    def _counted(self, pod: Pod, requests: Requests) -> Amounts:
        amounts = dict(requests)
        for resource, used in self.known(pod) or ():
            if resource in MEASURED:
                amounts[resource] = max(amounts.get(resource, 0), used) if self._larger else used
        return tuple([1 if each == PODS else min(amounts.get(each, 0), CAP) for each in self._resources])
