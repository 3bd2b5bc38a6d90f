"""Evict and steer: what is changed for it comes back exactly, and nothing is done past a budget."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rescheduler.migration.lifecycle import Lifecycle
from rescheduler.migration.observation import FailedCommand, SteeringMethod
from rescheduler.migration.settings import MigrationSettings
from rescheduler.migration.steps.common import Do, Done, GiveUp, Wait
from rescheduler.migration.steps.copy import EvictOriginal
from rescheduler.migration.steps.evict import (
    AwaitRebuilt,
    AwaitRebuiltReady,
    Evict,
    PauseDeployment,
    Prefer,
    Protect,
    TakeTurn,
    add_preference,
    find_rebuilt,
    restore,
)
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.migration import ObjectReference, PodMigration
from rescheduler.model.plan import Method
from rescheduler.model.time import format_instant
from tests.support.pod_migrations import replace
from tests.unit.migration.scenes import (
    NOW,
    budget,
    copy_of,
    deployment,
    leaving,
    migration,
    pod,
    replica_set,
    scene,
    stateful_set,
)

EVICT = migration(Method.EVICT)
OURS = {labels.MANAGED_BY: labels.MANAGER, labels.MIGRATION_ID: "m"}
PAUSED = deployment(paused=True, annotations={labels.PAUSED_BY: "m"})


def steering(affinity: Any, by: str = "m") -> dict[str, Any]:
    """The ReplicaSet while a migration steers by it."""
    note = json.dumps({"migration": by, "affinity": affinity})
    body = replica_set(annotations={labels.AFFINITY_BEFORE: note})
    body["spec"]["template"]["spec"]["affinity"] = add_preference(affinity, EVICT.status)
    return body


def test_a_preference_is_added_to_those_that_are_there() -> None:
    before = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1}]}, "podAffinity": {}}
    after = add_preference(before, EVICT.status)
    terms = after["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]
    assert [term["weight"] for term in terms] == [1, 100, 50]
    assert after["podAffinity"] == {}
    assert len(before["nodeAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"]) == 1


@pytest.mark.parametrize(
    ("affinity", "change"),
    [
        (None, {"op": "remove", "path": "/spec/template/spec/affinity"}),
        ({}, {"op": "replace", "path": "/spec/template/spec/affinity", "value": {}}),
        ({"podAffinity": {}}, {"op": "replace", "path": "/spec/template/spec/affinity", "value": {"podAffinity": {}}}),
    ],
)
def test_the_affinity_comes_back_exactly_and_before_the_deployment_is_resumed(affinity: Any, change: Any) -> None:
    outlook = restore(scene(EVICT, controller=steering(affinity), deployment=PAUSED))
    assert isinstance(outlook, Do)
    (command,) = outlook.commands
    assert command.kind == "ReplicaSet"
    assert change in command.body
    assert {"op": "test", "path": "/metadata/uid", "value": "rs-uid"} in command.body


def test_the_deployment_is_resumed_only_when_controllers_have_seen_the_restored_template() -> None:
    unseen = replica_set(generation=2)
    assert isinstance(restore(scene(EVICT, controller=unseen, deployment=PAUSED)), Wait)
    outlook = restore(scene(EVICT, deployment=PAUSED))
    assert isinstance(outlook, Do)
    assert outlook.commands[0].body == {
        "metadata": {"annotations": {labels.PAUSED_BY: None}, "uid": "dep-uid"},
        "spec": {"paused": None},
    }


def test_what_another_migration_or_the_owner_did_is_left() -> None:
    others = deployment(paused=True, annotations={labels.PAUSED_BY: "another"})
    assert restore(scene(EVICT, controller=steering(None, "another"), deployment=others)) == Done()
    assert restore(scene(EVICT, deployment=deployment(paused=True))) == Done()


def test_a_deployment_that_its_owner_paused_is_not_paused_by_us() -> None:
    assert PauseDeployment().look(scene(EVICT, deployment=deployment(paused=True))) == Done()


def test_one_migration_at_a_time_pauses_steers_and_protects() -> None:
    others = deployment(paused=True, annotations={labels.PAUSED_BY: "another"})
    assert isinstance(PauseDeployment().look(scene(EVICT, deployment=others)), Wait)
    assert isinstance(Prefer().look(scene(EVICT, controller=steering(None, "another"), deployment=PAUSED)), Wait)
    theirs = budget("web-rescheduler-pdb", labels=OURS | {labels.MIGRATION_ID: "another"})
    assert isinstance(Protect({"minAvailable": 1}).look(scene(EVICT, temporary_budget=theirs)), Wait)


def test_a_pause_counts_when_the_controller_has_seen_it() -> None:
    unseen = deployment(paused=True, annotations={labels.PAUSED_BY: "m"}, generation=2)
    assert isinstance(PauseDeployment().look(scene(EVICT, deployment=unseen)), Wait)
    assert PauseDeployment().look(scene(EVICT, deployment=PAUSED)) == Done()


def test_a_deployment_that_was_resumed_meanwhile_is_not_steered() -> None:
    assert isinstance(Prefer().look(scene(EVICT)), GiveUp)


def test_a_temporary_budget_is_made_only_where_none_selects_the_pod() -> None:
    protect = Protect({"minAvailable": 1})
    made = protect.look(scene(EVICT))
    assert isinstance(made, Do)
    assert made.commands[0].name == "web-rescheduler-pdb"
    assert protect.look(scene(EVICT, budgets=(budget(),))) == Done()
    outlook = protect.look(scene(EVICT, budgets=(budget("a"), budget("b"))))
    assert outlook == GiveUp("budgets a, b all select it, so Kubernetes evicts it never", retry=False)


def test_a_budget_that_would_forbid_the_only_pod_is_not_made() -> None:
    assert (
        Protect({"minAvailable": 1}).look(scene(EVICT, controller=replica_set(1), deployment=deployment(1))) == Done()
    )


def test_a_rollout_is_waited_for() -> None:
    rolling = deployment()
    rolling["status"]["updatedReplicas"] = 1
    assert isinstance(Protect({"minAvailable": 1}).look(scene(EVICT, deployment=rolling)), Wait)


def test_no_eviction_is_sent_that_a_budget_forbids() -> None:
    assert isinstance(Evict(30).look(scene(EVICT, budgets=(budget(allowed=0),))), Wait)
    assert isinstance(Evict(30).look(scene(EVICT, temporary_budget=budget(allowed=0))), Wait)
    assert isinstance(Evict(30).look(scene(EVICT, budgets=(budget(),))), Do)
    assert Evict(30).look(scene(EVICT, pod=leaving(pod()))) == Done()


@pytest.mark.parametrize(("own", "seconds"), [(None, 30), (0, 30), (5, 30), (30, 30), (300, 300)])
def test_an_evicted_pod_never_gets_less_time_to_end_than_its_own(own: int | None, seconds: int) -> None:
    original = pod()
    if own is not None:
        original["spec"]["terminationGracePeriodSeconds"] = own
    for outlook in (
        Evict(30).look(scene(EVICT, pod=original)),
        EvictOriginal(30).look(scene(migration(Method.COPY), copy_of(ownerReferences=[]), pod=original)),
    ):
        assert isinstance(outlook, Do)
        assert isinstance(outlook.commands[0].body, dict)
        assert outlook.commands[0].body["deleteOptions"]["gracePeriodSeconds"] == seconds


def test_two_budgets_that_only_the_server_saw_end_the_move() -> None:
    refused = FailedCommand(500, "", "This pod has more than one PodDisruptionBudget")
    assert Evict(30).look(scene(EVICT, refused=refused)) == GiveUp(refused.message, retry=False)


def test_the_rebuilt_pod_is_the_young_one_that_prefers_the_target() -> None:
    young: Json = {"creationTimestamp": format_instant(NOW)}
    plain, wanted, theirs = pod("web-c", **young), pod("web-d", **young), pod("web-e", **young)
    for each in (wanted, theirs):
        each["spec"]["affinity"] = add_preference(None, EVICT.status)
    theirs["metadata"]["labels"][labels.MIGRATION_ID] = "another"
    leads = steering(None)
    assert find_rebuilt(scene(EVICT, siblings=(pod("web-b"), plain, theirs), controller=leads)) is None
    assert find_rebuilt(scene(EVICT, siblings=(pod("web-b"), plain, wanted, theirs), controller=leads)) is wanted


def test_without_a_preference_the_rebuilt_pod_is_none_of_those_that_were_there() -> None:
    young: Json = {"creationTimestamp": format_instant(NOW)}
    there, new = pod("web-b", **young), pod("web-c", **young)
    free = migration(Method.EVICT, target="", bystanders=("web-b-uid",))
    assert find_rebuilt(scene(free, siblings=(there,))) is None
    assert find_rebuilt(scene(free, siblings=(there, new))) is new
    entered = Evict(30).enter(scene(replace(free, status=replace(free.status, bystanders=())), siblings=(there,)))
    assert entered.bystanders == ("web-b-uid",)


def test_a_pod_that_was_led_to_the_same_target_a_moment_ago_is_not_taken_for_the_rebuilt_one() -> None:
    before = pod("web-b", creationTimestamp=format_instant(NOW))
    before["spec"]["affinity"] = add_preference(None, EVICT.status)
    entered = Evict(30).enter(scene(EVICT, siblings=(before, pod("web-c"))))
    assert entered.bystanders == ("web-b-uid", "web-c-uid")
    found = scene(replace(EVICT, status=entered), siblings=(before, pod("web-c")), controller=steering(None))
    assert find_rebuilt(found) is None


def test_a_pod_of_a_stateful_set_is_rebuilt_under_its_name_only() -> None:
    owner = replica_set() | {"kind": "StatefulSet"}
    moving = migration(Method.EVICT, controller=ObjectReference("StatefulSet", "web-1", "rs-uid"))
    young = pod("web-b", creationTimestamp=format_instant(NOW))
    assert find_rebuilt(scene(moving, controller=owner, siblings=(young,), pod=None)) is None
    again = pod()
    again["metadata"]["uid"] = "another"
    assert find_rebuilt(scene(moving, controller=owner, siblings=(young, again), pod=again)) is again


def test_a_pod_of_a_stateful_set_that_is_deleted_once_more_is_waited_for_once_more() -> None:
    moving = migration(
        Method.EVICT,
        "AwaitRebuiltReady",
        controller=ObjectReference("StatefulSet", "web-1", "rs-uid"),
        replacement=ObjectReference("Pod", "web-a", "second"),
    )
    second, third = pod(), pod()
    second["metadata"] |= {"uid": "second", "deletionTimestamp": format_instant(NOW)}
    third["metadata"]["uid"] = "third"
    assert find_rebuilt(scene(moving, controller=stateful_set(), pod=second)) is None
    step = AwaitRebuiltReady()
    for seen in (second, None):
        assert isinstance(step.look(scene(moving, controller=stateful_set(), pod=seen)), Wait)
    marks_it = step.look(scene(moving, controller=stateful_set(), pod=third))
    assert isinstance(marks_it, Do)
    assert [command.why for command in marks_it.commands] == ["label it with its origin"]
    third["metadata"]["labels"][labels.MIGRATION_ID] = moving.name
    assert step.look(scene(moving, controller=stateful_set(), pod=third)) == Done()


def waiting(seconds: float, **more: Any) -> Any:
    """An eviction that has been waiting for its new pod for so long."""
    there = {"bystanders": ("web-a-uid", "web-b-uid"), **more}
    return migration(Method.EVICT, "AwaitRebuilt", start_time=NOW - seconds, step_time=NOW - seconds, **there)


def test_what_steers_is_taken_back_in_time_though_no_new_pod_has_come() -> None:
    step = AwaitRebuilt(300.0)
    steered_by_us: Json = {"pod": None, "controller": steering(None), "deployment": PAUSED}
    assert isinstance(step.look(scene(waiting(299.0), **steered_by_us)), Wait)
    restores = step.look(scene(waiting(300.0), **steered_by_us))
    assert isinstance(restores, Do)
    assert [command.kind for command in restores.commands] == ["ReplicaSet"]
    resumes = step.look(scene(waiting(301.0), pod=None, deployment=PAUSED))
    assert isinstance(resumes, Do)
    assert [command.kind for command in resumes.commands] == ["Deployment"]
    unprotects = step.look(scene(waiting(302.0), pod=None, temporary_budget=budget(labels=OURS)))
    assert isinstance(unprotects, Do)
    assert [command.kind for command in unprotects.commands] == ["PodDisruptionBudget"]
    assert step.look(scene(waiting(303.0), pod=None)) == Wait(
        "its controller has not made another pod yet; what steered it is taken back"
    )


def test_a_pod_that_comes_after_that_is_the_rebuilt_one_though_nothing_led_it() -> None:
    late = pod("web-c", creationTimestamp=format_instant(NOW))
    moving = waiting(310.0)
    assert find_rebuilt(scene(moving, pod=None, siblings=(pod("web-b"), late))) is late
    assert find_rebuilt(scene(moving, pod=None, siblings=(pod("web-b"), late), controller=steering(None))) is None


def test_the_rebuilt_pod_is_found_though_our_clock_is_far_ahead_of_the_servers() -> None:
    """Its age by the server's clock is then larger than that of the migration by ours."""
    there = pod("web-b", creationTimestamp=format_instant(NOW - 9))
    entered = Evict(30).enter(scene(EVICT, siblings=(pod(), there)))
    new = pod("web-c", creationTimestamp=format_instant(NOW - 8))
    moving = waiting(0.0, bystanders=entered.bystanders)
    assert find_rebuilt(scene(moving, pod=None, siblings=(there,))) is None
    assert find_rebuilt(scene(moving, pod=None, siblings=(there, new))) is new


