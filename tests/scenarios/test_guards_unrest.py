"""Guards of workloads that are not at rest, and of pods with marks of other tools; and that every guard has a case.

In the manner of test_guards, on the same stage: everything that may leave node a does.
"""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest

from rescheduler.model import labels
from rescheduler.model.objects import Autoscaler, Node, Pod, Workload
from rescheduler.model.policy import Filters, NoEviction, Timing
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning import guards
from rescheduler.planning.revalidate import RequestedMove, Revalidator
from tests.scenarios.test_guards import KEPT, only_kept
from tests.scenarios.test_guards_filters import FILTERED
from tests.support.builders import NOW, cluster, deployment, node, pod, replicaset, statefulset
from tests.support.builders.rows import Row
from tests.support.planning import PolicyOptions, policy_of

STAGE = [node("a"), node("b")]
EMPTIED = [node("a", maintenance=True), node("b")]
WEB = deployment("web", on=["a", "b"])
MANDATORY: PolicyOptions = {"filters": Filters(no_eviction_policy=NoEviction.MANDATORY)}
ROLLING = "is being rolled out or scaled"
NEVER = "2147483647"


def scaler(name: str = "web", kind: str = "Deployment", **status: object) -> Autoscaler:
    """An autoscaler; of two pods, unless said otherwise, and content."""
    row = Autoscaler("default", "hpa", kind, name, current=2, desired=2)
    return msgspec.structs.replace(row, **status)


def changing(rows: list[Row], kind: str, how: str) -> list[Row]:
    """The same, with the workload of this kind being changed."""
    return [
        msgspec.structs.replace(row, changing=how) if isinstance(row, Workload) and row.kind == kind else row
        for row in rows
    ]


def marked(key: str, value: str) -> Pod:
    return pod("p", on="a", annotations={key: value})


def started(ago: float | None, lasting: str) -> Pod:
    """A pod that started so long ago, and that Karpenter is to leave alone for so long."""
    return msgspec.structs.replace(marked(labels.DO_NOT_DISRUPT, lasting), started=None if ago is None else NOW - ago)


def on(stage: list[Node], *rows: Row | list[Row]) -> ClusterSnapshot:
    return cluster(stage, *rows)


NOT_AT_REST: list[tuple[str, list[Row], PolicyOptions, str]] = [
    ("RollingOut", changing(WEB, "Deployment", ROLLING), {}, "Deployment web is being rolled out or scaled"),
    ("RollingOut", changing(WEB, "ReplicaSet", "has changes"), {}, "ReplicaSet web-"),
    ("RollingOut", changing(statefulset("db", on=["a", "b"]), "StatefulSet", ROLLING), {}, "StatefulSet db is being"),
    ("Scaling", [*WEB, scaler(desired=5)], {}, "HorizontalPodAutoscaler hpa scales its workload from 2 to 5"),
    ("Scaling", [*WEB, scaler(desired=1)], {}, "from 2 to 1"),
    ("Scaling", [*WEB, scaler(scaled=NOW - 119)], {}, "less than when.restAfterScaling (120s) ago"),
    ("Scaling", [*WEB, scaler(scaled=NOW - 119, active=False)], {}, "has scaled its workload less than"),
    ("Scaling", [*WEB, scaler(scaled=NOW - 500)], {"when": Timing(rest_after_scaling=600)}, "(600s) ago"),
    ("Scaling", [*replicaset("rs", on=["a", "b"]), scaler("rs", "ReplicaSet", desired=4)], {}, "from 2 to 4"),
    ("Scaling", [*statefulset("db", on=["a", "b"]), scaler("db", "StatefulSet", desired=4)], {}, "from 2 to 4"),
    ("SafeToEvict", [marked(labels.SAFE_TO_EVICT, "false")], {}, f"annotation {labels.SAFE_TO_EVICT} is false"),
    ("DoNotDisrupt", [marked(labels.DO_NOT_DISRUPT, "true")], {}, f"annotation {labels.DO_NOT_DISRUPT} is true"),
    ("DoNotDisrupt", [started(14399, "4h")], {}, "is 4h, and the pod started at 2027-01-15T04:00:01Z"),
    ("DoNotDisrupt", [started(0, "1h30m")], {}, "is 1h30m, and the pod started at"),
    ("DoNotDisrupt", [started(None, "5m")], {}, "is 5m, and nothing says when the pod started"),
    ("DoNotDisrupt", [started(10**6, "1d")], {}, "is '1d', which is neither true nor false nor a duration such as 4h"),
    ("DoNotDisrupt", [started(10**6, "")], {}, "is '', which is neither"),
    ("EvictionCost", [marked(labels.EVICTION_COST, NEVER)], {}, f"annotation {labels.EVICTION_COST} is {NEVER}, which"),
    ("EvictionCost", [marked(labels.KOORDINATOR_COST, NEVER)], {}, "eviction-cost is 2147483647, which means never"),
    ("PreferNoEviction", [marked(labels.PREFER_NO_EVICTION, "")], {}, "(filters.noEvictionPolicy is preferred)"),
    ("PreferNoEviction", [marked(labels.PREFER_NO_EVICTION, "false")], {}, ""),
    ("PreferNoEviction", [marked(labels.PREFER_NO_EVICTION, "true")], MANDATORY, "is mandatory"),
]

