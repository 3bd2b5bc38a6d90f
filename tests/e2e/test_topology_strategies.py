"""Scenario: zones change beneath their pods. Spread constraints are restored, and groups come together in one zone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from rescheduler.model.json import Json
from tests.support.both_clusters import ClusterUnderTest, Items, Space, is_ready
from tests.support.controller_process import Controller, write_config
from tests.support.manifests import deployment
from tests.support.recovering import only_open
from tests.support.resting import rests
from tests.support.skewed_cluster import migrations
from tests.testbed.hollow import NodeShape
from tests.testbed.processes import until

ZONE = "topology.kubernetes.io/zone"


@pytest.fixture
def nodes(cluster: ClusterUnderTest) -> Iterator[list[str]]:
    """Three nodes, in no zone yet."""
    names = cluster.add_nodes(3, NodeShape(zones=()), prefix="zoned")
    yield names
    cluster.remove_nodes(names)


def zoned(space: Space, **zones: list[str]) -> None:
    for zone, names in zones.items():
        for name in names:
            space.api.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {ZONE: zone}}})


def spread(name: str, replicas: int, when: str) -> Json:
    body = deployment(name, replicas)
    selector = {"matchLabels": {"app": name}}
    rule = {"maxSkew": 1, "topologyKey": ZONE, "whenUnsatisfiable": when, "labelSelector": selector}
    body["spec"]["template"]["spec"]["topologySpreadConstraints"] = [rule]
    return body


def grouped(name: str, replicas: int, group: str) -> Json:
    body = deployment(name, replicas)
    body["spec"]["template"]["metadata"]["labels"]["job"] = group
    return body


def stands(space: Space, body: Json, node: str, nodes: list[str]) -> None:
    """The workload, rolled out on this node."""
    with only_open(space, node, nodes):
        space.create(body)
        space.rolled_out(body["metadata"]["name"])


def on_nodes(space: Space, app: str) -> dict[str, int]:
    """How many pods of the app each node has; empty while not all are Ready."""
    found = space.pods(app)
    return dict(Counter(each["spec"]["nodeName"] for each in found)) if all(map(is_ready, found)) else {}


@contextmanager
def running(space: Space, folder: Path, name: str, **settings: Any) -> Iterator[Controller]:
    """A controller with one strategy, which has come to rest by the end of the block and made only its moves."""
    config = write_config(
        folder / "config.yaml", space.name, enabledStrategies=[name], strategies={name: settings} if settings else {}
    )
    with Controller(space.cluster.kubeconfig, config, folder / "controller.log") as controller:
        yield controller
        done = rests(space, controller)
        assert controller.stop() == 0
    assert {each["spec"]["strategy"] for each in done} == {name}
    assert {each["status"]["phase"] for each in done} == {"Completed"}, done


def told(space: Space) -> Items:
    return [each["spec"] for each in migrations(space)]


def test_constraints_that_a_new_zone_breaks_are_restored_with_the_fewest_moves(
    space: Space, nodes: list[str], tmp_path: Path
) -> None:
    old, *new = nodes
    zoned(space, a=[old])
    stands(space, spread("hard", 3, "DoNotSchedule"), old, nodes)
    stands(space, spread("soft", 4, "ScheduleAnyway"), old, nodes)
    stands(space, deployment("free", 3), old, nodes)
    zoned(space, b=new[:1], c=new[1:])
    both = ["DoNotSchedule", "ScheduleAnyway"]
    with running(space, tmp_path, "TopologySpread", constraints=both) as controller:
        until("hard is even", lambda: on_nodes(space, "hard") == dict.fromkeys(nodes, 1), [controller])
        until("soft is even", lambda: sorted(on_nodes(space, "soft").values()) == [1, 1, 2], [controller])
    assert len(migrations(space)) == 4
    assert on_nodes(space, "free") == {old: 3}
    assert all(f"spread over {ZONE}: a has " in each["reason"] for each in told(space))


def test_a_group_comes_together_in_the_zone_where_it_fits(space: Space, nodes: list[str], tmp_path: Path) -> None:
    first, second, third = nodes
    zoned(space, a=[first, second], b=[third])
    stands(space, grouped("leader", 1, "training"), third, nodes)
    stands(space, grouped("workers", 2, "training"), first, nodes)
    stands(space, grouped("other", 2, "another"), third, nodes)
    with running(space, tmp_path, "Topology", groupLabel="job") as controller:
        until("leader has come", lambda: third not in (on_nodes(space, "leader") or nodes), [controller])
    assert on_nodes(space, "workers") == {first: 2}
    assert on_nodes(space, "other") == {third: 2}
    (only,) = told(space)
    assert only["reason"].startswith(f"group training (job) comes together in a ({ZONE}), which has 2 of its 3 pods; ")
