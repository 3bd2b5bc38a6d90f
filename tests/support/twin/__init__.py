"""The plain twin of our feasibility: the scheduler's rules (v1.36, v1.37) again, with no numpy, cache or cleverness.

Tests compare the vectorised feasibility in `planning` with it. It was written from the scheduler's rules alone.

    refusals(World(snapshot), pod, "node-a")              a handoff or copy: the original still in place
    refusals(World(snapshot).without(pod), pod, "node-a") an eviction
    keeps_rules(World(snapshot), pod, "node-b", "node-a") once the original has gone
"""

from __future__ import annotations

from rescheduler.model.objects import Pod
from tests.support.twin.after import keeps_rules
from tests.support.twin.nodes import matches_affinity, own_rules, platform_fits, ports_free, room, tolerates_taints
from tests.support.twin.pods import affinity_holds, anti_affinity_holds
from tests.support.twin.spreading import spread_holds
from tests.support.twin.volumes import binding_holds, limits_hold, restrictions_hold, zones_hold
from tests.support.twin.world import Placement, World

__all__ = ["Placement", "World", "keeps_rules", "refusals"]


def refusals(world: World, pod: Pod, node_name: str) -> set[str]:
    """The names of all predicates that refuse one more such pod on that node."""
    node = world.node(node_name)
    # Nominated pods may come or not: company and evenness must hold either way.
    sure = World(world.snapshot, [place for place in world.placements if place[0].node])
    rules = {
        "TaintToleration": tolerates_taints(pod, node),
        "NodeAffinity": matches_affinity(pod, node),
        "NodePlatform": platform_fits(world, pod, node),
        "NodeResourcesFit": room(world, pod, node),
        "NodePorts": ports_free(world, pod, node),
        "PodAffinity": affinity_holds(world, pod, node) and affinity_holds(sure, pod, node),
        "PodAntiAffinity": anti_affinity_holds(world, pod, node),
        "PodTopologySpread": spread_holds(world, pod, node) and spread_holds(sure, pod, node),
        "VolumeBinding": binding_holds(world, pod, node),
        "VolumeZone": zones_hold(world, pod, node),
        "VolumeRestrictions": restrictions_hold(world, pod),
        "NodeVolumeLimits": limits_hold(world, pod, node),
    }
    return own_rules(node) | {name for name, holds in rules.items() if not holds}
