"""The steps that copies go through: each says Done when its effect is there, and nothing is done at a bad moment."""

from __future__ import annotations

from typing import Any

import pytest

from rescheduler.migration.commands import Verb
from rescheduler.migration.lifecycle import Lifecycle
from rescheduler.migration.observation import FailedCommand
from rescheduler.migration.rollback import Finish, Mark
from rescheduler.migration.settings import MigrationSettings
from rescheduler.migration.steps.common import STUCK, AwaitMembers, Do, Done, GiveUp, Wait
from rescheduler.migration.steps.copy import AwaitReady, CopyPod, EvictOriginal, Land, Nominate, Ungate
from rescheduler.migration.steps.handoff import CHEAPEST, AwaitGone, Cheapen, CopyTemplate, HandOver
from rescheduler.model import labels
from rescheduler.model.migration import ObjectReference, Phase
from rescheduler.model.plan import Method
from rescheduler.model.time import format_instant
from tests.support.pod_migrations import migration_spec, replace
from tests.unit.migration.scenes import (
    NOW,
    budget,
    copy_of,
    deployment,
    evicted,
    leaving,
    migration,
    pod,
    replica_set,
    scene,
)

MOVING = migration()
COPYING = migration(Method.COPY)
MEMBERS = AwaitMembers(frozenset({"AwaitMembers", "Land"}))


def adopted() -> dict[str, Any]:
    body = copy_of(ownerReferences=[{"kind": "ReplicaSet", "uid": "rs-uid", "controller": True}])
    body["metadata"]["labels"] |= {"pod-template-hash": "1"}
    return body


def test_a_pod_that_another_migration_moves_is_waited_for() -> None:
    busy = pod(labels={labels.MIGRATION_ID: "another", labels.MIGRATION_STATUS: "in-progress"})
    assert isinstance(Mark().look(scene(MOVING, pod=busy)), Wait)


def test_marking_is_done_when_pod_and_workload_carry_the_id() -> None:
    outlook = Mark().look(scene(MOVING))
    assert isinstance(outlook, Do)
    assert [command.kind for command in outlook.commands] == ["Pod", "Deployment"]
    pod_labels = {labels.MIGRATION_ID: "m", labels.MIGRATION_STATUS: "in-progress", labels.MIGRATION_REASON: "Manual"}
    noted = deployment(annotations={labels.MIGRATION_ID: "m"})
    assert Mark().look(scene(MOVING, pod=pod(labels=pod_labels), deployment=noted)) == Done()


def test_whose_annotations_are_to_be_cleaned_is_recorded_first() -> None:
    assert Mark().enter(scene(MOVING)).workload == ObjectReference("Deployment", "web", "dep-uid")
    assert Mark().enter(scene(MOVING, deployment=None)).workload == ObjectReference("ReplicaSet", "web-1", "rs-uid")
    assert Mark().enter(scene(COPYING)).workload is None


def test_the_copys_name_is_recorded_once() -> None:
    fresh = migration(replacement=None)
    assert CopyTemplate().enter(scene(fresh)).replacement == ObjectReference("Pod", "rescheduled-web-a-1800000000")
    assert CopyTemplate().enter(scene(MOVING)).replacement == ObjectReference("Pod", "copy")
    assert CopyPod().enter(scene(migration(Method.COPY, replacement=None))).replacement is not None


@pytest.mark.parametrize("code", [400, 403, 422])
def test_a_copy_that_is_refused_is_left_for_another_method(code: int) -> None:
    refused = FailedCommand(code, "Forbidden", "exceeded quota")
    outlook = CopyTemplate().look(scene(MOVING, refused=refused))
    assert outlook == GiveUp("a copy is refused: exceeded quota", other_method=True)


