"""Scenario: nothing is moved by choice while no time window is open, and no more of it within an hour than may be.

A crowded cluster; the controller runs all the time. While its window is closed it plans and tells, and only empties a
node because somebody asks for it. Then its file opens the window, for three moves an hour.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from tests.support.both_clusters import Items, Space, is_ready
from tests.support.controller_process import Controller, write_config
from tests.support.skewed_cluster import (
    SMALL,
    SkewedCluster,
    active,
    kind_is_served,
    migrations,
    planned,
    skewed_cluster,
)
from tests.testbed.processes import until

MAINTENANCE = "scheduler.alpha.kubernetes.io/maintenance"
STRATEGIES = ["LoadBalancing", "NodeMaintenance", "ResourceOptimization"]
MOST = 3


@pytest.fixture
def skewed(space: Space) -> Iterator[SkewedCluster]:
    with skewed_cluster(space, SMALL) as made:
        yield made


def in_three_days() -> str:
    """A day that is not today, in whatever time zone."""
    return f"{datetime.now(UTC) + timedelta(days=3):%a}"


def by(found: Items, *strategies: str) -> Items:
    return [each for each in found if each["spec"]["strategy"] in strategies]


def hindrances(controller: Controller) -> list[str]:
    return [line["why"] for line in controller.said() if line["msg"] == "plan limited"]


def test_moves_wait_for_their_window_and_their_hour_but_a_node_is_emptied_at_once(
    space: Space, skewed: SkewedCluster, tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    closed = {"windows": [in_three_days()], "timeZone": "Asia/Shanghai", "movesPerHour": MOST}
    write_config(config, space.name, enabledStrategies=STRATEGIES, when=closed)
    with Controller(space.cluster.kubeconfig, config, tmp_path / "controller.log") as controller:
        kind_is_served(space, controller)
        until("it has planned twice and ordered nothing", lambda: len(hindrances(controller)) > 1, [controller])
        assert hindrances(controller)[0].startswith("no time window is open before ")
        assert migrations(space) == []
        plan = planned(space.cluster.kubeconfig, config)
        assert plan["moves"]
        assert any("no time window is open (when.windows)" in told for told in plan["warnings"])

        space.api.patch(f"/api/v1/nodes/{skewed.nodes[0]}", {"metadata": {"labels": {MAINTENANCE: "true"}}})
        until("a node is emptied", lambda: is_emptied(space, skewed.nodes[0]), [controller], 120)
        space.api.patch(f"/api/v1/nodes/{skewed.nodes[0]}", {"metadata": {"labels": {MAINTENANCE: None}}})
        assert {each["spec"]["strategy"] for each in migrations(space)} == {"NodeMaintenance"}
        assert not any(each["spec"].get("windowed") for each in migrations(space))

        write_config(config, space.name, enabledStrategies=STRATEGIES, when={"movesPerHour": MOST})
        balancing = ("LoadBalancing", "ResourceOptimization")
        until("three have ended", lambda: len(by(ended(space), *balancing)) == MOST, [controller], 120)
        before = len(hindrances(controller))
        until("it has planned on", lambda: len(hindrances(controller)) > before + 1, [controller])
        full = "3 moves have begun within the hour, and 3 may (when.movesPerHour): none before "
        assert hindrances(controller)[-1].startswith(full)
        chosen = by(migrations(space), *balancing)
        assert len(chosen) == MOST
        assert all(each["spec"]["windowed"] for each in chosen)
    with Controller(space.cluster.kubeconfig, config, tmp_path / "second.log") as second:
        until("the next one has planned, too", lambda: len(hindrances(second)) > 1, [second])
        assert len(by(migrations(space), *balancing)) == MOST


def ended(space: Space) -> Items:
    found = migrations(space)
    return [each for each in found if each not in active(found)]


def is_emptied(space: Space, node: str) -> bool:
    """But for the DaemonSet's pod; and nobody is on the way."""
    there = [each for each in space.list("Pod") if each["spec"].get("nodeName") == node]
    return (
        {each["metadata"]["labels"]["app"] for each in there} == {"agent"}
        and all(map(is_ready, space.list("Pod")))
        and not active(migrations(space))
    )
