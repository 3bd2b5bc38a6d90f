"""Labels and annotations of a move on pods and workloads: adding them, and restoring what was there before.

The first step adds them; the last step and a rollback remove them; the orphan cleaner removes those of lost migrations.
The previous values are kept in an annotation of the object itself.
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
    Step,
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


class Mark(Step):
    """Labels the original and annotates its workload, so that people and guards see that a move is under way."""

    name = "Mark"

    def enter(self, context: StepContext) -> MigrationStatus:
        """Record whose annotations are to be cleaned: they outlast the ReplicaSet, when there is a rollout."""
        workload, progress = workload_of(context), context.migration.status
        if workload is None:
            return structs.replace(progress, workload=None)
        metadata = workload["metadata"]
        return structs.replace(progress, workload=ObjectReference(workload["kind"], metadata["name"], metadata["uid"]))

    def look(self, context: StepContext) -> Outlook:
        """Done when both carry the migration's id."""
        original, migration = context.original, context.migration
        if original is None or is_terminating(original):
            return GiveUp("the pod is gone", retry=False)
        other = labels_of(original).get(marks.MIGRATION_ID)
        if other != migration.name and labels_of(original).get(marks.MIGRATION_STATUS) in marks.RUNNING_MIGRATIONS:
            return Wait(f"migration {other} is moving the pod")
        if unfit := target_problem(context):
            return GiveUp(unfit)
        todo: list[Command] = []
        wanted = {
            marks.MIGRATION_ID: migration.name,
            marks.MIGRATION_STATUS: "in-progress",
            marks.MIGRATION_REASON: migration.spec.strategy,
        }
        if wanted.items() - labels_of(original).items():
            notes = {marks.MIGRATION_TIME: format_instant(context.now)}
            if marks.MARKS_BEFORE not in annotations_of(original) and (before := _marks_before(original)):
                notes[marks.MARKS_BEFORE] = json.dumps(before)
            changes = {"metadata": {"labels": wanted, "annotations": notes}}
            todo.append(commands.patch(original, changes, "mark the original"))
        workload = workload_of(context)
        if workload is not None and annotations_of(workload).get(marks.MIGRATION_ID) != migration.name:
            note = {"metadata": {"annotations": {marks.MIGRATION_ID: migration.name}}}
            todo.append(commands.patch(workload, note, "note the move on the workload"))
        return Do(tuple(todo)) if todo else Done()


class Finish(Step):
    """Removes the labels of a running move; the replacement keeps a trace of the finished one."""

    name = "Finish"
    needs = frozenset({ObservedPart.REPLICA_SETS})

    def look(self, context: StepContext) -> Outlook:
        """Done when nothing of the move is left but its trace."""
        todo = [*release_replacement(context, "completed"), *unmark_workload(context)]
        return Do(tuple(todo)) if todo else Done()


def release_replacement(context: StepContext, status: str) -> list[Command]:
    """Make the replacement a pod like any other, with only a trace of the move."""
    return release_pod(context.copy, status) if context.copy is not None else []


def release_pod(pod: Json, status: str) -> list[Command]:
    """The same for any pod that a migration created; the PodMigration owns it no longer."""
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


def unmark_workload(context: StepContext) -> list[Command]:
    """Take our annotations off the workload.

    The Deployment comes first, because its controller copies annotations to ReplicaSets and never removes them. It may
    do so late, from an old cache, so this is repeated some time after the move.
    """
    seen, name = context.seen, context.migration.name
    if seen.deployment is not None and (todo := remove_notes(seen.deployment, {name})):
        return todo
    copied = {each["metadata"]["uid"]: each for each in (seen.controller, *seen.replica_sets) if each is not None}
    return [command for each in copied.values() for command in remove_notes(each, {name}, COPIED)]


def remove_notes(
    workload: Json, names: Collection[str], keys: tuple[str, ...] = (marks.MIGRATION_ID,)
) -> list[Command]:
    """Take the annotations of these migrations off one object."""
    ours = [key for key in keys if annotations_of(workload).get(key) in names]
    if not ours:
        return []
    return [commands.patch(workload, {"metadata": {"annotations": dict.fromkeys(ours)}}, "the move is over")]


def unmark_original(context: StepContext) -> list[Command]:
    """Restore the labels and annotations of an original that stays."""
    original = context.original
    if original is None or is_terminating(original):
        return []
    return restore_marks(original) if labels_of(original).get(marks.MIGRATION_ID) == context.migration.name else []


def restore_marks(original: Json) -> list[Command]:
    """The same for any pod that is labelled as an original."""
    before: Json = json.loads(annotations_of(original).get(marks.MARKS_BEFORE, "{}"))
    labels = {key: before.get("labels", {}).get(key) for key in _MARKED_LABELS}
    notes = {marks.MIGRATION_TIME: before.get("annotations", {}).get(marks.MIGRATION_TIME), marks.MARKS_BEFORE: None}
    return [commands.patch(original, {"metadata": {"labels": labels, "annotations": notes}}, "take the marks off")]


def restore_cost(original: Json) -> list[Command]:
    """Restore the deletion cost of an original, so that it is no longer the first to be deleted."""
    if is_terminating(original) or marks.COST_BEFORE not in annotations_of(original):
        return []
    before = annotations_of(original)[marks.COST_BEFORE] or None
    notes = {marks.DELETION_COST: before, marks.COST_BEFORE: None}
    return [commands.patch(original, {"metadata": {"annotations": notes}}, "give it its deletion cost back")]


