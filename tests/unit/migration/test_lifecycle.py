"""The lifecycle: steps that are done are walked through, all else is recorded, and what fails is rolled back."""

from __future__ import annotations

import pytest

from rescheduler.migration.lifecycle import ROLL_BACK, Lifecycle
from rescheduler.migration.observation import FailedCommand
from rescheduler.migration.settings import MigrationSettings
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.migration import MigrationStatus, ObjectReference, Phase, PodMigration
from rescheduler.model.plan import Method
from tests.support.pod_migrations import migration_spec, pod_migration, replace
from tests.unit.migration.scenes import NOW, copy_of, deployment, leaving, migration, pod, replica_set, scene

LIFE = Lifecycle()
MARKED = {labels.MIGRATION_ID: "m", labels.MIGRATION_STATUS: "in-progress", labels.MIGRATION_REASON: "Manual"}


ROLLING = deployment()
ROLLING["status"]["updatedReplicas"] = 1
GROWING = deployment()
GROWING["status"] |= {"replicas": 1, "updatedReplicas": 1}
YIELDING = ["Mark", "CreateCopy", "CheckCopy", "Nominate", "AwaitMembers", "Ungate", "Land", "AwaitReady", "Cheapen"]


def given_up(moving: PodMigration, life: Lifecycle = LIFE) -> MigrationStatus:
    """Its progress, when the copy has landed on another node."""
    copy = copy_of()
    copy["spec"]["nodeName"] = "three"
    return life.advance(scene(moving, copy)).status


def test_a_begun_migration_records_its_first_step_together_with_its_first_commands() -> None:
    decision = LIFE.advance(scene(migration()))
    assert decision.status.step == "Mark"
    assert decision.status.workload == ObjectReference("Deployment", "web", "dep-uid")
    assert [command.kind for command in decision.commands] == ["Pod", "Deployment"]
    assert decision.status.message == "mark the original"


def test_steps_whose_effect_is_there_are_walked_through() -> None:
    moving = migration(step="CreateCopy")
    decision = LIFE.advance(scene(moving, copy_of()))
    assert (decision.status.step, decision.status.step_time) == ("Cheapen", NOW)
    assert [command.name for command in decision.commands] == ["web-a"]


def test_a_waiting_step_says_why_and_when_to_look_again() -> None:
    copy = copy_of()
    del copy["spec"]["nodeName"]
    decision = LIFE.advance(scene(migration(step="Land"), copy))
    assert decision.commands == ()
    assert decision.wait == 5.0
    assert decision.status.message == "the scheduler has not bound the copy yet"


def test_a_step_never_shows_what_an_earlier_one_said() -> None:
    moving = migration(step="Ungate", message="take the gate off")
    shown = scene(moving, copy_of())
    decision = LIFE.advance(replace(shown, seen=replace(shown.seen, parts=LIFE.needs(moving))))
    assert (decision.status.step, decision.wait) == ("AwaitReady", 0.0)  # Ready at once, and the next goes by more
    assert decision.status.message == ""


def test_a_migration_is_completed_when_its_last_step_is_done() -> None:
    done = copy_of(ownerReferences=[], annotations={labels.ORIGINAL_POD: "web-a-uid"})
    done["metadata"]["labels"] |= {labels.MIGRATION_STATUS: "completed"}
    progress = LIFE.advance(scene(migration(step="AwaitGone"), done, pod=None)).status
    assert (progress.phase, progress.step, progress.completion_time, progress.message) == (Phase.COMPLETED, "", NOW, "")
    done["spec"]["nodeName"] = "three"
    elsewhere = LIFE.advance(scene(migration(step="AwaitGone"), done, pod=None)).status
    assert elsewhere.message == "landed on three, not on two"


def test_what_cannot_go_on_is_recorded_as_being_rolled_back_before_anything_is_undone() -> None:
    progress = given_up(migration(step="Land"))
    assert (progress.step, progress.retry_time) == (ROLL_BACK, NOW + 10)
    assert progress.message == "the scheduler put the copy on three, not on two"
    rolling = migration(step=ROLL_BACK, retry_time=NOW + 10)
    decision = LIFE.advance(scene(rolling, copy_of()))
    assert decision.status == rolling.status
    assert [command.name for command in decision.commands] == ["copy"]


