"""The rules that must still hold once a moved pod's original has gone: ours, in the scheduler's terms."""

from __future__ import annotations

from rescheduler.model.objects import Pod
from tests.support.twin.pods import affinity_holds, beside_others
from tests.support.twin.spreading import hard_constraints, selects, skew
from tests.support.twin.world import World


def keeps_rules(world: World, pod: Pod, source: str, target: str) -> bool:
    """Whether all that held before the move still holds when the pod is on the target only."""
    gone = World(world.snapshot, [place for place in world.placements if not (place[0] is pod and place[1] == source)])
    after = gone.plus(pod, target)
    return (
        affinity_holds(gone, pod, gone.node(target))
        and _spread_kept(world, after, pod)
        and _affinity_of_others_kept(world, after, pod)
    )


def _spread_kept(before: World, after: World, moved: Pod) -> bool:
    """No constraint that selects the moved pod ends past its skew, unless it was no better before."""
    return all(
        skew(after, holder, constraint) <= max(constraint.max_skew, skew(before, holder, constraint))
        for holder, _ in before.placed()
        for constraint in hard_constraints(holder)
        if selects(holder, constraint, moved)
    )


def _affinity_of_others_kept(before: World, after: World, moved: Pod) -> bool:
    """Each pod that had its required company still has it, or needs none as the first of its kind."""
    return all(
        affinity_holds(after.without(other), other, where)
        for other, where in before.placed()
        if other is not moved and beside_others(before.without(other), other, where)
    )
