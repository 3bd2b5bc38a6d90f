"""`rescheduler explain`: moved, refused or not asked for, every objection, the method, and what each node says."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescheduler.app import planning as app
from rescheduler.cli.explain import explanation_lines
from rescheduler.cli.output import Terminal
from rescheduler.model.plan import Method
from rescheduler.model.policy import Limits, MigrationMethod, Policy, Pool, Utilization
from rescheduler.model.snapshot import ClusterSnapshot, MeasuredUsage
from rescheduler.planning.explain import Explanation, PodOutcome, explanation_document
from tests.support import dumps
from tests.support.builders import (
    Row,
    away,
    cluster,
    daemonset,
    deployment,
    hash_of,
    job,
    node,
    pdb,
    pod,
    spread,
    statefulset,
    uid_of,
)
from tests.support.cli import rescheduler, succeeded
from tests.support.pod_migrations import replace

NOW = ("--now", dumps.NOW)
HEAT = Policy(enabled_strategies=("ResourceOptimization",))


MAX_REACHED = "maxReschedulePods (1) is reached: this and what would follow waits for the next cycle"


def explained(snapshot: ClusterSnapshot, name: str, policy: Policy = HEAT, namespace: str = "default") -> Explanation:
    return app.explain_pod(snapshot, policy, (namespace, name))[0]


def text(snapshot: ClusterSnapshot, name: str, policy: Policy = HEAT, *, wide: bool = False) -> str:
    found, plan = app.explain_pod(snapshot, policy, ("default", name))
    return "\n".join(explanation_lines(found, plan, Terminal(), wide=wide))


def refusals(found: Explanation) -> dict[str, tuple[str, ...]]:
    return {refusal.predicate: refusal.nodes for refusal in found.refusals}


def test_the_pool_of_its_node_and_what_was_measured_of_it_are_named() -> None:
    pools = (Pool("gpu", "pool=gpu"),)
    policy = replace(HEAT, pools=pools, utilization=Utilization.USAGE, thresholds={"pods": 50.0})
    snapshot = replace(
        cluster(node("a", labels={"pool": "gpu"}), node("b"), pod("p", on="a", cpu=1), pod("q", on="b", cpu=1)),
        measured=MeasuredUsage(pods={("default", "p"): (("cpu", 250), ("memory", 2**20))}),
    )
    found, _ = app.explain_pod(snapshot, policy, ("default", "p"))
    assert (found.pool, found.usage) == ("gpu", {"cpu": "250m", "memory": "1Mi"})
    document = explanation_document(found)
    assert (document["pool"], document["utilization"]) == ("gpu", "usage")
    assert document["usage"] == {"cpu": "250m", "memory": "1Mi"}
    assert "Pool:       gpu\n" in text(snapshot, "p", policy)
    assert "Uses:       cpu 250m, memory 1Mi\n" in text(snapshot, "p", policy)
    assert "% memory and 0.9% pods)" in text(snapshot, "p", policy)
    assert "Uses:       not measured, so what it asks counts\n" in text(snapshot, "q", policy)
    assert "Pool:" not in text(snapshot, "q", policy)
    assert "Uses:" not in text(snapshot, "q")


def test_a_pod_that_is_moved_is_said_to_be_with_where_and_why() -> None:
    snapshot = cluster(node("a"), node("b"), pod("big", on="a", cpu="2500m"), pod("small", on="a", cpu="1"))
    found = explained(snapshot, "small")
    assert found.outcome is PodOutcome.MOVED
    assert found.move is not None
    assert (found.move.target, found.method) == ("b", Method.COPY)
    assert found.move.uid == uid_of("Pod", "default", "small")
    assert found.why == found.move.reason
    assert "Outcome:    moved to b, as ResourceOptimization wants" in text(snapshot, "small")
    assert [(target.node, target.cpu) for target in found.targets] == [("b", 25.0)]


def test_a_pod_that_fits_nowhere_is_rejected_and_every_node_says_why() -> None:
    found = explained(cluster(node("a"), node("b"), pod("big", on="a", cpu="3500m")), "big")
    assert found.outcome is PodOutcome.REJECTED
    assert found.rejection is not None
    assert found.rejection.guard == "NoTarget"
    assert refusals(found) == {"SameNode": ("a",), "Threshold": ("b",)}
    assert found.nodes[1].cpu == 87.5


def test_every_objection_is_listed_and_not_only_the_first() -> None:
    daemons = daemonset("agent", on=["a"], cpu="3900m", namespace="kube-system", priority=2_000_001_000)
    found = explained(cluster(node("a"), node("b"), daemons), "agent-0", namespace="kube-system")
    assert found.outcome is PodOutcome.REJECTED
    assert found.rejection is not None
    assert found.rejection.guard == "DaemonSet"
    assert [guard for guard, _ in found.objections][:3] == ["DaemonSet", "ExcludedNamespace", "SystemCritical"]


def test_limits_and_disruption_budgets_are_objections_too() -> None:
    rows = statefulset("db", on=["a", "a"], cpu="1900m")
    found = explained(
        cluster(node("a"), node("b"), rows, pdb("db", allowed=0)), "db-0", replace(HEAT, max_reschedule_pods=0)
    )
    assert [guard for guard, _ in found.objections] == ["MaxReschedulePods", "DisruptionBudget"]


def test_objections_count_what_the_plans_other_moves_spend() -> None:
    rows = statefulset("db", on=["a", "a", "a", "a"], cpu="950m")
    snapshot = cluster(node("a"), node("b"), rows, pdb("db", allowed=1))
    moved, plan = app.explain_pod(snapshot, HEAT, ("default", "db-0"))
    assert [move.pod for move in plan.moves] == ["db-0"]
    assert moved.objections == ()
    other = explained(snapshot, "db-1")
    assert other.objections == (
        ("DisruptionBudget", "disruption budget db allows no disruption after the moves before it"),
    )


def test_a_pod_that_nothing_asks_for_is_told_so_with_the_strategies_that_ran() -> None:
    snapshot = cluster(node("a"), node("b"), pod("calm", on="a", cpu="400m"))
    found = explained(snapshot, "calm")
    assert found.outcome is PodOutcome.NOT_PROPOSED
    assert found.why.startswith("No strategy asks for it; the strategies that ran are ResourceOptimization.")
    assert "a is at 10.0% CPU and 0.0% memory, so it is not hot (thresholds 80% CPU, 80% memory)." in found.why
    assert "It is not under maintenance." in found.why
    assert "10.0 points of CPU" in found.why
    none = explained(snapshot, "calm", Policy(enabled_strategies=()))
    assert none.why.startswith("No strategy asks for it; no strategy is enabled.")
    assert "Outcome:    not moved: nothing asks for it" in text(snapshot, "calm")


def test_a_pod_on_a_node_that_others_cool_down_is_told_so() -> None:
    snapshot = cluster(node("a"), node("b"), pod("big", on="a", cpu="2500m"), pod("small", on="a", cpu="1"))
    found = explained(snapshot, "big")
    assert found.outcome is PodOutcome.NOT_PROPOSED
    assert "and moving other pods brings it to 62.5% and 0.0%, under its thresholds." in found.why


def test_a_pod_that_was_not_reached_because_of_the_limit_is_told_so() -> None:
    pods = [pod(f"p-{n}", on="a", cpu="1") for n in range(4)]
    snapshot = cluster(node("a"), node("b"), node("c"), *pods)
    policy = replace(HEAT, max_reschedule_pods=1, cpu_threshold=30.0)
    moved = {move.pod for move in app.plan(snapshot, policy).moves}
    left = explained(snapshot, min({f"p-{n}" for n in range(4)} - moved), policy)
    assert ("MaxReschedulePods", MAX_REACHED) in left.objections


@pytest.mark.parametrize(
    ("rows", "name", "method", "why_not"),
    [
        (deployment("web", on=["a"]), f"web-{hash_of('web')}-0", Method.HANDOFF, ""),
        (deployment("web", on=["a"], recreate=True), f"web-{hash_of('web')}-0", Method.EVICT, "strategy is Recreate"),
        (statefulset("db", on=["a"]), "db-0", Method.EVICT, "only a ReplicaSet adopts"),
        ([pod("alone", on="a")], "alone", Method.COPY, "only a ReplicaSet adopts"),
    ],
)
def test_the_method_is_told_and_why_it_is_no_handoff(rows: list[Row], name: str, method: Method, why_not: str) -> None:
    found = explained(cluster(node("a"), node("b"), rows), name)
    assert found.method is method
    assert why_not in found.not_handoff
    assert bool(why_not) == bool(found.not_handoff)


def test_an_eviction_that_was_chosen_is_told_as_such() -> None:
    rows = deployment("web", on=["a", "b"])
    policy = replace(HEAT, migration_method=MigrationMethod.EVICT)
    found = explained(cluster(node("a"), node("b"), rows), f"web-{hash_of('web')}-0", policy)
    assert (found.method, found.not_handoff) == (Method.EVICT, "evict is the method chosen for it")


def test_every_node_says_which_predicate_refuses() -> None:
    snapshot = cluster(
        node("here"),
        node("cordoned", cordoned=True),
        node("broken", ready=False),
        node("tainted", taints=["dedicated=db:NoSchedule"]),
        node("control", control_plane=True),
        node("elsewhere", labels={"disk": "hdd"}),
        node("full-1", labels={"disk": "ssd"}),
        node("full-2", labels={"disk": "ssd"}),
        node("warm", labels={"disk": "ssd"}),
        node("free", labels={"disk": "ssd"}),
        pod("filler-1", on="full-1", cpu="3900m"),
        pod("filler-2", on="full-2", cpu="3800m"),
        pod("filler-3", on="warm", cpu="2700m"),
        pod("picky", on="here", cpu="1", node_selector={"disk": "ssd"}),
    )
    found = explained(snapshot, "picky", Policy(enabled_strategies=()))
    assert refusals(found) == {
        "SameNode": ("here",),
        "NodeUnschedulable": ("cordoned",),
        "NodeNotReady": ("broken",),
        "TaintToleration": ("tainted",),
        "ControlPlane": ("control",),
        "NodeAffinity": ("elsewhere",),
        "NodeResourcesFit": ("full-1", "full-2"),
        "Threshold": ("warm",),
    }
    assert [(target.node, target.cpu) for target in found.targets] == [("free", 25.0)]
    assert sum(len(refusal.nodes) for refusal in found.refusals) + len(found.targets) == 10


def test_nodes_with_different_room_are_one_group_but_keep_their_own_reason() -> None:
    snapshot = cluster(
        node("a"),
        node("b"),
        node("c"),
        pod("p", on="a", cpu="2"),
        pod("x", on="b", cpu="3"),
        pod("y", on="c", cpu="3500m"),
    )
    found = explained(snapshot, "p", Policy(enabled_strategies=()))
    fit = next(refusal for refusal in found.refusals if refusal.predicate == "NodeResourcesFit")
    assert (fit.reason, fit.nodes) == ("insufficient cpu (asks 2000m)", ("b", "c"))
    assert {outlook.reason for outlook in found.nodes if outlook.predicate == "NodeResourcesFit"} == {
        "insufficient cpu (asks 2000m, 1000m free)",
        "insufficient cpu (asks 2000m, 500m free)",
    }


def test_rules_of_pods_are_judged_beside_the_original_for_a_handoff_and_without_it_for_an_eviction() -> None:
    apart = [away({"app": "web"}, "zone")]
    nodes = [node("a", zone="x"), node("b", zone="x")]
    handed = explained(cluster(nodes, deployment("web", on=["a"], anti_affinity=apart)), f"web-{hash_of('web')}-0")
    assert handed.method is Method.HANDOFF
    assert refusals(handed) == {"SameNode": ("a",), "PodAntiAffinity": ("b",)}
    rows = deployment("web", on=["a"], anti_affinity=apart, recreate=True)
    evicted = explained(cluster(nodes, rows), f"web-{hash_of('web')}-0")
    assert evicted.method is Method.EVICT
    assert [target.node for target in evicted.targets] == ["b"]


def test_a_node_where_the_rules_would_not_hold_after_the_move_is_refused() -> None:
    # Beside the original the copy fits in zone y; without it, x would be two behind.
    rule = [spread(1, "zone", {"app": "web"})]
    rows = deployment("web", on=["x1", "y1", "y2"], spread=rule)
    snapshot = cluster(node("x1", zone="x"), node("y1", zone="y"), node("y2", zone="y"), node("y3", zone="y"), rows)
    found = explained(snapshot, f"web-{hash_of('web')}-0")
    assert not found.targets
    assert {"AfterTheMove", "PodTopologySpread"} & refusals(found).keys()


def test_explaining_leaves_nothing_changed() -> None:
    rule = [spread(1, "zone", {"app": "web"})]
    rows = deployment("web", on=["a", "a", "b"], cpu="1500m", spread=rule)
    snapshot = cluster(node("a", zone="x"), node("b", zone="y"), node("c", zone="y"), rows)
    names = [found.name for found in snapshot.pods]
    first = [explained(snapshot, name) for name in names]
    assert first == [explained(snapshot, name) for name in names]


def test_a_full_limit_into_a_node_refuses_it() -> None:
    policy = replace(HEAT, limits=Limits(per_node_in=0))
    found = explained(cluster(node("a"), node("b"), pod("p", on="a", cpu="3900m")), "p", policy)
    assert "b" not in [target.node for target in found.targets]


def test_pods_on_no_node_or_an_unknown_one_or_finished_are_explained_too() -> None:
    snapshot = cluster(
        node("a"),
        pod("pending"),
        pod("stray", on="gone"),
        pod("done", on="a", phase="Succeeded"),
        allow_unknown_nodes=True,
    )
    assert explained(snapshot, "pending").objections == (("NotRunning", "it is not on a node yet"),)
    assert ("UnknownNode", "its node gone is not in the input") in explained(snapshot, "stray").objections
    assert explained(snapshot, "done").objections[0][0] == "NotRunning"
    assert [target.node for target in explained(snapshot, "stray").targets] == ["a"]


def test_jobs_show_the_allowance_that_would_let_them() -> None:
    found = explained(cluster(node("a"), node("b"), job("once", on=["a"], cpu="3900m")), "once-0")
    assert found.outcome is PodOutcome.REJECTED
    assert "allow.jobs lets it" in found.why


@pytest.fixture
def hot(tmp_path: Path) -> str:
    return dumps.written(tmp_path / "hot.json", dumps.hot_cluster(), dumps.pdb("web", 1))


@pytest.mark.parametrize(
    "named",
    [
        ("shop/api-0",),
        ("pod/api-0", "-n", "shop"),
        ("shop/pod/api-0",),
        ("api-0",),
    ],
)
def test_a_pod_can_be_named_in_all_of_kubectls_ways(hot: str, named: tuple[str, ...]) -> None:
    assert succeeded("explain", *named, "-f", hot, *NOW).out.startswith("Pod:        shop/api-0\n")


def test_a_name_in_several_namespaces_must_be_told_apart_unless_one_is_default(tmp_path: Path) -> None:
    pods = [dumps.pod("twin", "a", namespace=namespace) for namespace in ("x", "y")]
    file = dumps.written(tmp_path / "c.json", dumps.node("a"), pods)
    ran = rescheduler("explain", "twin", "-f", file, *NOW)
    assert ran.code == 2
    assert "in several namespaces: x/twin, y/twin" in ran.said
    dumps.written(tmp_path / "c.json", dumps.node("a"), pods, dumps.pod("twin", "a"))
    assert succeeded("explain", "twin", "-f", file, *NOW).out.startswith("Pod:        default/twin")


def test_the_flags_of_plan_count_for_explain_too(hot: str) -> None:
    calm = succeeded("explain", "default/web-0", "-f", hot, *NOW, "--strategy", "NodeMaintenance").out
    assert "nothing asks for it" in calm
    assert "the strategies that ran are NodeMaintenance" in calm
    evicted = succeeded("explain", "default/web-0", "-f", hot, *NOW, "--migration-method", "evict").out
    assert "Method:     evict (not handoff: evict is the method chosen for it)" in evicted
