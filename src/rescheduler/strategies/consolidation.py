from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import ClassVar

import numpy as np
from pydantic import Field, field_validator

from rescheduler.model import labels
from rescheduler.model.labels import eviction_cost
from rescheduler.model.objects import Node
from rescheduler.model.plan import Method
from rescheduler.model.policy import Thresholds
from rescheduler.planning.api import PodMove, Proposal, Proposals, Strategy
from rescheduler.planning.columns import Floats, Indexes, Ints, Mask
from rescheduler.planning.settings import Misfit
from rescheduler.planning.view import Look, View
from rescheduler.strategies.support.settings import Percents, PodFilters, PodSelection, explain_too_few

_PER_PRIORITY = 1 / 2**25  # the highest priority that users can give, a thousand million, counts as thirty moves
_PER_COST = 1 / 2**27  # the highest eviction cost counts as sixteen moves
_LEAST_EFFORT = 0.1  # and the lowest still as a part of one
_EVICTION = 2.0  # pods that are gone for a moment, against 1.0 for those that are there all the time
_EVERYWHERE = frozenset({"pods", "ephemeral-storage"})  # what nodes have without a threshold, besides CPU and memory
_FOUND = -1.0  # the target that was found beforehand comes before any other, whatever these cost
# Targets at which the rules would not survive are passed over for the next fullest, this often.
_TARGETS_TRIED = 8
_DEVICES = 100.0  # a node with free devices (GPUs and the like) that the pod does not ask for comes after the others
_AVOIDED = 1000.0  # and one that would rather not have the pod (PreferNoSchedule) after all of these


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

    order = 400

    def propose(self, view: View) -> Proposals:
        """Propose the nodes that a trial has emptied; then those that something keeps, so that the plan says why."""
        if self.wait_reason(view):
            return
        packing, bound = PackingTrial(view, self._most_nodes(view)), self._bound(view, view.at)
        packing.run(lambda: self._in_order(view, bound))
        for node in packing.emptied:
            result = yield self._proposal(view, node, packing)
            if result.is_final:
                return
        for node, pod in packing.held.items():
            if pod not in view.moved:
                yield Proposal.one(pod, self._why(view, node))
        for node in packing.full:
            result = yield self._proposal(view, node, packing)
            if result.is_final:
                return

    def wait_reason(self, view: View) -> str:
        """Return why nothing is done if too few nodes are worth emptying."""
        wanted = self.settings.min_underused_nodes
        if not wanted:
            return ""
        in_use = view.open & (view.residents.first > 0) & ~self._bound(view, view.columns.pod_at)
        use = view.first * (100.0 / np.maximum(view.capacity, 1))
        idle = in_use & self._within_limits(view, use, view.columns.used)
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

    def _within_limits(self, view: View, use: Floats, used: Ints) -> Mask:
        """[N]: nodes within the limits of all resources: per cent of those with thresholds, and amounts of all."""
        columns = view.columns
        others = {
            name: row
            for name, row in columns.resource_index.items()
            if name not in view.names and columns.allocatable[row].any()
        }
        rows = list(others.values())
        percent = np.vstack([use, used[rows] * (100.0 / np.maximum(columns.allocatable[rows], 1))])
        limit = self.settings.max_utilization_of
        limits = np.array([limit.get(name, self.settings.max_utilization) for name in (*view.names, *others)])
        return np.asarray((percent <= limits[:, None]).all(axis=0))

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
        use, used = view.utilisation, view.whatif.used.copy()
        for pod, node in view.whatif.expected.items():  # they may come elsewhere, or never
            used[:, node] -= view.columns.requests(pod)
        most, idle = use.max(axis=0), self._within_limits(view, use, used) & nodes_in_use(view) & ~bound
        found = [
            (-self._saving(view, node), most[node], node)
            for node in np.flatnonzero(idle).tolist()
            if not view.nodes[node].kept
        ]
        return [node for *_, node in sorted(found)]

    def _saving(self, view: View, node: int) -> float:
        """Return what emptying a node saves per effort: 1 a move, 2 an eviction, more for priorities and costs."""
        return self.settings.price(view.nodes[node]) / sum(_effort(view, pod) for pod in view.residents.on(node))

    def _proposal(self, view: View, node: int, packing: PackingTrial) -> Proposal:
        """Move all pods of a node: each to the target of the trial, else to the fullest node that stays."""
        why = self._why(view, node)
        stays = nodes_in_use(view)
        stays[packing.emptied] = False
        pod_moves: list[PodMove] = []
        for pod in packing.residents(node):
            cost: Floats = np.where(stays, packing_cost(view, pod), np.inf)
            if pod in packing.target:
                cost[packing.target[pod]] = _FOUND
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


