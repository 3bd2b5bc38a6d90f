"""The marks of a move on pods and workloads: how they are put on, and how they come off again.

The first step puts them on, the last one and rolling back take them off, and the janitor does the same for moves that
nobody carries on any more. What an object had before is noted on it, so that it gets exactly that back.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from msgspec import structs

from rescheduler.migration import commands
from rescheduler.migration.commands import Command
from rescheduler.migration.crd import KIND
from rescheduler.migration.observation import (
    NOTHING_MORE,
    ObservedPart,
    StepContext,
    controller_of,
    has_finished,
    is_terminating,
    labels_of,
    target_problem,
)
from rescheduler.migration.replacement import disown_extra_pods
from rescheduler.migration.steps.common import (
    Do,
    Done,
    GiveUp,
    Outlook,
    Plain,
    Wait,
    remove_nominate_gate,
    workload_of,
)
from rescheduler.migration.steps.placeholder import find_placeholder, is_placeholder, release_room
from rescheduler.migration.steps.protection import remove_budget
from rescheduler.migration.steps.steering import read_steering, restore, restore_template, resume
from rescheduler.model import labels
from rescheduler.model import labels as marks
from rescheduler.model.json import Json, annotations_of
from rescheduler.model.migration import MigrationStatus, ObjectReference
from rescheduler.model.plan import Method
from rescheduler.model.time import format_instant

COPIED = (marks.MIGRATION_ID, marks.PAUSED_BY)
"""Notes that a Deployment's controller copies to its ReplicaSets."""
_MARKED_LABELS = (marks.MIGRATION_ID, marks.MIGRATION_STATUS, marks.MIGRATION_REASON)


class Mark:
    """Marks the original and its workload, so that people and our guards see that a move is under way."""

    name = "Mark"
    needs: frozenset[ObservedPart] = NOTHING_MORE

    def enter(self, scene: StepContext) -> MigrationStatus:
        """Record whose annotations are to be cleaned: they outlast the ReplicaSet, when there is a rollout."""
        workload, progress = workload_of(scene), scene.migration.status
        if workload is None:
            return structs.replace(progress, workload=None)
        metadata = workload["metadata"]
        return structs.replace(progress, workload=ObjectReference(workload["kind"], metadata["name"], metadata["uid"]))

    def look(self, scene: StepContext) -> Outlook:
        """Done when both carry the migration's id."""
        original, migration = scene.original, scene.migration
        if original is None or is_terminating(original):
            return GiveUp("the pod is gone", retry=False)
        other = labels_of(original).get(marks.MIGRATION_ID)
        if other != migration.name and labels_of(original).get(marks.MIGRATION_STATUS) in marks.RUNNING_MIGRATIONS:
            return Wait(f"migration {other} is moving the pod")
        if unfit := target_problem(scene):
            return GiveUp(unfit)
        todo: list[Command] = []
        wanted = {
            marks.MIGRATION_ID: migration.name,
            marks.MIGRATION_STATUS: "in-progress",
            marks.MIGRATION_REASON: migration.spec.strategy,
        }
        if wanted.items() - labels_of(original).items():
            notes = {marks.MIGRATION_TIME: format_instant(scene.now)}
            if marks.MARKS_BEFORE not in annotations_of(original) and (before := _marks_before(original)):
                notes[marks.MARKS_BEFORE] = json.dumps(before)
            changes = {"metadata": {"labels": wanted, "annotations": notes}}
            todo.append(commands.patch(original, changes, "mark the original"))
        workload = workload_of(scene)
        if workload is not None and annotations_of(workload).get(marks.MIGRATION_ID) != migration.name:
            note = {"metadata": {"annotations": {marks.MIGRATION_ID: migration.name}}}
            todo.append(commands.patch(workload, note, "note the move on the workload"))
        return Do(tuple(todo)) if todo else Done()


class Finish(Plain):
    """Takes the marks of a running move off and leaves those that tell of a finished one on the replacement."""

    name = "Finish"
    needs = frozenset({ObservedPart.REPLICA_SETS})

    def look(self, scene: StepContext) -> Outlook:
        """Done when nothing of the move is left but its trace."""
        todo = [*release_replacement(scene, "completed"), *unmark_workload(scene)]
        return Do(tuple(todo)) if todo else Done()


def release_replacement(scene: StepContext, status: str) -> list[Command]:
    """What makes the replacement a pod like any other, with nothing but the trace of how it came to be."""
    return release_pod(scene.copy, status) if scene.copy is not None else []


def release_pod(pod: Json, status: str) -> list[Command]:
    """The same for any pod that a migration made: its owner, the PodMigration, lets it go."""
    changes = dict[str, Any]()
    if is_terminating(pod):
        return []
    if labels_of(pod).get(marks.MIGRATION_STATUS) in marks.RUNNING_MIGRATIONS:
        changes["labels"] = {marks.MIGRATION_STATUS: status}
    if marks.WITHHELD in annotations_of(pod):
        changes["annotations"] = {marks.WITHHELD: None}
    owners = pod["metadata"].get("ownerReferences") or []
    others = [owner for owner in owners if owner["kind"] != KIND]
    if len(others) < len(owners):
        changes |= {"ownerReferences": others, "resourceVersion": pod["metadata"]["resourceVersion"]}
    return [commands.patch(pod, {"metadata": changes}, "it is a pod like any other now")] if changes else []


