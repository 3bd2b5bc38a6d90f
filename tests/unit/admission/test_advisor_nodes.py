"""Whether a pod that avoids nodes has any other to go to: labels, taints and volumes say so, room does not."""

from __future__ import annotations

import json
from typing import Any

import pytest
from msgspec import Raw

from rescheduler.model.json import Json
from tests.unit.admission.worlds import World, pod_json

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def in_zone(*zones: str) -> Json:
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": list(zones)}]}
    return {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term]}}}}


def leaves(world: World, *avoid: str, **spec: Any) -> bool:
    return world.placement_advisor().leaves_any(avoid, Raw(json.dumps(pod_json(spec=spec)).encode()))


def zoned() -> World:
    """Nodes one and two in zone a, three in zone b."""
    world = World()
    for name, zone in (("one", "a"), ("two", "a"), ("three", "b")):
        world.node(name, labels={"zone": zone})
    return world


def test_any_other_node_will_do_for_a_pod_without_wishes() -> None:
    assert leaves(World(), "one", "two")
    assert not leaves(World(), "one", "two", "three")


@pytest.mark.parametrize("wish", [{"nodeSelector": {"zone": "a"}}, in_zone("a")])
def test_only_nodes_that_the_pod_may_be_on_count(wish: Json) -> None:
    assert leaves(zoned(), "one", **wish)
    assert not leaves(zoned(), "one", "two", **wish)


def test_what_the_webhook_has_put_on_the_pod_before_changes_nothing() -> None:
    fields = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["one"]}]}
    wish = {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [fields]}}}}
    assert leaves(World(), "one", **wish)
    assert not leaves(World(), "one", "two", "three", **wish)


def test_a_tainted_node_counts_only_for_who_tolerates_it() -> None:
    world = World("one", "two")
    taints = [{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]
    world.put("Node", {"name": "two"}, spec={"taints": taints})
    assert not leaves(world, "one")
    assert leaves(world, "one", tolerations=[{"key": "gpu", "operator": "Exists"}])


def test_a_node_that_only_prefers_others_counts() -> None:
    world = World("one", "two")
    world.put("Node", {"name": "two"}, spec={"taints": [{"key": "gpu", "effect": "PreferNoSchedule"}]})
    assert leaves(world, "one")


def test_a_volume_ties_a_pod_to_its_zone() -> None:
    world = zoned()
    tied = in_zone("a")["affinity"]["nodeAffinity"][REQUIRED]
    world.put("PersistentVolume", {"name": "disk"}, spec={"nodeAffinity": {"required": tied}})
    world.put("PersistentVolumeClaim", {"name": "data"}, spec={"volumeName": "disk"}, status={"phase": "Bound"})
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
    assert leaves(world, "one", volumes=volumes)
    assert not leaves(world, "one", "two", volumes=volumes)


def test_nodes_that_take_no_pods_do_not_count() -> None:
    world = World("one", "two")
    world.node("two", cordoned=True)
    assert not leaves(world, "one")


def test_rules_that_cannot_be_understood_are_for_the_scheduler_to_judge() -> None:
    assert leaves(World(), "one", affinity={"podAffinity": {REQUIRED: [{}]}})
