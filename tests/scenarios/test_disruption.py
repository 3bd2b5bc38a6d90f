"""Disruption: what evictions cost budgets and workloads, and what handoffs and copies don't.

Pods leave node a, which is under maintenance; b has room for all.
"""

from __future__ import annotations

import msgspec
import pytest

from rescheduler.model.objects import DisruptionBudget, Pod
from rescheduler.model.snapshot import ClusterSnapshot
from tests.support.builders import Row, cluster, deployment, node, pdb, pod, statefulset
from tests.support.planning import MAINTENANCE, OPTIMIZATION, moves_of, planned, rejected, rejection_of

STAGE = [node("a", maintenance=True, cpu=16), node("b", cpu=16)]
FOUR = statefulset("db", on=["a", "a", "b", "b"])
BARE = pod("db", on="a", labels={"app": "db"})


def on_stage(*rows: Row | list[Row]) -> ClusterSnapshot:
    return cluster(STAGE, *rows)


@pytest.mark.parametrize(
    ("snapshot", "kept", "words"),
    [
        pytest.param(on_stage(FOUR, pdb("db", allowed=0)), {"db-0", "db-1"}, "db allows no disruption", id="none"),
        pytest.param(
            on_stage(FOUR, pdb("db", allowed=1)), {"db-1"}, "no disruption after the moves before it", id="one"
        ),
        pytest.param(on_stage(FOUR, pdb("db", allowed=2)), set(), "", id="enough"),
        pytest.param(on_stage(FOUR, pdb("db", allowed=0, namespace="shop")), set(), "", id="another namespace"),
        pytest.param(on_stage(FOUR, pdb("db", {"app": "web"}, allowed=0)), set(), "", id="other pods"),
        pytest.param(on_stage(FOUR, pdb("db", None, allowed=0)), set(), "", id="no selector selects nobody"),
        pytest.param(
            on_stage(FOUR, DisruptionBudget("default", "all", pdb("x", "!nothing").selector, allowed=0)),
            {"db-0", "db-1"},
            "budget all allows no disruption",
            id="a selector of everybody",
        ),
    ],
)
def test_evictions_stay_within_a_budgets_headroom(snapshot: ClusterSnapshot, kept: set[str], words: str) -> None:
    plan = planned(snapshot, MAINTENANCE)
    assert set(rejected(plan)) == kept
    for rejection in plan.rejections:
        assert rejection.guard == "DisruptionBudget"
        assert words in rejection.reason


def test_a_handoff_spends_no_headroom() -> None:
    plan = planned(on_stage(deployment("db", on=["a", "a", "a"]), pdb("db", allowed=0)), MAINTENANCE)
    assert len(plan.moves) == 3


@pytest.mark.parametrize(
    ("budget", "goes"),
    [
        pytest.param(pdb("db", min_available=1, allowed=0), True, id="a number of pods: the copy counts"),
        pytest.param(pdb("db", min_available="50%", allowed=0), False, id="a percentage"),
        pytest.param(pdb("db", max_unavailable=1, allowed=0), False, id="maxUnavailable"),
        pytest.param(pdb("db", max_unavailable=1, allowed=1), True, id="maxUnavailable with headroom"),
    ],
)
def test_a_copy_counts_itself_only_for_a_number_of_pods(budget: DisruptionBudget, goes: bool) -> None:
    plan = planned(on_stage(BARE, budget), MAINTENANCE)
    assert bool(plan.moves) is goes
    assert rejected(plan) == ({} if goes else {"db": "DisruptionBudget"})


@pytest.mark.parametrize(
    ("rows", "goes"),
    [
        pytest.param(statefulset("db", on=["a", "b"]), False, id="evict"),
        pytest.param([BARE], False, id="copy"),
        pytest.param(deployment("db", on=["a", "b"]), True, id="handoff"),
    ],
)
def test_a_pod_of_two_budgets_cannot_be_evicted(rows: list[Row], goes: bool) -> None:
    plan = planned(on_stage(rows, pdb("db", allowed=5), pdb("also", {"app": "db"}, allowed=5)), MAINTENANCE)
    assert bool(plan.moves) is goes
    if not goes:
        assert plan.rejections[0].guard == "TwoDisruptionBudgets"
        assert "also, db select it" in plan.rejections[0].reason


@pytest.mark.parametrize(("always", "goes"), [(False, False), (True, True)])
def test_unhealthy_pods_may_go_where_the_budget_says_so(always: bool, goes: bool) -> None:
    sick = statefulset("db", on=["a", "b"], ready=False)
    plan = planned(on_stage(sick, pdb("db", allowed=0, always_evict_unhealthy=always)), MAINTENANCE)
    assert bool(plan.moves) is goes