def test_no_copy_is_made_during_a_rollout_or_without_a_label_to_withhold() -> None:
    assert isinstance(CopyTemplate().look(scene(MOVING)), Do)
    assert isinstance(CopyTemplate().look(scene(MOVING, controller=replica_set(generation=2))), Wait)
    bare = replica_set()
    bare["spec"] |= {"selector": {"matchLabels": {"app": "web"}}}
    service = {"kind": "Service", "spec": {"selector": {"app": "web"}}}
    outlook = CopyTemplate().look(scene(MOVING, controller=bare, services=(service,)))
    assert isinstance(outlook, GiveUp)
    assert outlook.other_method
    gone = CopyTemplate().look(scene(MOVING, controller=None))
    assert gone == GiveUp("its ReplicaSet is gone", retry=False)


def test_room_is_reserved_by_a_nomination() -> None:
    gated = copy_of()
    del gated["spec"]["nodeName"]
    outlook = Nominate().look(scene(MOVING, gated))
    assert isinstance(outlook, Do)
    assert (outlook.commands[0].subresource, outlook.commands[0].name) == ("status", "copy")
    gated["status"]["nominatedNodeName"] = "two"
    assert Nominate().look(scene(MOVING, gated)) == Done()


def test_only_our_gate_is_taken_off_and_not_when_the_pod_is_gone() -> None:
    gated = copy_of()
    gated["spec"]["schedulingGates"] = [{"name": "theirs"}, {"name": labels.GATE}]
    outlook = Ungate().look(scene(MOVING, gated))
    assert isinstance(outlook, Do)
    assert {"op": "remove", "path": "/spec/schedulingGates/1"} in outlook.commands[0].body
    assert Ungate().look(scene(MOVING, gated, pod=None)) == GiveUp("the pod is gone", retry=False)
    assert Ungate().look(scene(MOVING, copy_of())) == Done()


def test_a_copy_that_lands_elsewhere_is_given_up() -> None:
    copy = copy_of()
    assert Land().look(scene(MOVING, copy)) == Done()
    copy["spec"]["nodeName"] = "three"
    assert Land().look(scene(MOVING, copy)) == GiveUp("the scheduler put the copy on three, not on two")
    del copy["spec"]["nodeName"]
    assert isinstance(Land().look(scene(MOVING, copy)), Wait)


def test_a_copy_must_be_ready_for_as_long_as_its_workload_asks() -> None:
    patient = replica_set()
    patient["spec"]["minReadySeconds"] = 30
    copy, since = copy_of(), format_instant(NOW - 29)
    copy["status"]["conditions"][0]["lastTransitionTime"] = since
    waits = Wait(f"copy must be Ready on two for 30 s, and is since {since}", 2.0)
    assert AwaitReady().look(scene(MOVING, copy, controller=patient)) == waits
    assert AwaitReady().look(scene(MOVING, copy)) == Done()
    assert AwaitReady(30.0).look(scene(MOVING, copy)) == waits  # as the operator asks
    copy["status"] = {"phase": "Failed", "reason": "OutOfcpu"}
    assert AwaitReady().look(scene(MOVING, copy)) == GiveUp("the copy ended on two: OutOfcpu")


NO_IMAGE = {"name": "main", "state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}
NO_CONFIG = {"name": "main", "state": {"waiting": {"reason": "CreateContainerConfigError"}}}
CRASHED = {"name": "main", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}}
RESTARTED = {"name": "main", "state": {"running": {}}, "lastState": {"terminated": {"exitCode": 137}}}
BACKING_OFF = RESTARTED | {"state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off 10s"}}}
PREPARED = RESTARTED | {"state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}
CREATING = {"name": "main", "state": {"waiting": {"reason": "ContainerCreating", "message": "of a volume"}}}
STARTING = {"name": "main", "state": {"waiting": {"reason": "PodInitializing"}}}
RUNNING = {"name": "side", "state": {"running": {}}}
GATED = {"type": "Ready", "status": "False", "message": "containers with unready status: [main]"}


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({}, ""),
        ({"conditions": [GATED], "containerStatuses": [RUNNING]}, ": containers with unready status: [main]"),
        ({"conditions": [GATED], "containerStatuses": [RUNNING, CREATING]}, ": main: ContainerCreating: of a volume"),
        ({"initContainerStatuses": [RUNNING], "containerStatuses": [STARTING]}, ": main: PodInitializing"),
        ({"initContainerStatuses": [PREPARED], "containerStatuses": [STARTING]}, ": main: PodInitializing"),
    ],
)  # fmt: skip
def test_who_waits_for_a_pod_says_for_which_where_and_what_it_says(status: dict[str, Any], said: str) -> None:
    copy = copy_of() | {"status": {"phase": "Pending"} | status}
    assert AwaitReady().look(scene(MOVING, copy)) == Wait(f"copy is not Ready on two yet{said}")


