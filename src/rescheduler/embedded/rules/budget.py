"""The rules for PodDisruptionBudgets."""

from __future__ import annotations

from collections.abc import Iterator

from rescheduler.embedded.refusals import Fault, Json
from rescheduler.embedded.rules.faults import duplicate, negative, required, unsupported, wrong
from rescheduler.embedded.rules.selectors import selector_faults
from rescheduler.embedded.rules.shares import share_faults
from rescheduler.embedded.rules.typed import TypedRules

_POLICIES = ("AlwaysAllow", "IfHealthyBudget")
_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


class BudgetRules(TypedRules):
    """What holds for PodDisruptionBudgets."""

    def faults(self, body: Json, before: Json | None, subresource: str) -> list[Fault]:
        """What is wrong with a budget, or with its new status."""
        if before is not None and subresource == "status":
            return list(_status_faults(body["status"]))
        return list(_spec_faults(body["spec"]))


def _spec_faults(spec: Json) -> Iterator[Fault]:
    if "minAvailable" in spec and "maxUnavailable" in spec:
        yield wrong("spec", spec, "minAvailable and maxUnavailable cannot be both set")
    for key in ("minAvailable", "maxUnavailable"):
        if key in spec:
            yield from share_faults(f"spec.{key}", spec[key])
    yield from selector_faults("spec.selector", spec.get("selector"))
    policy = spec.get("unhealthyPodEvictionPolicy")
    if policy is not None and policy not in _POLICIES:
        yield unsupported("spec.unhealthyPodEvictionPolicy", policy, _POLICIES)


def _status_faults(status: Json) -> Iterator[Fault]:
    yield from condition_faults("status.conditions", status.get("conditions", []))
    for key in _COUNTS:
        yield from negative(f"status.{key}", status[key])


def condition_faults(path: str, conditions: list[Json]) -> Iterator[Fault]:
    """What is wrong with conditions of the general sort (metav1.Condition)."""
    seen: set[str] = set()
    for number, condition in enumerate(conditions):
        at = f"{path}[{number}]"
        if condition["type"] in seen:
            yield duplicate(at, condition["type"])
        seen.add(condition["type"])
        if not condition["type"]:
            yield required(f"{at}.type")
        if condition["status"] not in ("True", "False", "Unknown"):
            yield unsupported(f"{at}.status", condition["status"], ("False", "True", "Unknown"))
        yield from negative(f"{at}.observedGeneration", condition.get("observedGeneration"))
        if condition["lastTransitionTime"] is None:
            yield required(f"{at}.lastTransitionTime")
        if not condition["reason"]:
            yield required(f"{at}.reason")