def unmark_workload(scene: StepContext) -> list[Command]:
    """What takes our notes off the workload.

    The Deployment first, because its controller copies what it finds there to its ReplicaSets, and never takes it
    back. It may do so late, from what it saw before: so this is asked again some time after the move.
    """
    seen, name = scene.seen, scene.migration.name
    if seen.deployment is not None and (todo := remove_notes(seen.deployment, {name})):
        return todo
    copied = {each["metadata"]["uid"]: each for each in (seen.controller, *seen.replica_sets) if each is not None}
    return [command for each in copied.values() for command in remove_notes(each, {name}, COPIED)]


def remove_notes(
    workload: Json, names: Collection[str], keys: tuple[str, ...] = (marks.MIGRATION_ID,)
) -> list[Command]:
    """What takes the notes of these migrations off one object."""
    ours = [key for key in keys if annotations_of(workload).get(key) in names]
    if not ours:
        return []
    return [commands.patch(workload, {"metadata": {"annotations": dict.fromkeys(ours)}}, "the move is over")]


def unmark_original(scene: StepContext) -> list[Command]:
    """What gives an original that stays the marks back that it had."""
    original = scene.original
    if original is None or is_terminating(original):
        return []
    return restore_marks(original) if labels_of(original).get(marks.MIGRATION_ID) == scene.migration.name else []


def restore_marks(original: Json) -> list[Command]:
    """The same for any pod that is marked as an original."""
    before: Json = json.loads(annotations_of(original).get(marks.MARKS_BEFORE, "{}"))
    labels = {key: before.get("labels", {}).get(key) for key in _MARKED_LABELS}
    notes = {marks.MIGRATION_TIME: before.get("annotations", {}).get(marks.MIGRATION_TIME), marks.MARKS_BEFORE: None}
    return [commands.patch(original, {"metadata": {"labels": labels, "annotations": notes}}, "take the marks off")]


def restore_cost(original: Json) -> list[Command]:
    """What gives an original its deletion cost back: it must not stay the first to be deleted."""
    if is_terminating(original) or marks.COST_BEFORE not in annotations_of(original):
        return []
    before = annotations_of(original)[marks.COST_BEFORE] or None
    notes = {marks.DELETION_COST: before, marks.COST_BEFORE: None}
    return [commands.patch(original, {"metadata": {"annotations": notes}}, "give it its deletion cost back")]


def _marks_before(original: Json) -> Json:
    labels = {key: value for key, value in labels_of(original).items() if key in _MARKED_LABELS}
    notes = {key: value for key, value in annotations_of(original).items() if key == marks.MIGRATION_TIME}
    return {key: value for key, value in (("labels", labels), ("annotations", notes)) if value}


def roll_back(scene: StepContext) -> Do | Wait | Done:
    """What is still to be taken back, the most dangerous first; Done when nothing of it is left."""
    restored = restore(scene)
    # Its cost first: without the copy, a scaling down would hit the original.
    todo = [*(restore_cost(scene.original) if scene.original is not None else ()), *_copy(scene)]
    todo += restored.commands if isinstance(restored, Do) else ()
    todo += [*_held_back(scene), *disown_extra_pods(scene), *release_room(scene)]
    todo += [*remove_budget(scene), *unmark_original(scene), *unmark_workload(scene)]
    if todo:
        return Do(tuple(todo))
    if isinstance(restored, Wait):
        return restored
    if scene.copy is not None and is_terminating(scene.copy) and controller_of(scene.copy) is None:
        return Wait("the copy is ending", 1.0)
    if scene.seen.temporary_budget is not None and is_terminating(scene.seen.temporary_budget):
        return Wait("the temporary budget is being removed", 1.0)
    if find_placeholder(scene) is not None:
        return Wait("the placeholder is ending", 1.0)
    return Done()


def _copy(scene: StepContext) -> list[Command]:
    copy, original = scene.copy, scene.original
    if copy is None or is_terminating(copy):
        return []
    # Without the original, a copy that has a node is the only pod there is; behind its gate it was never one.
    goes = original is None or is_terminating(original)
    alone = scene.migration.status.method is Method.COPY and goes and bool(copy["spec"].get("nodeName"))
    if controller_of(copy) is None and not (alone and not has_finished(copy)):
        # If somebody has adopted it since we looked, it is a pod of theirs, and must not go.
        return [commands.delete(copy, "the move is rolled back", as_seen=True)]
    return release_replacement(scene, "failed")