def test_a_rolled_back_migration_is_pending_again_until_its_attempts_are_spent() -> None:
    pending = LIFE.advance(scene(migration(step=ROLL_BACK, retry_time=NOW + 10))).status
    assert (pending.phase, pending.step, pending.retry_time) == (Phase.PENDING, "", NOW + 10)
    spent = given_up(migration(step="Land", attempts=3))
    assert spent.retry_time is None
    failed = LIFE.advance(scene(migration(step=ROLL_BACK))).status
    assert (failed.phase, failed.completion_time) == (Phase.FAILED, NOW)


def test_pauses_between_attempts_grow_up_to_a_limit() -> None:
    life = Lifecycle(MigrationSettings(attempts=9, retry_delay=10.0, max_retry_delay=35.0))
    found = [given_up(migration(step="Land", attempts=attempt), life).retry_time for attempt in (1, 2, 3, 4)]
    assert found == [NOW + 10, NOW + 20, NOW + 35, NOW + 35]


def test_a_method_that_does_not_fit_is_remembered_and_another_one_tried_at_once() -> None:
    refused = FailedCommand(403, "Forbidden", "exceeded quota")
    progress = LIFE.advance(scene(migration(step="CreateCopy", attempts=3), refused=refused)).status
    assert (progress.step, progress.tried_methods, progress.retry_time) == (ROLL_BACK, (Method.HANDOFF,), NOW)


def test_a_migration_whose_pod_is_gone_is_not_tried_again() -> None:
    moving = migration(step="HandOver")
    progress = LIFE.advance(scene(moving, pod=leaving(pod()))).status
    assert (progress.step, progress.retry_time) == (ROLL_BACK, None)


@pytest.mark.parametrize("timeout", [None, 30.0])
def test_a_step_that_takes_too_long_is_rolled_back(timeout: float | None) -> None:
    life = Lifecycle(MigrationSettings(timeout=50.0))
    slow = migration(step="Land", order=migration_spec("web-a", target="two", timeout=timeout))
    copy = copy_of()
    del copy["spec"]["nodeName"]
    progress = life.advance(scene(slow, copy)).status
    assert progress.step == ROLL_BACK
    assert progress.message == "timed out in step Land: the scheduler has not bound the copy yet"
    patient = replace(slow, spec=replace(slow.spec, timeout=100.0))
    assert life.advance(scene(patient, copy)).status.step == "Land"


def test_a_command_that_is_refused_for_ever_times_out_as_well() -> None:
    refused = FailedCommand(403, "Forbidden", "no patching here")
    life = Lifecycle(MigrationSettings(timeout=50.0))
    progress = life.advance(scene(migration(step="Mark"), refused=refused)).status
    assert progress.message == "timed out in step Mark: mark the original: no patching here"


def test_a_move_that_is_made_is_cleaned_up_however_long_it_took() -> None:
    life = Lifecycle(MigrationSettings(timeout=1.0))
    decision = life.advance(scene(migration(step="Finish"), copy_of(), pod=None))
    assert (decision.status.step, len(decision.commands)) == ("Finish", 1)


def test_a_copy_whose_withheld_labels_are_not_readable_is_rolled_back_and_says_why() -> None:
    copy = copy_of()
    copy["metadata"]["annotations"][labels.WITHHELD] = "no JSON at all"
    progress = LIFE.advance(scene(migration(step="HandOver"), copy)).status
    assert progress.step == ROLL_BACK
    assert progress.message == f"the annotation {labels.WITHHELD} of the copy copy was changed and is not readable"


def test_what_was_refused_to_one_step_says_nothing_about_the_next() -> None:
    noted = deployment(annotations={labels.MIGRATION_ID: "m"})
    refused = FailedCommand(422, "Invalid", "of the mark")
    found = scene(migration(step="Mark"), pod=pod(labels=MARKED), deployment=noted, refused=refused)
    decision = LIFE.advance(found)
    assert decision.status.step == "CreateCopy"
    assert len(decision.commands) == 1