AT_REST: list[tuple[str, list[Row]]] = [
    ("a workload that nobody changes", WEB),
    (
        "another's rollout",
        [*deployment("web", on=["a", "b"]), *changing(deployment("api", on=["b"]), "Deployment", ROLLING)],
    ),
    ("an autoscaler that is content", [*WEB, scaler()]),
    ("an autoscaler of another", [*WEB, scaler("api", desired=9)]),
    ("an autoscaler of a namesake of another kind", [*WEB, scaler("web", "StatefulSet", desired=9)]),
    ("an autoscaler that has never reckoned", [*WEB, scaler(desired=0)]),
    ("an autoscaler that cannot scale", [*WEB, scaler(desired=9, active=False)]),
    ("scaled long enough ago", [*WEB, scaler(scaled=NOW - 120)]),
    ("safe to evict", [marked(labels.SAFE_TO_EVICT, "true")]),
    ("may be disrupted", [marked(labels.DO_NOT_DISRUPT, "false")]),
    ("may be disrupted by now", [started(14400, "4h")]),
    ("may be disrupted at once", [started(0, "0")]),
    ("a high cost", [marked(labels.EVICTION_COST, "2147483646")]),
    ("the highest deletion cost, which is only an order", [marked(labels.DELETION_COST, NEVER)]),
]

EVEN_THEN = {"SafeToEvict", "DoNotDisrupt", "EvictionCost"}
"""Marks of pods that hold on a node that is emptied, too."""


CASES = [pytest.param(*row, id=f"{row[0]}: {row[3][:40]}") for row in NOT_AT_REST]


@pytest.mark.parametrize(("guard", "rows", "options", "words"), CASES)
def test_what_is_not_at_rest_stays_where_it_is(guard: str, rows: list[Row], options: PolicyOptions, words: str) -> None:
    kept = only_kept(on(STAGE, rows), options)
    assert kept is not None
    assert kept[0] == guard
    assert words in kept[1]


@pytest.mark.parametrize("rows", [pytest.param(row[1], id=row[0]) for row in AT_REST])
def test_what_is_at_rest_may_go(rows: list[Row]) -> None:
    assert only_kept(on(STAGE, rows), {}) is None


@pytest.mark.parametrize(("guard", "rows", "options", "words"), CASES)
def test_a_node_that_is_emptied_waits_for_no_rollout_but_heeds_marks(
    guard: str, rows: list[Row], options: PolicyOptions, words: str
) -> None:
    kept = only_kept(on(EMPTIED, rows), options)
    stays = guard in EVEN_THEN or options == MANDATORY
    assert (kept is not None) == stays


@pytest.mark.parametrize(("guard", "rows", "options", "words"), CASES)
def test_whoever_orders_a_move_by_hand_has_seen_it(
    guard: str, rows: list[Row], options: PolicyOptions, words: str
) -> None:
    snapshot = on(STAGE, rows)
    name = next(each.name for each in snapshot.pods if each.node == "a")
    revalidator = Revalidator(snapshot, policy_of(options))
    refused = revalidator.check(RequestedMove("default", name))
    assert refused.method is None
    assert refused.reason.startswith(f"{guard}: ")
    assert refused.temporary == (guard in ("RollingOut", "Scaling"))
    assert revalidator.check(RequestedMove("default", name, by_hand=True)).method is not None


def test_an_autoscaler_is_not_asked_for_its_time_where_nobody_knows_what_time_it_is() -> None:
    snapshot = replace(on(STAGE, WEB, scaler(scaled=NOW - 1)), taken_at=None)
    assert only_kept(snapshot, {}) is None


def test_a_pod_to_be_left_alone_for_a_while_is_where_nobody_knows_what_time_it_is() -> None:
    kept = only_kept(replace(on(STAGE, started(10**6, "5m")), taken_at=None), {})
    assert kept == ("DoNotDisrupt", f"annotation {labels.DO_NOT_DISRUPT} is 5m, and nothing says what time it is")


@pytest.mark.parametrize(
    ("annotations", "kept"),
    [
        ({}, ""),
        ({labels.SCALE_DOWN_DISABLED: "true"}, labels.SCALE_DOWN_DISABLED),
        ({labels.SCALE_DOWN_DISABLED: "false"}, ""),
        ({labels.DO_NOT_DISRUPT: "true"}, labels.DO_NOT_DISRUPT),
    ],
)
def test_a_node_says_that_it_is_to_stay(annotations: dict[str, str], kept: str) -> None:
    assert msgspec.structs.replace(node("a"), annotations=annotations).kept == kept


def test_every_guard_has_a_case() -> None:
    cases = {row[0] for table in (KEPT, FILTERED, NOT_AT_REST) for row in table}
    assert cases == set(guards.discover())