def _held_back(scene: StepContext) -> list[Command]:
    """What lets a replacement through the webhook's gate: from now on the scheduler may have it."""
    copy = scene.copy
    is_ours = copy is not None and annotations_of(copy).get(labels.GATED) == scene.migration.name
    return remove_nominate_gate(copy) if copy is not None and is_ours else []


_OF_ORIGINALS = (marks.COST_BEFORE, marks.MARKS_BEFORE)
_OF_PODS = (marks.WITHHELD, *_OF_ORIGINALS)
Texts = Mapping[str, str]


def names_on_pod(labels: Texts, notes: Texts) -> frozenset[str]:
    """Whose marks of a running move a pod carries; "" where there is a mark, but no name any more.

    What a finished move leaves on its replacement is a trace for people, and no mark of a running one.
    """
    name = labels.get(marks.MIGRATION_ID, "")
    is_marked = bool(name) and labels.get(marks.MIGRATION_STATUS) in marks.RUNNING_MIGRATIONS
    names = {name} if is_marked or any(key in notes for key in _OF_PODS) else set()
    if labels.get(marks.MANAGED_BY) == marks.MANAGER and marks.PLACEHOLDER in labels:
        names.add(labels[marks.PLACEHOLDER])
    if marks.GATED in notes:
        names.add(notes[marks.GATED])
    return frozenset(names)


def names_on_workload(notes: Texts) -> frozenset[str]:
    """Whose marks a Deployment, ReplicaSet, StatefulSet or Job carries."""
    names = {notes[key] for key in COPIED if key in notes}
    if marks.AFFINITY_BEFORE in notes:
        names.add(read_steering({"metadata": {"annotations": notes}})["migration"])
    return frozenset(names)


def name_on_budget(labels: Texts) -> str:
    """Which migration a temporary budget was made for; empty for all others."""
    return labels.get(marks.MIGRATION_ID, "") if labels.get(marks.MANAGED_BY) == marks.MANAGER else ""


def names_on(body: Json) -> frozenset[str]:
    """Whose marks an object carries."""
    match body["kind"]:
        case "Pod":
            return names_on_pod(labels_of(body), annotations_of(body))
        case "PodDisruptionBudget":
            name = name_on_budget(labels_of(body))
            return frozenset({name}) if name else frozenset()
        case _:
            return names_on_workload(annotations_of(body))


def is_copy(pod: Json) -> bool:
    """Whether a pod was made by or for a move; one that is moved once more has noted what it was before."""
    notes = annotations_of(pod)
    return marks.ORIGINAL_POD in notes and not any(key in notes for key in _OF_ORIGINALS)


def clean_pod(pod: Json, original: Json | None, status: str) -> list[Command]:
    """What puts a pod right whose migration is dead: a copy goes or stays for good, an original gets its own back."""
    if is_terminating(pod):
        return []
    if is_placeholder(pod):
        return [commands.delete(pod, "the room is not held any more")]
    if held_back := remove_nominate_gate(pod):
        return held_back  # first of all: it waits for nobody any more
    if is_copy(pod):
        if controller_of(pod) is None and _is_surplus(pod, original):
            # If somebody has adopted it since we looked, it is a pod of theirs, and must not go.
            return [commands.delete(pod, "its migration is gone", as_seen=True)]
        return release_pod(pod, status)
    is_marked = labels_of(pod).get(marks.MIGRATION_STATUS) in marks.RUNNING_MIGRATIONS
    if is_marked or marks.MARKS_BEFORE in annotations_of(pod):
        return [*restore_cost(pod), *restore_marks(pod)]
    return restore_cost(pod)


def clean_budget(budget: Json) -> list[Command]:
    """What removes a temporary budget whose migration is dead."""
    return [] if is_terminating(budget) else [commands.delete(budget, "it was temporary")]


def clean_workload(workload: Json, sets: Collection[Json], dead: Collection[str]) -> Do | Wait | Done:
    """What puts a workload right; `sets` are the ReplicaSets of a Deployment, or the ReplicaSet itself.

    First the templates, then the pause, then the notes: on the Deployment before its ReplicaSets, because its
    controller copies what it finds there to them, and never takes it back.
    """
    if steered := [each for each in sets if read_steering(each).get("migration") in dead]:
        return Do(tuple(restore_template(each) for each in steered))
    if workload["kind"] == "Deployment":
        if annotations_of(workload).get(marks.PAUSED_BY) in dead:
            return resume(workload, sets)
        if todo := remove_notes(workload, dead):
            return Do(tuple(todo))
    others = sets if workload["kind"] == "Deployment" else (workload,)
    copied = [command for each in others for command in remove_notes(each, dead, COPIED)]
    return Do(tuple(copied)) if copied else Done()


def _is_surplus(copy: Json, original: Json | None) -> bool:
    """Whether an unadopted copy can go without a pod being lost."""
    if not copy["spec"].get("nodeName") or has_finished(copy) or marks.WITHHELD in annotations_of(copy):
        return True  # it never ran, does not any more, or its ReplicaSet has as many as it wants without it
    return original is not None and not is_terminating(original)