def test_a_pod_that_never_comes_ends_the_move_with_nothing_left_to_restore() -> None:
    life = Lifecycle(MigrationSettings(timeout=600.0, restore_after=300.0))
    decision = life.advance(scene(waiting(601.0), pod=None, siblings=()))
    assert (decision.status.step, decision.status.retry_time) == ("RollBack", None)
    assert decision.status.message.startswith("timed out in step AwaitRebuilt: its controller has not made")


def test_an_original_that_hangs_in_its_end_is_waited_for() -> None:
    life = Lifecycle(MigrationSettings(timeout=600.0, restore_after=300.0))
    decision = life.advance(scene(waiting(9999.0), pod=leaving(pod()), siblings=()))
    assert decision.status.step == "AwaitRebuilt"
    assert decision.status.message == (
        "the original is ending, and its controller has not made another pod yet; what steered it is taken back"
    )


WEBHOOK = [SteeringMethod.WEBHOOK, SteeringMethod.NOMINATE]


@pytest.mark.parametrize("how", WEBHOOK)
def test_where_the_webhook_leads_neither_deployment_nor_replica_set_is_touched(how: SteeringMethod) -> None:
    assert PauseDeployment().look(scene(EVICT, steered=how)) == Done()
    assert Prefer().look(scene(EVICT, steered=how)) == Done()


