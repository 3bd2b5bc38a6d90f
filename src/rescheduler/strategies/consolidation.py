"""Consolidation: empty the nodes that cost most for what they bear, so that they can be taken away."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import ClassVar

import numpy as np
from pydantic import Field, field_validator

from rescheduler.model import labels
from rescheduler.model.labels import eviction_cost
from rescheduler.model.objects import Node
from rescheduler.model.plan import Method
from rescheduler.model.policy import Thresholds
from rescheduler.planning.api import PodMove, Proposal, ProposalResult, Proposals, Strategy
from rescheduler.planning.columns import Floats, Indexes, Mask
from rescheduler.planning.settings import Misfit, StrategySettings
from rescheduler.planning.view import View
from rescheduler.strategies.support.consolidation import (
    OtherResources,
    PackingResult,
    PackingTrial,
    explain_too_few,
    nodes_in_use,
    packing_cost,
)
from rescheduler.strategies.support.settings import Percents, PodFilters, PodSelection, by_resource

_PER_PRIORITY = 1 / 2**25  # the highest priority that users can give, a thousand million, counts as thirty moves
_PER_COST = 1 / 2**27  # the highest eviction cost counts as sixteen moves
_LEAST_EFFORT = 0.1  # and the lowest still as a part of one
_EVICTION = 2.0  # pods that are gone for a moment, against 1.0 for those that are there all the time
_EVERYWHERE = frozenset({"pods", "ephemeral-storage"})  # what nodes have without a threshold, besides CPU and memory
_FOUND = -1.0  # the target that was found beforehand comes before any other, whatever these cost


class ConsolidationSettings(PodFilters):
    """Which nodes are worth emptying, and what they cost."""

    conflicts_with: ClassVar[frozenset[str]] = frozenset({"LoadBalancing"})

    max_utilization: float = Field(
        50.0,
        gt=0,
        le=100,
        description="Nodes that are used above this many % of any resource that they have are not worth emptying: CPU, "
        "memory, pod count, ephemeral storage, devices. Of what is not measured, requests count. For the cluster "
        "autoscaler it is `--scale-down-utilization-threshold`, which is 0.5 by default.",
    )
    max_utilization_of: Percents = Field(
        {},
        description="The same for some resources, over `maxUtilization`, such as `{memory: 70, nvidia.com/gpu: 0}`: 0 "
        "keeps every node on which any of it is in use, 100 looks away. Those named must be `cpu`, `memory`, "
        "`pods`, `ephemeral-storage` or have one of the `thresholds`.",
    )
    min_underused_nodes: int = Field(
        0,
        ge=0,
        description="Nothing is emptied unless at least so many nodes are worth it: within these limits, in use, not "
        "marked to be kept, and with no pods that the filters do not mean; in a node pool, of that pool. Descheduler "
        "acts only above its `numberOfNodes`: give one more here.",
    )
    min_nodes: int = Field(1, ge=0, description="So many nodes stay in use, at least; in a node pool, of that pool.")
    max_nodes_per_plan: int = Field(10, ge=1, description="So many nodes are emptied in one plan, at most.")
    price_label: str = Field(
        "", description="The label that tells a node's price per hour, or that `prices` goes by; empty for none."
    )
    price_annotation: str = Field(
        "rescheduler.io/price",
        description="The annotation that tells it, if the label does not. Only some annotations of nodes are read, so "
        "its name must begin with `rescheduler.io/`.",
    )
    prices: dict[str, float] = Field(
        {},
        description="Prices by the label's value, such as `{m5.large: 0.096}` for the label "
        "`node.kubernetes.io/instance-type`.",
    )
    default_price: float = Field(1.0, gt=0, description="The price of a node of which nothing tells one.")

    @field_validator("price_annotation")
    @classmethod
    def _is_read(cls, key: str) -> str:
        if key and not labels.is_relevant(key):
            raise ValueError(
                f"{key!r} is not read: give a name that begins with {labels.OWN_PREFIX}, or use priceLabel"
            )
        return key

    @field_validator("prices")
    @classmethod
    def _are_prices(cls, prices: dict[str, float]) -> dict[str, float]:
        for value, price in prices.items():
            if not price >= 0:
                raise ValueError(f"the price of {value!r} is {price:g}, which is below 0")
        return prices

    def misfits(self, thresholds: Thresholds, counted: Collection[str]) -> Iterator[Misfit]:
        """Limits must be of resources that every node has, or that have a threshold: of those a plan tells slips."""
        for name in self.max_utilization_of:
            if name not in counted and name not in _EVERYWHERE:
                why = "is none of cpu, memory, pods and ephemeral-storage: give it one of the thresholds, too"
                yield Misfit(("maxUtilizationOf", name), f"{why} (100 makes no node hot)")

    def price(self, node: Node) -> float:
        """What a node costs per hour; what is not a number says nothing."""
        label = node.labels.get(self.price_label, "")
        if label in self.prices:
            return self.prices[label]
        for told in (label, node.annotations.get(self.price_annotation, "")):
            try:
                price = float(told)
            except ValueError:
                continue
            if 0 <= price < np.inf:
                return price
        return self.default_price


class Consolidation(Strategy[ConsolidationSettings]):
    """Empties whole nodes onto others, so that an autoscaler finds them unneeded and takes them away.

    A node is emptied if it is used at most `maxUtilization` % of each resource that it has, thresholds or not, and all
    its pods fit on nodes that bear something already and stay under their thresholds: all of them move, or none.
    DaemonSet and static pods stay, as for an autoscaler. A pod that may not be moved keeps its node, and the plan says
    so. The nodes that save most per move come first: price per hour ÷ the sum over the pods of (1, or 2 for one that is
    evicted, + priority ÷ 2²⁵ + [eviction cost](when.md#marks) ÷ 2²⁷, as for Karpenter). Pods go to the fullest node
    that takes them, and to one with free devices that they do not ask for only if there is no other. Never emptied are
    nodes annotated `cluster-autoscaler.kubernetes.io/scale-down-disabled: "true"` or
    `karpenter.sh/do-not-disrupt: "true"`, and those that are cordoned, not ready or under maintenance, or bear a pod
    that the filters do not mean.

    All pods of a node move in one plan, so `maxReschedulePods` must be at least what a node bears, or `unlimited`;
    `maxNodesPerPlan` then keeps plans small. A node is never emptied bit by bit over several plans: others may take the
    room in between, and the moves would have been for nothing. Nothing is done to an emptied node: the autoscaler
    taints it by itself. Until then the scheduler may place new pods there, less so if it scores nodes by
    `MostAllocated`; so may pods come back that are evicted and not steered (those of StatefulSets, without the
    webhook). Other strategies move pods onto vacant nodes only from nodes that are hot or to be emptied, and
    LoadBalancing cannot run for the same nodes. In node pools each pool is packed by itself.
    """

    name: ClassVar[str] = "Consolidation"
    order: ClassVar[int] = 400
    settings_type: ClassVar[type[StrategySettings]] = ConsolidationSettings

    def propose(self, view: View) -> Proposals:
        """First the nodes that a trial has emptied; then what keeps the others, for people to see."""
        if self.wait_reason(view):
            return
        packing, bound = PackingTrial(view, self._most_nodes(view)), self._bound(view, view.at)
        packed = packing.run(lambda: self._in_order(view, bound))
        for node in packed.emptied:
            decision = yield self._proposal(view, node, packing.residents(node), packed)
            if _over(decision):
                return
        for node, pod in packed.held.items():
            if pod not in view.moved:
                yield Proposal.one(pod, self._why(view, node))
        for node in packed.full:
            decision = yield self._proposal(view, node, packing.residents(node), packed)
            if _over(decision):
                return

    def wait_reason(self, view: View) -> str:
        """Whether too few nodes are worth emptying to begin with."""
        wanted = self.settings.min_underused_nodes
        if not wanted:
            return ""
        use = view.first * (100.0 / np.maximum(view.capacity, 1))
        in_use = view.open & (view.residents.first > 0) & ~self._bound(view, view.columns.pod_at)
        others = OtherResources(view)
        idle = in_use & self._little(view, use) & self._little_of(others, others.first)
        worth_it = [node for node in np.flatnonzero(idle) if not view.nodes[node].kept]
        return explain_too_few(len(worth_it), wanted, "worth emptying") if worth_it else ""

    def accepts(self, view: View, pod: int) -> Mask | None:
        """Nodes that bear something; any, for a pod that must leave its node and would find no other."""
        vacant = view.vacant
        if not vacant.any():
            return None
        node = int(view.at[pod])
        must_go = node >= 0 and (not view.open[node] or bool((view.excess(node) > 0).any()))
        return None if must_go and not self._finds_another(view, pod, vacant) else ~vacant

    def _finds_another(self, view: View, pod: int, vacant: Mask) -> bool:
        """Whether a node that bears something would take the pod, and suit the other strategies."""
        found = view.feasible_targets(pod) & ~vacant
        if found.any() and (suiting := view.accepted_by_others(pod, self.name)) is not None:
            found &= suiting
        return bool(found.any())

    def _most_nodes(self, view: View) -> int:
        """How many nodes may be emptied; the plan may have emptied some already, in a rehearsal."""
        so_far = int((view.open & view.vacant & (view.residents.first > 0)).sum())
        not_needed = int(nodes_in_use(view).sum()) - self.settings.min_nodes
        return max(min(self.settings.max_nodes_per_plan - so_far, not_needed), 0)

    def _little(self, view: View, use: Floats) -> Mask:
        """[N]: nodes that are used little enough of what counts, if this [R, N] is what they use."""
        limits = by_resource(view, self.settings.max_utilization_of, self.settings.max_utilization)
        return np.asarray((use <= limits[:, None]).all(axis=0))

    def _little_of(self, others: OtherResources, use: Floats) -> Mask:
        """[N]: the same of all else that they have."""
        return others.within(use, self.settings.max_utilization_of, self.settings.max_utilization)

    def _bound(self, view: View, at: Indexes) -> Mask:
        """[N]: nodes that bear a pod which the filters do not mean, where pods are at these: it stays, and they do."""
        bound = np.zeros(len(view.nodes), np.bool_)
        if not self.settings.match_all:
            choice, placed = PodSelection(self.settings, view), view.residents.placed & (at >= 0)
            others = [pod for pod in np.flatnonzero(placed).tolist() if not choice.matches(view.pods[pod])]
            bound[at[others]] = True
        return bound

    def _in_order(self, view: View, bound: Mask) -> list[int]:
        """The nodes that are worth emptying: those that save most per move first, then those that are used least."""
        use, others = view.utilisation, OtherResources(view)
        little = self._little(view, use) & self._little_of(others, others.now)
        most, idle = use.max(axis=0), little & nodes_in_use(view) & ~bound
        found = [
            (-self.settings.price(view.nodes[node]) / self._disturbance(view, node), most[node], node)
            for node in np.flatnonzero(idle).tolist()
            if not view.nodes[node].kept
        ]
        return [node for *_, node in sorted(found)]

    @staticmethod
    def _disturbance(view: View, node: int) -> float:
        """What it takes to empty a node: 1 a move, 2 an eviction, more for higher priorities and eviction costs."""
        return sum(_effort(view, pod) for pod in view.residents.on(node))

    def _proposal(self, view: View, node: int, pods: list[int], packed: PackingResult) -> Proposal:
        """All pods of a node, each to where the trial has put it, or else to the fullest node that stays."""
        why = self._why(view, node)
        stays = nodes_in_use(view)
        stays[packed.emptied] = False
        pod_moves: list[PodMove] = []
        for pod in pods:
            cost: Floats = np.where(stays, packing_cost(view, pod), np.inf)
            if pod in packed.target:
                cost[packed.target[pod]] = _FOUND
            pod_moves.append(PodMove(pod, why, cost))
        return Proposal(tuple(pod_moves))

    def _why(self, view: View, node: int) -> str:
        use, found = view.utilisation_of(node), view.nodes[node]
        price, pods = self.settings.price(found), view.residents.counts[node]
        most = f"{use.max():.1f}% {view.resources[int(use.argmax())]}"
        return f"{found.name} is used to {most}: emptying it takes {pods} moves and saves {price:g} an hour"


def _effort(view: View, pod: int) -> float:
    row = view.pods[pod]
    move = _EVICTION if view.method(pod) is Method.EVICT else 1.0
    cost = eviction_cost(row.annotations).number * _PER_COST
    return max(move + max(row.priority, 0) * _PER_PRIORITY + cost, _LEAST_EFFORT)


def _over(decision: ProposalResult) -> bool:
    return decision.exhausted and not decision.accepted
