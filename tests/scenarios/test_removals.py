"""A pod that has ended and is removed, wherever moves are handled: judged anew, counted once, written, told of."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from rescheduler.cli import messages
from rescheduler.cli.explain import explanation_lines
from rescheduler.cli.output import Terminal
from rescheduler.cli.plan import plan_lines
from rescheduler.kube.migrations import decode_migration, encode_migration, encode_status
from rescheduler.migration.crd import POD_MIGRATION
from rescheduler.model import labels
from rescheduler.model.migration import MigrationStatus, ObjectReference, Phase, PodMigration
from rescheduler.model.plan import Method, Plan, PlanFormatError, decode_plan, plan_document
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning import outcomes
from rescheduler.planning.cycle import plan_cycle, with_inflight_moves
from rescheduler.planning.explain import PodOutcome, explain
from rescheduler.planning.revalidate import MoveVerdict, RequestedMove, Revalidator, revalidate_moves
from rescheduler.runtime.planning_loop import make_migration
from rescheduler.strategies.failed_pods import FailedPods, FailedPodsSettings
from rescheduler_demo.plain import format_move
from tests.support import builders as b
from tests.support.cli import rescheduler
from tests.support.planning import moves_of, planned, rejected
from tests.support.pod_migrations import migration_spec, pod_migration, replace

FAILED = "FailedPods"
NODES = (b.node("a"), b.node("b"))
POD = "job-0"
UID = b.uid_of("Pod", "default", POD)
REMOVE = RequestedMove("default", POD, UID, method=Method.REMOVE)


def world(**options: Any) -> ClusterSnapshot:
    """A Job whose pod has been evicted from node a."""
    return b.cluster(NODES, b.job("job", on=["a"], **{"phase": "Failed", "reason": "Evicted", **options}))


def plan_of(snapshot: ClusterSnapshot) -> Plan:
    return planned(snapshot, FAILED)


def under_way(phase: Phase = Phase.IN_PROGRESS, **progress: Any) -> PodMigration:
    known: dict[str, Any] = {"phase": phase, "method": Method.REMOVE, "pod_uid": UID, "source": "a"}
    order = migration_spec(POD, UID, method=Method.REMOVE, strategy=FAILED)
    return pod_migration("default", "m", order, MigrationStatus(**(known | progress)), "m-uid", "1")


def test_an_order_to_remove_is_judged_by_the_guards_that_matter() -> None:
    assert Revalidator(world(), Policy()).check(REMOVE) == MoveVerdict(Method.REMOVE)
    never = Revalidator(world(labels={labels.RESCHEDULING: "disabled"}), Policy()).check(REMOVE)
    assert (never.method, never.temporary) == (None, False)
    assert never.reason == "ReschedulingDisabled: label scheduler.alpha.kubernetes.io/rescheduling is disabled"


def test_an_order_to_remove_by_hand_may_be_in_an_excluded_namespace() -> None:
    snapshot = world(namespace="kube-system")
    wanted = replace(REMOVE, namespace="kube-system", uid="")
    assert Revalidator(snapshot, Policy()).check(wanted).reason.startswith("ExcludedNamespace: ")
    assert Revalidator(snapshot, Policy()).check(replace(wanted, by_hand=True)).method is Method.REMOVE


@pytest.mark.parametrize(
    ("wanted", "options", "passing", "reason"),
    [
        (REMOVE, {"phase": "Running"}, True, "StillRunning: it has not ended"),
        (replace(REMOVE, uid="other"), {}, True, f"default/{POD} is another pod by now"),
        (replace(REMOVE, pod="gone"), {}, True, "there is no pod default/gone"),
        (replace(REMOVE, target="b"), {}, False, "a pod that is removed goes nowhere, so not to b"),
        (REMOVE, {"deleting": True}, False, "Deleting: it is being deleted"),
        (replace(REMOVE, method=Method.EVICT), {}, False, "NotRunning: it has ended (Failed)"),
    ],
)
def test_what_is_not_to_be_removed_is_refused(
    wanted: RequestedMove, options: dict[str, Any], reason: str, *, passing: bool
) -> None:
    verdict = Revalidator(world(**options), Policy()).check(wanted)
    assert (verdict.method, verdict.temporary, verdict.reason) == (None, passing, reason)


def test_a_removal_and_moves_are_judged_together_in_any_order() -> None:
    snapshot = b.cluster(NODES, b.job("job", on=["a"], phase="Failed"), b.pod("p", "a"), b.pod("q", "a"))
    revalidator = Revalidator(snapshot, Policy())
    assert revalidator.check(RequestedMove("default", "p")).target == "b"
    assert revalidator.check(REMOVE).method is Method.REMOVE
    assert revalidator.check(RequestedMove("default", "q", method=Method.COPY, by_hand=True)).target == "b"
    assert revalidator.check(REMOVE).method is Method.REMOVE


def test_a_plan_with_a_removal_is_rechecked() -> None:
    before = world()
    (move,) = plan_of(before).moves
    assert [each.refusal for each in revalidate_moves(before, Policy(), [move])] == [""]
    gone = b.cluster(NODES)
    other = replace(before, pods=tuple(msgspec.structs.replace(pod, uid="x") for pod in before.pods))
    for now, why in (
        (gone, "the pod is gone"),
        (other, "another pod has its name by now"),
        (world(phase="Running"), "it has not ended (Running)"),
        (world(deleting=True), "Deleting: it is being deleted"),
    ):
        assert [each.refusal for each in revalidate_moves(now, Policy(), [move])] == [why]


@pytest.mark.parametrize("phase", [Phase.PENDING, Phase.IN_PROGRESS])
def test_what_is_being_removed_is_not_planned_again(phase: Phase) -> None:
    settled = with_inflight_moves(world(), [under_way(phase)], 600.0)
    (pod,) = settled.pods
    assert (pod.deleting, pod.node) == (True, "a")
    plan = plan_of(settled)
    assert (plan.moves, plan.rejections) == ((), ())


def test_a_pod_of_the_same_name_that_came_after_it_is_another_matter() -> None:
    settled = with_inflight_moves(world(), [under_way(pod_uid="before")], 600.0)
    assert not settled.pods[0].deleting


def test_there_is_no_gain_to_judge_and_nobody_rests_for_it() -> None:
    owner = ObjectReference("Job", "job", "u")
    done = under_way(Phase.COMPLETED, completion_time=b.NOW - 100, workload=owner, controller=owner)
    assert not outcomes.is_due(done, 10.0, b.NOW)
    assert outcomes.move_histories([done]) == {}
    assert outcomes.find_needed([done], Policy(), 60.0, b.NOW) == set()
    assert outcomes.find_undone([done, done], Policy()) == set()


def test_its_order_says_that_it_is_a_removal_and_a_move_leaves_the_method_open() -> None:
    (move,) = plan_of(world()).moves
    ordered = make_migration(move, 1, "now")
    assert (ordered.spec.fixed_method, ordered.spec.target, ordered.spec.pod.uid) == (Method.REMOVE, "", UID)
    assert make_migration(replace(move, method=Method.EVICT, target="b"), 1, "now").spec.fixed_method is None


def test_it_survives_encoding_and_the_definition_allows_it() -> None:
    migration = under_way()
    body = encode_migration(migration)
    assert "target" not in body["spec"]
    schema = POD_MIGRATION["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]
    assert body["spec"]["method"] in schema["spec"]["properties"]["method"]["enum"]
    status = encode_status(migration, replace(migration.status, phase=Phase.COMPLETED), b.NOW)
    assert status["method"] in schema["status"]["properties"]["method"]["enum"]
    assert {each["reason"] for each in status["conditions"]} == {"Removed"}
    read = decode_migration({**body, "status": {key: value for key, value in status.items() if value is not None}})
    assert (read.spec.fixed_method, read.status.method, read.status.target) == (Method.REMOVE, Method.REMOVE, "")


def test_it_survives_the_plan_format() -> None:
    plan = plan_of(world())
    text = json.dumps(plan_document(plan)).encode()
    assert decode_plan(text).moves == plan.moves
    assert plan_document(plan)["moves"][0]["to"] == ""


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"to": "b"}, "moves[0].to: b makes no sense with method remove, which moves it nowhere"),
        ({"from": ""}, "moves[0].from: is empty"),
        ({"method": "evict"}, "moves[0].to: is empty"),
    ],
)
def test_a_plan_that_contradicts_itself_is_refused(changes: dict[str, str], message: str) -> None:
    document = plan_document(plan_of(world()))
    document["moves"][0] |= changes
    with pytest.raises(PlanFormatError) as caught:
        decode_plan(json.dumps(document).encode())
    assert str(caught.value) == message


def test_the_plan_table_shows_it_without_a_target() -> None:
    plan = plan_of(world())
    terminal = Terminal()
    text = "\n".join(plan_lines(plan, plan, terminal, wide=False))
    assert "1 move (1 remove), 0 rejected" in text
    assert "remove" in text.splitlines()[1]


def test_it_is_explained_without_a_word_about_nodes() -> None:
    snapshot = world()
    planner, plan = plan_cycle(snapshot, Policy(), [FailedPods(FailedPodsSettings())])
    explained = explain(planner, plan, ("default", POD), [FAILED])
    assert (explained.outcome, explained.method) == (PodOutcome.REMOVED, Method.REMOVE)
    assert (explained.objections, explained.nodes, explained.not_handoff) == ((), (), "")
    text = "\n".join(explanation_lines(explained, plan, Terminal(), wide=False))
    assert "removed, as FailedPods wants" in text
    assert "it has failed (Evicted)" in text


def test_other_pods_are_explained_beside_a_removal() -> None:
    snapshot = b.cluster(NODES, b.job("job", on=["a"], phase="Failed"), b.pod("p", "a"))
    planner, plan = plan_cycle(snapshot, Policy(), [FailedPods(FailedPodsSettings())])
    assert explain(planner, plan, ("default", "p"), [FAILED]).outcome is PodOutcome.NOT_PROPOSED


def test_the_demo_has_words_for_it() -> None:
    assert format_move(under_way(step="Remove"), "→") == f"{POD}  a by remove: Remove"


def test_nobody_moves_a_pod_by_removing_it() -> None:
    ran = rescheduler("move", "p", "--method", "remove")
    assert ran.code == messages.USAGE
    assert "remove moves nothing" in ran.said


def test_a_limit_on_the_plan_counts_removals_and_a_pool_of_nodes_is_kept_to() -> None:
    rows = [b.job(f"j{number}", on=["ab"[number % 2]], phase="Failed") for number in range(4)]
    plan = planned(b.cluster(NODES, *rows), FAILED, max_moves=3, per_namespace=2)
    assert len(moves_of(plan)) == 2
    assert set(rejected(plan).values()) == {"NamespaceLimit"}