def test_rolling_back_waits_for_what_it_cannot_hurry() -> None:
    paused = deployment(paused=True, annotations={labels.PAUSED_BY: "m"})
    rolling = migration(Method.EVICT, ROLL_BACK)
    decision = LIFE.advance(scene(rolling, controller=replica_set(generation=2), deployment=paused))
    assert (decision.status, decision.commands, decision.wait) == (rolling.status, (), 1.0)


def test_beginning_counts_the_attempt_and_forgets_the_last_one() -> None:
    before = MigrationStatus(
        attempts=1, replacement=ObjectReference("Pod", "old"), retry_time=NOW, tried_methods=(Method.HANDOFF,)
    )
    begun = LIFE.begin(scene(migration()), replace(before, method=Method.EVICT))
    assert (begun.phase, begun.attempts, begun.start_time) == (Phase.IN_PROGRESS, 2, NOW)
    assert (begun.replacement, begun.retry_time, begun.tried_methods) == (None, None, (Method.HANDOFF,))


def test_paused_and_waiting_migrations_do_not_begin() -> None:
    pending = pod_migration("shop", "m", migration_spec("web-a"), MigrationStatus())
    assert LIFE.check_hold(scene(pending)) is None
    paused = LIFE.check_hold(scene(replace(pending, spec=migration_spec("web-a", paused=True))))
    assert paused is not None
    assert paused.reason == "paused"
    waiting = LIFE.check_hold(scene(replace(pending, status=MigrationStatus(retry_time=NOW + 7, message="no room"))))
    assert waiting is not None
    assert (waiting.reason, waiting.seconds) == ("no room", 7.0)
    assert LIFE.check_hold(scene(replace(pending, status=MigrationStatus(retry_time=NOW)))) is None


def test_late_notes_are_cleaned_after_the_end_and_not_before() -> None:
    noted = replica_set(annotations={labels.MIGRATION_ID: "m"})
    assert LIFE.clean_up(scene(migration(step="Land"), controller=noted)) == ()
    over = migration(phase=Phase.COMPLETED)
    assert [command.kind for command in LIFE.clean_up(scene(over, controller=noted))] == ["ReplicaSet"]


@pytest.mark.parametrize("method", [each for each in Method if each is not Method.REMOVE])
def test_every_method_that_moves_marks_before_it_changes_anything_and_finishes_last(method: Method) -> None:
    steps = LIFE.steps(method)
    assert next(step for step in steps if step != "CheckBudgets") == "Mark"
    assert steps[-1] == "Finish"
    assert len(set(steps)) == len(steps)
    assert "AwaitMembers" in steps


def test_a_migration_that_is_cancelled_is_rolled_back_and_not_tried_again() -> None:
    cancelled = LIFE.cancel(scene(migration(step="Land"), copy_of()), "cleanup")
    assert (cancelled.status.step, cancelled.status.retry_time) == (ROLL_BACK, None)
    assert (cancelled.status.message, cancelled.commands) == ("cleanup", ())
    rolling = LIFE.cancel(scene(migration(step=ROLL_BACK, retry_time=NOW + 10, message="no room")), "cleanup").status
    assert (rolling.step, rolling.retry_time, rolling.message) == (ROLL_BACK, None, "cleanup")
    failed = LIFE.advance(scene(replace(migration(), status=rolling))).status
    assert failed.phase is Phase.FAILED


def test_a_pending_migration_that_is_cancelled_has_failed() -> None:
    waiting = pod_migration("shop", "m", migration_spec("web-a"), MigrationStatus(retry_time=NOW + 7))
    failed = LIFE.cancel(scene(waiting), "cleanup").status
    assert (failed.phase, failed.completion_time, failed.retry_time) == (Phase.FAILED, NOW, None)
    done = migration(phase=Phase.COMPLETED)
    assert LIFE.cancel(scene(done), "cleanup").status == done.status


GOING = pod(deletionTimestamp="2027-01-15T08:00:00Z")


