"""Verdicts on requested moves: the planner's rules hold for each and for all together; by hand, exclusions do not."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.model import labels
from rescheduler.model.plan import Method
from rescheduler.model.policy import Limits, Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.model.time import format_instant
from rescheduler.planning.revalidate import MoveVerdict, RequestedMove, Revalidator
from tests.support.builders import (
    NOW,
    Row,
    cluster,
    daemonset,
    deployment,
    hash_of,
    node,
    pdb,
    pod,
    statefulset,
    uid_of,
)
from tests.support.examples import examples
from tests.support.generated import random_cluster
from tests.support.planning import PolicyOptions, policy_of
from tests.support.pod_migrations import replace
from tests.support.twin import World, keeps_rules, refusals

NODES = [node("a"), node("b"), node("c")]
WEB = f"web-{hash_of('web')}"
HOW = labels.MIGRATION_METHOD


def wanted(name: str, target: str = "", *, by_hand: bool = False, namespace: str = "default") -> RequestedMove:
    return RequestedMove(namespace, name, target=target, by_hand=by_hand)


def revalidator(*rows: Row | list[Row], policy: Policy | None = None) -> Revalidator:
    return Revalidator(cluster(NODES, *rows), policy or Policy())


def options(**said: object) -> Policy:
    return policy_of(PolicyOptions(**said))  # type: ignore[typeddict-item]  # each test says what it means


def test_a_pod_is_sent_where_the_order_says_by_the_method_that_fits_it() -> None:
    judged = revalidator(deployment("web", on=["a", "a"]), pod("bare", "a"), statefulset("db", on=["a", "b"]))
    assert judged.check(wanted(f"{WEB}-0", "c")) == MoveVerdict(Method.HANDOFF, "c")
    assert judged.check(wanted("bare", "b")) == MoveVerdict(Method.COPY, "b")
    assert judged.check(wanted("db-0", "c")) == MoveVerdict(Method.EVICT, "c")


def test_without_a_target_the_best_node_is_found() -> None:
    found = revalidator(pod("bare", "a"), pod("large", "b", cpu=3)).check(wanted("bare"))
    assert found == MoveVerdict(Method.COPY, "c")


def test_a_pod_stays_on_the_node_that_it_is_on() -> None:
    found = revalidator(pod("bare", "a")).check(wanted("bare", "a"))
    assert (found.method, found.reason, found.temporary) == (None, "it is on a already", False)


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        (wanted("unknown", "b"), "there is no pod default/unknown"),
        (wanted("bare", "nowhere"), "there is no node nowhere"),
        (replace(wanted("bare", "b"), uid="the next one"), "default/bare is another pod by now"),
        (wanted("unbound", "b"), "it is not on a node yet"),
    ],
)
def test_what_the_snapshot_does_not_know_yet_passes(order: RequestedMove, reason: str) -> None:
    """Whoever asks has seen the pod and the node, so that the snapshot lags behind."""
    assert revalidator(pod("bare", "a"), pod("unbound")).check(order) == MoveVerdict(reason=reason, temporary=True)


def test_a_pod_that_has_ended_is_not_moved() -> None:
    found = revalidator(pod("bare", "a", phase="Succeeded")).check(wanted("bare", "b"))
    assert (found.method, found.temporary) == (None, False)
    assert found.reason.startswith("NotRunning")


def test_a_full_node_and_a_spent_budget_may_pass() -> None:
    judged = revalidator(
        pod("big", "a", cpu=3), pod("full", "b", cpu=2), statefulset("db", on=["a", "b"]), pdb("db", allowed=0)
    )
    for order, guard in ((wanted("big", "b"), "NoTarget"), (wanted("db-0", "c"), "DisruptionBudget")):
        found = judged.check(order)
        assert (found.method, found.temporary) == (None, True)
        assert found.reason.startswith(guard)


def test_a_pod_that_a_migration_moves_waits_for_it_even_where_it_is_going() -> None:
    busy = {("default", "bare"): "migration m is InProgress"}
    judged = Revalidator(replace(cluster(NODES, pod("bare", "b")), spoken_for=busy), Policy())
    assert judged.check(wanted("bare", "b")) == MoveVerdict(reason=busy["default", "bare"], temporary=True)


def test_the_plans_limits_and_rests_are_not_asked_again() -> None:
    moved = {labels.MIGRATION_TIME: format_instant(NOW)}
    policy = replace(
        Policy(), max_reschedule_pods=0, limits=Limits(per_workload=0), min_pod_age=3600.0, cool_down=3600.0
    )
    rows = deployment("web", on=["a", "a"], age=1.0, pod_annotations=moved)
    assert revalidator(rows, policy=policy).check(wanted(f"{WEB}-0", "b")).method is Method.HANDOFF


def test_a_clock_behind_the_api_servers_makes_nobody_too_young() -> None:
    moved = {labels.MIGRATION_TIME: format_instant(NOW + 5)}
    rows = deployment("web", on=["a", "a"], age=-5.0, pod_annotations=moved)
    assert revalidator(rows).check(wanted(f"{WEB}-0", "b")).method is Method.HANDOFF


EXCLUDED = options(excluded_namespaces=["kube-system"], excluded_pods="tier=front")


@pytest.mark.parametrize(
    ("row", "guard"),
    [
        (pod("bare", "a", namespace="kube-system"), "ExcludedNamespace"),
        (pod("bare", "a", labels={"tier": "front"}), "ExcludedPodSelector"),
    ],
)
def test_an_order_by_hand_lifts_exclusions_and_a_plan_does_not(row: Row, guard: str) -> None:
    namespace = getattr(row, "namespace", "")
    judged = revalidator(row, policy=EXCLUDED)
    planned = judged.check(wanted("bare", "b", namespace=namespace))
    assert (planned.method, planned.temporary) == (None, False)
    assert planned.reason.startswith(guard)
    assert judged.check(wanted("bare", "b", namespace=namespace, by_hand=True)).method is Method.COPY


@pytest.mark.parametrize(
    ("rows", "name", "guard"),
    [
        ([pod("bare", "a", labels={labels.RESCHEDULING: "disabled"})], "bare", "ReschedulingDisabled"),
        (daemonset("agent", on=["a"]), "agent-0", "DaemonSet"),
        ([pod("bare", "a", annotations={labels.MIRROR: "x"})], "bare", "StaticPod"),
        ([pod("bare", "a", priority=2_000_000_000)], "bare", "SystemCritical"),
        ([pod("bare", "a", local_storage=["data"])], "bare", "LocalStorage"),
        (statefulset("db", on=["a"]), "db-0", "SingleReplica"),
    ],
)
@pytest.mark.parametrize("by_hand", [False, True])
def test_other_guards_hold_for_everybody(rows: list[Row], name: str, guard: str, *, by_hand: bool) -> None:
    found = revalidator(rows).check(wanted(name, "b", by_hand=by_hand))
    assert (found.method, found.temporary) == (None, False)
    assert found.reason.startswith(f"{guard}: ")


def test_the_same_order_gets_the_same_answer_and_another_one_for_the_pod_waits() -> None:
    judged = revalidator(deployment("web", on=["a", "a"]))
    first = judged.check(wanted(f"{WEB}-0", "b"))
    assert judged.check(wanted(f"{WEB}-0", "b")) == first
    other = judged.check(wanted(f"{WEB}-0", "c"))
    assert (other.method, other.reason, other.temporary) == (None, "another order moves it already", True)


def test_room_that_is_ruled_away_is_gone_for_plans_and_orders_by_hand_alike() -> None:
    rows = [pod(f"p{number}", "a", cpu="1500m") for number in range(4)]
    judged = Revalidator(cluster(node("a", cpu=16), node("b", cpu=4), rows), Policy())
    found = [judged.check(wanted(f"p{number}", "b", by_hand=number % 2 == 0)) for number in range(4)]
    assert [verdict.method is not None for verdict in found] == [True, True, False, False]


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        (replace(wanted(f"{WEB}-0", "b"), method=Method.COPY), "manages it: a copy would be one too many"),
        (replace(wanted("bare", "b"), method=Method.EVICT), "it has no controller, so evict would lose it"),
        (replace(wanted("bare", "b"), method=Method.HANDOFF), "it has no controller, so handoff would lose it"),
        (replace(wanted("bare", "b"), tried_methods=(Method.COPY,)), "no method is left to try"),
        (replace(wanted(f"{WEB}-0", "b"), tried_methods=(Method.HANDOFF, Method.EVICT)), "no method is left to try"),
        (
            replace(wanted(f"{WEB}-0", "b"), method=Method.HANDOFF, tried_methods=(Method.HANDOFF,)),
            "handoff is the method ordered, and it did not work",
        ),
        (
            replace(wanted("db-0", "c"), method=Method.HANDOFF),
            "handoff is the method chosen for it, and only a ReplicaSet adopts",
        ),
        (
            replace(wanted("db-0", "c"), tried_methods=(Method.EVICT,)),
            "evict is the method chosen for it, and it did not work",
        ),
    ],
)
def test_a_method_that_does_not_fit_or_did_not_work_is_refused(order: RequestedMove, reason: str) -> None:
    judged = revalidator(deployment("web", on=["a", "a"]), statefulset("db", on=["a", "b"]), pod("bare", "a"))
    found = judged.check(order)
    assert (found.method, found.temporary) == (None, False)
    assert reason in found.reason


def test_where_handoff_did_not_work_eviction_is_next() -> None:
    judged = revalidator(deployment("web", on=["a", "a"]))
    assert judged.check(replace(wanted(f"{WEB}-0", "b"), tried_methods=(Method.HANDOFF,))) == MoveVerdict(
        Method.EVICT, "b"
    )


def test_the_ordered_method_is_taken_where_it_fits() -> None:
    judged = revalidator(deployment("web", on=["a", "a"]))
    assert judged.check(replace(wanted(f"{WEB}-0", "b"), method=Method.EVICT)) == MoveVerdict(Method.EVICT, "b")
    assert judged.check(replace(wanted(f"{WEB}-1", "b"), method=Method.HANDOFF)) == MoveVerdict(Method.HANDOFF, "b")


@pytest.mark.parametrize(
    ("said", "ordered", "used"), [("evict", Method.HANDOFF, "evict"), ("handoff", Method.EVICT, "handoff")]
)
def test_an_order_never_gets_another_method_than_it_asks_for(said: str, ordered: Method, used: str) -> None:
    judged = revalidator(deployment("web", on=["a", "a"], annotations={HOW: said}))
    found = judged.check(replace(wanted(f"{WEB}-0", "b"), method=ordered))
    assert found == MoveVerdict(reason=f"annotation {HOW} has it moved by {used}, not by {ordered}")


def test_a_refusal_leaves_no_trace() -> None:
    """A method that did not work is refused before its move is laid in: the room is another's."""
    rows = [*statefulset("db", on=["a", "b"], cpu=2), pod("bare", "a", cpu=2)]
    judged = Revalidator(cluster(node("a", cpu=8), node("b", cpu=8), node("c", cpu=2), rows), Policy())
    assert judged.check(replace(wanted("db-0", "c"), tried_methods=(Method.EVICT,))).method is None
    assert judged.check(wanted("bare", "c")).method is Method.COPY


