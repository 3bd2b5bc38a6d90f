"""Disruption budgets, looked at before an eviction as the Eviction API itself will look at them.

Methods that evict ask twice: before they mark anything (`CheckBudgets`), so that a move that cannot be made now leaves
no trace, and right before they evict. What the server says to the eviction counts in the end.
"""

from __future__ import annotations

from collections.abc import Iterable

from rescheduler.migration.commands import Json
from rescheduler.migration.observation import Part, Scene, condition, has_ended, is_leaving, ready_for
from rescheduler.migration.steps import Done, GiveUp, Outlook, Plain, Wait


class CheckBudgets(Plain):
    """Waits, with nothing done yet, until the pod's disruption budget would let it go."""

    name = "CheckBudgets"
    needs = frozenset({Part.BUDGETS})

    def __init__(self, spare: int) -> None:
        self._spare = spare
        """How many more healthy pods there will be by then: a copy counts for the budget, too."""

    def look(self, scene: Scene) -> Outlook:
        """Done when no budget stands in the way."""
        if scene.original is None or is_leaving(scene.original):
            return GiveUp("the pod is gone", retry=False)
        if too_many := contradicting(scene):
            return GiveUp(too_many, retry=False)
        spent = forbidding(scene, scene.seen.budgets, self._spare)
        return Wait(spent) if spent else Done()


def contradicting(scene: Scene) -> str:
    """That several budgets select the pod: Kubernetes then evicts it never, whatever they allow."""
    if len(scene.seen.budgets) <= 1:
        return ""
    names = ", ".join(sorted(each["metadata"]["name"] for each in scene.seen.budgets))
    return f"budgets {names} all select it, so Kubernetes evicts it never"


def forbidding(scene: Scene, budgets: Iterable[Json], spare: int = 0) -> str:
    """Which budget does not let the original go now; empty when none does."""
    original = scene.original
    if original is None or has_ended(original):
        return ""
    healthy = ready_for(original, scene.now) is not None
    for budget in budgets:
        others = scene.seen.unadopted.get(budget["metadata"]["uid"], 0)
        if not (_allows(budget, spare, others) or (not healthy and _allows_unhealthy(budget))):
            return f"budget {budget['metadata']['name']} allows no disruption now"
    return ""


def falling_short(scene: Scene) -> str:
    """Which budget would have too few healthy pods without the original; empty when none would.

    The copy has its share in it: where nobody else is disturbed, it makes up for the original. A budget that its
    controller cannot reckon counts nobody, and says nothing.
    """
    for budget in scene.seen.budgets:
        status = budget.get("status", {})
        reckoned = condition(budget, "DisruptionAllowed").get("reason") != "SyncFailed"
        spare = status.get("currentHealthy", 0) - status.get("desiredHealthy", 0)
        # An eviction takes from what is allowed at once; the healthy are counted anew a moment later.
        if reckoned and min(spare, status.get("disruptionsAllowed", spare)) < 1:
            return f"budget {budget['metadata']['name']} would have too few healthy pods without the original"
    return ""


def _allows(budget: Json, spare: int, others: int) -> bool:
    status = budget.get("status", {})
    if status.get("disruptionsAllowed", 0) - others >= 1:
        return True
    return bool(spare and status.get("currentHealthy", 0) - others + spare > status.get("desiredHealthy", 0))


def _allows_unhealthy(budget: Json) -> bool:
    """A pod that is not Ready counts for nothing, so it may go while enough others are healthy, or always."""
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget.get("status", {})
    return bool(0 < status.get("desiredHealthy", 0) <= status.get("currentHealthy", 0))