def test_an_eviction_is_dated_when_the_pod_goes_and_the_date_stays_though_the_move_fails() -> None:
    """Else the next cycle would evict another pod of the workload at once."""
    moving = migration(Method.EVICT, "Evict", replacement=None, bystanders=("web-b-uid",))
    asked = LIFE.advance(scene(moving)).status
    assert (asked.step, asked.eviction_time) == ("Evict", None)
    gone = LIFE.advance(scene(moving, pod=GOING)).status
    assert (gone.step, gone.eviction_time) == ("AwaitRebuilt", NOW)
    waiting = replace(moving, status=replace(gone, start_time=NOW - 9999, eviction_time=NOW - 5))
    given = LIFE.advance(scene(waiting, pod=None)).status
    assert (given.step, given.retry_time, given.eviction_time) == (ROLL_BACK, None, NOW - 5)
    clean = scene(replace(moving, status=given), pod=None)
    ended = LIFE.advance(clean).status
    assert (ended.phase, ended.eviction_time) == (Phase.FAILED, NOW - 5)


@pytest.mark.parametrize(("method", "step"), [(Method.EVICT, "Evict"), (Method.COPY, "EvictOriginal")])
def test_an_eviction_is_dated_also_when_the_move_is_cancelled_right_after_it(method: Method, step: str) -> None:
    moving = migration(method, step)
    copies = (copy_of(),) if method is Method.COPY else ()
    assert LIFE.cancel(scene(moving, *copies, pod=GOING), "enough").status.eviction_time == NOW
    assert LIFE.cancel(scene(moving, *copies), "enough").status.eviction_time is None


def test_a_pod_that_goes_before_its_eviction_is_none() -> None:
    for step in ("Mark", "TakeTurn"):
        assert LIFE.advance(scene(migration(Method.EVICT, step), pod=None)).status.eviction_time is None


@pytest.mark.parametrize("step", [*YIELDING, "HandOver"])
@pytest.mark.parametrize("changing", [ROLLING, GROWING])
def test_a_handoff_yields_to_a_rollout_whatever_its_step_and_its_attempts(step: str, changing: Json) -> None:
    moving = migration(step=step, attempts=MigrationSettings().attempts)
    progress = LIFE.advance(scene(moving, copy_of(), deployment=changing)).status
    assert (progress.step, progress.message) == (ROLL_BACK, "Deployment web is being rolled out or scaled")
    assert progress.retry_time is not None


def test_a_handoff_goes_on_once_its_copy_is_handed_over() -> None:
    labelled = copy_of()
    labelled["metadata"]["labels"] |= {"pod-template-hash": "1"}
    assert LIFE.advance(scene(migration(step="HandOver"), labelled, deployment=ROLLING)).status.step == "HandOver"
    assert LIFE.advance(scene(migration(step="AwaitGone"), labelled, pod=leaving(pod()), deployment=ROLLING)).wait


def test_nothing_yields_to_what_may_be_our_own_change_or_the_copy_of_another_handoff() -> None:
    copy, one_over = copy_of(), deployment()
    del copy["spec"]["nodeName"]
    one_over["status"] |= {"replicas": 3, "updatedReplicas": 3}
    for each in (deployment(generation=2), one_over):
        assert LIFE.advance(scene(migration(step="Land"), copy, deployment=each)).status.step == "Land"
    evicting = LIFE.advance(scene(migration(Method.EVICT, "Protect"), deployment=ROLLING)).status
    assert evicting.step == "Protect"


def test_an_original_that_is_not_ready_is_handed_off_and_another_replica_that_is_not_holds_it_up() -> None:
    sick = pod(ready=False)
    made = LIFE.advance(scene(migration(step="Cheapen"), copy_of(), pod=sick, siblings=(sick, pod("web-b"))))
    assert [command.name for command in made.commands] == ["web-a"]
    waits = LIFE.advance(scene(migration(step="Cheapen"), copy_of(), siblings=(pod(), pod("web-b", ready=False))))
    assert waits.status.message == "web-b is not Ready, and would be deleted in the original's place"
