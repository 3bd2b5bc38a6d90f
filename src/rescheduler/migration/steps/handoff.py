"""Handoff: a copy from the ReplicaSet's template becomes Ready on the target, then the ReplicaSet takes it for its own.

It works without a rollout, without a change of replicas and with no moment below the desired count: the copy gets the
label that was withheld from it, the ReplicaSet adopts it, is one over, and deletes the pod that costs least: the
original, because we said so just before. All of its pods must be Ready then, since those that are not go first.
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
    Plain,
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

    def enter(self, scene: StepContext) -> MigrationStatus:
        """Record what it will be called."""
        return record_replacement(scene, choose_name(scene))

    def body(self, scene: StepContext) -> Json:
        """Everything the template has, but for the label that would have it adopted at once."""
        return copy_from_template(scene, choose_withheld_labels(scene) or {})

    def look(self, scene: StepContext) -> Outlook:
        """Not while the workload changes, and only where a label can be withheld."""
        if scene.copy is None:
            if scene.seen.controller is None:
                return GiveUp("its ReplicaSet is gone", retry=False)
            if choose_withheld_labels(scene) is None:
                return GiveUp("every label of its selector is one that a Service or budget goes by", other_method=True)
            if changing := rollout_reason(scene):
                return Wait(changing)
        return super().look(scene)


class Cheapen(Plain):
    """Makes the original the pod that its ReplicaSet deletes first."""

    name = "Cheapen"
    needs = frozenset({ObservedPart.SIBLINGS})

    def look(self, scene: StepContext) -> Outlook:
        """Done when the original has the lowest deletion cost; not begun before its workload is quiet."""
        original = scene.original
        if original is None or is_terminating(original):
            return GiveUp("the pod is gone, and its ReplicaSet has replaced it", retry=False)
        if reason := unstable_reason(scene):
            return Wait(reason)
        if annotations_of(original).get(labels.DELETION_COST) == CHEAPEST:
            return Done()
        if unfit := target_problem(scene):
            return GiveUp(unfit)
        before = annotations_of(original).get(labels.DELETION_COST, "")
        notes = {labels.DELETION_COST: CHEAPEST, labels.COST_BEFORE: before}
        return Do((commands.patch(original, {"metadata": {"annotations": notes}}, "have the original go first"),))


class HandOver(Plain):
    """Gives the copy the label that was withheld, and waits until the ReplicaSet has chosen."""

    name = "HandOver"
    needs = frozenset({ObservedPart.SIBLINGS, ObservedPart.BUDGETS})

    def look(self, scene: StepContext) -> Outlook:
        """Done when the copy is adopted and the original goes or stays for good."""
        copy, original, controller = scene.copy, scene.original, scene.seen.controller
        if copy is None:
            return GiveUp("the copy is gone")
        if controller is None:
            return GiveUp("its ReplicaSet is gone", retry=False)
        if is_adopted(copy, controller):
            if original is None or is_terminating(original):
                return Done()
            return self._undecided(scene, controller, {original["metadata"]["uid"], copy["metadata"]["uid"]})
        if is_terminating(copy) or has_finished(copy):
            return GiveUp("the copy is gone")
        if _has_withheld(copy):
            return Wait("the ReplicaSet has not adopted the copy", 1.0)
        if original is None or is_terminating(original):
            return GiveUp("the pod is gone, and its ReplicaSet has replaced it", retry=False)
        if unfit := target_problem(scene):
            return GiveUp(unfit)
        reason = unstable_reason(scene) or (
            "" if ready_seconds(copy, scene.now) is not None else "the copy is not Ready any more"
        )
        if reason:
            return Wait(reason)
        if short := budget_shortfall(scene):  # the copy is not counted yet, or somebody else has used that it is
            return Wait(short, 0.5)
        return Do((self._label(copy),))

    def _undecided(self, scene: StepContext, controller: Json, both: set[str]) -> Outlook:
        # Decided on one list alone: the original was read at another moment, and may have begun to go since.
        wanted = controller["spec"].get("replicas", 1)
        active = [pod for pod in scene.seen.siblings if not is_terminating(pod) and not has_finished(pod)]
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


class AwaitGone(Plain):
    """Waits until the original has ended."""

    name = "AwaitGone"

    def look(self, scene: StepContext) -> Outlook:
        """Done when it is gone."""
        if scene.original is None:
            return Done()
        return (
            wait_for_end(scene.original) if is_terminating(scene.original) else GiveUp("the original stays after all")
        )


def _has_withheld(copy: Json) -> bool:
    withheld = json.loads(annotations_of(copy).get(labels.WITHHELD, "{}"))
    return bool(withheld.items() <= labels_of(copy).items())
