"""What a migration has left in the cluster, and how each of it is taken back.

Rolling back is removing leftovers until there are none: it goes by what is there, not by what should have been done,
so it is right after a crash at any moment. The janitor uses it for migrations whose controller died. Whatever is not
marked as this migration's is left alone.
"""

from __future__ import annotations

from rescheduler.migration import commands
from rescheduler.migration.commands import Command, Json
from rescheduler.migration.eviction import restoring
from rescheduler.migration.observation import Scene, controller_of, is_leaving, labels_of, notes_of
from rescheduler.migration.steps import unmarking
from rescheduler.model import marks
from rescheduler.model.plan import Method


def leftovers(scene: Scene) -> list[Command]:
    """What is still to be taken back; the most dangerous first."""
    return [*_cost(scene), *_copy(scene), *restoring(scene), *_budget(scene), *_marks(scene)]


def _cost(scene: Scene) -> list[Command]:
    """The original must not stay the first to be deleted: before the copy goes, or a scaling down would hit it."""
    original = scene.original
    if original is None or is_leaving(original) or marks.COST_BEFORE not in notes_of(original):
        return []
    before = notes_of(original)[marks.COST_BEFORE] or None
    notes = {marks.DELETION_COST: before, marks.COST_BEFORE: None}
    return [commands.patch(original, {"metadata": {"annotations": notes}}, "give it its deletion cost back")]


def _copy(scene: Scene) -> list[Command]:
    copy, migration = scene.copy, scene.migration
    if copy is None or is_leaving(copy):
        return []
    managed = controller_of(copy) is not None
    alone = migration.progress.method is Method.COPY and scene.original is None
    if not managed and not alone:
        return [commands.delete(copy, "the move is rolled back")]
    # It has become somebody else's pod, or the only one there is: it stays, and stops being ours.
    owners = copy["metadata"].get("ownerReferences") or []
    others = [owner for owner in owners if owner["uid"] != migration.uid]
    changes: Json = {}
    if len(others) < len(owners):
        changes |= {"ownerReferences": others, "resourceVersion": copy["metadata"]["resourceVersion"]}
    if labels_of(copy).get(marks.MIGRATION_STATUS) in marks.RUNNING_MIGRATIONS:
        changes["labels"] = {marks.MIGRATION_STATUS: "completed"}
    if marks.WITHHELD in notes_of(copy):
        changes["annotations"] = {marks.WITHHELD: None}
    return [commands.patch(copy, {"metadata": changes}, "let it stay")] if changes else []


def _budget(scene: Scene) -> list[Command]:
    ours = scene.seen.temporary_budget
    if ours is None or labels_of(ours).get(marks.MIGRATION_ID) != scene.migration.name:
        return []
    return [commands.delete(ours, "it was temporary")]


def _marks(scene: Scene) -> list[Command]:
    found: list[Command] = []
    name, original = scene.migration.name, scene.original
    if original is not None and not is_leaving(original) and labels_of(original).get(marks.MIGRATION_ID) == name:
        gone: Json = dict.fromkeys((marks.MIGRATION_ID, marks.MIGRATION_STATUS, marks.MIGRATION_REASON))
        changes = {"metadata": {"labels": gone, "annotations": {marks.MIGRATION_TIME: None}}}
        found.append(commands.patch(original, changes, "take the marks off"))
    return [*found, *unmarking(scene)]
