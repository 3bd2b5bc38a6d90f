from __future__ import annotations

from rescheduler.model.objects import Pod
from rescheduler.planning.guards.base import Guard, GuardContext


@Guard(order=260, caption="No disruption budget", changed_by="`filters.withoutDisruptionBudget`")
def without_disruption_budget(pod: Pod, context: GuardContext) -> str:
    """Pods that no disruption budget selects, where filters.withoutDisruptionBudget is false."""
    if context.policy.filters.without_disruption_budget or context.lifts_filters(pod):
        return ""
    budgets = context.budgets.get(pod.namespace, ())
    if any(budget.selector is not None and budget.selector.matches(pod.labels) for budget in budgets):
        return ""
    return "no disruption budget selects it, and filters.withoutDisruptionBudget is false"
