"""The scheduler's rule on topology spread: hard constraints only."""

from __future__ import annotations

from rescheduler.model.objects import Node, Pod
from rescheduler.model.selector import Operator, Requirement, Selector, selector_of
from rescheduler.model.shape import SpreadConstraint
from tests.support.twin.nodes import matches_affinity, tolerates_taints
from tests.support.twin.world import World


def spread_holds(world: World, pod: Pod, node: Node) -> bool:
    """PodTopologySpread: with this pod there, no hard constraint of its own is past its skew."""
    return all(_constraint_holds(world, pod, node, constraint) for constraint in hard_constraints(pod))


def hard_constraints(pod: Pod) -> list[SpreadConstraint]:
    """Those that say DoNotSchedule."""
    return [constraint for constraint in pod.shape.spread if constraint.hard]


def selects(holder: Pod, constraint: SpreadConstraint, other: Pod) -> bool:
    """Whether the holder's constraint selects that pod, wherever it is: the selector, its matchLabelKeys filled."""
    selector = fill_selector(holder, constraint)
    return selector is not None and other.namespace == holder.namespace and selector.matches(other.labels)


def skew(world: World, holder: Pod, constraint: SpreadConstraint) -> int:
    """How far the fullest domain is above the global minimum, as the filter counts both for this holder."""
    counts = domain_counts(world, holder, constraint)
    return max(counts.values(), default=0) - global_minimum(counts, constraint)


def domain_counts(world: World, holder: Pod, constraint: SpreadConstraint) -> dict[str, int]:
    """How many matching pods each eligible domain has."""
    counts: dict[str, int] = {}
    for node in world.snapshot.nodes:
        if _eligible(holder, constraint, node):
            domain = node.labels[constraint.topology_key]
            counts[domain] = counts.get(domain, 0) + _matching_pods(world, holder, constraint, node)
    return counts


def global_minimum(counts: dict[str, int], constraint: SpreadConstraint) -> int:
    """The least count, or 0 while there are fewer domains than minDomains."""
    return 0 if len(counts) < constraint.min_domains else min(counts.values(), default=0)


def fill_selector(holder: Pod, constraint: SpreadConstraint) -> Selector | None:
    """The constraint's selector, narrowed by those matchLabelKeys that its holder has; None still matches nothing."""
    if constraint.selector is None:
        return None
    keys = [key for key in constraint.match_label_keys if key in holder.labels]
    return selector_of(
        (*constraint.selector.requirements, *(Requirement(key, Operator.IN, (holder.labels[key],)) for key in keys))
    )


def _constraint_holds(world: World, pod: Pod, node: Node, constraint: SpreadConstraint) -> bool:
    if constraint.topology_key not in node.labels:
        return False
    counts = domain_counts(world, pod, constraint)
    there = counts.get(node.labels[constraint.topology_key], 0)
    itself = 1 if selects(pod, constraint, pod) else 0
    return there + itself - global_minimum(counts, constraint) <= constraint.max_skew


def _eligible(holder: Pod, constraint: SpreadConstraint, node: Node) -> bool:
    if any(other.topology_key not in node.labels for other in hard_constraints(holder)):
        return False
    if constraint.honor_affinity and not matches_affinity(holder, node):
        return False
    return not constraint.honor_taints or tolerates_taints(holder, node)


def _matching_pods(world: World, holder: Pod, constraint: SpreadConstraint, node: Node) -> int:
    """Pods there that count; the scheduler counts none at all for a selector that selects everything."""
    if fill_selector(holder, constraint) == Selector():
        return 0
    return sum(not pod.deleting and selects(holder, constraint, pod) for pod in world.pods_on(node.name))
