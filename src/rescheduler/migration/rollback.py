"""Labels and annotations of a move on pods and workloads: adding them, and restoring what was there before.

The first step adds them; the last step and a rollback remove them; the orphan cleaner removes those of lost migrations.
The previous values are kept in an annotation of the object itself.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from msgspec import structs

from rescheduler.migration import commands
from rescheduler.migration.commands import Command
from rescheduler.migration.observation import (
    ObservedPart,
    StepContext,
    controller_of,
    has_finished,
    is_terminating,
    labels_of,
    target_problem,
)
from rescheduler.migration.steps.common import (
    POD_GONE,
    Do,
    Done,
    GiveUp,
    Outlook,
    Step,
    Wait,
    disown,
    do_all,
    remove_nominate_gate,
    workload_of,
)
from rescheduler.migration.steps.evict import (
    disown_extra_pods,
    find_unreadable,
    read_steering,
    remove_budget,
    restore,
    restore_template,
    resume,
)
from rescheduler.migration.steps.placeholder import find_placeholder, is_placeholder, release_room
from rescheduler.model import labels
from rescheduler.model.json import Json, annotations_of, read_annotation
from rescheduler.model.migration import MigrationStatus, ObjectReference
from rescheduler.model.plan import Method
from rescheduler.model.time import format_instant

COPIED = (labels.MIGRATION_ID, labels.PAUSED_BY)
"""Notes that a Deployment's controller copies to its ReplicaSets."""
_MARKED_LABELS = (labels.MIGRATION_ID, labels.MIGRATION_STATUS, labels.MIGRATION_REASON)


class Mark(Step):
    """Labels the original and annotates its workload, so that people and guards see that a move is under way."""

    def enter(self, context: StepContext) -> MigrationStatus:
        """Record whose annotations are to be cleaned: they outlast the ReplicaSet, when there is a rollout."""
        workload, progress = workload_of(context), context.migration.status
        if workload is None:
            return structs.replace(progress, workload=None)
        metadata = workload["metadata"]
        return structs.replace(progress, workload=ObjectReference(workload["kind"], metadata["name"], metadata["uid"]))

    def look(self, context: StepContext) -> Outlook:
        """Done when both carry the migration's id."""
        original, migration = context.live_original, context.migration
        if original is None:
            return POD_GONE
        other = labels_of(original).get(labels.MIGRATION_ID)
        if other != migration.name and labels_of(original).get(labels.MIGRATION_STATUS) in labels.RUNNING_MIGRATIONS:
            return Wait(f"migration {other} is moving the pod")
        if unfit := target_problem(context):
            return GiveUp(unfit)
        todo: list[Command] = []
        wanted = {
            labels.MIGRATION_ID: migration.name,
            labels.MIGRATION_STATUS: "in-progress",
            labels.MIGRATION_REASON: migration.spec.strategy,
        }
        if wanted.items() - labels_of(original).items():
            notes = {labels.MIGRATION_TIME: format_instant(context.now)}
            if labels.MARKS_BEFORE not in annotations_of(original) and (before := _save_labels(original)):
                notes[labels.MARKS_BEFORE] = json.dumps(before)
            changes = {"metadata": {"labels": wanted, "annotations": notes}}
            todo.append(commands.patch(original, changes, "mark the original"))
        workload = workload_of(context)
        if workload is not None and annotations_of(workload).get(labels.MIGRATION_ID) != migration.name:
            note = {"metadata": {"annotations": {labels.MIGRATION_ID: migration.name}}}
            todo.append(commands.patch(workload, note, "note the move on the workload"))
        return do_all(todo)


class Finish(Step):
    """Removes the labels of a running move; the replacement keeps a trace of the finished one."""

    needs = frozenset({ObservedPart.REPLICA_SETS})

    def look(self, context: StepContext) -> Outlook:
        """Done when nothing of the move is left but its trace."""
        released = _release_pod(context.copy, "completed") if context.copy is not None else []
        return do_all([*released, *clean_annotations(context)])


