"""TooManyRestarts, PodLifeTime and FailedPods: which pods are meant, where they go, what is left alone."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from pydantic import ValidationError

from rescheduler.model import labels
from rescheduler.model.move_history import MoveHistory, PastMove
from rescheduler.model.objects import ContainerState, Owner, PodCondition
from rescheduler.model.plan import Method, Plan
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.strategies.failed_pods import FailedPodsSettings
from rescheduler.strategies.pod_life_time import PodLifeTimeSettings
from rescheduler.strategies.too_many_restarts import TooManyRestartsSettings
from tests.support import builders as b
from tests.support.planning import moves_of, planned, rejected, without_clock
from tests.support.pod_migrations import replace

RESTARTS, LIFE_TIME, FAILED = "TooManyRestarts", "PodLifeTime", "FailedPods"
DAY = 86400.0
NODES = (b.node("a"), b.node("b"), b.node("c"))
OOM = ContainerState("OOMKilled", 137)
INIT = ContainerState("Error", 3, "init")
DEBUG = ContainerState("Error", 9, "ephemeral")


def plan_of(strategy: str, settings: Mapping[str, object], *rows: Any) -> Plan:
    return planned(b.cluster(NODES, *rows), strategy, settings={strategy: settings})


def web(on: str = "a", name: str = "web", others: int = 2, **options: Any) -> list[b.Row]:
    """A Deployment whose first pod is as told, beside healthy ones of its own on `b`."""
    (above, below, first, *_) = b.deployment(name, replicas=1 + others, on=[on], **options)
    healthy = [row for row in b.deployment(name, on=["b"] * (1 + others)) if hasattr(row, "uid")][3:]
    return [above, below, first, *healthy]


def first(name: str = "web") -> str:
    return f"{name}-{b.hash_of(name)}-0"


CRASHING: dict[str, Any] = {"restarts": 100, "ails": "CrashLoopBackOff", "ready": False}

RESTART_CASES: list[tuple[str, dict[str, object], dict[str, Any], bool]] = [
    ("at the threshold", {}, {"restarts": 100}, True),
    ("below it", {}, {"restarts": 99}, False),
    ("init containers are left out", {}, {"restarts": 99, "init_restarts": 50}, False),
    ("unless they count", {"includeInitContainers": True}, {"restarts": 99, "init_restarts": 1}, True),
    ("in a state that is asked for", {"states": ["CrashLoopBackOff"]}, CRASHING, True),
    ("in another state", {"states": ["CrashLoopBackOff"]}, {"restarts": 100}, False),
    ("a phase is a state", {"states": ["Running"]}, {"restarts": 100}, True),
    ("how it ended is a state", {"states": ["OOMKilled"]}, {**CRASHING, "states": [OOM]}, True),
    ("an init container's state is left out", {"states": ["Error"]}, {**CRASHING, "states": [INIT]}, False),
    (
        "unless it counts",
        {"states": ["Error"], "includeInitContainers": True},
        {**CRASHING, "states": [INIT]},
        True,
    ),
    ("in another namespace", {"namespaces": ["shop"]}, CRASHING, False),
    ("in a namespace that is excluded", {"excludedNamespaces": ["default"]}, CRASHING, False),
    ("with other labels", {"podSelector": "app!=web"}, CRASHING, False),
    ("of a workload that is asked for", {"ownerKinds": ["Deployment"]}, CRASHING, True),
    ("of another kind", {"ownerKinds": ["StatefulSet"]}, CRASHING, False),
    ("of a kind that is excluded", {"excludedOwnerKinds": ["Deployment"]}, CRASHING, False),
    ("that is on its way out", {}, {**CRASHING, "deleting": True}, False),
]


@pytest.mark.parametrize(
    ("settings", "options", "moved"), [pytest.param(*case[1:], id=case[0]) for case in RESTART_CASES]
)
def test_pods_with_too_many_restarts_are_moved(
    settings: dict[str, object], options: dict[str, Any], *, moved: bool
) -> None:
    plan = plan_of(RESTARTS, settings, web(**options))
    assert list(moves_of(plan)) == ([first()] if moved else [])
    assert not plan.rejections


def test_the_reason_tells_how_often_and_what_ails_it() -> None:
    (move,) = plan_of(RESTARTS, {}, web(**CRASHING)).moves
    assert move.reason.startswith("it was restarted 100 times (restartThreshold 100, CrashLoopBackOff); ")
    assert move.gain is None


def test_those_with_the_most_restarts_go_first() -> None:
    rows = [b.pod(f"p{number}", "a", restarts=number) for number in (100, 300, 200)]
    assert list(moves_of(plan_of(RESTARTS, {}, rows))) == ["p300", "p200", "p100"]


def test_a_pod_does_not_go_where_pods_of_its_workload_crash() -> None:
    empty, busy = b.pod("idle", "c", cpu="100m"), b.pod("busy", "b", cpu="2")
    alone = plan_of(RESTARTS, {}, web(others=0, **CRASHING), empty, busy)
    assert moves_of(alone) == {first(): "c"}
    sibling = b.deployment("web", on=["c", "c"], **{**CRASHING, "restarts": 2})[3:]
    assert moves_of(plan_of(RESTARTS, {}, web(others=0, **CRASHING), sibling, empty, busy)) == {first(): "b"}


def test_where_they_crash_everywhere_it_still_goes_and_the_least_used_node_takes_it() -> None:
    busy = b.pod("busy", "b", cpu="2")
    siblings = b.deployment("web", on=["c", "b", "c"], **{**CRASHING, "restarts": 2})[3:]
    assert moves_of(plan_of(RESTARTS, {}, web(others=0, **CRASHING), siblings, busy)) == {first(): "c"}


def test_a_failed_pod_speaks_against_its_node_too() -> None:
    busy = b.pod("busy", "b", cpu="2")
    fallen = b.deployment("web", on=["c", "c"], phase="Failed", reason="Evicted")[3:]
    assert moves_of(plan_of(RESTARTS, {}, web(others=0, **CRASHING), fallen, busy)) == {first(): "b"}


AGE_CASES: list[tuple[str, dict[str, object], dict[str, Any], bool]] = [
    ("older than a day", {}, {"age": DAY + 1}, True),
    ("just a day", {}, {"age": DAY}, False),
    (
        "stuck while its containers are made",
        {"maxAge": "1h", "states": ["ContainerCreating"]},
        {"age": DAY, "phase": "Pending", "states": [ContainerState("ContainerCreating")]},
        True,
    ),
    ("for the pod's own reason", {"states": ["NodeLost"]}, {"age": 2 * DAY, "reason": "NodeLost"}, True),
    ("an exit code", {"exitCodes": [137]}, {"age": 2 * DAY, **CRASHING, "states": [OOM]}, True),
    ("another exit code", {"exitCodes": [1]}, {"age": 2 * DAY, **CRASHING, "states": [OOM]}, False),
    ("of an init container", {"exitCodes": [3]}, {"age": 2 * DAY, "states": [INIT]}, False),
    (
        "which count",
        {"exitCodes": [3], "includeInitContainers": True},
        {"age": 2 * DAY, "states": [INIT]},
        True,
    ),
    (
        "of an ephemeral container, which count",
        {"exitCodes": [9], "includeEphemeralContainers": True},
        {"age": 2 * DAY, "states": [DEBUG]},
        True,
    ),
    ("else they do not", {"exitCodes": [9]}, {"age": 2 * DAY, "states": [DEBUG]}, False),
    (
        "a condition",
        {"conditions": [{"type": "Ready", "status": False}]},
        {"age": 2 * DAY, "ready": False, "conditions": [PodCondition("Ready", "False")]},
        True,
    ),
    (
        "a condition of another reason",
        {"conditions": [{"type": "Ready", "reason": "X"}]},
        {"age": 2 * DAY, "ready": False, "conditions": [PodCondition("Ready", "False", "Y")]},
        False,
    ),
    (
        "for long enough",
        {"conditions": [{"type": "Ready", "minTime": "10m"}]},
        {"age": 2 * DAY, "ready": False, "conditions": [PodCondition("Ready", "False", "", b.NOW - 600)]},
        True,
    ),
    (
        "not for long enough",
        {"conditions": [{"type": "Ready", "minTime": "10m"}]},
        {"age": 2 * DAY, "ready": False, "conditions": [PodCondition("Ready", "False", "", b.NOW - 599)]},
        False,
    ),
    (
        "since nobody knows when",
        {"conditions": [{"type": "Ready", "minTime": "10m"}]},
        {"age": 2 * DAY, "ready": False, "conditions": [PodCondition("Ready", "False")]},
        False,
    ),
    (
        "one of two conditions",
        {"conditions": [{"type": "A"}, {"type": "B"}]},
        {"age": 2 * DAY, "conditions": [PodCondition("B", "False")]},
        True,
    ),
    ("all that is given must hold", {"states": ["Running"], "exitCodes": [1]}, {"age": 2 * DAY}, False),
]


@pytest.mark.parametrize(("settings", "options", "moved"), [pytest.param(*case[1:], id=case[0]) for case in AGE_CASES])
def test_pods_that_are_too_old_are_moved(settings: dict[str, object], options: dict[str, Any], *, moved: bool) -> None:
    plan = plan_of(LIFE_TIME, settings, web(**options))
    assert list(moves_of(plan)) == ([first()] if moved else [])
    assert not plan.rejections


def test_the_oldest_go_first_and_the_reason_tells_their_age() -> None:
    rows = [b.pod(f"p{days}", "a", age=days * DAY) for days in (2, 4, 3)]
    plan = plan_of(LIFE_TIME, {}, rows)
    assert list(moves_of(plan)) == ["p4", "p3", "p2"]
    assert plan.moves[0].reason.startswith("it is 96h0m0s old (maxAge 24h0m0s); ")


def test_without_a_clock_no_pod_is_too_old() -> None:
    snapshot = without_clock(b.cluster(NODES, web(age=9 * DAY)))
    assert not planned(snapshot, LIFE_TIME).moves


def test_a_pod_that_is_stuck_does_not_go_where_its_siblings_are() -> None:
    stuck: dict[str, Any] = {"age": DAY + 1, "phase": "Pending", "ails": "ImagePullBackOff", "ready": False}
    siblings = b.deployment("web", on=["c", "c"], **{**stuck, "age": 60.0})[3:]
    rows = [web(others=0, **stuck), siblings, b.pod("busy", "b", cpu="2")]
    assert moves_of(plan_of(LIFE_TIME, {"states": ["ImagePullBackOff"]}, *rows)) == {first(): "b"}


FALLEN: dict[str, Any] = {"phase": "Failed", "reason": "Evicted"}

FAILED_CASES: list[tuple[str, dict[str, object], dict[str, Any], bool]] = [
    ("any", {}, FALLEN, True),
    ("one that runs", {}, {}, False),
    ("one that succeeded", {}, {"phase": "Succeeded"}, False),
    ("for a reason that is asked for", {"reasons": ["Evicted"]}, FALLEN, True),
    ("for another reason", {"reasons": ["OutOfcpu"]}, FALLEN, False),
    ("for one of many", {"reasons": ["OutOf*"]}, {"phase": "Failed", "reason": "OutOfmemory"}, True),
    ("for a container's reason", {"reasons": ["OOMKilled"]}, {"phase": "Failed", "states": [OOM]}, True),
    ("Failed is a phase, and no reason", {"reasons": ["Failed"]}, FALLEN, False),
    ("for an init container's", {"reasons": ["Error"]}, {"phase": "Failed", "states": [INIT]}, False),
    (
        "which counts",
        {"reasons": ["Error"], "includeInitContainers": True},
        {"phase": "Failed", "states": [INIT]},
        True,
    ),
    ("with an exit code", {"exitCodes": [137]}, {"phase": "Failed", "states": [OOM]}, True),
    ("old enough", {"minAge": "1h"}, {**FALLEN, "age": 3600.0}, True),
    ("too young", {"minAge": "1h"}, {**FALLEN, "age": 3599.0}, False),
    ("of another kind", {"ownerKinds": ["StatefulSet"]}, FALLEN, False),
    ("of a kind that is excluded", {"excludedOwnerKinds": ["ReplicaSet"]}, FALLEN, False),
]


@pytest.mark.parametrize(
    ("settings", "options", "removed"), [pytest.param(*case[1:], id=case[0]) for case in FAILED_CASES]
)
def test_failed_pods_are_removed(settings: dict[str, object], options: dict[str, Any], *, removed: bool) -> None:
    plan = plan_of(FAILED, settings, web(**options))
    assert [(move.pod, move.method, move.source, move.target) for move in plan.moves] == (
        [(first(), Method.REMOVE, "a", "")] if removed else []
    )
    assert not plan.rejections


def test_the_oldest_are_removed_first_and_a_limit_counts_them() -> None:
    rows = [b.job(f"j{age}", on=["a"], phase="Failed", age=float(age)) for age in (100, 300, 200)]
    snapshot = b.cluster(NODES, *rows)
    plan = planned(snapshot, FAILED, max_moves=2)
    assert list(moves_of(plan)) == ["j300-0", "j200-0"]
    assert rejected(plan) == {"j100-0": "MaxReschedulePods"}
    assert plan.moves[0].reason == "it has failed"
    assert plan.moves[0].gain is None
    assert plan.before == plan.after


def test_a_removal_takes_nothing_of_what_nodes_may_receive() -> None:
    rows = [b.job(f"j{number}", on=["a"], phase="Failed") for number in range(3)]
    crashing = b.pod("p", "a", restarts=200)
    plan = planned(b.cluster(NODES, *rows, crashing), FAILED, RESTARTS, per_node_in=1)
    assert len(plan.moves) == 4


def test_a_pod_that_nobody_manages_stays_unless_the_operator_says_otherwise() -> None:
    lonely = b.pod("lonely", "a", **FALLEN)
    orphan = b.pod("orphan", "a", owner=Owner("ReplicaSet", "gone", "u"), **FALLEN)
    foreign = b.pod("foreign", "a", owner=Owner("Workflow.argoproj.io", "w", "u"), **FALLEN)
    assert list(moves_of(plan_of(FAILED, {}, lonely, orphan, foreign))) == ["foreign"]
    everything = plan_of(FAILED, {"withoutController": True}, lonely, orphan, foreign)
    assert sorted(moves_of(everything)) == ["foreign", "lonely", "orphan"]


def test_guards_that_are_not_about_running_pods_hold() -> None:
    rows = [
        b.job("plain", on=["a"], **FALLEN),
        b.job("system", on=["a"], namespace="kube-system", **FALLEN),
        b.job("never", on=["a"], labels={labels.RESCHEDULING: "disabled"}, **FALLEN),
        b.job("moving", on=["a"], labels={labels.MIGRATION_STATUS: "in-progress", labels.MIGRATION_ID: "m"}, **FALLEN),
    ]
    plan = plan_of(FAILED, {}, rows)
    assert list(moves_of(plan)) == ["plain-0"]  # although it is a Job's, young enough, and alone
    assert rejected(plan) == {
        "system-0": "ExcludedNamespace",
        "never-0": "ReschedulingDisabled",
        "moving-0": "Migrating",
    }


def test_pods_that_have_ended_are_removed_for_their_age_only_if_their_state_is_named() -> None:
    rows = [
        b.job("done", on=["a"], phase="Succeeded", age=2 * DAY),
        b.job("fallen", on=["a"], phase="Failed", reason="DeadlineExceeded", age=3 * DAY),
        b.job("young", on=["a"], phase="Succeeded", age=60.0),
        b.pod("lonely", "a", phase="Succeeded", age=2 * DAY),
    ]
    assert not plan_of(LIFE_TIME, {}, rows).moves
    assert list(moves_of(plan_of(LIFE_TIME, {"states": ["Succeeded"]}, rows))) == ["done-0"]
    both = plan_of(LIFE_TIME, {"states": ["Succeeded", "DeadlineExceeded"]}, rows)
    assert moves_of(both) == {"fallen-0": "", "done-0": ""}
    assert {move.method for move in both.moves} == {Method.REMOVE}


@pytest.mark.parametrize("mark", [labels.SCHEDULING_RETRIES, labels.MISSPELT_RETRIES])
@pytest.mark.parametrize(
    ("strategy", "options"), [(RESTARTS, CRASHING), (LIFE_TIME, {"age": 9 * DAY}), (FAILED, FALLEN)]
)
def test_what_recovery_looks_after_is_left_to_it(strategy: str, options: dict[str, Any], mark: str) -> None:
    (above, *rest) = b.deployment("web", replicas=3, on=["a"], annotations={mark: "3"}, **options)
    plan = plan_of(strategy, {}, [above, *rest])
    assert not plan.moves
    assert not plan.rejections


def test_all_three_in_one_plan_do_each_their_part_and_no_pod_twice() -> None:
    rows = [
        web(name="crashing", **CRASHING, age=9 * DAY),
        web(name="fallen", **FALLEN, age=9 * DAY),
        web(name="old", age=9 * DAY),
    ]
    plan = planned(b.cluster(NODES, *rows), RESTARTS, LIFE_TIME, FAILED)
    assert {move.pod: move.strategy for move in plan.moves} == {
        first("fallen"): FAILED,
        first("crashing"): RESTARTS,
        first("old"): LIFE_TIME,
    }


def test_where_no_node_takes_their_like_the_others_are_not_asked_for() -> None:
    full = [b.node(name, cpu=2) for name in ("x", "y")]
    rows = b.deployment("big", on=["x", "y"], cpu="2", age=9 * DAY)
    many = b.deployment("wide", on=["x"] * 4 + ["y"] * 4, cpu="3", age=9 * DAY)
    plan = planned(b.cluster(full, rows, many), LIFE_TIME)
    assert not plan.moves
    assert set(rejected(plan).values()) == {"NoTarget"}
    assert len([pod for pod in rejected(plan) if pod.startswith("wide")]) == 5  # four of x, and one of y


@pytest.mark.parametrize("both", [("namespaces", "excludedNamespaces"), ("ownerKinds", "excludedOwnerKinds")])
@pytest.mark.parametrize("kind", [TooManyRestartsSettings, PodLifeTimeSettings, FailedPodsSettings])
def test_what_excludes_each_other_is_refused(kind: type[TooManyRestartsSettings], both: tuple[str, str]) -> None:
    with pytest.raises(ValidationError, match=f"{both[0]} and {both[1]} exclude each other"):
        kind.model_validate({key: ["x"] for key in both})


@pytest.mark.parametrize(
    "settings", [{"restartThreshold": 0}, {"podSelector": "a in"}, {"states": "Running"}, {"restartTreshold": 3}]
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        TooManyRestartsSettings.model_validate(settings)


def test_descheduler_users_find_their_defaults() -> None:
    assert TooManyRestartsSettings().restart_threshold == 100
    assert not TooManyRestartsSettings().include_init_containers
    assert PodLifeTimeSettings().max_age == DAY
    assert FailedPodsSettings().min_age == 0.0


@pytest.mark.parametrize(("strategy", "options"), [(RESTARTS, CRASHING), (LIFE_TIME, {"age": 9 * DAY})])
def test_no_other_strategy_brings_a_pod_back_to_where_it_was(strategy: str, options: dict[str, Any]) -> None:
    # Its own node is the emptiest by far, so that LoadBalancing would have it there again.
    rows = [web(others=0, cpu="600m", **options), b.daemonset("full", on=["b", "c"], cpu="2500m")]
    both = planned(b.cluster(NODES, *rows), strategy, "LoadBalancing", imbalance=5)
    assert moves_of(both)[first()] in ("b", "c")


def remembering(snapshot: ClusterSnapshot, strategy: str, *, ago: float) -> ClusterSnapshot:
    """This strategy has moved a pod of the workload from a to b so many seconds ago."""
    past = PastMove("m", "gone", "a", "b", strategy, b.NOW - ago)
    return replace(snapshot, memories={("Deployment", "default", "web"): MoveHistory((past,))})


def test_no_other_strategy_brings_a_pod_to_where_its_workload_crashed_lately() -> None:
    """Long after the cool-down the empty node is tempting, and the reason why it is empty is still remembered."""
    snapshot = b.cluster(b.node("a"), b.node("b"), b.deployment("web", on=["b"] * 4, cpu="500m"))
    for strategy, moved in ((RESTARTS, 0), ("LoadBalancing", 2)):
        plan = planned(remembering(snapshot, strategy, ago=3600), "LoadBalancing", RESTARTS)
        assert len(plan.moves) == moved
    assert len(planned(remembering(snapshot, RESTARTS, ago=3600), "LoadBalancing").moves) == 2


def test_a_pod_that_crashes_again_goes_back_only_if_there_is_no_other_node() -> None:
    rows = [*b.deployment("web", on=["b"], **CRASHING), b.pod("busy", "c", cpu="2")]
    snapshot = remembering(b.cluster(b.node("a"), b.node("b"), b.node("c"), rows), RESTARTS, ago=3600)
    assert moves_of(planned(snapshot, RESTARTS)) == {first(): "c"}
    without = remembering(b.cluster(b.node("a"), b.node("b"), rows[:-1]), RESTARTS, ago=3600)
    assert moves_of(planned(without, RESTARTS)) == {first(): "a"}


@pytest.mark.parametrize(
    ("options", "guarded"),
    [
        ({"ready": False, "ails": "CrashLoopBackOff"}, False),
        ({"ready": False, "restarts": 3}, False),  # between two crashes it runs for a moment
        ({"ready": False, "restarts": 2}, True),
        ({"ready": False}, True),
        ({"restarts": 100}, True),
    ],
)
def test_the_only_replica_is_guarded_unless_it_crashes(options: dict[str, Any], *, guarded: bool) -> None:
    plan = plan_of(LIFE_TIME, {"maxAge": "1m"}, b.statefulset("db", on=["a"], **options))
    assert rejected(plan) == ({"db-0": "SingleReplica"} if guarded else {})
    assert list(moves_of(plan)) == ([] if guarded else ["db-0"])