@pytest.mark.parametrize("how", WEBHOOK)
def test_what_was_begun_by_the_template_before_the_webhook_was_asked_is_ended_by_it(how: SteeringMethod) -> None:
    unseen = deployment(paused=True, annotations={labels.PAUSED_BY: "m"}, generation=2)
    assert isinstance(PauseDeployment().look(scene(EVICT, deployment=unseen, steered=how)), Wait)
    assert isinstance(Prefer().look(scene(EVICT, deployment=PAUSED, steered=how)), Do)
    assert isinstance(restore(scene(EVICT, controller=steering(None), deployment=PAUSED, steered=how)), Do)


@pytest.mark.parametrize("how", WEBHOOK)
def test_what_another_migration_steers_by_its_template_is_no_hindrance(how: SteeringMethod) -> None:
    others = deployment(paused=True, annotations={labels.PAUSED_BY: "another"})
    found = scene(EVICT, controller=steering(None, "another"), deployment=others, steered=how)
    assert (PauseDeployment().look(found), Prefer().look(found)) == (Done(), Done())


def rival(step: str, *, name: str = "other", started: float = NOW - 30, **more: Any) -> PodMigration:
    """Another migration of the same ReplicaSet, of web-b; this one began a minute ago."""
    there = {"pod_uid": "web-b-uid", "replacement": None, "start_time": started, **more}
    known = migration(Method.EVICT, step)
    return replace(known, name=name, status=replace(known.status, **there))