def _release_pod(pod: Json, status: str) -> list[Command]:
    """Make a pod that a migration created one like any other, with only a trace of the move."""
    if is_terminating(pod):
        return []
    changes = disown(pod)
    if labels_of(pod).get(labels.MIGRATION_STATUS) in labels.RUNNING_MIGRATIONS:
        changes["labels"] = {labels.MIGRATION_STATUS: status}
    if labels.WITHHELD in annotations_of(pod):
        changes["annotations"] = {labels.WITHHELD: None}
    return [commands.patch(pod, {"metadata": changes}, "it is a pod like any other now")] if changes else []


def clean_annotations(context: StepContext) -> list[Command]:
    """Take our annotations off the workload.

    The Deployment comes first, because its controller copies annotations to ReplicaSets and never removes them. It may
    do so late, from an old cache, so this is repeated some time after the move.
    """
    seen, name = context.seen, context.migration.name
    if seen.deployment is not None and (todo := remove_annotations(seen.deployment, {name})):
        return todo
    copied = {each["metadata"]["uid"]: each for each in (seen.controller, *seen.replica_sets) if each is not None}
    return [command for each in copied.values() for command in remove_annotations(each, {name}, COPIED)]


def remove_annotations(
    workload: Json, names: Collection[str], keys: tuple[str, ...] = (labels.MIGRATION_ID,)
) -> list[Command]:
    """Take the annotations of these migrations off one object."""
    ours = [key for key in keys if annotations_of(workload).get(key) in names]
    if not ours:
        return []
    return [commands.patch(workload, {"metadata": {"annotations": dict.fromkeys(ours)}}, "the move is over")]


def restore_labels(original: Json) -> list[Command]:
    """Restore the labels and annotations of an original that stays; without earlier ones if these are not readable."""
    before = read_annotation(original, labels.MARKS_BEFORE) or {}
    earlier, noted = (part if isinstance(part := before.get(key), dict) else {} for key in ("labels", "annotations"))
    kept = {key: earlier.get(key) for key in _MARKED_LABELS}
    notes = {labels.MIGRATION_TIME: noted.get(labels.MIGRATION_TIME), labels.MARKS_BEFORE: None}
    return [commands.patch(original, {"metadata": {"labels": kept, "annotations": notes}}, "take the marks off")]


def restore_cost(original: Json) -> list[Command]:
    """Restore the deletion cost of an original, so that it is no longer the first to be deleted."""
    if labels.COST_BEFORE not in annotations_of(original):
        return []
    before = annotations_of(original)[labels.COST_BEFORE] or None
    notes = {labels.DELETION_COST: before, labels.COST_BEFORE: None}
    return [commands.patch(original, {"metadata": {"annotations": notes}}, "give it its deletion cost back")]


def _save_labels(original: Json) -> Json:
    kept = {key: value for key, value in labels_of(original).items() if key in _MARKED_LABELS}
    notes = {key: value for key, value in annotations_of(original).items() if key == labels.MIGRATION_TIME}
    return {key: value for key, value in (("labels", kept), ("annotations", notes)) if value}


def roll_back(context: StepContext) -> Do | Wait | Done:
    """Undo what is left of a move, the most dangerous first; Done when nothing is."""
    original, copy, name = context.live_original, context.copy, context.migration.name
    restored = restore(context)
    # Its cost first: without the copy, a scaling down would hit the original.
    todo = restore_cost(original) if original is not None else []
    todo += _undo_copy(context)
    todo += restored.commands if isinstance(restored, Do) else ()
    if copy is not None and annotations_of(copy).get(labels.GATED) == name:
        todo += remove_nominate_gate(copy)  # so that it can be scheduled
    todo += [*disown_extra_pods(context), *release_room(context), *remove_budget(context)]
    if original is not None and labels_of(original).get(labels.MIGRATION_ID) == name:
        todo += restore_labels(original)
    todo += clean_annotations(context)
    if todo:
        return Do(tuple(todo))
    if isinstance(restored, Wait):
        return restored
    if copy is not None and is_terminating(copy) and controller_of(copy) is None:
        return Wait("the copy is ending", 1.0)
    if context.seen.temporary_budget is not None and is_terminating(context.seen.temporary_budget):
        return Wait("the temporary budget is being removed", 1.0)
    if find_placeholder(context) is not None:
        return Wait("the placeholder is ending", 1.0)
    return Done()


