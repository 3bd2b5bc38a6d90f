"""Rolling back: everything of this migration goes or comes back, and nothing else is touched."""

from __future__ import annotations

import json
from typing import Any

from rescheduler.migration.commands import Command, Verb
from rescheduler.migration.observation import StepContext
from rescheduler.migration.rollback import Mark, clean_annotations, roll_back
from rescheduler.migration.steps.common import Do, Done, Wait
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.plan import Method
from tests.unit.migration.scenes import (
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

ROLLING = migration(step="RollBack")
COPYING = migration(Method.COPY, "RollBack")
EVICTING = migration(Method.EVICT, "RollBack")
MARKED = {
    "app": "web",
    labels.MIGRATION_ID: "m",
    labels.MIGRATION_STATUS: "in-progress",
    labels.MIGRATION_REASON: "Manual",
}


def todo(found: StepContext) -> list[Command]:
    outlook = roll_back(found)
    return list(outlook.commands) if isinstance(outlook, Do) else []


def changes(command: Command) -> Any:
    assert isinstance(command.body, dict)
    return command.body["metadata"]


def test_where_nothing_was_done_nothing_is_taken_back() -> None:
    for moving in (ROLLING, COPYING, EVICTING):
        assert roll_back(scene(moving)) == Done()


def test_what_belongs_to_another_migration_is_left() -> None:
    marked = pod(labels=MARKED | {labels.MIGRATION_ID: "another"})
    noted: Json = {"annotations": {labels.MIGRATION_ID: "another", labels.PAUSED_BY: "another"}}
    theirs = budget(labels={labels.MANAGED_BY: labels.MANAGER, labels.MIGRATION_ID: "another"})
    found = scene(
        EVICTING,
        pod=marked,
        controller=replica_set(**noted),
        deployment=deployment(paused=True, **noted),
        temporary_budget=theirs,
    )
    assert roll_back(found) == Done()


def test_a_copy_is_deleted_unless_somebody_adopts_it_first() -> None:
    (command,) = todo(scene(ROLLING, copy_of()))
    assert (command.verb, command.name) == (Verb.DELETE, "copy")
    assert isinstance(command.body, dict)
    assert command.body["preconditions"] == {"uid": "copy-uid", "resourceVersion": "7"}
    assert isinstance(roll_back(scene(ROLLING, leaving(copy_of()))), Wait)


def test_a_copy_that_was_adopted_stays_and_stops_being_ours() -> None:
    ours = {"kind": "PodMigration", "uid": "m-uid"}
    theirs = {"kind": "ReplicaSet", "uid": "rs-uid", "controller": True}
    (command,) = todo(scene(ROLLING, copy_of(ownerReferences=[ours, theirs])))
    assert command.verb is Verb.PATCH
    changed = changes(command)
    assert changed["ownerReferences"] == [theirs]
    assert changed["annotations"] == {labels.WITHHELD: None}


def test_the_only_pod_that_is_left_stays() -> None:
    for gone in (None, evicted(pod(owner=False))):
        (command,) = todo(scene(COPYING, copy_of(), pod=gone))
        assert command.verb is Verb.PATCH
    (command,) = todo(scene(COPYING, copy_of(), pod=pod(owner=False)))
    assert command.verb is Verb.DELETE


def test_a_copy_behind_its_gate_goes_with_the_original() -> None:
    gated = copy_of()
    del gated["spec"]["nodeName"]
    (command,) = todo(scene(COPYING, gated, pod=None))
    assert command.verb is Verb.DELETE


def test_the_deletion_cost_comes_back_before_the_copy_goes() -> None:
    for before, restored in (("", None), ("5", "5")):
        cheap = pod(annotations={labels.DELETION_COST: "-2147483647", labels.COST_BEFORE: before})
        first, second = todo(scene(ROLLING, copy_of(), pod=cheap))
        assert changes(first)["annotations"] == {labels.DELETION_COST: restored, labels.COST_BEFORE: None}
        assert second.verb is Verb.DELETE


def test_the_marks_of_an_earlier_move_come_back() -> None:
    earlier = {labels.MIGRATION_ID: "old", labels.MIGRATION_STATUS: "completed", labels.MIGRATION_REASON: "Manual"}
    when = {labels.MIGRATION_TIME: "2026-01-01T00:00:00Z"}
    outlook = Mark().look(scene(ROLLING, pod=pod(labels=earlier, annotations=when)))
    assert isinstance(outlook, Do)
    written = changes(outlook.commands[0])
    assert json.loads(written["annotations"][labels.MARKS_BEFORE]) == {"labels": earlier, "annotations": when}
    marked = pod(labels=earlier | written["labels"], annotations=when | written["annotations"])
    (command,) = todo(scene(ROLLING, pod=marked))
    assert changes(command)["labels"] == earlier
    assert changes(command)["annotations"] == when | {labels.MARKS_BEFORE: None}


def test_an_original_without_earlier_marks_loses_all_of_them() -> None:
    (command,) = todo(scene(ROLLING, pod=pod(labels=MARKED, annotations={labels.MIGRATION_TIME: "x"})))
    assert set(changes(command)["labels"].values()) == {None}
    assert set(changes(command)["annotations"].values()) == {None}


def test_notes_go_from_the_deployment_first_and_then_from_all_its_replica_sets() -> None:
    note: Json = {"annotations": {labels.MIGRATION_ID: "m"}}
    both: Json = {"annotations": {labels.MIGRATION_ID: "m", labels.PAUSED_BY: "m"}}
    newer = replica_set(uid="newer", name="web-2", **both)
    sets = (replica_set(**both), newer)
    (first,) = clean_annotations(scene(ROLLING, deployment=deployment(**note), controller=sets[0], replica_sets=sets))
    assert first.kind == "Deployment"
    after = clean_annotations(scene(ROLLING, deployment=deployment(), controller=sets[0], replica_sets=sets))
    assert [command.kind for command in after] == ["ReplicaSet", "ReplicaSet"]
    assert changes(after[0])["annotations"] == {labels.MIGRATION_ID: None, labels.PAUSED_BY: None}


def test_the_deployments_note_goes_also_when_its_replica_set_is_gone() -> None:
    noted = deployment(annotations={labels.MIGRATION_ID: "m"})
    (command,) = todo(scene(ROLLING, pod=None, controller=None, deployment=noted))
    assert (command.kind, command.name) == ("Deployment", "web")


def test_our_own_temporary_budget_goes() -> None:
    ours = budget("web-rescheduler-pdb", labels={labels.MANAGED_BY: labels.MANAGER, labels.MIGRATION_ID: "m"})
    (command,) = todo(scene(EVICTING, temporary_budget=ours))
    assert (command.verb, command.name) == (Verb.DELETE, "web-rescheduler-pdb")


def test_a_placeholder_goes_and_is_waited_for() -> None:
    held = pod("m-room", owner=False, labels={labels.PLACEHOLDER: "m", labels.MANAGED_BY: labels.MANAGER})
    (command,) = todo(scene(EVICTING, placeholder=held))
    assert (command.verb, command.name) == (Verb.DELETE, "m-room")
    assert isinstance(roll_back(scene(EVICTING, placeholder=leaving(held))), Wait)
    theirs = pod("m-room", owner=False, labels={labels.PLACEHOLDER: "another", labels.MANAGED_BY: labels.MANAGER})
    assert roll_back(scene(EVICTING, placeholder=theirs)) == Done()
