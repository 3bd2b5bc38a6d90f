"""Copy, then evict: for pods that nobody manages. Nobody would make them anew, so the copy must run first."""

from __future__ import annotations

from rescheduler.migration import commands
from rescheduler.migration.commands import Command
from rescheduler.migration.observation import Part, Scene, forbidding, has_ended, is_leaving, ready_for, unfit_target
from rescheduler.migration.replacement import from_pod, name_for
from rescheduler.migration.steps.common import (
    CreateCopy,
    Do,
    Done,
    GiveUp,
    Outlook,
    Plain,
    Wait,
    ending,
    with_replacement,
)
from rescheduler.model.json import Json
from rescheduler.model.migration import Progress


class CopyPod(CreateCopy):
    """Makes the copy from the pod itself."""

    def enter(self, scene: Scene) -> Progress:
        """Record what it will be called."""
        return with_replacement(scene, name_for(scene))

    def body(self, scene: Scene) -> Json:
        """The same pod, elsewhere."""
        return from_pod(scene)


class EvictOriginal(Plain):
    """Evicts the original, now that the copy is Ready, and waits until it is gone."""

    name = "EvictOriginal"
    needs = frozenset({Part.BUDGETS})

    def __init__(self, grace: int) -> None:
        self._grace = grace

    def look(self, scene: Scene) -> Outlook:
        """Done when only the copy is there."""
        original, copy = scene.original, scene.copy
        if original is None:
            return Done()
        if copy is None or has_ended(copy) or is_leaving(copy):
            return GiveUp("the copy is gone", retry=not is_leaving(original))
        if is_leaving(original):
            return ending(original)
        if ready_for(copy, scene.now) is None:
            return Wait("the copy is not Ready any more")
        refused = scene.seen.refused
        if refused is not None and refused.code == 500:
            return GiveUp(refused.message, retry=False)
        if unfit := unfit_target(scene):
            return GiveUp(unfit)
        if spent := forbidding(scene, scene.seen.budgets):
            return Wait(spent)
        if todo := _setting_free(scene, copy):
            return Do(todo)
        return Do((commands.evict(original, self._grace, "its copy has taken over"),))


def _setting_free(scene: Scene, copy: Json) -> tuple[Command, ...]:
    """What keeps the copy from going with its migration: from the eviction on it is the only pod there is."""
    owners = copy["metadata"].get("ownerReferences") or []
    others = [owner for owner in owners if owner["uid"] != scene.migration.uid]
    if len(others) == len(owners):
        return ()
    changes = {"ownerReferences": others, "resourceVersion": copy["metadata"]["resourceVersion"]}
    return (commands.patch(copy, {"metadata": changes}, "it must outlive its migration"),)
