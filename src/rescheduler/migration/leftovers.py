"""What a migration has left in the cluster, and how each of it is taken back.

Rolling back is removing leftovers until there are none: it goes by what is there, not by what should have been done,
so it is right after a crash at any moment. Whatever is not marked as this migration's is left alone. For migrations
that are gone there is `orphans`.
"""

from __future__ import annotations

from rescheduler.migration import commands
from rescheduler.migration.commands import Command
from rescheduler.migration.gates import letting_through
from rescheduler.migration.marking import letting_stay, restored_cost, unmarking, unmarking_original
from rescheduler.migration.observation import Scene, controller_of, has_ended, is_leaving, notes_of
from rescheduler.migration.placeholder import own_placeholder, releasing
from rescheduler.migration.protecting import unprotecting
from rescheduler.migration.rebuilding import disowning
from rescheduler.migration.steering import restoring
from rescheduler.migration.steps import Do, Done, Wait
from rescheduler.model import marks
from rescheduler.model.plan import Method


def leftovers(scene: Scene) -> Do | Wait | Done:
    """What is still to be taken back, the most dangerous first; Done when nothing of it is left."""
    restored = restoring(scene)
    # Its cost first: without the copy, a scaling down would hit the original.
    todo = [*(restored_cost(scene.original) if scene.original is not None else ()), *_copy(scene)]
    todo += restored.commands if isinstance(restored, Do) else ()
    todo += [*_held_back(scene), *disowning(scene), *releasing(scene)]
    todo += [*unprotecting(scene), *unmarking_original(scene), *unmarking(scene)]
    if todo:
        return Do(tuple(todo))
    if isinstance(restored, Wait):
        return restored
    if scene.copy is not None and is_leaving(scene.copy) and controller_of(scene.copy) is None:
        return Wait("the copy is ending", 1.0)
    if scene.seen.temporary_budget is not None and is_leaving(scene.seen.temporary_budget):
        return Wait("the temporary budget is being removed", 1.0)
    if own_placeholder(scene) is not None:
        return Wait("the placeholder is ending", 1.0)
    return Done()


def _copy(scene: Scene) -> list[Command]:
    copy, original = scene.copy, scene.original
    if copy is None or is_leaving(copy):
        return []
    # Without the original, a copy that has a node is the only pod there is; behind its gate it was never one.
    goes = original is None or is_leaving(original)
    alone = scene.migration.progress.method is Method.COPY and goes and bool(copy["spec"].get("nodeName"))
    if controller_of(copy) is None and not (alone and not has_ended(copy)):
        # If somebody has adopted it since we looked, it is a pod of theirs, and must not go.
        return [commands.delete(copy, "the move is rolled back", as_seen=True)]
    return letting_stay(scene, "failed")


def _held_back(scene: Scene) -> list[Command]:
    """What lets a replacement through the webhook's gate: from now on the scheduler may have it."""
    copy = scene.copy
    is_ours = copy is not None and notes_of(copy).get(marks.GATED) == scene.migration.name
    return letting_through(copy) if copy is not None and is_ours else []