@pytest.mark.parametrize(
    ("status", "said"),
    [
        ({"containerStatuses": [RUNNING, NO_IMAGE]}, "main: ErrImagePull: no such image"),
        ({"containerStatuses": [NO_CONFIG]}, "main: CreateContainerConfigError"),
        ({"containerStatuses": [BACKING_OFF]}, "main: CrashLoopBackOff: back-off 10s"),
        ({"containerStatuses": [CRASHED]}, "main: Error, exit code 1"),
        ({"containerStatuses": [RESTARTED]}, "main: Error, exit code 137"),
        ({"initContainerStatuses": [NO_IMAGE], "containerStatuses": [STARTING]}, "main: ErrImagePull: no such image"),
    ],
)
def test_a_copy_that_cannot_start_or_has_crashed_is_given_up_at_once(status: dict[str, Any], said: str) -> None:
    copy = copy_of() | {"status": {"phase": "Pending"} | status}
    assert AwaitReady().look(scene(MOVING, copy)) == GiveUp(f"the copy does not start on two: {said}")


@pytest.mark.parametrize("step", [CopyTemplate(), Nominate(), Ungate(), Land(), AwaitReady(), HandOver()])
def test_a_copy_that_somebody_deletes_is_noticed(step: Any) -> None:
    if not isinstance(step, CopyTemplate):
        assert isinstance(step.look(scene(MOVING)), GiveUp)
    if not isinstance(step, Land):
        assert isinstance(step.look(scene(MOVING, leaving(copy_of()))), GiveUp)


def test_moves_that_belong_together_wait_for_each_other_and_fall_together() -> None:
    two = migration(order=migration_spec("web-a", proposal="p", members=2))
    ready = replace(two, name="other", status=replace(two.status, step="Land"))
    behind = replace(two, name="other", status=replace(two.status, step="Nominate"))
    done = replace(two, name="other", status=replace(two.status, phase=Phase.COMPLETED, step=""))
    failed = replace(two, name="other", status=replace(two.status, phase=Phase.FAILED, message="no room"))
    assert isinstance(MEMBERS.look(scene(two)), Wait)
    assert isinstance(MEMBERS.look(scene(two, members=(behind,))), Wait)
    assert MEMBERS.look(scene(two, members=(ready,))) == Done()
    assert MEMBERS.look(scene(two, members=(done,))) == Done()
    assert MEMBERS.look(scene(two, members=(failed,))) == GiveUp(
        "shop/other, which belongs to it, failed: no room", retry=False
    )
    assert MEMBERS.look(scene(two, members=(ready,), pod=None)) == GiveUp("the pod is gone", retry=False)


def test_a_move_that_belongs_to_one_that_was_deleted_is_given_up() -> None:
    two = migration(order=migration_spec("web-a", proposal="p", members=2))
    assert isinstance(MEMBERS.look(scene(replace(two, created=NOW - 60))), Wait)
    assert MEMBERS.look(scene(replace(two, created=NOW - 121))) == GiveUp(
        "a move that belongs to it was never stored, or has been deleted", retry=False
    )


def test_the_original_is_made_cheap_only_when_every_pod_of_its_workload_is_ready() -> None:
    outlook = Cheapen().look(scene(MOVING, copy_of()))
    assert isinstance(outlook, Do)
    unready = (pod(), pod("web-b", ready=False))
    assert isinstance(Cheapen().look(scene(MOVING, copy_of(), siblings=unready)), Wait)
    assert isinstance(Cheapen().look(scene(MOVING, copy_of(), siblings=(pod(),))), Wait)
    cheap = pod(annotations={labels.DELETION_COST: CHEAPEST})
    assert Cheapen().look(scene(MOVING, copy_of(), pod=cheap)) == Done()
    assert Cheapen().look(scene(MOVING, copy_of(), pod=None)) == GiveUp(
        "the pod is gone, and its ReplicaSet has replaced it", retry=False
    )


