"""Scenario: the controller as a process, with `approval: required`; and paused, through a restart, by two replicas."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rescheduler.model.json import Json
from tests.support.both_clusters import ClusterUnderTest, Space, name_of
from tests.support.controller_process import Controller, write_config
from tests.support.manifests import deployment
from tests.support.shell import Shell
from tests.support.skewed_cluster import active, migrations
from tests.testbed.api import ApiError
from tests.testbed.processes import until

MAINTENANCE = "scheduler.alpha.kubernetes.io/maintenance"
STATE = "kube-rescheduler-state"
STRATEGIES = ["NodeMaintenance", "LoadBalancing"]


@pytest.fixture
def nodes(cluster: ClusterUnderTest) -> Iterator[list[str]]:
    names = cluster.add_nodes(3, prefix="asked")
    yield names
    cluster.remove_nodes(names)


@pytest.fixture
def crowded(space: Space, nodes: list[str]) -> str:
    """A node with six pods, and two that are empty."""
    node, *others = nodes
    with space.cordoned(others[0]), space.cordoned(others[1]):
        space.create(deployment("web", 6, cpu="500m"))
        space.rolled_out("web")
    return node


def configured(space: Space, folder: Path, **fields: object) -> Path:
    given = {"approval": "required", "enabledStrategies": STRATEGIES, "maxReschedulePods": 4, "imbalanceThreshold": 30}
    return write_config(folder / "config.yaml", space.name, **(given | fields))


def waiting(space: Space) -> list[Json]:
    found = active(migrations(space))
    return [each for each in found if (each.get("status") or {}).get("message", "").startswith("waits for approval")]


def events(controller: Controller) -> list[str]:
    return [str(each.get("msg")) for each in controller.said()]


def placed(space: Space) -> list[str]:
    return sorted(pod["spec"].get("nodeName", "") for pod in space.pods("web"))


def test_a_plan_waits_is_not_ordered_again_and_moves_when_it_is_approved(
    space: Space, crowded: str, tmp_path: Path
) -> None:
    shell, config = Shell(space.cluster), configured(space, tmp_path)
    with Controller(space.cluster.kubeconfig, config, tmp_path / "controller.log") as controller:
        until("a plan waits", lambda: waiting(space), [controller])
        plans = {each["spec"]["plan"] for each in waiting(space)}
        seen = events(controller).count("planned")
        until("five more plans are made", lambda: events(controller).count("planned") >= seen + 5, [controller])
        until("all that is ordered waits", lambda: len(waiting(space)) == len(migrations(space)), [controller])
        ordered = migrations(space)
        assert len(ordered) <= 4
        assert placed(space) == [crowded] * 6
        (plan,) = plans
        ran = shell.ok("approve", plan)
        assert ran.out.count(" approved\n") == len(ordered)
        moved = {name_of(each) for each in ordered}

        def done() -> bool:
            over = [each["status"]["phase"] for each in migrations(space) if name_of(each) in moved]
            return over == ["Completed"] * len(moved)

        until("what was approved is moved", done, [controller])
        until("web is whole", lambda: len(placed(space)) == 6, [controller])
        assert placed(space).count(crowded) == 6 - len(moved)
        assert controller.stop() == 0


def test_maintenance_was_asked_for_by_a_person_and_waits_for_nobody(space: Space, crowded: str, tmp_path: Path) -> None:
    config, path = configured(space, tmp_path), f"/api/v1/nodes/{crowded}"
    with Controller(space.cluster.kubeconfig, config, tmp_path / "controller.log") as controller:
        until("a plan waits", lambda: waiting(space), [controller])
        overtaken = {name_of(each) for each in waiting(space)}
        space.api.patch(path, {"metadata": {"labels": {MAINTENANCE: "true"}}})
        until("the node is empty", lambda: placed(space) and crowded not in placed(space), [controller])
        emptied = [each for each in migrations(space) if each["spec"]["strategy"] == "NodeMaintenance"]
        assert len(emptied) >= 6
        assert not [each for each in emptied if each["spec"].get("approvalRequired")]
        until("nothing waits", lambda: not overtaken & {name_of(each) for each in waiting(space)}, [controller])
        said = {each["status"]["message"] for each in migrations(space) if name_of(each) in overtaken}
        gone = {"the pod is gone", "the pod is being deleted"}
        assert said <= gone | {
            f"given up while it waited for approval: node {crowded} is to be emptied, which needs no approval"
        }
        space.api.patch(path, {"metadata": {"labels": {MAINTENANCE: None}}})
        until("it takes pods again", lambda: "unschedulable" not in space.api.get(path)["spec"], [controller])
        assert controller.stop() == 0


def test_a_pause_holds_through_a_restart_is_seen_by_a_second_replica_and_goes_with_the_cleanup(
    space: Space, crowded: str, tmp_path: Path
) -> None:
    shell, config = Shell(space.cluster), configured(space, tmp_path, approval="automatic")
    inside = ("-n", space.name)
    shell.ok("pause", *inside, "--reason", "the network is worked on")
    with Controller(space.cluster.kubeconfig, config, tmp_path / "first.log") as first:
        until("it plans, and orders nothing", lambda: events(first).count("no migrations created") >= 3, [first])
        assert migrations(space) == []
        assert first.stop() == 0
    with (
        Controller(space.cluster.kubeconfig, config, tmp_path / "second.log") as second,
        Controller(space.cluster.kubeconfig, config, tmp_path / "third.log") as third,
    ):
        told = "rescheduling paused"
        until("both know", lambda: told in events(second) and told in events(third), [second, third])
        until("one of them plans", lambda: "no migrations created" in events(second) + events(third), [second, third])
        assert migrations(space) == []
        assert placed(space) == [crowded] * 6
        assert "paused by" in shell.ok("resume", *inside).out
        until("pods are moved", lambda: placed(space).count(crowded) < 6, [second, third])
        heard = "rescheduling resumed"
        until("both have heard", lambda: heard in events(second) and heard in events(third), [second, third])
        assert (second.stop(), third.stop()) == (0, 0)
    previewed = shell.ok("cleanup", "--dry-run", "--config", str(config)).out
    assert f"delete ConfigMap {space.name}/{STATE}: nothing is paused any more (dry run)\n" in previewed
    shell.ok("cleanup", "--yes", "--config", str(config))
    with pytest.raises(ApiError) as gone:
        space.api.get(f"/api/v1/namespaces/{space.name}/configmaps/{STATE}")
    assert gone.value.code == 404