def _undo_copy(context: StepContext) -> list[Command]:
    copy = context.copy
    if copy is None or is_terminating(copy):
        return []
    # Without the original, a copy that has a node is the only pod there is; behind its gate it was never one.
    is_last = context.migration.status.method is Method.COPY and context.live_original is None
    is_needed = is_last and not context.was_deleted and copy["spec"].get("nodeName") and not has_finished(copy)
    if controller_of(copy) is None and not is_needed:
        # A controller may have adopted it since; then it must not be deleted.
        return [commands.delete(copy, "the move is rolled back", as_seen=True)]
    return _release_pod(copy, "failed")


_OF_ORIGINALS = (labels.COST_BEFORE, labels.MARKS_BEFORE)
_OF_PODS = (labels.WITHHELD, *_OF_ORIGINALS)
Texts = Mapping[str, str]


def names_on_pod(kept: Texts, notes: Texts) -> frozenset[str]:
    """The running migrations that a pod is labelled with; "" for a label without a name.

    The trace that a finished move leaves on its replacement does not count.
    """
    name = kept.get(labels.MIGRATION_ID, "")
    is_marked = bool(name) and kept.get(labels.MIGRATION_STATUS) in labels.RUNNING_MIGRATIONS
    names = {name} if is_marked or any(key in notes for key in _OF_PODS) else set()
    if kept.get(labels.MANAGED_BY) == labels.MANAGER and labels.PLACEHOLDER in kept:
        names.add(kept[labels.PLACEHOLDER])
    if labels.GATED in notes:
        names.add(notes[labels.GATED])
    return frozenset(names)


def names_on(body: Json) -> frozenset[str]:
    """The migrations that a pod, a workload or a temporary budget is labelled or annotated with."""
    kept, notes = labels_of(body), annotations_of(body)
    if body["kind"] == "Pod":
        return names_on_pod(kept, notes)
    if body["kind"] == "PodDisruptionBudget":
        is_ours = kept.get(labels.MANAGED_BY) == labels.MANAGER and kept.get(labels.MIGRATION_ID)
        return frozenset({kept[labels.MIGRATION_ID]} if is_ours else ())
    names = {notes[key] for key in COPIED if key in notes}
    if steering := read_steering(body):
        names.add(steering["migration"])
    if not names and (unreadable := find_unreadable(body)):
        raise ValueError(unreadable)
    return frozenset(names)


def clean_pod(pod: Json, original: Json | None, status: str) -> list[Command]:
    """Clean a pod whose migration is gone: delete or release a copy, restore an original."""
    if is_terminating(pod):
        return []
    if is_placeholder(pod):
        return [commands.delete(pod, "the room is not held any more")]
    if held_back := remove_nominate_gate(pod):
        return held_back  # first, because the pod waits behind it
    notes = annotations_of(pod)
    if labels.ORIGINAL_POD in notes and not any(key in notes for key in _OF_ORIGINALS):  # not being moved again itself
        if controller_of(pod) is None and _is_surplus(pod, original):
            # A controller may have adopted it since; then it must not be deleted.
            return [commands.delete(pod, "its migration is gone", as_seen=True)]
        return _release_pod(pod, status)
    is_marked = labels_of(pod).get(labels.MIGRATION_STATUS) in labels.RUNNING_MIGRATIONS
    return [*restore_cost(pod), *(restore_labels(pod) if is_marked or labels.MARKS_BEFORE in notes else ())]


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
        if annotations_of(workload).get(labels.PAUSED_BY) in dead:
            return resume(workload, sets)
        if todo := remove_annotations(workload, dead):
            return Do(tuple(todo))
    others = sets if workload["kind"] == "Deployment" else (workload,)
    copied = [command for each in others for command in remove_annotations(each, dead, COPIED)]
    return do_all(copied)


def _is_surplus(copy: Json, original: Json | None) -> bool:
    """Whether an unadopted copy can go without a pod being lost."""
    if not copy["spec"].get("nodeName") or has_finished(copy) or labels.WITHHELD in annotations_of(copy):
        return True  # it never ran, does not any more, or its ReplicaSet has as many as it wants without it
    return original is not None and not is_terminating(original)
