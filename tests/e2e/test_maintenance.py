"""Scenario: a node is labelled for maintenance. It is emptied, stays empty, and serves again when the label goes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rescheduler.model.json import Json
from tests.support.both_clusters import Items, Space, is_ready, nodes_fixture
from tests.support.controller_process import Controller, write_config
from tests.support.manifests import budget, daemon_set, deployment, on, pod, stateful_set
from tests.testbed.processes import until

MAINTENANCE = "scheduler.alpha.kubernetes.io/maintenance"
CORDONED = "rescheduler.io/cordoned"
PODS = 6 + 2 + 1  # of the Deployment, of the StatefulSet, and one without a controller


nodes = nodes_fixture(3, prefix="maintained")


@pytest.fixture
def full_node(space: Space, nodes: list[str]) -> str:
    """A node that has pods of all kinds, while the others have none but the DaemonSet's."""
    node, *others = nodes
    with space.cordoned(others[0]), space.cordoned(others[1]):
        for body in (
            daemon_set("agent"),
            deployment("web", 6),
            budget("web", "web", maxUnavailable=1),
            stateful_set("database", 2, podManagementPolicy="Parallel"),
            pod("bare"),
        ):
            space.create(body)
        until("all run", lambda: len(on_node(space, node)) == PODS + 1 and all(map(is_ready, space.list("Pod"))))
    return node


@pytest.fixture
def controller(space: Space, tmp_path: Path) -> Iterator[Controller]:
    config = write_config(tmp_path / "config.yaml", space.name, enabledStrategies=["NodeMaintenance"])
    with Controller(space.cluster.kubeconfig, config, tmp_path / "controller.log") as started:
        yield started


def label(space: Space, node: str, value: str | None) -> None:
    space.api.patch(f"/api/v1/nodes/{node}", {"metadata": {"labels": {MAINTENANCE: value}}})


def look(space: Space, node: str) -> Json:
    return space.api.get(f"/api/v1/nodes/{node}")


def is_closed(space: Space, node: str) -> bool:
    return bool(look(space, node)["spec"].get("unschedulable"))


def on_node(space: Space, node: str) -> Items:
    return [each for each in space.list("Pod") if each["spec"].get("nodeName") == node]


def is_emptied(space: Space, node: str) -> bool:
    """But for the DaemonSet's pod."""
    left = {each["metadata"]["labels"]["app"] for each in on_node(space, node)}
    elsewhere = [each for each in space.list("Pod") if each["spec"].get("nodeName") != node and is_ready(each)]
    return left == {"agent"} and len(elsewhere) == PODS + 2  # and the agents of two other nodes


def test_a_labelled_node_is_emptied_stays_empty_and_serves_again(
    space: Space, full_node: str, controller: Controller
) -> None:
    label(space, full_node, "true")
    until(f"{full_node} is empty but for its DaemonSet pod", lambda: is_emptied(space, full_node), [controller], 120)
    node = look(space, full_node)
    assert node["spec"]["unschedulable"] is True
    assert CORDONED in node["metadata"]["annotations"]

    space.patch("Deployment", "web", {"spec": {"replicas": 12}})
    space.rolled_out("web")
    assert {each["metadata"]["labels"]["app"] for each in on_node(space, full_node)} == {"agent"}

    label(space, full_node, None)
    until(f"{full_node} is open", lambda: not is_closed(space, full_node), [controller])
    assert CORDONED not in look(space, full_node)["metadata"].get("annotations", {})
    space.create(pod("wanted-here", nodeSelector=on(full_node)))
    assert space.bound("wanted-here") == full_node
    assert controller.stop() == 0