def test_the_withheld_label_is_given_when_all_is_quiet_and_the_copy_ready() -> None:
    outlook = HandOver().look(scene(MOVING, copy_of()))
    assert isinstance(outlook, Do)
    assert isinstance(outlook.commands[0].body, dict)
    assert outlook.commands[0].body["metadata"]["labels"] == {"pod-template-hash": "1"}
    assert isinstance(HandOver().look(scene(MOVING, copy_of(), siblings=(pod(),))), Wait)
    unready = copy_of()
    unready["status"]["conditions"][0]["status"] = "False"
    assert isinstance(HandOver().look(scene(MOVING, unready)), Wait)
    labelled = copy_of()
    labelled["metadata"]["labels"] |= {"pod-template-hash": "1"}
    assert isinstance(HandOver().look(scene(MOVING, labelled)), Wait)
    assert isinstance(HandOver().look(scene(MOVING, copy_of(), pod=None)), GiveUp)


def test_a_handoff_is_over_when_the_copy_is_adopted_and_the_original_goes() -> None:
    assert HandOver().look(scene(MOVING, adopted(), pod=leaving(pod()))) == Done()
    three = (pod(), pod("web-b"), adopted())
    assert isinstance(HandOver().look(scene(MOVING, adopted(), siblings=three)), Wait)
    begins_to_go = (leaving(pod()), pod("web-b"), adopted())
    assert isinstance(HandOver().look(scene(MOVING, adopted(), siblings=begins_to_go)), Wait)
    scaled = HandOver().look(scene(MOVING, adopted(), siblings=three, controller=replica_set(3)))
    assert isinstance(scaled, GiveUp)
    assert not scaled.retry
    assert AwaitGone().look(scene(MOVING, adopted(), pod=None)) == Done()
    assert isinstance(AwaitGone().look(scene(MOVING, adopted(), pod=leaving(pod()))), Wait)


def test_the_original_of_a_copy_is_evicted_only_while_the_copy_is_ready_and_the_budget_allows_it() -> None:
    evict = EvictOriginal(30)
    free = copy_of(ownerReferences=[])
    outlook = evict.look(scene(COPYING, free))
    assert isinstance(outlook, Do)
    assert outlook.commands[0].verb is Verb.EVICT
    assert isinstance(evict.look(scene(COPYING, free, budgets=(budget(allowed=0),))), Wait)
    unready = copy_of()
    unready["status"]["conditions"][0]["status"] = "False"
    assert isinstance(evict.look(scene(COPYING, unready)), Wait)
    assert isinstance(evict.look(scene(COPYING)), GiveUp)
    assert evict.look(scene(COPYING, copy_of(), pod=None)) == Done()


def test_a_finished_replacement_keeps_its_trace_and_nothing_else() -> None:
    outlook = Finish().look(scene(MOVING, copy_of(), pod=None))
    assert isinstance(outlook, Do)
    assert isinstance(outlook.commands[0].body, dict)
    assert outlook.commands[0].body["metadata"] == {
        "labels": {labels.MIGRATION_STATUS: "completed"},
        "annotations": {labels.WITHHELD: None},
        "ownerReferences": [],
        "resourceVersion": "7",
        "uid": "copy-uid",
    }
    done = copy_of(ownerReferences=[], annotations={labels.ORIGINAL_POD: "web-a-uid"})
    done["metadata"]["labels"] |= {labels.MIGRATION_STATUS: "completed"}
    assert Finish().look(scene(MOVING, done, pod=None)) == Done()


