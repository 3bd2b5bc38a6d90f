"""What an object counts for against quotas: pure arithmetic over one object and one quota's scopes.

`kubemini.quota` sums it up and compares. Amounts are in thousandths, because nothing finer is kept.
"""

from __future__ import annotations

from fractions import Fraction

from kubemini.kinds import CLAIM, POD, SERVICE, Kind
from kubemini.refusals import Json
from kubemini.rules.pod import TERMINAL
from kubemini.rules.pod_resources import all_containers, is_pod_level, pod_totals, quality_of_service
from kubemini.rules.quantities import amount
from kubemini.rules.resources import is_extended, is_huge_pages

Usage = dict[str, int]

_ONE = 1000
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_PER_CONTAINER = frozenset({"cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"})
# These can be counted by their plural alone, from times before there was `count/…`.
_PLAIN = frozenset({"services", "secrets", "configmaps", "persistentvolumeclaims", "resourcequotas"})
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


def usage_of(kind: Kind, body: Json) -> Usage:
    """Everything that an object could be counted for."""
    found: Usage = {f"count/{kind.resource}": _ONE}
    if kind.resource in _PLAIN:
        found[kind.resource] = _ONE
    match kind.resource:
        case POD.resource:
            found |= _pod_usage(body)
        case CLAIM.resource:
            found |= _claim_usage(body["spec"])
        case SERVICE.resource:
            found |= _service_usage(body["spec"])
        case _:
            pass
    return found


def in_scope(kind: Kind, body: Json, quota: Json) -> bool:
    """Whether a quota counts an object at all."""
    wanted = [{"scopeName": scope, "operator": "Exists"} for scope in quota.get("scopes", ())]
    wanted += (quota.get("scopeSelector") or {}).get("matchExpressions", ())
    if not wanted:
        return True
    return kind.resource == POD.resource and all(_matches(body, each) for each in wanted)


def missing(body: Json, hard: Json) -> str:
    """What a quota on CPU or memory wants every container of a pod to say, and they do not; empty if all is said."""
    spec = body["spec"]
    if any(is_pod_level(name) for part in (spec.get("resources") or {}).values() for name in part):
        return ""
    lacking: dict[str, list[str]] = {}
    for name in sorted(_PER_CONTAINER & set(hard)):
        part, _, resource = name.rpartition(".")
        for container in all_containers(spec):
            if resource not in container["resources"].get(part or "requests", {}):
                lacking.setdefault(name, []).append(container["name"])
    return "; ".join(f"{name} for: {','.join(sorted(set(who)))}" for name, who in lacking.items())


def thousandths(quantity: str) -> int:
    """A quantity as it is summed up."""
    return _whole(amount(quantity))


def _pod_usage(body: Json) -> Usage:
    if body.get("status", {}).get("phase") in TERMINAL:
        return {}
    spec = body["spec"]
    requests, limits = pod_totals(spec, "requests"), pod_totals(spec, "limits")
    found: Usage = {"pods": _ONE}
    for name in _COMPUTE:
        if name in requests:
            found[name] = found[f"requests.{name}"] = _whole(requests[name])
        if name in limits:
            found[f"limits.{name}"] = _whole(limits[name])
    for name, value in requests.items():
        if is_huge_pages(name):
            found[name] = found[f"requests.{name}"] = _whole(value)
        elif is_extended(name):
            found[f"requests.{name}"] = _whole(value)
    return found


def _claim_usage(spec: Json) -> Usage:
    size = thousandths(spec["resources"].get("requests", {}).get("storage", "0"))
    found: Usage = {"requests.storage": size}
    if name := spec.get("storageClassName"):
        found[f"{name}.storageclass.storage.k8s.io/requests.storage"] = size
        found[f"{name}.storageclass.storage.k8s.io/persistentvolumeclaims"] = _ONE
    return found


def _service_usage(spec: Json) -> Usage:
    ports = len(spec.get("ports", ()))
    match spec.get("type"):
        case "NodePort":
            return {"services.nodeports": ports * _ONE}
        case "LoadBalancer":
            given = ports if spec.get("allocateLoadBalancerNodePorts", True) else 0
            return {"services.loadbalancers": _ONE, "services.nodeports": given * _ONE}
        case _:
            return {}


def _matches(pod: Json, wanted: Json) -> bool:
    spec = pod["spec"]
    quality = pod.get("status", {}).get("qosClass") or quality_of_service(spec)
    match wanted["scopeName"]:
        case "Terminating":
            return "activeDeadlineSeconds" in spec
        case "NotTerminating":
            return "activeDeadlineSeconds" not in spec
        case "BestEffort":
            return quality == "BestEffort"
        case "NotBestEffort":
            return quality != "BestEffort"
        case "PriorityClass":
            return _has_class(spec.get("priorityClassName", ""), wanted)
        case "CrossNamespacePodAffinity":
            return _reaches_elsewhere(spec.get("affinity") or {})
        case _:
            return False


def _has_class(name: str, wanted: Json) -> bool:
    match wanted["operator"]:
        case "Exists":
            return bool(name)
        case "DoesNotExist":
            return not name
        case "In":
            return name in wanted.get("values", ())
        case _:
            return name not in wanted.get("values", ())


def _reaches_elsewhere(affinity: Json) -> bool:
    terms = [
        term
        for sort in ("podAffinity", "podAntiAffinity")
        for term in (
            *(affinity.get(sort) or {}).get(_REQUIRED, ()),
            *(weighted["podAffinityTerm"] for weighted in (affinity.get(sort) or {}).get(_PREFERRED, ())),
        )
    ]
    return any(term.get("namespaces") or "namespaceSelector" in term for term in terms)


def _whole(value: Fraction) -> int:
    return -(-value.numerator * 1000 // value.denominator)
