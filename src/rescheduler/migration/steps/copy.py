"""Copy, then evict: for pods without a controller. Nothing would recreate them, so the copy must run first."""

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
    Step,
    Wait,
    record_replacement,
    wait_for_end,
)
from rescheduler.model.json import Json
from rescheduler.model.migration import MigrationStatus


class CopyPod(CreateCopy):
    """Makes the copy from the pod itself."""

    def enter(self, context: StepContext) -> MigrationStatus:
        """Record what it will be called."""
        return record_replacement(context, choose_name(context))

    def body(self, context: StepContext) -> Json:
        """The same pod, elsewhere."""
        return copy_from_pod(context)


class EvictOriginal(Step):
    """Evicts the original, now that the copy is Ready, and waits until it is gone."""

    name = "EvictOriginal"
    needs = frozenset({ObservedPart.BUDGETS})

    def __init__(self, grace: int) -> None:
        self._grace = grace

    def look(self, context: StepContext) -> Outlook:
        """Done when only the copy is there."""
        original, copy = context.original, context.copy
        if original is None:
            return Done()
        if copy is None or has_finished(copy) or is_terminating(copy):
            return GiveUp("the copy is gone", retry=not is_terminating(original))
        if is_terminating(original):
            return wait_for_end(original)
        if ready_seconds(copy, context.now) is None:
            return Wait("the copy is not Ready any more")
        refused = context.seen.refused
        if refused is not None and refused.code == 500:
            return GiveUp(refused.message, retry=False)
        if unfit := target_problem(context):
            return GiveUp(unfit)
        if spent := blocking_budget(context, context.seen.budgets):
            return Wait(spent)
        if todo := _setting_free(context, copy):
            return Do(todo)
        return Do((commands.evict(original, self._grace, "its copy has taken over"),))


def _setting_free(context: StepContext, copy: Json) -> tuple[Command, ...]:
    """Remove the migration as the copy's owner: from the eviction on the copy is the only pod."""
    owners = copy["metadata"].get("ownerReferences") or []
    others = [owner for owner in owners if owner["uid"] != context.migration.uid]
    if len(others) == len(owners):
        return ()
    changes = {"ownerReferences": others, "resourceVersion": copy["metadata"]["resourceVersion"]}
    return (commands.patch(copy, {"metadata": changes}, "it must outlive its migration"),)