MINE = migration(Method.EVICT, "TakeTurn", replacement=None)


@pytest.mark.parametrize("step", ["Pause", "Prefer", "Evict", "AwaitRebuilt"])
def test_one_migration_of_a_controller_at_a_time_waits_for_a_new_pod(step: str) -> None:
    assert isinstance(TakeTurn().look(scene(MINE, rivals=(rival(step),))), Wait)


@pytest.mark.parametrize("step", ["CheckBudgets", "Mark", "HoldRoom", "AwaitMembers", "Protect", "RollBack"])
def test_rivals_that_do_not_wait_for_a_new_pod_are_no_hindrance(step: str) -> None:
    assert TakeTurn().look(scene(MINE, rivals=(rival(step),))) == Done()


def test_a_rival_whose_new_pod_is_known_or_that_hands_off_is_no_hindrance() -> None:
    known = rival("AwaitRebuilt", replacement=ObjectReference("Pod", "web-c", "web-c-uid"))
    assert TakeTurn().look(scene(MINE, rivals=(known, rival("Evict", method=Method.HANDOFF)))) == Done()


def test_the_first_to_begin_goes_first_and_nobody_waits_for_ever() -> None:
    assert TakeTurn().look(scene(MINE, rivals=(rival("TakeTurn"),))) == Done()
    assert isinstance(TakeTurn().look(scene(MINE, rivals=(rival("TakeTurn", started=NOW - 90),))), Wait)
    same = MINE.status.start_time or 0.0
    assert isinstance(TakeTurn().look(scene(MINE, rivals=(rival("TakeTurn", name="a", started=same),))), Wait)
    assert TakeTurn().look(scene(MINE, rivals=(rival("TakeTurn", name="z", started=same),))) == Done()


