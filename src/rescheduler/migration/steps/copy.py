"""Copy, then evict: for pods that nobody manages. Nobody would make them anew, so the copy must run first."""

from __future__ import annotations

from rescheduler.migration import commands
from rescheduler.migration.commands import Command
from rescheduler.migration.observation import (
    ObservedPart,
    StepContext,
    blocking_budget,
    has_finished,
    is_terminating,
    ready_seconds,
    target_problem,
)
from rescheduler.migration.replacement import choose_name, copy_from_pod
from rescheduler.migration.steps.common import (
    CreateCopy,
    Do,
    Done,
    GiveUp,
    Outlook,
    Plain,
    Wait,
    record_replacement,
    wait_for_end,
)
from rescheduler.model.json import Json
from rescheduler.model.migration import MigrationStatus


class CopyPod(CreateCopy):
    """Makes the copy from the pod itself."""

    def enter(self, scene: StepContext) -> MigrationStatus:
        """Record what it will be called."""
        return record_replacement(scene, choose_name(scene))

    def body(self, scene: StepContext) -> Json:
        """The same pod, elsewhere."""
        return copy_from_pod(scene)


class EvictOriginal(Plain):
    """Evicts the original, now that the copy is Ready, and waits until it is gone."""

    name = "EvictOriginal"
    needs = frozenset({ObservedPart.BUDGETS})

    def __init__(self, grace: int) -> None:
        self._grace = grace

    def look(self, scene: StepContext) -> Outlook:
        """Done when only the copy is there."""
        original, copy = scene.original, scene.copy
        if original is None:
            return Done()
        if copy is None or has_finished(copy) or is_terminating(copy):
            return GiveUp("the copy is gone", retry=not is_terminating(original))
        if is_terminating(original):
            return wait_for_end(original)
        if ready_seconds(copy, scene.now) is None:
            return Wait("the copy is not Ready any more")
        refused = scene.seen.refused
        if refused is not None and refused.code == 500:
            return GiveUp(refused.message, retry=False)
        if unfit := target_problem(scene):
            return GiveUp(unfit)
        if spent := blocking_budget(scene, scene.seen.budgets):
            return Wait(spent)
        if todo := _setting_free(scene, copy):
            return Do(todo)
        return Do((commands.evict(original, self._grace, "its copy has taken over"),))


def _setting_free(scene: StepContext, copy: Json) -> tuple[Command, ...]:
    """What keeps the copy from going with its migration: from the eviction on it is the only pod there is."""
    owners = copy["metadata"].get("ownerReferences") or []
    others = [owner for owner in owners if owner["uid"] != scene.migration.uid]
    if len(others) == len(owners):
        return ()
    changes = {"ownerReferences": others, "resourceVersion": copy["metadata"]["resourceVersion"]}
    return (commands.patch(copy, {"metadata": changes}, "it must outlive its migration"),)
