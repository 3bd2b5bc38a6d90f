"""What the demo sees of its cluster: the use that planning reckons with, broken budgets, and what was left behind."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
import yaml

from kubemini import clock
from kubemini.api import Api, Deletion, Target
from kubemini.cluster import EmbeddedCluster
from kubemini.kinds import BUDGET, DEPLOYMENT, NODE, POD
from kubemini.kubelet.node import NodeShape, node, reported
from rescheduler.app import planning as app
from rescheduler.model.json import Json
from rescheduler.model.labels import CORDONED, MANAGED_BY, MANAGER, MIGRATION_STATUS, PAUSED_BY
from rescheduler.model.policy import Policy
from rescheduler_demo.churn import Actions
from rescheduler_demo.controller import LogTap
from rescheduler_demo.state import BudgetWatch, ClusterState, by_number, find_incomplete, find_leftovers
from rescheduler_demo.workloads import NAMESPACE, Pace, Size, Template, agent, budget, deployment, make_workloads

FAST = Pace(50.0)


async def test_what_is_shown_is_what_planning_reckons_with(tmp_path: Path) -> None:
    async with EmbeddedCluster() as cluster:
        state, actions = (
            ClusterState(cluster.api.store, app.load_configuration(None, {}).policy()),
            Actions(cluster.api),
        )

        def is_whole() -> bool:
            """All pods that are wanted are there, and none that is on its way out."""
            pods = state.pods()
            staying = len(pods) == 17 + 3 and all(pod.ready and not pod.deleting for pod in pods)
            return staying and not find_incomplete(cluster.api.store)

        await actions.create_namespace(NAMESPACE)
        await cluster.add_nodes(3)
        lasting = [body for body in make_workloads(Size(3, 20), 70.0, FAST) if body["kind"] != "Job"]
        await actions.create([*lasting, agent(FAST)])
        await actions.scale("web", 3)
        async with asyncio.timeout(60):
            while not (cluster.idle and is_whole()):  # noqa: ASYNC110 - a state
                await asyncio.sleep(0.05)
        path = tmp_path / "kubeconfig"
        path.write_text(yaml.safe_dump(cluster.kubeconfig()))
        shown = state.picture()
        snapshot = await asyncio.to_thread(app.read, app.LiveCluster(str(path)), None, lambda _: None)
        planned = app.plan(snapshot, app.load_configuration(None, {}).policy())
        assert shown.loads == planned.before.loads
        assert shown.hot_nodes == planned.before.hot_nodes
        assert find_incomplete(cluster.api.store) == []


@pytest.fixture
async def api() -> Api:
    """An API without controllers: what a test writes stays as it is."""
    made = Api()
    await Actions(made).create_namespace(NAMESPACE)
    body = reported(node("node-0", 0, NodeShape()), clock.now(), ready=True)
    await made.create(Target(NODE, name="node-0"), body)
    await made.edit(Target(NODE, name="node-0", subresource="status"), lambda found: found | {"status": body["status"]})
    return made


@pytest.fixture
def watch(api: Api) -> BudgetWatch:
    return BudgetWatch(api.store, ClusterState(api.store, Policy()))


async def placed(api: Api, name: str, *, moving: bool = False, ready: bool = True) -> None:
    """A pod of `web` on the node."""
    labels = {"app": "web"} | ({MIGRATION_STATUS: "in-progress"} if moving else {})
    spec = {"nodeName": "node-0", "containers": [{"name": "main", "image": "hollow:1"}]}
    await api.create(Target(POD, NAMESPACE, name), {"metadata": {"labels": labels}, "spec": spec})
    condition = {"type": "Ready", "status": "True" if ready else "False"}

    def running(found: Json) -> Json:
        return found | {"status": {**found["status"], "phase": "Running", "conditions": [condition]}}

    await api.edit(Target(POD, NAMESPACE, name, "status"), running)


async def protected(api: Api, healthy: int) -> None:
    await api.create(Target(BUDGET, NAMESPACE, "web"), budget("web", 1))
    status = {"desiredHealthy": healthy, "currentHealthy": 3, "expectedPods": 3, "disruptionsAllowed": 1}
    await api.edit(Target(BUDGET, NAMESPACE, "web", "status"), lambda found: found | {"status": status})


async def seen_anew(api: Api, watch: BudgetWatch) -> None:
    """What the watch missed, because the node was there before it."""
    await api.edit(Target(NODE, name="node-0"), lambda found: found | {"metadata": found["metadata"] | {"labels": {}}})


@pytest.mark.parametrize(("least", "broken"), [(2, 0), (3, 1)])
async def test_a_moved_pod_that_its_budget_needed_is_counted(
    api: Api, watch: BudgetWatch, least: int, broken: int
) -> None:
    await seen_anew(api, watch)
    for name in ("web-a", "web-b"):
        await placed(api, name)
    await placed(api, "web-c", moving=True)
    await protected(api, least)
    await api.delete(Target(POD, NAMESPACE, "web-c"), Deletion(grace=5))
    assert (watch.checked, len(watch.broken)) == (1, broken)


async def test_pods_that_go_for_other_reasons_or_served_nobody_are_not_counted(api: Api, watch: BudgetWatch) -> None:
    await seen_anew(api, watch)
    await placed(api, "web-a")
    await placed(api, "web-b", moving=True, ready=False)
    await protected(api, 3)
    for name in ("web-a", "web-b"):
        await api.delete(Target(POD, NAMESPACE, name), Deletion(grace=5))
    assert (watch.checked, watch.broken) == (0, [])


async def test_what_moves_leave_behind_is_found(api: Api) -> None:
    assert find_leftovers(api.store) == []
    temporary = budget("web", 1)
    temporary["metadata"]["labels"] = {MANAGED_BY: MANAGER}
    await api.create(Target(BUDGET, NAMESPACE), temporary)
    await api.create(Target(DEPLOYMENT, NAMESPACE), deployment("web", 2, Template(1, 1, FAST), **{PAUSED_BY: "move"}))
    await placed(api, "web-a", moving=True)

    def cordoned(found: Json) -> Json:
        found["metadata"]["annotations"] = {CORDONED: "now"}
        return found

    await api.edit(Target(NODE, name="node-0"), cordoned)
    assert find_leftovers(api.store) == [
        f"Pod web-a: {MIGRATION_STATUS}",
        "Node node-0: our cordon",
        f"Deployment web: {PAUSED_BY}",
        "PodDisruptionBudget web: a temporary budget",
    ]


async def test_workloads_that_lack_pods_and_pods_of_lost_nodes_are_named(api: Api) -> None:
    await api.create(Target(DEPLOYMENT, NAMESPACE), deployment("web", 2, Template(1, 1, FAST)))
    await placed(api, "web-a")
    assert find_incomplete(api.store) == ["Deployment web has 0 of 2 pods ready"]
    await api.delete(Target(NODE, name="node-0"))
    assert find_incomplete(api.store)[0] == "Pod web-a is on node-0, which is gone"


def test_the_next_plan_is_known_from_the_last_one() -> None:
    lines: list[str] = []
    tap = LogTap(5.0, lambda level, line: lines.append(line))
    assert tap.next_plan is None
    tap.handle(logging.LogRecord("rescheduler", logging.INFO, "", 0, {"event": "planned"}, (), None))
    found = tap.next_plan
    assert found is not None
    assert 0.0 <= found <= 5.0
    assert len(lines) == 1


def test_nodes_are_counted_as_people_do() -> None:
    assert sorted(["node-10", "node-9", "other", "node-1"], key=by_number) == ["node-1", "node-9", "node-10", "other"]
