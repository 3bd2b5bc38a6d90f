"""The temporary disruption budget that protects a workload without one while a pod of it is evicted."""

from __future__ import annotations

from rescheduler.migration import commands
from rescheduler.migration.observation import (
    StepContext,
    is_terminating,
    labels_of,
    overlapping_budgets,
    target_problem,
    unready_sibling,
)
from rescheduler.migration.replacement import owner_reference
from rescheduler.migration.steps.common import (
    Do,
    Done,
    GiveUp,
    Outlook,
    Step,
    Wait,
    is_observed,
    rollout_reason,
    workload_of,
)
from rescheduler.model import labels
from rescheduler.model.json import Json


class Protect(Step):
    """Makes a temporary disruption budget where none selects the pod."""

    name = "Protect"

    def __init__(self, budget: Json) -> None:
        self._budget = budget
        """What it allows: `{"minAvailable": 1}` or `{"maxUnavailable": "25%"}`."""

    def look(self, context: StepContext) -> Outlook:
        """Done when exactly one budget selects the pod: two would forbid every eviction."""
        if context.original is None or is_terminating(context.original):
            return GiveUp("the pod is gone", retry=False)
        if too_many := overlapping_budgets(context):
            return GiveUp(too_many, retry=False)
        if unfit := target_problem(context):
            return GiveUp(unfit)
        workload, controller, ours = workload_of(context), context.seen.controller, context.seen.temporary_budget
        if controller is not None and (busy := rollout_reason(context) or unready_sibling(context)):
            return Wait(busy)
        if ours is not None and not _is_own(ours, context):
            return Wait(f"migration {labels_of(ours)[labels.MIGRATION_ID]} is evicting a pod of the same workload")
        if context.seen.budgets or workload is None or controller is None:
            return Done()
        if ours is not None:
            return Done() if is_observed(ours) else Wait("the budget has no status yet", 1.0)
        if not _spares_one(controller, self._budget):
            return Done()  # with so few replicas it would forbid the eviction that it should make safe
        migration = context.migration
        body = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {
                "name": temporary_budget_name(workload),
                "namespace": migration.namespace,
                "labels": {labels.MANAGED_BY: labels.MANAGER, labels.MIGRATION_ID: migration.name},
                "ownerReferences": [owner_reference(migration)],
            },
            # A pod that is not Ready is not what it protects: one that crashes may go, however few are healthy.
            "spec": {
                **self._budget,
                "selector": controller["spec"]["selector"],
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
            },
        }
        return Do((commands.create(body, "protect the workload while a pod of it is evicted"),))


class Unprotect(Step):
    """Removes the temporary budget."""

    name = "Unprotect"

    def look(self, context: StepContext) -> Outlook:
        """Done when it is gone."""
        todo = remove_budget(context)
        return Do(tuple(todo)) if todo else Done()


def temporary_budget_name(workload: Json) -> str:
    """`<deployment>-rescheduler-pdb`, cut to fit."""
    ending = "-rescheduler-pdb"
    return str(workload["metadata"]["name"])[: 253 - len(ending)].rstrip("-.") + ending


def remove_budget(context: StepContext) -> list[commands.Command]:
    """Remove this migration's temporary budget."""
    ours = context.seen.temporary_budget
    if ours is None or is_terminating(ours) or not _is_own(ours, context):
        return []
    return [commands.delete(ours, "it was temporary")]


def _is_own(budget: Json, context: StepContext) -> bool:
    return labels_of(budget).get(labels.MIGRATION_ID) == context.migration.name


def _spares_one(controller: Json, budget: Json) -> bool:
    """Whether a budget allows one eviction, given the desired replicas."""
    wanted = controller["spec"].get("replicas", 1)
    least = budget.get("minAvailable")
    return not isinstance(least, int) or wanted > least
