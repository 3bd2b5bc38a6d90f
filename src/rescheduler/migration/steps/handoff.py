"""Handoff: a copy from the ReplicaSet's template becomes Ready on the target, then the ReplicaSet adopts it.

There is no rollout, no change of replicas and no moment below the desired count. The copy gets the label that was
withheld, the ReplicaSet adopts it, has one pod too many and deletes the one with the lowest deletion cost: the
original, which got it just before. All other pods must be Ready, because a pod that is not would be deleted first.
"""

from __future__ import annotations

import json

from rescheduler.migration import commands
from rescheduler.migration.commands import Command
from rescheduler.migration.observation import (
    ObservedPart,
    StepContext,
    budget_shortfall,
    has_finished,
    is_terminating,
    labels_of,
    ready_seconds,
    target_problem,
)
from rescheduler.migration.replacement import choose_name, choose_withheld_labels, copy_from_template
from rescheduler.migration.steps.common import (
    CreateCopy,
    Do,
    Done,
    GiveUp,
    Outlook,
    Step,
    Wait,
    is_adopted,
    is_observed,
    record_replacement,
    rollout_reason,
    unstable_reason,
    wait_for_end,
)
from rescheduler.model import labels
from rescheduler.model.json import Json, annotations_of
from rescheduler.model.migration import MigrationStatus

CHEAPEST = "-2147483647"


class CopyTemplate(CreateCopy):
    """Makes the copy from the ReplicaSet's template."""

    needs = frozenset({ObservedPart.SERVICES, ObservedPart.BUDGETS})

    def enter(self, context: StepContext) -> MigrationStatus:
        """Record what it will be called."""
        return record_replacement(context, choose_name(context))

    def body(self, context: StepContext) -> Json:
        """The template's pod, without the label by which the ReplicaSet would adopt it at once."""
        return copy_from_template(context, choose_withheld_labels(context) or {})

    def look(self, context: StepContext) -> Outlook:
        """Done when the copy is there; not begun during a rollout, or if no label can be withheld."""
        if context.copy is None:
            if context.seen.controller is None:
                return GiveUp("its ReplicaSet is gone", retry=False)
            if choose_withheld_labels(context) is None:
                return GiveUp("every label of its selector is one that a Service or budget goes by", other_method=True)
            if changing := rollout_reason(context):
                return Wait(changing)
        return super().look(context)


class Cheapen(Step):
    """Makes the original the pod that its ReplicaSet deletes first."""

    name = "Cheapen"
    needs = frozenset({ObservedPart.SIBLINGS})

    def look(self, context: StepContext) -> Outlook:
        """Done when the original has the lowest deletion cost; not begun before its workload is stable."""
        original = context.original
        if original is None or is_terminating(original):
            return GiveUp("the pod is gone, and its ReplicaSet has replaced it", retry=False)
        if reason := unstable_reason(context):
            return Wait(reason)
        if annotations_of(original).get(labels.DELETION_COST) == CHEAPEST:
            return Done()
        if unfit := target_problem(context):
            return GiveUp(unfit)
        before = annotations_of(original).get(labels.DELETION_COST, "")
        notes = {labels.DELETION_COST: CHEAPEST, labels.COST_BEFORE: before}
        return Do((commands.patch(original, {"metadata": {"annotations": notes}}, "have the original go first"),))


class HandOver(Step):
    """Gives the copy the label that was withheld, and waits until the ReplicaSet has chosen."""

    name = "HandOver"
    needs = frozenset({ObservedPart.SIBLINGS, ObservedPart.BUDGETS})

    def look(self, context: StepContext) -> Outlook:
        """Done when the copy is adopted and the original goes or stays for good."""
        copy, original, controller = context.copy, context.original, context.seen.controller
        if copy is None:
            return GiveUp("the copy is gone")
        if controller is None:
            return GiveUp("its ReplicaSet is gone", retry=False)
        if is_adopted(copy, controller):
            if original is None or is_terminating(original):
                return Done()
            return self._undecided(context, controller, {original["metadata"]["uid"], copy["metadata"]["uid"]})
        if is_terminating(copy) or has_finished(copy):
            return GiveUp("the copy is gone")
        if _has_withheld(copy):
            return Wait("the ReplicaSet has not adopted the copy", 1.0)
        if original is None or is_terminating(original):
            return GiveUp("the pod is gone, and its ReplicaSet has replaced it", retry=False)
        if unfit := target_problem(context):
            return GiveUp(unfit)
        reason = unstable_reason(context) or (
            "" if ready_seconds(copy, context.now) is not None else "the copy is not Ready any more"
        )
        if reason:
            return Wait(reason)
        if short := budget_shortfall(context):  # the copy is not counted yet, or another eviction used it up
            return Wait(short, 0.5)
        return Do((self._label(copy),))

    def _undecided(self, context: StepContext, controller: Json, both: set[str]) -> Outlook:
        # Decided on one list alone: the original was read at another moment, and may have begun to go since.
        wanted = controller["spec"].get("replicas", 1)
        active = [pod for pod in context.seen.siblings if not is_terminating(pod) and not has_finished(pod)]
        staying = {pod["metadata"]["uid"] for pod in active}
        if is_observed(controller) and both <= staying and len(active) <= wanted:
            # Scaled up meanwhile, or another pod went: then the copy is one of those wanted, and the original stays.
            return GiveUp(
                "its workload was scaled meanwhile: the copy was adopted, and nothing was to be removed", retry=False
            )
        return Wait("the ReplicaSet has not removed the original yet", 1.0)

    def _label(self, copy: Json) -> Command:
        withheld = json.loads(annotations_of(copy)[labels.WITHHELD])
        return commands.patch(copy, {"metadata": {"labels": withheld}}, "hand over to the copy")


class AwaitGone(Step):
    """Waits until the original has ended."""

    name = "AwaitGone"

    def look(self, context: StepContext) -> Outlook:
        """Done when it is gone."""
        if context.original is None:
            return Done()
        return (
            wait_for_end(context.original)
            if is_terminating(context.original)
            else GiveUp("the original stays after all")
        )


def _has_withheld(copy: Json) -> bool:
    withheld = json.loads(annotations_of(copy).get(labels.WITHHELD, "{}"))
    return bool(withheld.items() <= labels_of(copy).items())
