from __future__ import annotations

from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from rescheduler.model.policy import Thresholds
from rescheduler.planning.api import PodMove, Proposal, Proposals, Strategy
from rescheduler.planning.columns import Floats, Mask
from rescheduler.planning.refusals import PlanGuard
from rescheduler.planning.settings import Misfit
from rescheduler.planning.view import Look, View
from rescheduler.strategies.support.settings import PodFilters, PodSelection, Weights, find_uncounted

# A move must take at least this much (in squared per cent points) off the unevenness, or it isn't worth a disturbance.
_LEAST_GAIN = 1.0


class LoadBalancingSettings(PodFilters):
    """How uneven nodes may be, in which resources, and which pods are moved."""

    imbalance_threshold: float = Field(
        20.0, gt=0, le=100, description="Largest gap between the most and the least used node, in % points."
    )
    weights: Weights = Field(
        {},
        description=(
            "How much each resource counts, such as `{cpu: 2, memory: 1}`; 1 by default. 0 ignores a "
            "resource. Possible are `cpu`, `memory` and resources with one of the `thresholds`."
        ),
    )

    def misfits(self, thresholds: Thresholds, counted: Collection[str]) -> Iterator[Misfit]:
        """Report weights of resources that do not count, and weights that leave none."""
        yield from find_uncounted("weights", self.weights, counted)
        if all(self.weights.get(name) == 0 for name in counted):
            yield Misfit(("weights",), f"leave nothing to balance: give one of {', '.join(counted)} more than 0")


