"""LoadBalancing: the most and the least used nodes come within a threshold of each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from pydantic import Field

from rescheduler.planning.columns import Mask
from rescheduler.planning.settings import Settings
from rescheduler.planning.strategy import Proposal, Proposals, Strategy, Wish
from rescheduler.planning.view import RESOURCES, View

# A move must take at least this much (in squared per cent points) off the unevenness, or it isn't worth a disturbance.
_LEAST_GAIN = 1.0


class LoadBalancingSettings(Settings):
    """How uneven nodes may be."""

    imbalance_threshold: float = Field(
        20.0, gt=0, le=100, description="Largest gap between the most and the least used node, in % points."
    )


class LoadBalancing(Strategy[LoadBalancingSettings]):
    """Moves pods from the most used nodes to the least used until the gap is within `imbalanceThreshold`.

    CPU and memory are both looked at; the wider gap comes first. A pod goes from a node to one that is more than the
    threshold below it, and only if that makes the cluster more even: the sum of squares of all nodes' use, over both
    resources and weighted by the nodes' size, must shrink. So no move can ever be worth undoing. It stops when every
    gap is within the threshold or no feasible move helps.
    """

    name: ClassVar[str] = "LoadBalancing"
    order: ClassVar[int] = 300
    settings_type: ClassVar[type[Settings]] = LoadBalancingSettings

    def propose(self, view: View) -> Proposals:
        """From the node with the widest gap on; nodes that nothing can leave are passed over until something moved."""
        stuck = ~view.open
        moved = True
        while moved:
            moved = False
            passed = stuck.copy()
            while (gap := self._widest(view, passed)) is not None:
                resource, source = gap
                taken = False
                hopeless: set[tuple[int, int, str]] = set()
                for wish in self._wishes(view, resource, source):
                    row = view.pods[wish.pod]
                    kind = (id(row.shape), id(row.labels), row.namespace)
                    if kind in hopeless:
                        continue
                    decision = yield Proposal((wish,))
                    if decision.exhausted and not decision.taken:
                        return
                    if decision.taken:
                        taken = moved = True
                        break
                    if decision.rejection is not None and decision.rejection.guard == "NoTarget":
                        hopeless.add(kind)  # what no node takes, no node takes its look-alike from here either
                if not taken:
                    passed[source] = True

    def _widest(self, view: View, passed: Mask) -> tuple[int, int] | None:
        """The resource and the node with the widest gap above the threshold, among nodes not passed over."""
        if passed.all():
            return None
        use = view.utilisation
        floor = np.where(view.open, use, np.inf).min(axis=1)
        top = np.where(passed, -np.inf, use)
        gaps = top.max(axis=1) - floor
        resource = int(gaps.argmax())
        if gaps[resource] <= self.settings.imbalance_threshold:
            return None
        return resource, int(top[resource].argmax())

    def _wishes(self, view: View, resource: int, source: int) -> Iterator[Wish]:
        """Pods that would be better elsewhere, best first, each with what every target is worth to it."""
        use, here = view.utilisation, view.utilisation_of(source)
        far = np.flatnonzero(view.open & (use[resource] < here[resource] - self.settings.imbalance_threshold))
        double_use, of_mean_node = 2 * use[:, far], 100.0 / np.maximum(view.capacity.mean(axis=1), 1.0)
        why = self._why(view, resource, source)
        for pod in self._candidates(view, resource, source):
            # Unevenness is the sum over nodes and resources of size × use². A pod that adds a to a node's use u adds
            # size × a × (a + 2u) to it, and size × a is the same on every node: the pod's share of the mean node.
            cpu, memory = (view.requests(pod) * of_mean_node).tolist()
            leaves, comes = view.relief(pod, source), view.shares(pod, far)
            change = cpu * (comes[0] + double_use[0]) + memory * (comes[1] + double_use[1])
            change += cpu * (leaves[0] - 2 * here[0]) + memory * (leaves[1] - 2 * here[1])
            worth = (change <= -_LEAST_GAIN) & view.reach(pod)[far]
            if worth.any():
                cost = np.full(len(view.nodes), np.inf)
                cost[far[worth]] = change[worth]
                yield Wish(pod, why, cost)

    def _candidates(self, view: View, resource: int, source: int) -> list[int]:
        """Pods on the node: lower priority first, then those whose size fits the gap best.

        The best size brings the node down to the mean and the emptiest node up to half the threshold above it: more
        would only have to be moved on.
        """
        use = view.utilisation[resource][view.open]
        mean, floor = float(use.mean()), float(use.min())
        here = float(view.utilisation_of(source)[resource])
        ideal = min(here - mean, mean + self.settings.imbalance_threshold / 2 - floor)
        pods = [pod for pod in view.pods_on(source) if pod not in view.moved]
        sizes = (view.held(pods)[:, resource] * (100.0 / max(int(view.capacity[resource, source]), 1))).tolist()
        ranked = (
            (view.pods[pod].priority, abs(size - ideal), pod) for pod, size in zip(pods, sizes, strict=True) if size
        )
        return [pod for *_, pod in sorted(ranked)]

    def _why(self, view: View, resource: int, source: int) -> str:
        use = view.utilisation[resource]
        floor = float(use[view.open].min())
        return (
            f"{view.nodes[source].name} is at {use[source]:.1f}% {RESOURCES[resource]}, "
            f"the least used node at {floor:.1f}% (imbalanceThreshold {self.settings.imbalance_threshold:g})"
        )
