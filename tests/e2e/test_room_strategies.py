"""Scenarios: sparsely used nodes are emptied for an autoscaler; a pending pod gets the room that it needs to run."""

from __future__ import annotations

from pathlib import Path

from tests.support.both_clusters import Items, Space, is_ready, nodes_fixture
from tests.support.controller_process import Controller, write_config
from tests.support.manifests import budget, daemon_set, deployment, gated, pod
from tests.support.pod_record import recorded
from tests.support.skewed_cluster import active, migrations, plan_now
from tests.testbed.processes import until

KEPT = "cluster-autoscaler.kubernetes.io/scale-down-disabled"
REPLICAS, BARE = 6, 2


nodes = nodes_fixture(4, prefix="roomy")


def on_node(space: Space, node: str) -> Items:
    return [each for each in space.list("Pod") if each["spec"].get("nodeName") == node]


def apps_on(space: Space, node: str) -> set[str]:
    return {each["metadata"]["labels"]["app"] for each in on_node(space, node)}


def at_rest(space: Space, controller: Controller, config: Path) -> None:
    """No move is under way, and the planner has none left to make."""

    def resting() -> bool:
        if not migrations(space) or active(migrations(space)):
            return False
        return not plan_now(space.cluster.kubeconfig, config)["moves"] and not active(migrations(space))

    until("the planner has nothing left to move", resting, [controller], 120, every=0.5)


def test_sparsely_used_nodes_are_emptied_and_no_workload_notices(
    space: Space, nodes: list[str], tmp_path: Path
) -> None:
    kept, *others = nodes
    space.create(daemon_set("agent"))
    # The scheduler has seen all nodes as soon as each has its agent; only then does it spread new pods over them.
    until("agents run", lambda: sum(map(is_ready, space.pods("agent"))) == len(nodes))
    for body in (
        deployment("web", REPLICAS, cpu="200m"),
        budget("web", "web", minAvailable=REPLICAS),
        *(pod(f"bare-{number}", cpu="200m") for number in range(BARE)),
    ):
        space.create(body)
    space.api.patch(f"/api/v1/nodes/{kept}", {"metadata": {"annotations": {KEPT: "true"}}})
    whole = REPLICAS + BARE + len(nodes)
    until("all run", lambda: len(space.list("Pod")) == whole and all(map(is_ready, space.list("Pod"))))
    assert all(len(apps_on(space, node)) > 1 for node in nodes), "the scheduler spreads them"

    config = write_config(tmp_path / "config.yaml", space.name, enabledStrategies=["Consolidation"])
    with (
        recorded(space) as record,
        Controller(space.cluster.kubeconfig, config, tmp_path / "controller.log") as controller,
    ):
        until(
            "the others are empty", lambda: all(apps_on(space, node) == {"agent"} for node in others), [controller], 120
        )
        at_rest(space, controller, config)
        assert controller.stop() == 0
    assert all(apps_on(space, node) == {"agent"} for node in others)
    until("all run", lambda: len(space.list("Pod")) == whole and all(map(is_ready, space.list("Pod"))))
    lowest = record.lowest()
    assert lowest["web"].ready == REPLICAS, lowest["web"]
    assert {each["spec"]["strategy"] for each in migrations(space)} == {"Consolidation"}
    assert {each["status"]["phase"] for each in migrations(space)} == {"Completed"}
    moved = [each["spec"]["pod"]["name"] for each in migrations(space)]
    assert not [name for name in moved if name.startswith("rescheduled-")], "a pod was moved twice"


def test_a_pending_pod_runs_once_others_have_made_room(space: Space, nodes: list[str], tmp_path: Path) -> None:
    """4 CPUs each: 3.0 are taken of one node, 2.5 of another, all of the rest; the pending pod asks for 2.5."""
    left, right, *others = nodes
    for number, node in enumerate(others):
        space.create(pod(f"full-{number}", cpu="3900m", nodeName=node))
    with space.cordoned(right):
        space.create(deployment("left", 2, cpu="1500m"))
        space.rolled_out("left")
    with space.cordoned(left):
        space.create(deployment("right", 1, cpu="2500m"))
        space.rolled_out("right")
    space.create(gated("gated", cpu="2500m"))
    space.create(pod("large", cpu="2500m"))
    assert "Insufficient cpu" in space.refused("large")

    config = write_config(
        tmp_path / "config.yaml",
        space.name,
        enabledStrategies=["MakeRoom"],
        strategies={"MakeRoom": {"minPendingAge": "0s"}},
        cpuThreshold=100,
        memoryThreshold=100,
    )
    with (
        recorded(space) as record,
        Controller(space.cluster.kubeconfig, config, tmp_path / "controller.log") as controller,
    ):
        until("the pending pod runs", lambda: is_ready(space.get("Pod", "large")), [controller], 120)
        at_rest(space, controller, config)
        assert controller.stop() == 0
    assert space.bound("large") == left
    assert record.lowest()["left"].ready == 2
    (done,) = migrations(space)
    assert (done["spec"]["strategy"], done["status"]["target"]) == ("MakeRoom", right)
    assert f"pending {space.name}/large fits nowhere" in done["spec"]["reason"]