def test_a_stranger_under_the_copys_name_is_noticed_at_once() -> None:
    stranger = pod("copy", labels={"app": "other"})
    for step, moving in ((CopyTemplate(), MOVING), (CopyPod(), COPYING)):
        outlook = step.look(scene(moving, namesake=stranger))
        assert outlook == GiveUp("a pod that is not ours is called copy")
        ours = step.look(scene(moving, namesake=copy_of()))
        assert ours == Wait("the copy is being made", 1.0)


def test_the_next_attempt_takes_another_name() -> None:
    life = Lifecycle()
    stuck = migration(step="CreateCopy")
    given_up = life.advance(scene(stuck, namesake=pod("copy")))
    assert given_up.status.retry_time is not None
    begun = life.begin(scene(stuck), given_up.status)
    assert begun.replacement is None
    first = CopyTemplate().enter(scene(migration(replacement=None))).replacement
    second = CopyTemplate().enter(scene(migration(replacement=None, attempts=begun.attempts))).replacement
    assert first != second  # though within the same second


@pytest.mark.parametrize("step", ["Land", "AwaitReady", "EvictOriginal"])
def test_a_pod_that_is_deleted_during_its_copy_stays_deleted(step: str) -> None:
    deleted = leaving(pod(owner=False))
    status = Lifecycle().advance(scene(migration(Method.COPY, step), copy_of(), pod=deleted)).status
    assert (status.step, status.retry_time) == ("RollBack", None)
    assert status.message == "the pod was deleted, not evicted: its copy goes, too"
    rolling = Lifecycle().advance(scene(migration(Method.COPY, "RollBack"), copy_of(), pod=deleted))
    assert [(each.verb, each.name) for each in rolling.commands] == [(Verb.DELETE, "copy")]


@pytest.mark.parametrize("finalizers", [[], ["example.com/hold"]])
def test_an_original_that_hangs_in_its_end_does_not_undo_the_move(finalizers: list[str]) -> None:
    ending = evicted(pod(finalizers=finalizers))
    life = Lifecycle(MigrationSettings(timeout=1.0))
    decision = life.advance(scene(migration(step="AwaitGone"), adopted(), pod=ending))
    assert decision.status.step == "AwaitGone"
    held = ", held by its finalizers: example.com/hold" if finalizers else ""
    assert decision.status.message == f"the move is made; the original is ending{held}"
    copied = life.advance(scene(migration(Method.COPY, "EvictOriginal"), copy_of(), pod=ending))
    assert copied.status.step == "EvictOriginal"
    assert copied.status.message == f"the move is made; the original is ending{held}"
    ending["metadata"]["deletionTimestamp"] = "2027-01-15T07:59:00Z"  # a minute before NOW
    stuck = life.advance(scene(migration(step="AwaitGone"), adopted(), pod=ending))
    assert stuck.status.message == f"{STUCK} at 2027-01-15T07:59:00Z{held}"


def test_a_copy_does_not_go_with_its_migration_once_its_original_is_to_go() -> None:
    evict = EvictOriginal(30)
    ours = {"apiVersion": "rescheduler.io/v1alpha1", "kind": "PodMigration", "name": "m", "uid": "m-uid"}
    outlook = evict.look(scene(COPYING, copy_of(ownerReferences=[ours])))
    assert isinstance(outlook, Do)
    (command,) = outlook.commands
    assert (command.verb, command.name) == (Verb.PATCH, "copy")
    assert isinstance(command.body, dict)
    assert command.body["metadata"] == {"ownerReferences": [], "resourceVersion": "7", "uid": "copy-uid"}
    owned = pod(owner=False, ownerReferences=[{"kind": "Game", "name": "g", "uid": "g-uid"}])
    inherits = evict.look(scene(COPYING, copy_of(ownerReferences=[ours]), pod=owned))
    assert isinstance(inherits, Do)
    body = inherits.commands[0].body
    assert isinstance(body, dict)
    assert body["metadata"]["ownerReferences"] == owned["metadata"]["ownerReferences"]
    freed = evict.look(scene(COPYING, copy_of(ownerReferences=[])))
    assert isinstance(freed, Do)
    assert freed.commands[0].verb is Verb.EVICT