def _with(rows: list[Row], name: str, **changes: bool) -> list[Row]:
    return [msgspec.structs.replace(r, **changes) if isinstance(r, Pod) and r.name == name else r for r in rows]


RECKONED = [
    ("three must be", FOUR, pdb("db", min_available=3), 1),
    ("all must be", FOUR, pdb("db", min_available=4), 0),
    ("more than there are must be", FOUR, pdb("db", min_available=9), 0),
    ("none must be", FOUR, pdb("db", min_available=0), 2),
    ("half must be", FOUR, pdb("db", min_available="50%"), 2),
    ("a percentage is rounded up", FOUR, pdb("db", min_available="51%"), 1),
    ("all per cent must be", FOUR, pdb("db", min_available="100%"), 0),
    ("one may lack", FOUR, pdb("db", max_unavailable=1), 1),
    ("none may lack", FOUR, pdb("db", max_unavailable=0), 0),
    ("a quarter may lack", FOUR, pdb("db", max_unavailable="25%"), 1),
    ("what may lack is rounded up too", FOUR, pdb("db", max_unavailable="26%"), 2),
    ("neither said: one must be", FOUR, pdb("db"), 2),
    ("one is not ready", _with(FOUR, "db-3", ready=False), pdb("db", min_available=3), 0),
    ("one is being deleted", _with(FOUR, "db-3", deleting=True), pdb("db", min_available=3), 0),
    ("one is missing", statefulset("db", replicas=4, on=["a", "a", "b"]), pdb("db", max_unavailable=1), 0),
    ("one is missing of a number", statefulset("db", replicas=4, on=["a", "a", "b"]), pdb("db", min_available=2), 1),
    ("two workloads", [*FOUR, *statefulset("db2", on=["b"], labels={"app": "db"})], pdb("db", min_available=3), 2),
    ("nonsense must be", FOUR, pdb("db", min_available="lots"), 0),
    ("nonsense may lack", FOUR, pdb("db", max_unavailable="lots"), 0),
    ("a senseless percentage may lack", FOUR, pdb("db", max_unavailable="-5%"), 0),
]


@pytest.mark.parametrize(("rows", "budget", "go"), [pytest.param(*row[1:], id=row[0]) for row in RECKONED])
def test_a_budget_without_status_allows_what_its_controller_would(
    rows: list[Row], budget: DisruptionBudget, go: int
) -> None:
    assert len(planned(on_stage(rows, budget), MAINTENANCE).moves) == go


@pytest.mark.parametrize(("replicas", "go"), [(2, 1), (3, 1), (4, 2), (5, 2), (6, 3)])
def test_at_most_half_of_a_workload_is_evicted_at_once(replicas: int, go: int) -> None:
    plan = planned(on_stage(statefulset("db", on=["a"] * replicas)), MAINTENANCE)
    assert len(plan.moves) == go
    assert set(rejected(plan).values()) == {"WorkloadAtOnce"}
    assert f"evicts {go} of {replicas} replicas of StatefulSet db already" in plan.rejections[0].reason


def test_half_is_reckoned_for_each_workload_by_itself() -> None:
    plan = planned(on_stage(statefulset("x", on=["a", "a"]), statefulset("y", on=["a", "a"])), MAINTENANCE)
    assert moves_of(plan) == {"x-0": "b", "y-0": "b"}


def test_handoffs_are_not_bound_to_half() -> None:
    assert len(planned(on_stage(deployment("web", on=["a"] * 4)), MAINTENANCE).moves) == 4


def test_what_has_no_target_spends_no_headroom() -> None:
    tier = {"tier": "data"}
    big = statefulset("big", replicas=2, on=["a", "c"], cpu=15, labels=tier)
    small = statefulset("small", replicas=2, on=["a", "c"], cpu="100m", labels=tier)
    rows: list[Row] = [*big, *small, node("c", cpu=32, cordoned=True), pod("busy", on="b", cpu=8)]
    plan = planned(on_stage(rows, pdb("data", tier, allowed=1)), MAINTENANCE)
    assert moves_of(plan) == {"small-0": "b"}
    assert rejection_of(plan, "big-0").guard == "NoTarget"


def test_strategies_share_the_headroom() -> None:
    """The maintenance takes the one disruption that is allowed, so the hot node c has to find another pod."""
    rows: list[Row] = [node("c"), *statefulset("db", on=["a", "c", "b"], cpu="1500m"), pod("other", on="c", cpu=2)]
    plan = planned(on_stage(*rows, pdb("db", allowed=1)), MAINTENANCE, OPTIMIZATION)
    assert moves_of(plan) == {"db-0": "b", "other": "b"}
