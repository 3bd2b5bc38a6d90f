"""The rules for PodDisruptionBudgets."""

from __future__ import annotations

import re
from collections.abc import Iterator

from kubemini.refusals import Fault, Json
from kubemini.rules import names
from kubemini.rules.faults import (
    duplicate,
    each_wrong,
    negative,
    one_of,
    required,
    too_long,
    unsupported,
    wrong,
)
from kubemini.rules.selectors import selector_faults
from kubemini.rules.shares import share_faults
from kubemini.rules.typed import TypedRules

_POLICIES = ("AlwaysAllow", "IfHealthyBudget")
_REASON = re.compile(r"[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?")
_REASON_RULE = (
    "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric "
    "characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or "
    f"'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '{_REASON.pattern}')"
)
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
        else:
            yield from each_wrong(f"{at}.type", condition["type"], names.label_key(condition["type"]))
        yield from one_of(f"{at}.status", condition["status"], ("False", "True", "Unknown"))
        yield from negative(f"{at}.observedGeneration", condition.get("observedGeneration"))
        if condition["lastTransitionTime"] is None:
            yield required(f"{at}.lastTransitionTime")
        reason = condition["reason"]
        if not reason:
            yield required(f"{at}.reason")
        elif not _REASON.fullmatch(reason):
            yield wrong(f"{at}.reason", reason, _REASON_RULE)
        for key, text, most in (("reason", reason, 1024), ("message", condition["message"], 32768)):
            if len(text) > most:
                yield too_long(f"{at}.{key}", most)
