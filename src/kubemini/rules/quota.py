"""The rules for ResourceQuotas, as objects. What they forbid is counted by `kubemini.quota`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kubemini.refusals import Fault, Json
from kubemini.rules.faults import required, wrong
from kubemini.rules.resources import QUOTA_RESOURCES, amount_faults, quota_resource
from kubemini.rules.typed import TypedRules

_BARE = frozenset({"Terminating", "NotTerminating", "BestEffort", "NotBestEffort", "CrossNamespacePodAffinity"})
_SCOPES = _BARE | {"PriorityClass", "VolumeAttributesClass"}
_COMPUTE = frozenset({"cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"})
_CONFLICTS = (frozenset({"BestEffort", "NotBestEffort"}), frozenset({"Terminating", "NotTerminating"}))


class QuotaRules(TypedRules):
    """What holds for ResourceQuotas."""

    def faults(self, body: Json, before: Json | None, subresource: str) -> list[Fault]:
        """What is wrong with a quota."""
        found: list[Fault] = []
        for path, amounts in (
            ("spec.hard", body["spec"].get("hard", {})),
            ("status.hard", body["status"].get("hard", {})),
            ("status.used", body["status"].get("used", {})),
        ):
            for name, quantity in amounts.items():
                found += quota_resource(f"{path}[{name}]", name)
                found += amount_faults(f"{path}[{name}]", name, quantity)
        if subresource == "status":
            return found
        spec = body["spec"]
        found += _scope_faults("spec.scopes", spec.get("scopes", ()), spec)
        found += _selector_faults("spec.scopeSelector.matchExpressions", spec)
        if before is not None and set(spec.get("scopes", ())) != set(before["spec"].get("scopes", ())):
            found.append(wrong("spec.scopes", spec.get("scopes"), "field is immutable"))
        return found


def _scope_faults(path: str, scopes: Iterable[str], spec: Json) -> Iterator[Fault]:
    scopes = list(scopes)
    for scope in scopes:
        if scope not in _SCOPES:
            yield wrong(path, scopes, "unsupported scope")
        for name in spec.get("hard", ()):
            if name in QUOTA_RESOURCES and not _applies(scope, name):
                yield wrong(path, scopes, "unsupported scope applied to resource")
    if any(pair <= set(scopes) for pair in _CONFLICTS):
        yield wrong(path, scopes, "conflicting scopes")


def _selector_faults(path: str, spec: Json) -> Iterator[Fault]:
    for each in (spec.get("scopeSelector") or {}).get("matchExpressions", ()):
        scope, operator, values = each["scopeName"], each["operator"], each.get("values", [])
        if scope not in _SCOPES:
            yield wrong(f"{path}.scopeName", scope, "unsupported scope")
        for name in spec.get("hard", ()):
            if name in QUOTA_RESOURCES and not _applies(scope, name):
                yield wrong(path, spec["scopeSelector"], "unsupported scope applied to resource")
        if scope in _BARE and operator != "Exists":
            named = ", ".join(f"ResourceQuotaScope{one}" for one in ("Terminating", "NotTerminating", "BestEffort"))
            more = "ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
            yield wrong(f"{path}.operator", operator, f"must be 'Exists' when scope is any of {named}, {more}")
        match operator:
            case "In" | "NotIn":
                if not values:
                    why = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                    yield required(f"{path}.values", why)
            case "Exists" | "DoesNotExist":
                if values:
                    why = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                    yield wrong(f"{path}.values", values, why)
            case _:
                yield wrong(f"{path}.operator", operator, "not a valid selector operator")


def _applies(scope: str, name: str) -> bool:
    """Whether a scope makes sense for what is counted."""
    match scope:
        case "BestEffort":
            return name == "pods"
        case "VolumeAttributesClass":
            return name in ("persistentvolumeclaims", "requests.storage")
        case "Terminating" | "NotTerminating" | "NotBestEffort" | "PriorityClass" | "CrossNamespacePodAffinity":
            return name == "pods" or name in _COMPUTE
        case _:
            return True
