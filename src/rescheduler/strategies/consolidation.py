"""Consolidation: empty the nodes that cost most for what they run, so that an autoscaler can remove them."""

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
from rescheduler.planning.api import PodMove, Proposal, Proposals, Strategy
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
        description=(
            "Nodes that use more than this % of any of their resources are not worth emptying: CPU, memory, "
            "pod count, ephemeral storage, devices. Resources that are not measured count by requests. The "
            "cluster autoscaler calls it `--scale-down-utilization-threshold`, with a default of 0.5."
        ),
    )
    max_utilization_of: Percents = Field(
        {},
        description=(
            "The same for single resources, instead of `maxUtilization`, such as `{memory: 70, "
            "nvidia.com/gpu: 0}`: 0 keeps every node on which the resource is in use, 100 ignores it. "
            "Possible are `cpu`, `memory`, `pods`, `ephemeral-storage` and resources with one of the "
            "`thresholds`."
        ),
    )
    min_underused_nodes: int = Field(
        0,
        ge=0,
        description=(
            "Nothing is emptied unless at least this many nodes are worth it: within these limits, in use, "
            "not marked to be kept, and without pods that the filters exclude; in a node pool, nodes of that"
            " pool. Descheduler acts only above its `numberOfNodes`: set one more here."
        ),
    )
    min_nodes: int = Field(
        1, ge=0, description="At least this many nodes stay in use; in a node pool, nodes of that pool."
    )
    max_nodes_per_plan: int = Field(10, ge=1, description="At most this many nodes are emptied in one plan.")
    price_label: str = Field(
        "", description="The node label with the price per hour, or with the key for `prices`; empty for none."
    )
    price_annotation: str = Field(
        "rescheduler.io/price",
        description=(
            "The node annotation with the price, if the label has none. Only some annotations of nodes are "
            "read, so its name must begin with `rescheduler.io/`."
        ),
    )
    prices: dict[str, float] = Field(
        {},
        description=(
            "Prices by the label's value, such as `{m5.large: 0.096}` for the label `node.kubernetes.io/instance-type`."
        ),
    )
    default_price: float = Field(1.0, gt=0, description="The price of nodes that have none.")

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
        """Report limits of resources that are neither on every node nor in `thresholds`: they are probably misspelt."""
        for name in self.max_utilization_of:
            if name not in counted and name not in _EVERYWHERE:
                why = "is none of cpu, memory, pods and ephemeral-storage: give it one of the thresholds, too"
                yield Misfit(("maxUtilizationOf", name), f"{why} (100 makes no node hot)")

    def price(self, node: Node) -> float:
        """Return a node's price per hour; values that are no numbers are ignored."""
        label = node.labels.get(self.price_label, "")
        if label in self.prices:
            return self.prices[label]
        for text in (label, node.annotations.get(self.price_annotation, "")):
            try:
                price = float(text)
            except ValueError:
                continue
            if 0 <= price < np.inf:
                return price
        return self.default_price