def test_pods_of_a_stateful_set_have_names_and_need_no_turns() -> None:
    assert TakeTurn().look(scene(MINE, controller=stateful_set(), rivals=(rival("AwaitRebuilt"),))) == Done()


def test_a_turn_is_not_taken_while_the_budget_is_spent_or_for_a_pod_that_is_gone() -> None:
    assert isinstance(TakeTurn().look(scene(MINE, budgets=(budget(allowed=0),))), Wait)
    assert TakeTurn().look(scene(MINE, pod=leaving(pod()))) == GiveUp("the pod is gone", retry=False)


def test_of_two_that_have_their_turn_the_one_that_has_evicted_or_began_first_goes_first() -> None:
    """As after a change of leaders, when the new leader's cache was a moment behind."""
    evicting = migration(Method.EVICT, "Evict", replacement=None)
    assert isinstance(Evict(30).look(scene(evicting, rivals=(rival("AwaitRebuilt"),))), Wait)
    assert isinstance(Evict(30).look(scene(evicting, rivals=(rival("Evict", started=NOW - 90),))), Wait)
    assert isinstance(Evict(30).look(scene(evicting, rivals=(rival("Evict"),))), Do)
    gone = scene(evicting, siblings=(pod(), leaving(pod("web-b"))), rivals=(rival("Evict"),))
    assert isinstance(Evict(30).look(gone), Wait)
