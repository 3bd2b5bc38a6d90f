"""`rescheduler maintenance`: nodes are marked, emptied before our eyes, looked at, and given back."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

from rescheduler.cli import messages
from rescheduler.model import labels
from rescheduler.model.json import Json
from tests.support.both_clusters import ClusterUnderTest, Space
from tests.support.manifests import budget, daemon_set, lease, pod, simulated, stateful_set
from tests.support.shell import Shell, driven

CONFIG = """apiVersion: rescheduler.io/v1alpha1
kind: ReschedulerConfiguration
minPodAge: 0s
maxReschedulePods: unlimited
enabledStrategies: [{}]
"""


class OneNode:
    """A node under work."""

    def __init__(self, cluster: ClusterUnderTest, name: str) -> None:
        self.cluster, self.name = cluster, name
        self._path = f"/api/v1/nodes/{name}"

    @property
    def marked(self) -> bool:
        found: dict[str, str] = self.cluster.api.get(self._path)["metadata"]["labels"]
        return found.get(labels.MAINTENANCE) == "true"

    def patch(self, body: Json) -> None:
        self.cluster.api.patch(self._path, body)


@pytest.fixture
def node(cluster: ClusterUnderTest, nodes: list[str]) -> Iterator[OneNode]:
    """One of four; whatever was done to it is undone."""
    found = OneNode(cluster, nodes[0])
    yield found
    patched = {labels.MAINTENANCE: None}
    found.patch(
        {"metadata": {"labels": patched, "annotations": {labels.CORDONED: None}}, "spec": {"unschedulable": None}}
    )


@pytest.fixture
def config(tmp_path: Path) -> str:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG.format("NodeMaintenance"))
    return str(path)


@pytest.fixture
def leader(space: Space) -> Iterator[Space]:
    """A namespace in which somebody holds the Lease of the controllers."""
    space.create(lease("kube-rescheduler", leaseDurationSeconds=3600))
    yield space
    space.delete("Lease", "kube-rescheduler")


def test_start_marks_and_stop_takes_the_mark_off(shell: Shell, node: OneNode) -> None:
    ran = shell.ok("maintenance", "start", node.name, "--no-wait")
    assert ran.out == f"node/{node.name} under maintenance\n"
    assert node.marked
    assert (
        shell.ok("maintenance", "start", node.name, "--no-wait").out == f"node/{node.name} under maintenance already\n"
    )
    assert shell.ok("maintenance", "stop", node.name).out == f"node/{node.name} no longer under maintenance\n"
    assert not node.marked
    assert shell.ok("maintenance", "stop", node.name).out == f"node/{node.name} not under maintenance\n"


def test_a_dry_run_marks_nothing(shell: Shell, node: OneNode) -> None:
    ran = shell.ok("maintenance", "start", node.name, "--dry-run")
    assert ran.out == f"node/{node.name} under maintenance (dry run)\n"
    assert not node.marked


def test_a_node_that_is_not_there_gets_the_nearest_and_no_other_is_touched(shell: Shell, node: OneNode) -> None:
    for command in ("start", "stop", "status"):
        said = shell.refused(messages.UNREADABLE, "maintenance", command, node.name, "nod-1")
        assert said.startswith("error: there is no node nod-1; did you mean node-1")
    assert not node.marked
    assert "missing argument 'NODE...'" in shell.refused(messages.USAGE, "maintenance", "start")
    assert "no such command 'strat'" in shell.refused(messages.USAGE, "maintenance", "strat", node.name).lower()


def test_an_empty_node_is_empty_at_once(shell: Shell, node: OneNode, space: Space) -> None:
    space.create(daemon_set("agent"))
    space.exactly("agent", 4, "Running")
    ran = shell.ok("maintenance", "start", node.name)
    assert ran.out.splitlines()[-1] == f"node/{node.name} is empty"


def test_waiting_shows_how_many_pods_are_left(shell: Shell, node: OneNode, space: Space, config: str) -> None:
    for name in ("a", "b"):
        space.runs(pod(name, nodeName=node.name))
    shell.ok("maintenance", "start", node.name, "--no-wait")
    plan = shell.ok("plan", "--config", config, "-n", space.name, "-o", "json").out
    shell.ok("apply", "-f", "-", stdin=plan)
    with shell.started("maintenance", "start", node.name, "--config", config) as running:
        running.says(f"{node.name}: 2 pods left")
        with driven(space):
            running.says(f"{node.name}: 0 pods left")
            running.prints(f"node/{node.name} is empty")
            assert running.ended() == 0


def test_pods_that_have_ended_are_in_nobodys_way_but_those_that_are_ending_are_waited_for(
    shell: Shell, node: OneNode, space: Space
) -> None:
    for name in ("ended", "ending"):
        body = simulated(pod(name, nodeName=node.name), fails="Failed")
        body["metadata"]["finalizers"] = ["test.example/hold"]
        space.create(body)
        space.reaches("Pod", name, "has ended", lambda found: found["status"]["phase"] == "Failed")
    space.delete("Pod", "ending")
    with shell.started("maintenance", "start", node.name) as running:
        running.says(f"{node.name}: 1 pod left")
        space.patch("Pod", "ending", {"metadata": {"finalizers": None}})
        running.says(f"{node.name}: 0 pods left")
        assert running.ended() == 0
    space.patch("Pod", "ended", {"metadata": {"finalizers": None}})


def test_pods_that_cannot_go_are_named_and_not_waited_for(shell: Shell, node: OneNode, space: Space) -> None:
    space.runs(pod("kept", nodeName=node.name, labels={labels.RESCHEDULING: "disabled"}))
    ran = shell.run("maintenance", "start", node.name)
    assert ran.code == messages.REFUSED
    assert f"warning: {space.name}/kept: label {labels.RESCHEDULING} is disabled" in ran.said
    assert f"error: {node.name} keeps {space.name}/kept, which cannot be moved" in ran.said


def test_when_the_time_is_over_it_says_what_is_left_and_why(
    shell: Shell, node: OneNode, space: Space, config: str
) -> None:
    space.create(stateful_set("db", 2, cpu="10m"))
    space.exactly("db", 2, "Running")
    home = OneNode(node.cluster, space.get("Pod", "db-0")["spec"]["nodeName"])
    space.create(budget("db", "db", minAvailable=2))
    space.reaches("PodDisruptionBudget", "db", "is reckoned", lambda found: found["status"].get("expectedPods") == 2)
    flags = ("--config", config, "--timeout", "100ms")
    said = shell.refused(messages.TIMED_OUT, "maintenance", "start", home.name, *flags)
    home.patch({"metadata": {"labels": {labels.MAINTENANCE: None}}})
    assert "error: not empty yet; no controller seems to run: there is no Lease kube-rescheduler" in said
    assert "goes on" not in said
    assert f"error: {space.name}/db-0: disruption budget db allows no disruption (DisruptionBudget)" in said


@pytest.mark.parametrize(
    ("note", "unschedulable", "told"),
    [
        (None, None, "not cordoned by any controller yet: {}; one must run with NodeMaintenance among its"),
        (None, True, "a controller with NodeMaintenance among its enabledStrategies goes on"),
        ("2026-11-15T08:00:00Z", True, "the controller goes on"),
    ],
)
def test_when_the_time_is_over_it_says_whether_a_controller_goes_on(
    shell: Shell, node: OneNode, leader: Space, note: str | None, unschedulable: bool | None, told: str
) -> None:
    leader.runs(pod("a", nodeName=node.name))
    node.patch({"metadata": {"annotations": {labels.CORDONED: note}}, "spec": {"unschedulable": unschedulable}})
    said = shell.refused(messages.TIMED_OUT, "maintenance", "start", node.name, "--timeout", "100ms")
    assert f"error: not empty yet; {told.format(node.name)}" in said
    assert "no controller seems to run" not in said


def test_a_node_that_no_controller_takes_up_is_told_with_the_cure_while_it_is_waited_for(
    shell: Shell, node: OneNode, leader: Space, monkeypatch: pytest.MonkeyPatch
) -> None:
    leader.runs(pod("a", nodeName=node.name))

    def told(warnings: Iterable[str]) -> None:
        listed = list(warnings)
        warn(listed)
        if any("not cordoned" in each for each in listed):
            leader.delete("Pod", "a", gracePeriodSeconds=0)  # else it would be waited for

    warn = messages.warn
    monkeypatch.setattr(messages, "warn", told)
    monkeypatch.setattr("rescheduler.app.maintenance.PATIENCE", 0.0)
    ran = shell.ok("maintenance", "start", node.name)
    cure = "one must run with NodeMaintenance among its enabledStrategies"
    assert f"warning: not cordoned by any controller yet: {node.name}; {cure}\n" in ran.said
    assert ran.out.splitlines()[-1] == f"node/{node.name} is empty"


def test_without_a_controller_one_line_says_so_at_once(shell: Shell, node: OneNode, space: Space) -> None:
    space.runs(pod("a", nodeName=node.name))
    said = shell.refused(messages.TIMED_OUT, "maintenance", "start", node.name, "--timeout", "100ms")
    absent = "no controller seems to run: there is no Lease kube-rescheduler in any namespace"
    cure = "nothing is moved until one runs with NodeMaintenance among its enabledStrategies (`rescheduler run`)"
    assert said.splitlines()[0] == f"warning: {absent}; {cure}"


def test_ctrl_c_leaves_the_mark_on_the_node(shell: Shell, node: OneNode, space: Space) -> None:
    space.runs(pod("a", nodeName=node.name))
    with shell.started("maintenance", "start", node.name) as running:
        running.says("1 pod left")
        code, said = running.interrupt()
    assert code == messages.INTERRUPTED
    assert "interrupted; the mark stays. `rescheduler maintenance status` shows how far it is" in said
    assert "goes on" not in said
    assert node.marked


def test_the_status_counts_what_is_left_and_says_who_cordoned(shell: Shell, node: OneNode, space: Space) -> None:
    assert shell.ok("maintenance", "status").said == "note: no node is under maintenance\n"
    space.runs(pod("young", nodeName=node.name))
    space.runs(pod("kept", nodeName=node.name, labels={labels.RESCHEDULING: "disabled"}))
    shell.ok("maintenance", "start", node.name, "--no-wait")
    header, row = shell.ok("maintenance", "status").out.splitlines()
    assert header.split() == ["NODE", "CORDONED", "TO", "MOVE", "REFUSED", "STAYING"]
    assert row.split() == [node.name, "no", "1", "1", "0"]
    untouched = f"note: not cordoned by any controller yet: {node.name}; one must run with NodeMaintenance among its"
    assert untouched in shell.ok("maintenance", "status").said
    node.patch({"spec": {"unschedulable": True}})
    cordoned = shell.ok("maintenance", "status", node.name, "--no-headers")
    assert "by others" in cordoned.out
    assert not cordoned.said
    node.patch({"metadata": {"annotations": {labels.CORDONED: "2026-11-15T08:00:00Z"}}})
    wide = shell.ok("maintenance", "status", "-o", "wide").out
    assert "by rescheduler" in wide
    assert f"{space.name}/kept: label {labels.RESCHEDULING} is disabled (ReschedulingDisabled)" in wide
    (found,) = shell.ok("maintenance", "status", "-o", "json").data["nodes"]
    assert (found["cordoned"], found["cordonedByRescheduler"]) == (True, True)
    assert [(each["pod"], each["refused"]) for each in found["remaining"]] == [("kept", True), ("young", False)]
    assert shell.ok("maintenance", "status", "-o", "name").out == f"node/{node.name}\n"


def test_a_node_that_is_not_under_maintenance_is_told_as_such(shell: Shell, node: OneNode, nodes: list[str]) -> None:
    ran = shell.ok("maintenance", "status", nodes[1])
    assert (ran.out, ran.said) == ("", f"note: node {nodes[1]} is not under maintenance\n")


def test_a_configuration_that_would_move_nothing_is_told(shell: Shell, node: OneNode, tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.format("LoadBalancing"))
    ran = shell.ok("maintenance", "start", node.name, "--no-wait", "--config", str(config))
    assert "warning: no controller seems to run" in ran.said
    assert "NodeMaintenance is not among the configuration's enabledStrategies: nothing is moved" in ran.said
    config.write_text("kind: Nonsense")
    assert shell.run("maintenance", "start", node.name, "--config", str(config)).code == messages.USAGE