def _marks_before(original: Json) -> Json:
    labels = {key: value for key, value in labels_of(original).items() if key in _MARKED_LABELS}
    notes = {key: value for key, value in annotations_of(original).items() if key == marks.MIGRATION_TIME}
    return {key: value for key, value in (("labels", labels), ("annotations", notes)) if value}


def roll_back(context: StepContext) -> Do | Wait | Done:
    """Undo what is left of a move, the most dangerous first; Done when nothing is."""
    restored = restore(context)
    # Its cost first: without the copy, a scaling down would hit the original.
    todo = [*(restore_cost(context.original) if context.original is not None else ()), *_copy(context)]
    todo += restored.commands if isinstance(restored, Do) else ()
    todo += [*_held_back(context), *disown_extra_pods(context), *release_room(context)]
    todo += [*remove_budget(context), *unmark_original(context), *unmark_workload(context)]
    if todo:
        return Do(tuple(todo))
    if isinstance(restored, Wait):
        return restored
    if context.copy is not None and is_terminating(context.copy) and controller_of(context.copy) is None:
        return Wait("the copy is ending", 1.0)
    if context.seen.temporary_budget is not None and is_terminating(context.seen.temporary_budget):
        return Wait("the temporary budget is being removed", 1.0)
    if find_placeholder(context) is not None:
        return Wait("the placeholder is ending", 1.0)
    return Done()


def _copy(context: StepContext) -> list[Command]:
    copy, original = context.copy, context.original
    if copy is None or is_terminating(copy):
        return []
    # Without the original, a copy that has a node is the only pod there is; behind its gate it was never one.
    goes = original is None or is_terminating(original)
    alone = context.migration.status.method is Method.COPY and goes and bool(copy["spec"].get("nodeName"))
    if controller_of(copy) is None and not (alone and not has_finished(copy)):
        # A controller may have adopted it since; then it must not be deleted.
        return [commands.delete(copy, "the move is rolled back", as_seen=True)]
    return release_replacement(context, "failed")


def _held_back(context: StepContext) -> list[Command]:
    """Remove the webhook's gate from a replacement, so that it can be scheduled."""
    copy = context.copy
    is_ours = copy is not None and annotations_of(copy).get(labels.GATED) == context.migration.name
    return remove_nominate_gate(copy) if copy is not None and is_ours else []


_OF_ORIGINALS = (marks.COST_BEFORE, marks.MARKS_BEFORE)
_OF_PODS = (marks.WITHHELD, *_OF_ORIGINALS)
Texts = Mapping[str, str]


def names_on_pod(labels: Texts, notes: Texts) -> frozenset[str]:
    """The running migrations that a pod is labelled with; "" for a label without a name.

    The trace that a finished move leaves on its replacement does not count.
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
    """The migrations in the annotations of a Deployment, ReplicaSet, StatefulSet or Job."""
    names = {notes[key] for key in COPIED if key in notes}
    if marks.AFFINITY_BEFORE in notes:
        names.add(read_steering({"metadata": {"annotations": notes}})["migration"])
    return frozenset(names)


def name_on_budget(labels: Texts) -> str:
    """The migration of a temporary budget; empty for other budgets."""
    return labels.get(marks.MIGRATION_ID, "") if labels.get(marks.MANAGED_BY) == marks.MANAGER else ""


def names_on(body: Json) -> frozenset[str]:
    """The migrations that an object is labelled or annotated with."""
    match body["kind"]:
        case "Pod":
            return names_on_pod(labels_of(body), annotations_of(body))
        case "PodDisruptionBudget":
            name = name_on_budget(labels_of(body))
            return frozenset({name}) if name else frozenset()
        case _:
            return names_on_workload(annotations_of(body))


def is_copy(pod: Json) -> bool:
    """Whether a pod was created by a move, and is not itself being moved again."""
    notes = annotations_of(pod)
    return marks.ORIGINAL_POD in notes and not any(key in notes for key in _OF_ORIGINALS)


def clean_pod(pod: Json, original: Json | None, status: str) -> list[Command]:
    """Clean a pod whose migration is gone: delete or release a copy, restore an original."""
    if is_terminating(pod):
        return []
    if is_placeholder(pod):
        return [commands.delete(pod, "the room is not held any more")]
    if held_back := remove_nominate_gate(pod):
        return held_back  # first, because the pod waits behind it
    if is_copy(pod):
        if controller_of(pod) is None and _is_surplus(pod, original):
            # A controller may have adopted it since; then it must not be deleted.
            return [commands.delete(pod, "its migration is gone", as_seen=True)]
        return release_pod(pod, status)
    is_marked = labels_of(pod).get(marks.MIGRATION_STATUS) in marks.RUNNING_MIGRATIONS
    if is_marked or marks.MARKS_BEFORE in annotations_of(pod):
        return [*restore_cost(pod), *restore_marks(pod)]
    return restore_cost(pod)


def clean_budget(budget: Json) -> list[Command]:
    """Remove a temporary budget whose migration is gone."""
    return [] if is_terminating(budget) else [commands.delete(budget, "it was temporary")]


def clean_workload(workload: Json, sets: Collection[Json], dead: Collection[str]) -> Do | Wait | Done:
    """Clean a workload; `sets` are the ReplicaSets of a Deployment, or the ReplicaSet itself.

    Templates come first, then the pause, then annotations: on the Deployment before its ReplicaSets, because its
    controller copies annotations to them and never removes them.
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
