"""The marks of a move on pods and workloads: how they are put on, and how they come off again.

The first step puts them on, the last one and rolling back take them off, and the janitor does the same for moves that
nobody carries on any more. What an object had before is noted on it, so that it gets exactly that back.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from rescheduler.migration import commands
from rescheduler.migration.commands import Command, Json
from rescheduler.migration.copies import KIND
from rescheduler.migration.observation import NOTHING_MORE, Part, Scene, is_leaving, labels_of, notes_of
from rescheduler.migration.preconditions import unfit_target
from rescheduler.migration.steps import Do, Done, GiveUp, Outlook, Plain, Wait, workload_of
from rescheduler.model import marks
from rescheduler.model.instant import format_instant
from rescheduler.model.migration import Progress, Reference

COPIED = (marks.MIGRATION_ID, marks.PAUSED_BY)
"""Notes that a Deployment's controller copies to its ReplicaSets."""
_MARKED_LABELS = (marks.MIGRATION_ID, marks.MIGRATION_STATUS, marks.MIGRATION_REASON)


class Mark:
    """Marks the original and its workload, so that people and our guards see that a move is under way."""

    name = "Mark"
    needs: frozenset[Part] = NOTHING_MORE

    def enter(self, scene: Scene) -> Progress:
        """Record whose annotations are to be cleaned: they outlast the ReplicaSet, when there is a rollout."""
        workload, progress = workload_of(scene), scene.migration.progress
        if workload is None:
            return replace(progress, workload=None)
        metadata = workload["metadata"]
        return replace(progress, workload=Reference(workload["kind"], metadata["name"], metadata["uid"]))

    def look(self, scene: Scene) -> Outlook:
        """Done when both carry the migration's id."""
        original, migration = scene.original, scene.migration
        if original is None or is_leaving(original):
            return GiveUp("the pod is gone", retry=False)
        other = labels_of(original).get(marks.MIGRATION_ID)
        if other != migration.name and labels_of(original).get(marks.MIGRATION_STATUS) in marks.RUNNING_MIGRATIONS:
            return Wait(f"migration {other} is moving the pod")
        if unfit := unfit_target(scene):
            return GiveUp(unfit)
        todo: list[Command] = []
        wanted = {
            marks.MIGRATION_ID: migration.name,
            marks.MIGRATION_STATUS: "in-progress",
            marks.MIGRATION_REASON: migration.order.strategy,
        }
        if wanted.items() - labels_of(original).items():
            notes = {marks.MIGRATION_TIME: format_instant(scene.now)}
            if marks.MARKS_BEFORE not in notes_of(original) and (before := _marks_before(original)):
                notes[marks.MARKS_BEFORE] = json.dumps(before)
            changes = {"metadata": {"labels": wanted, "annotations": notes}}
            todo.append(commands.patch(original, changes, "mark the original"))
        workload = workload_of(scene)
        if workload is not None and notes_of(workload).get(marks.MIGRATION_ID) != migration.name:
            note = {"metadata": {"annotations": {marks.MIGRATION_ID: migration.name}}}
            todo.append(commands.patch(workload, note, "note the move on the workload"))
        return Do(tuple(todo)) if todo else Done()


class Finish(Plain):
    """Takes the marks of a running move off and leaves those that tell of a finished one on the replacement."""

    name = "Finish"
    needs = frozenset({Part.REPLICA_SETS})

    def look(self, scene: Scene) -> Outlook:
        """Done when nothing of the move is left but its trace."""
        todo = [*letting_stay(scene, "completed"), *unmarking(scene)]
        return Do(tuple(todo)) if todo else Done()


def letting_stay(scene: Scene, status: str) -> list[Command]:
    """What makes the replacement a pod like any other, with nothing but the trace of how it came to be."""
    return staying(scene.copy, status) if scene.copy is not None else []


def staying(pod: Json, status: str) -> list[Command]:
    """The same for any pod that a migration made: its owner, the PodMigration, lets it go."""
    changes = dict[str, Any]()
    if is_leaving(pod):
        return []
    if labels_of(pod).get(marks.MIGRATION_STATUS) in marks.RUNNING_MIGRATIONS:
        changes["labels"] = {marks.MIGRATION_STATUS: status}
    if marks.WITHHELD in notes_of(pod):
        changes["annotations"] = {marks.WITHHELD: None}
    owners = pod["metadata"].get("ownerReferences") or []
    others = [owner for owner in owners if owner["kind"] != KIND]
    if len(others) < len(owners):
        changes |= {"ownerReferences": others, "resourceVersion": pod["metadata"]["resourceVersion"]}
    return [commands.patch(pod, {"metadata": changes}, "it is a pod like any other now")] if changes else []


def unmarking(scene: Scene) -> list[Command]:
    """What takes our notes off the workload.

    The Deployment first, because its controller copies what it finds there to its ReplicaSets, and never takes it
    back. It may do so late, from what it saw before: so this is asked again some time after the move.
    """
    seen, name = scene.seen, scene.migration.name
    if seen.deployment is not None and (todo := unnoting(seen.deployment, {name})):
        return todo
    copied = {each["metadata"]["uid"]: each for each in (seen.controller, *seen.replica_sets) if each is not None}
    return [command for each in copied.values() for command in unnoting(each, {name}, COPIED)]


def unnoting(workload: Json, names: Collection[str], keys: tuple[str, ...] = (marks.MIGRATION_ID,)) -> list[Command]:
    """What takes the notes of these migrations off one object."""
    ours = [key for key in keys if notes_of(workload).get(key) in names]
    if not ours:
        return []
    return [commands.patch(workload, {"metadata": {"annotations": dict.fromkeys(ours)}}, "the move is over")]


def unmarking_original(scene: Scene) -> list[Command]:
    """What gives an original that stays the marks back that it had."""
    original = scene.original
    if original is None or is_leaving(original):
        return []
    return restored_marks(original) if labels_of(original).get(marks.MIGRATION_ID) == scene.migration.name else []


def restored_marks(original: Json) -> list[Command]:
    """The same for any pod that is marked as an original."""
    before: Json = json.loads(notes_of(original).get(marks.MARKS_BEFORE, "{}"))
    labels = {key: before.get("labels", {}).get(key) for key in _MARKED_LABELS}
    notes = {marks.MIGRATION_TIME: before.get("annotations", {}).get(marks.MIGRATION_TIME), marks.MARKS_BEFORE: None}
    return [commands.patch(original, {"metadata": {"labels": labels, "annotations": notes}}, "take the marks off")]


def restored_cost(original: Json) -> list[Command]:
    """What gives an original its deletion cost back: it must not stay the first to be deleted."""
    if is_leaving(original) or marks.COST_BEFORE not in notes_of(original):
        return []
    before = notes_of(original)[marks.COST_BEFORE] or None
    notes = {marks.DELETION_COST: before, marks.COST_BEFORE: None}
    return [commands.patch(original, {"metadata": {"annotations": notes}}, "give it its deletion cost back")]


def _marks_before(original: Json) -> Json:
    labels = {key: value for key, value in labels_of(original).items() if key in _MARKED_LABELS}
    notes = {key: value for key, value in notes_of(original).items() if key == marks.MIGRATION_TIME}
    return {key: value for key, value in (("labels", labels), ("annotations", notes)) if value}