def walked(snapshot: ClusterSnapshot, ruled: list[tuple[RequestedMove, MoveVerdict]]) -> None:
    """What was ruled, carried out in this order in the plain twin's world."""
    world = World(snapshot)
    by_name = {(each.namespace, each.name): each for each in snapshot.pods}
    for order, verdict in ruled:
        moved = by_name[order.namespace, order.pod]
        there = world.without(moved) if verdict.method is Method.EVICT else world
        assert refusals(there, moved, verdict.target) == set(), order
        assert keeps_rules(world, moved, moved.node, verdict.target), order
        world = world.without(moved).plus(moved, verdict.target)


@given(data=st.data(), seed=st.integers(0, 10**6), size=st.tuples(st.integers(2, 8), st.integers(4, 40)))
@settings(max_examples=examples(few=10, many=60))
def test_what_is_ruled_is_feasible_all_together(data: st.DataObject, seed: int, size: tuple[int, int]) -> None:
    snapshot = random_cluster(seed, *size)
    judged, ruled = Revalidator(snapshot, Policy()), list[tuple[RequestedMove, MoveVerdict]]()
    targets = st.sampled_from(["", *(each.name for each in snapshot.nodes)])
    for row in data.draw(st.lists(st.sampled_from(snapshot.pods), max_size=10, unique_by=lambda one: one.full_name)):
        order = RequestedMove(
            row.namespace,
            row.name,
            data.draw(st.sampled_from(["", row.uid])),
            data.draw(targets),
            data.draw(st.sampled_from([None, *Method])),
            by_hand=data.draw(st.booleans()),
        )
        verdict = judged.check(order)
        assert (verdict.method is None) == bool(verdict.reason)
        if verdict.method is None:
            continue
        assert order.target in ("", verdict.target)
        assert order.method in (None, verdict.method)
        assert row.labels.get(labels.RESCHEDULING) != "disabled"
        assert order.by_hand or row.namespace not in Policy().excluded_namespaces
        ruled.append((order, verdict))
    walked(snapshot, ruled)


def test_uids_of_orders_are_compared_where_they_are_given() -> None:
    order = replace(wanted("bare", "b"), uid=uid_of("Pod", "default", "bare"))
    assert revalidator(pod("bare", "a")).check(order).method is Method.COPY


def test_a_budget_is_spent_for_plans_and_orders_by_hand_alike() -> None:
    judged = revalidator(statefulset("db", on=["a", "a", "b", "b"]), pdb("db", allowed=1))
    first, second = judged.check(wanted("db-0", "c")), judged.check(wanted("db-1", "c", by_hand=True))
    assert first.method is Method.EVICT
    assert (second.method, second.temporary) == (None, True)
