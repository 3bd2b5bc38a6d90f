"""Scenario: an operator at his shell, and a controller in the cluster: apply, move, migrations, maintenance."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rescheduler.model.json import Json
from tests.support.both_clusters import ClusterUnderTest, Space, is_ready
from tests.support.controller_process import Controller, write_config
from tests.support.manifests import daemon_set, deployment, pod
from tests.support.shell import Shell
from tests.support.skewed_cluster import kind_is_served
from tests.testbed.hollow import NodeShape
from tests.testbed.processes import until


@pytest.fixture
def nodes(cluster: ClusterUnderTest) -> Iterator[list[str]]:
    names = cluster.add_nodes(3, NodeShape(cpu="2"), prefix="commanded")
    yield names
    cluster.remove_nodes(names)


@pytest.fixture
def web(space: Space, nodes: list[str]) -> Space:
    """Everything on the first node: a Deployment of six, a pod that nobody manages, and a DaemonSet everywhere."""
    with space.cordoned(nodes[1]), space.cordoned(nodes[2]):
        for body in (daemon_set("agent"), deployment("web", 6, cpu="250m"), pod("bare")):
            space.create(body)
        until("all run", lambda: len(space.list("Pod")) == 10 and all(map(is_ready, space.list("Pod"))))
    return space


@pytest.fixture
def config(space: Space, tmp_path: Path) -> Path:
    """The controller plans for maintenance alone, so that all other moves are the operator's."""
    return write_config(tmp_path / "config.yaml", space.name, enabledStrategies=["NodeMaintenance"])


@pytest.fixture
def controller(space: Space, config: Path, tmp_path: Path) -> Iterator[Controller]:
    with Controller(space.cluster.kubeconfig, config, tmp_path / "controller.log") as started:
        kind_is_served(space, started)
        until("it leads", lambda: _leads(space), [started])
        yield started


@pytest.fixture
def shell(cluster: ClusterUnderTest, controller: Controller) -> Shell:
    return Shell(cluster)


def _leads(space: Space) -> bool:
    lease = space.find("Lease", "kube-rescheduler")
    return bool(lease and lease["spec"].get("holderIdentity"))


def place(space: Space, found: str) -> str:
    where: str = space.get("Pod", found)["spec"]["nodeName"]
    return where


def test_a_pod_is_moved_by_hand(shell: Shell, web: Space, nodes: list[str]) -> None:
    ran = shell.ok("move", "bare", "-n", web.name, "--to", nodes[2], "--timeout", "2m")
    assert "no controller" not in ran.said
    moved = ran.out.splitlines()[-1]
    assert moved.startswith(f"pod {web.name}/bare moved from {nodes[0]} to {nodes[2]} as ")
    replacement = moved.rpartition(" ")[2]
    assert place(web, replacement) == nodes[2]
    rows = shell.ok("migrations", "-n", web.name, "--phase", "completed", "--no-headers").out.splitlines()
    assert [row.split()[1:5] for row in rows] == [["bare", "Completed", nodes[0], nodes[2]]]


def test_a_reviewed_plan_is_carried_out(shell: Shell, web: Space, nodes: list[str], tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    flags = ("--strategy", "ResourceOptimization", "--cpu-threshold", "50", "--min-pod-age", "0s")
    plan.write_text(shell.ok("plan", *flags, "--max-reschedule-pods", "unlimited", "-o", "json").out)
    ran = shell.ok("apply", "-f", str(plan), "--wait", "--timeout", "3m", "-o", "json")
    entries: list[Json] = ran.data["entries"]
    assert entries
    assert {(each["outcome"], each["phase"]) for each in entries} == {("created", "Completed")}
    for each in entries:
        status = shell.ok("migrations", each["migration"], "-n", web.name, "-o", "json").data["status"]
        assert place(web, status["replacement"]["name"]) == each["to"]
    again = shell.ok("apply", "-f", str(plan))
    assert {line.split()[1] for line in again.out.splitlines()} == {"unchanged"}


def test_a_node_is_emptied_for_work_and_given_back(shell: Shell, web: Space, nodes: list[str], config: Path) -> None:
    ran = shell.ok("maintenance", "start", nodes[0], "--config", str(config), "--timeout", "3m")
    assert ran.out.splitlines() == [f"node/{nodes[0]} under maintenance", f"node/{nodes[0]} is empty"]
    left = {each["metadata"]["labels"]["app"] for each in web.list("Pod") if each["spec"].get("nodeName") == nodes[0]}
    assert left == {"agent"}
    (row,) = shell.ok("maintenance", "status", "--no-headers", "--config", str(config)).out.splitlines()
    assert row.split() == [nodes[0], "by", "rescheduler", "0", "0", "1"]
    shell.ok("maintenance", "stop", nodes[0])
    path = f"/api/v1/nodes/{nodes[0]}"
    until("it takes pods again", lambda: not web.api.get(path)["spec"].get("unschedulable"))