class Consolidation(Strategy[ConsolidationSettings]):
    """Empties whole nodes onto others, so that an autoscaler finds them unneeded and removes them.

    A node is emptied if it uses at most `maxUtilization` % of each of its resources, with thresholds or not, and if all
    its pods fit on nodes that are in use already and stay under their thresholds. All of them move, or none. DaemonSet
    and static pods stay, as for an autoscaler. A pod that may not be moved keeps its node, and the plan says so. Nodes
    that save most per move come first: price per hour ÷ the sum over the pods of (1, or 2 for an eviction, + priority ÷
    2²⁵ + [eviction cost](when.md#marks) ÷ 2²⁷, as for Karpenter). Pods go to the fullest node that fits, and to a node
    with free devices that they do not request only if there is no other. These nodes are never emptied: those annotated
    `cluster-autoscaler.kubernetes.io/scale-down-disabled: "true"` or `karpenter.sh/do-not-disrupt: "true"`, cordoned
    nodes, nodes that are not ready or under maintenance, and nodes with a pod that the filters exclude.

    All pods of a node move in one plan, so `maxReschedulePods` must be at least the number of pods on a node, or
    `unlimited`; `maxNodesPerPlan` then keeps plans small. A node is never emptied gradually over several plans: others
    could take the room in between, and the moves would have been for nothing. An emptied node is left as it is, because
    the autoscaler taints it by itself. Until then the scheduler may place new pods there, less often if it scores nodes
    by `MostAllocated`. Pods that are evicted and not steered (those of StatefulSets, without the webhook) may also come
    back. Other strategies move pods to empty nodes only from nodes that are hot or about to be emptied. LoadBalancing
    cannot run for the same nodes. Each node pool is packed separately.
    """

    name: ClassVar[str] = "Consolidation"
    order: ClassVar[int] = 400
    settings_type: ClassVar[type[StrategySettings]] = ConsolidationSettings

    def propose(self, view: View) -> Proposals:
        """Propose the nodes that a trial has emptied; then those that something keeps, so that the plan says why."""
        if self.wait_reason(view):
            return
        packing, bound = PackingTrial(view, self._most_nodes(view)), self._bound(view, view.at)
        packed = packing.run(lambda: self._in_order(view, bound))
        for node in packed.emptied:
            result = yield self._proposal(view, node, packing.residents(node), packed)
            if result.is_final:
                return
        for node, pod in packed.held.items():
            if pod not in view.moved:
                yield Proposal.one(pod, self._why(view, node))
        for node in packed.full:
            result = yield self._proposal(view, node, packing.residents(node), packed)
            if result.is_final:
                return

    def wait_reason(self, view: View) -> str:
        """Return why nothing is done if too few nodes are worth emptying."""
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
        """Return nodes in use; all nodes for a pod that must leave its node and has no other target."""
        vacant = view.vacant
        if not vacant.any():
            return None
        node = int(view.at[pod])
        must_go = node >= 0 and (not view.open[node] or bool((view.excess(node) > 0).any()))
        return None if must_go and not self._finds_another(view, pod, vacant) else ~vacant

    def _finds_another(self, view: View, pod: int, vacant: Mask) -> bool:
        """Whether a node in use is a feasible target that other strategies accept."""
        found = view.feasible_targets(pod) & ~vacant
        if found.any() and (suiting := view.accepted_by_others(pod, self.name)) is not None:
            found &= suiting
        return bool(found.any())

    def _most_nodes(self, view: View) -> int:
        """Return how many nodes may be emptied; in a rehearsal the plan may have emptied some already."""
        so_far = int((view.open & view.vacant & (view.residents.first > 0)).sum())
        not_needed = int(nodes_in_use(view).sum()) - self.settings.min_nodes
        return max(min(self.settings.max_nodes_per_plan - so_far, not_needed), 0)

    def _little(self, view: View, use: Floats) -> Mask:
        """[N]: nodes below the limits of all resources with thresholds, for this use [R, N]."""
        limits = by_resource(view, self.settings.max_utilization_of, self.settings.max_utilization)
        return np.asarray((use <= limits[:, None]).all(axis=0))

    def _little_of(self, others: OtherResources, use: Floats) -> Mask:
        """[N]: the same for all other resources of the nodes."""
        return others.within(use, self.settings.max_utilization_of, self.settings.max_utilization)

    def _bound(self, view: View, at: Indexes) -> Mask:
        """[N]: nodes with a pod that the filters exclude, for these places of pods: it stays, and so does the node."""
        bound = np.zeros(len(view.nodes), np.bool_)
        if not self.settings.match_all:
            selection, placed = PodSelection(self.settings, view), view.residents.placed & (at >= 0)
            others = [pod for pod in np.flatnonzero(placed).tolist() if not selection.matches(view.pods[pod])]
            bound[at[others]] = True
        return bound

    def _in_order(self, view: View, bound: Mask) -> list[int]:
        """Return the nodes worth emptying: those that save most per move first, then the least used."""
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
        """Return the effort of emptying a node: 1 a move, 2 an eviction, more for priorities and eviction costs."""
        return sum(_effort(view, pod) for pod in view.residents.on(node))

    def _proposal(self, view: View, node: int, pods: list[int], packed: PackingResult) -> Proposal:
        """Move all pods of a node: each to the target of the trial, else to the fullest node that stays."""
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