class PackingTrial:
    """Finds in a trial of the what-if which nodes can be emptied onto the others, fullest targets first.

    A node is emptied whole or not at all. A node that took pods may be emptied later like any other, as in a next
    cycle. Only the final node of each pod counts: it can go there directly, since nothing leaves a node that stays.
    """

    def __init__(self, view: View, most_nodes: int) -> None:
        self._view = view
        self._most_nodes = most_nodes
        self.emptied: list[int] = []
        """The nodes in the order in which they were emptied."""
        self.target: dict[int, int] = {}
        """The final node of each of their pods."""
        self.held: dict[int, int] = {}
        """Nodes that a pod keeps which may not be moved: that pod."""
        self.full: list[int] = []
        """Nodes whose pods do not all fit elsewhere, or are too many for one plan."""
        self._moves = 0
        self._objections: dict[int, bool] = {}
        self._hopeless: dict[Look, set[int]] = {}
        """Pods of one look that no node takes: the nodes from which that was found."""

    def run(self, in_order: Callable[[], Iterable[int]]) -> None:
        """Empty nodes in the given order, repeatedly, until no more can be emptied."""
        again = True
        with self._view.whatif.trial():
            while again:
                again = False
                self.full.clear()
                for node in in_order():
                    if node in self.held or self._view.vacant[node]:
                        continue
                    emptied = self._empty(node)
                    if emptied is None:
                        again = False  # no more moves or nodes are allowed: the next cycle goes on
                        break
                    again |= emptied
            for pod in self.target:
                self.target[pod] = int(self._view.at[pod])

    def _empty(self, node: int) -> bool | None:
        """Move all pods of a node away, or none; return None when the plan is full."""
        pods = self.residents(node)
        if self._is_held(node, pods):
            return False
        fresh = [pod for pod in pods if pod not in self.target]
        left = self._view.moves_left
        if left is not None and self._moves + len(fresh) > left:
            self.full.append(node)
            return False if len(fresh) > left else None
        if len(self.emptied) >= self._most_nodes:
            return None
        done: list[tuple[int, int]] = []
        for pod in pods:
            target = self._move(pod, node)
            if target is None:
                for moved, to in reversed(done):
                    self._view.whatif.remove(moved, to)
                    self._view.whatif.place(moved, node)
                self.full.append(node)
                return False
            done.append((pod, target))
        self._moves += len(fresh)
        self.target.update(done)
        self.emptied.append(node)
        return True

    def residents(self, node: int) -> list[int]:
        """Return the pods that have to leave, the largest first, while there is most room."""
        view = self._view
        pods = view.residents.on(node)
        sizes = (view.held(pods) / np.maximum(view.capacity[:, node], 1)).max(axis=1).tolist() if pods else []
        return [pod for _, pod in sorted(zip((-size for size in sizes), pods, strict=True))]

    def _is_held(self, node: int, pods: list[int]) -> bool:
        """Whether a pod that may not be moved keeps the node."""
        for pod in pods:
            if pod not in self._objections:
                self._objections[pod] = pod in self._view.moved or self._view.objection(pod) is not None
            if self._objections[pod]:
                self.held[node] = pod
                return True
        return False

    def _move(self, pod: int, source: int) -> int | None:
        """Move a pod to the fullest node that fits, and return it."""
        view = self._view
        look = view.look(pod)
        if len(self._hopeless.get(look, ())) > 1:
            return None
        could_be = view.feasible_targets(pod) & nodes_in_use(view)
        could_be[source] = False
        nodes = np.flatnonzero(could_be)
        if not len(nodes):
            # Room on nodes that stay only shrinks, so this holds. Its own node aside: that takes two to see.
            self._hopeless.setdefault(look, set()).add(source)
            return None
        costs = packing_cost(view, pod)[nodes]
        side_by_side = view.method(pod) is not Method.EVICT
        for _ in range(min(len(nodes), _TARGETS_TRIED)):
            best = int(costs.argmin())
            target = int(nodes[best])
            if not view.feasibility.try_move(pod, target, side_by_side=side_by_side):
                return target
            view.whatif.remove(pod, target)
            view.whatif.place(pod, source)
            costs[best] = np.inf
        return None


def nodes_in_use(view: View) -> Mask:
    """[N]: nodes that pods may be packed onto: open nodes with pods."""
    found: Mask = view.open & ~view.vacant
    return found


def packing_cost(view: View, pod: int) -> Floats:
    """[N]: lower for fuller nodes, by their most used resource; nodes that others need more cost extra."""
    cost: Floats = 100.0 - view.utilisation.max(axis=0)
    asked = view.columns.requests(pod)
    for name, resource in view.columns.resource_index.items():
        if "/" in name and not asked[resource]:
            cost[view.whatif.free[resource] > 0] += _DEVICES
    avoided = view.feasibility.node_masks.discouraged(view.columns.shape(pod))
    if avoided.any():
        cost[avoided] += _AVOIDED
    return cost
