from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from pydantic import Field

from rescheduler.model.shape import NodeTerm, Shape
from rescheduler.planning.api import PodMove, Proposals, Strategy, propose_each
from rescheduler.planning.columns import Floats, Mask
from rescheduler.planning.matching import rule_owners
from rescheduler.planning.view import View
from rescheduler.strategies.support.settings import PodFilters, PodSelection
from rescheduler.strategies.support.violations import pods_in_scope, propose_until_stuck

# More than the use of a node can cost: what the pod prefers decides, use only among nodes that weigh the same.
_PER_WEIGHT = 1e4


class NodeAffinitySettings(PodFilters):
    """Which pods, and whether preferences count too."""

    include_preferred: bool = Field(
        default=False,
        description="Also move pods to nodes with a higher weight in their preferred node affinity.",
    )


class NodeAffinity(Strategy[NodeAffinitySettings]):
    """Moves pods off nodes that lack the labels that their node selector or node affinity requires.

    The scheduler checks these rules once, when it places a pod; when a node's labels change later, the pod stays. It
    goes to a node that meets the rules: under the thresholds if there is one, else any with room. A pin to the target
    of an earlier move by us is not a rule of the pod.

    With `includePreferred` a pod also goes where its preferred node affinity has a strictly higher total weight, to the
    heaviest such node that stays under its thresholds. Pods of pod groups stay. No other strategy then moves a pod to a
    node with a lower weight.
    """

    order = 120

    def propose(self, view: View) -> Proposals:
        """Propose broken requirements first; then, if enabled, better preferences."""
        selection = PodSelection(self.settings, view)
        yield from propose_until_stuck(view, self._find_violated(view, selection))
        if self.settings.include_preferred:
            yield from propose_each(view, self._find_better(view, selection))

    def accepts(self, view: View, pod: int) -> Mask | None:
        """Return nodes that the pod prefers at least as much as its own."""
        shape, node = view.columns.shape(pod), int(view.at[pod])
        if not self.settings.include_preferred or not shape.preferred_nodes or node < 0:
            return None
        weight = self._weight(view, shape)
        found: Mask = weight >= weight[node]
        return found

    def _find_violated(self, view: View, selection: PodSelection) -> dict[int, str]:
        """Return the pods whose node does not meet their required rules, each with the reason."""
        found: dict[int, str] = {}
        for owner in rule_owners(view.columns, _requires):
            meets = view.feasibility.node_masks.selected(owner.shape)
            pods = pods_in_scope(view, owner.pods)
            if meets is None or meets[view.at[pods]].all():
                continue
            for pod in pods[~meets[view.at[pods]]].tolist():
                if selection.may_propose(pod):
                    found[pod] = _explain_unmet(view, owner.shape, int(view.at[pod]))
        return found

    def _find_better(self, view: View, selection: PodSelection) -> Iterator[PodMove]:
        """Yield moves of pods that have a higher weight elsewhere, the lowest weights first: what has no target stays
        so.

        Pods are found in advance, but costs of targets are computed when a pod's turn comes.
        """
        found: list[tuple[int, float, int, int]] = []
        for owner in rule_owners(view.columns, lambda shape: bool(shape.preferred_nodes)):
            weight = self._weight(view, owner.shape)
            reached = weight[view.node_mask(int(owner.pods[0]))]
            pods = pods_in_scope(view, owner.pods)
            light = pods[weight[view.at[pods]] < reached.max(initial=-np.inf)].tolist()
            mine = (pod for pod in light if selection.may_improve(pod))
            found += [(view.pods[p].priority, float(weight[view.at[p]]), view.pods[p].rank, p) for p in mine]
        for _, here, _, pod in sorted(found):
            shape, node = view.columns.shape(pod), view.nodes[int(view.at[pod])]
            weight, most = self._weight(view, shape), sum(number for number, _ in shape.preferred_nodes)
            cost = np.where(weight > here, view.cost(pod) - weight * _PER_WEIGHT, np.inf)
            yield PodMove(pod, f"{node.name} weighs {here:g} of {most} in its preferred node affinity", cost)

    def _weight(self, view: View, shape: Shape) -> Floats:
        """[N]: the total weight of the preferred terms that each node meets."""
        known = self.keep(view, dict[Shape, Floats])
        if shape not in known:
            sums: Floats = np.zeros(len(view.nodes))
            for number, term in shape.preferred_nodes:
                sums[view.feasibility.node_masks.any_of((term,))] += number
            known[shape] = sums
        return known[shape]


def _requires(shape: Shape) -> bool:
    return bool(shape.node_selector) or shape.node_affinity is not None


def _explain_unmet(view: View, shape: Shape, node: int) -> str:
    """Return the rule of a pod that the node does not meet."""
    place = view.nodes[node]
    for key, value in shape.node_selector:
        if place.labels.get(key) != value:
            return f"{place.name} does not meet its node selector {key}={value}"
    wanted = " or ".join(filter(None, (_format_term(term) for term in shape.node_affinity or ())))
    return f"{place.name} does not meet its required node affinity {wanted}".rstrip()


def _format_term(term: NodeTerm) -> str:
    return ",".join(str(each) for each in (*term.expressions, *term.fields))