class LoadBalancing(Strategy[LoadBalancingSettings]):
    """Moves pods from the most used nodes to the least used until the gap is within `imbalanceThreshold`.

    It compares nodes by CPU, memory and every other resource with one of the `thresholds`, each among the nodes that
    have it; the widest gap comes first. A pod goes to a node that is more than the threshold below its own, and only if
    the move makes the cluster more even: the sum of squares of all nodes' use, over these resources and weighted by the
    nodes' size, must shrink. So no move is ever worth undoing. It stops when every gap is within the threshold or no
    feasible move helps. Each node pool is balanced separately. Pods of pod groups stay.

    With `weights` the widest gap times its weight comes first, and each resource counts by its weight in the sum of
    squares. It is still one sum that every move makes smaller. Only the ratio of weights matters. `imbalanceThreshold`
    is the same for every resource.
    """

    order = 300
    for_gain = True

    def propose(self, view: View) -> Proposals:
        """Propose moves off the node with the widest gap.

        A node that no pod can leave is skipped for that resource until something moved.
        """
        stuck, selection = ~(view.open & view.has), PodSelection(self.settings, view)
        stuck[self._weights(view) == 0] = True
        moved = True
        while moved:
            moved = False
            passed = stuck.copy()
            while (gap := self._widest(view, passed)) is not None:
                resource, source = gap
                taken = False
                hopeless: set[Look] = set()
                for pod_move in self._pod_moves(view, selection, resource, source):
                    look = view.look(pod_move.pod)
                    if look in hopeless:
                        continue
                    result = yield Proposal((pod_move,))
                    if result.is_final:
                        return
                    if result.accepted:
                        taken = moved = True
                        break
                    if result.refused_by(PlanGuard.NO_TARGET):
                        hopeless.add(look)  # what no node takes, no node takes its look-alike from here either
                if not taken:
                    passed[resource, source] = True

    def _widest(self, view: View, passed: Mask) -> tuple[int, int] | None:
        """Return the resource and the node with the widest gap above the threshold that is not `passed` [R, N]."""
        if passed.all():
            return None
        floor = np.where(view.open & view.has, view.utilisation_ahead, np.inf).min(axis=1)
        top = np.where(passed, -np.inf, view.utilisation)
        gaps = top.max(axis=1) - floor
        wide = gaps > self.settings.imbalance_threshold
        if not wide.any():
            return None
        resource = int((np.where(wide, gaps, 0.0) * self._weights(view)).argmax())
        return resource, int(top[resource].argmax())

    def _weights(self, view: View) -> Floats:
        """[R]: the weight of each resource; the largest is 1, so that costs stay in per cent."""
        found = np.array([self.settings.weights.get(name, 1.0) for name in view.names])
        return found / max(float(found.max()), 1e-9)

    def _pod_moves(self, view: View, selection: PodSelection, resource: int, source: int) -> Iterator[PodMove]:
        """Yield moves that make the cluster more even, best first, with the change of the sum as the cost."""
        use, here = view.utilisation_ahead, view.utilisation_of(source)
        lower = use[resource] < here[resource] - self.settings.imbalance_threshold
        far = np.flatnonzero(view.open & view.has[resource] & lower)
        of_mean_node = self._weights(view) * 100.0 / np.maximum(view.capacity.mean(axis=1), 1.0)
        within: dict[int, tuple[NDArray[np.intp], Floats]] = {}
        reaching: list[int] = []
        for pod in self._candidates(view, selection, source):
            shape = int(view.columns.pod_shape[pod])
            if shape not in within:  # pods of one shape reach the same nodes, and often none of these
                near = far[view.node_mask(pod)[far]]
                within[shape] = near, 2 * use[:, near]
            if len(within[shape][0]):
                reaching.append(pod)
        if not reaching:
            return
        why = self._why(view, resource, source)
        pods = self._in_order(view, reaching, resource, source)
        relief = view.held(pods) * (100.0 / np.maximum(view.capacity[:, source], 1))
        for number, pod in enumerate(pods):
            near, double_use = within[int(view.columns.pod_shape[pod])]
            # Unevenness is the sum over nodes and resources of size × use². A pod that adds a to a node's use u adds
            # size × a × (a + 2u) to it, and size × a is the same on every node: the pod's share of the mean node. A
            # weight is a factor of both.
            comes, change = view.shares(pod, near), np.zeros(len(near))
            for row, mean_share in enumerate((view.requests(pod) * of_mean_node).tolist()):
                if mean_share:
                    leaves = float(relief[number, row]) - 2 * float(here[row])
                    change += mean_share * (comes[row] + double_use[row] + leaves)
            worth = change <= -_LEAST_GAIN
            if worth.any() and (suiting := view.accepted_by_others(pod)) is not None:
                worth &= suiting[near]
            if worth.any():
                cost = np.full(len(view.nodes), np.inf)
                cost[near[worth]] = change[worth]
                yield PodMove(pod, why, cost)

    @staticmethod
    def _candidates(view: View, selection: PodSelection, source: int) -> list[int]:
        """Return the pods on the node that may be proposed."""
        moved, members = view.moved, view.groups.members
        # A pod group moves as a whole, and what that does elsewhere may be worth undoing: it stays.
        return selection.select([pod for pod in view.pods_on(source) if pod not in moved and len(members(pod)) < 2])

    def _in_order(self, view: View, pods: list[int], resource: int, source: int) -> list[int]:
        """Sort by priority, then eviction cost, then how well a pod's size fits the gap.

        The best size brings the node down to the mean and the emptiest node up to half the threshold above it: a larger
        pod would have to move on.
        """
        use = view.utilisation[resource][view.open & view.has[resource]]
        mean, floor = float(use.mean()), float(use.min())
        here = float(view.utilisation_of(source)[resource])
        ideal = min(here - mean, mean + self.settings.imbalance_threshold / 2 - floor)
        sizes = (view.held(pods)[:, resource] * (100.0 / max(int(view.capacity[resource, source]), 1))).tolist()
        ranked = ((view.pods[pod].rank, abs(size - ideal), pod) for pod, size in zip(pods, sizes, strict=True) if size)
        return [pod for *_, pod in sorted(ranked)]

    def _why(self, view: View, resource: int, source: int) -> str:
        use = view.utilisation[resource]
        floor = float(use[view.open & view.has[resource]].min())
        return (
            f"{view.nodes[source].name} is at {use[source]:.1f}% {view.resources[resource]}, "
            f"the least used node at {floor:.1f}% (imbalanceThreshold {self.settings.imbalance_threshold:g})"
        )
