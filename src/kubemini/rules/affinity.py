"""What must hold for where a pod may go: affinity, topology spread, tolerations and scheduling gates.

`pod_spec` asks for pods and templates. Nodes' taints are here too, because they are the other half of tolerations.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kubemini.refusals import Fault, Json
from kubemini.rules import names
from kubemini.rules.faults import duplicate, each_wrong, required, unsupported, wrong
from kubemini.rules.selectors import (
    merged_key_faults,
    node_selector_faults,
    node_term_faults,
    selector_faults,
)

EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_WEIGHT = "must be in the range 1-100"


def affinity_faults(path: str, affinity: Json) -> Iterator[Fault]:
    """What is wrong with a pod's affinity to nodes and to other pods."""
    if nodes := affinity.get("nodeAffinity"):
        at = f"{path}.nodeAffinity"
        if _REQUIRED in nodes:
            yield from node_selector_faults(f"{at}.{_REQUIRED}", nodes[_REQUIRED])
        for number, term in enumerate(nodes.get(_PREFERRED, ())):
            here = f"{at}.{_PREFERRED}[{number}]"
            yield from _weight(here, term)
            yield from node_term_faults(f"{here}.preference", term["preference"], preferred=True)
    for sort in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(sort) or {}
        for number, term in enumerate(pods.get(_REQUIRED, ())):
            yield from _pod_term(f"{path}.{sort}.{_REQUIRED}[{number}]", term)
        for number, weighted in enumerate(pods.get(_PREFERRED, ())):
            here = f"{path}.{sort}.{_PREFERRED}[{number}]"
            yield from _weight(here, weighted)
            yield from _pod_term(f"{here}.podAffinityTerm", weighted["podAffinityTerm"])


def spread_faults(path: str, constraints: Sequence[Json]) -> Iterator[Fault]:
    """What is wrong with topology spread constraints."""
    for number, each in enumerate(constraints):
        at = f"{path}[{number}]"
        action = each["whenUnsatisfiable"]
        if each["maxSkew"] <= 0:
            yield wrong(f"{at}.maxSkew", each["maxSkew"], "must be greater than zero")
        if not each["topologyKey"]:
            yield required(f"{at}.topologyKey", "can not be empty")
        if action not in ("DoNotSchedule", "ScheduleAnyway"):
            yield unsupported(f"{at}.whenUnsatisfiable", action, ("DoNotSchedule", "ScheduleAnyway"))
        same = (each["topologyKey"], action)
        if any((later["topologyKey"], later["whenUnsatisfiable"]) == same for later in constraints[number + 1 :]):
            yield duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", f"{{{same[0]}, {same[1]}}}")
        if (least := each.get("minDomains")) is not None:
            if least <= 0:
                yield wrong(f"{at}.minDomains", least, "must be greater than zero")
            if action != "DoNotSchedule":
                why = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
                yield wrong(f"{at}.minDomains", least, why)
        for policy in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
            if policy in each and each[policy] not in ("Honor", "Ignore"):
                yield unsupported(f"{at}.{policy}", each[policy], ("Honor", "Ignore"))
        yield from merged_key_faults(at, each)
        yield from selector_faults(f"{at}.labelSelector", each.get("labelSelector"))


def toleration_faults(path: str, tolerations: Iterable[Json]) -> Iterator[Fault]:
    """What is wrong with tolerations."""
    for number, each in enumerate(tolerations):
        at = f"{path}[{number}]"
        key, operator, value = each.get("key", ""), each.get("operator", ""), each.get("value", "")
        effect = each.get("effect", "")
        if key:
            yield from each_wrong(f"{at}.key", key, names.label_key(key))
        elif operator != "Exists":
            why = 'operator must be Exists when `key` is empty, which means "match all values and all keys"'
            yield wrong(f"{at}.operator", operator, why)
        if "tolerationSeconds" in each and effect != "NoExecute":
            yield wrong(f"{at}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
        yield from _toleration_value(at, operator, value)
        if effect and effect not in EFFECTS:
            yield unsupported(f"{at}.effect", effect, EFFECTS)


def taint_faults(path: str, taints: Iterable[Json]) -> Iterator[Fault]:
    """What is wrong with the taints of a node."""
    seen: set[tuple[str, str]] = set()
    for number, taint in enumerate(taints):
        at = f"{path}[{number}]"
        yield from each_wrong(f"{at}.key", taint["key"], names.label_key(taint["key"]))
        if details := names.label_value(taint.get("value", "")):
            yield wrong(f"{at}.value", taint["value"], ";".join(details))
        if not taint["effect"]:
            yield required(f"{at}.effect")
        elif taint["effect"] not in EFFECTS:
            yield unsupported(f"{at}.effect", taint["effect"], EFFECTS)
        this = (taint["key"], taint["effect"])
        if this in seen:
            yield duplicate(at, taint, "taints must be unique by key and effect pair")
        seen.add(this)


def gate_faults(path: str, gates: Iterable[Json]) -> Iterator[Fault]:
    """What is wrong with scheduling gates."""
    seen: set[str] = set()
    for number, gate in enumerate(gates):
        at, name = f"{path}[{number}]", gate["name"]
        yield from each_wrong(at, name, names.label_key(name))
        if name in seen:
            yield duplicate(at, name)
        seen.add(name)


def _weight(path: str, term: Json) -> Iterator[Fault]:
    if not 1 <= term["weight"] <= 100:
        yield wrong(f"{path}.weight", term["weight"], _WEIGHT)


def _pod_term(path: str, term: Json) -> Iterator[Fault]:
    yield from selector_faults(f"{path}.labelSelector", term.get("labelSelector"))
    yield from selector_faults(f"{path}.namespaceSelector", term.get("namespaceSelector"))
    for name in term.get("namespaces", ()):
        yield from each_wrong(f"{path}.namespace", name, names.label(name))
    yield from merged_key_faults(path, term)
    key = term["topologyKey"]
    if not key:
        yield required(f"{path}.topologyKey", "can not be empty")
    yield from each_wrong(f"{path}.topologyKey", key, names.label_key(key))


def _toleration_value(path: str, operator: str, value: str) -> Iterator[Fault]:
    match operator:
        case "" | "Equal":
            if details := names.label_value(value):
                yield wrong(f"{path}.operator", value, ";".join(details))
        case "Exists":
            if value:
                yield wrong(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'")
        case "Lt" | "Gt":  # known, but behind a feature gate
            yield unsupported(f"{path}.operator", operator, ("Equal", "Exists", "Lt", "Gt"))
        case other:
            yield unsupported(f"{path}.operator", other, ("Equal", "Exists"))
