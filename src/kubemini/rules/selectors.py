"""What must hold for labels and for selectors: of labels, of nodes, and the keys that are merged into them.

Workloads, budgets, affinity, volumes and webhooks have selectors; their rules ask here. `matcher` makes a selector
that can be asked of the object form, for rules that compare a selector with labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kubemini.refusals import Fault, Json
from kubemini.rules import names
from kubemini.rules.faults import each_wrong, not_allowed, required, wrong
from rescheduler.model.selector import Selector, SelectorError, requirement, selector_of

_NEEDS_VALUES = "must be specified when `operator` is 'In' or 'NotIn'"
_TAKES_NO_VALUES = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"
_NO_OPERATOR = "not a valid selector operator"


def matcher(selector: Json | None) -> Selector | None:
    """A selector to match labels with; nothing if there is none, or one that makes no sense."""
    if selector is None:
        return None
    try:
        wanted = [requirement(key, "In", [value]) for key, value in selector.get("matchLabels", {}).items()]
        wanted += [
            requirement(each["key"], each["operator"], each.get("values"))
            for each in selector.get("matchExpressions", ())
        ]
    except SelectorError:
        return None
    return selector_of(wanted)


def is_empty(selector: Json) -> bool:
    """Whether a selector asks for nothing."""
    return not selector.get("matchLabels") and not selector.get("matchExpressions")


def labels_faults(path: str, labels: Mapping[str, str]) -> Iterator[Fault]:
    """What is wrong with labels."""
    for key, value in labels.items():
        if details := names.label_key(key):
            yield from each_wrong(path, key, details)
        if details := names.label_value(value):
            yield from each_wrong(path, value, details)


def selector_faults(path: str, selector: Json | None) -> Iterator[Fault]:
    """What is wrong with a label selector; none at all is fine here."""
    if selector is None:
        return
    yield from labels_faults(f"{path}.matchLabels", selector.get("matchLabels", {}))
    for number, each in enumerate(selector.get("matchExpressions", ())):
        at = f"{path}.matchExpressions[{number}]"
        values = each.get("values", ())
        match each["operator"]:
            case "In" | "NotIn":
                if not values:
                    yield required(f"{at}.values", _NEEDS_VALUES)
            case "Exists" | "DoesNotExist":
                if values:
                    yield not_allowed(f"{at}.values", _TAKES_NO_VALUES)
            case other:
                yield wrong(f"{at}.operator", other, _NO_OPERATOR)
        yield from each_wrong(f"{at}.key", each["key"], names.label_key(each["key"]))
        for index, value in enumerate(values):
            yield from each_wrong(f"{at}.values[{index}]", value, names.label_value(value))


def node_selector_faults(path: str, selector: Json) -> Iterator[Fault]:
    """What is wrong with a node selector that must hold."""
    terms = selector["nodeSelectorTerms"] or ()
    if not terms:
        yield required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
    for number, term in enumerate(terms):
        yield from node_term_faults(f"{path}.nodeSelectorTerms[{number}]", term)


def node_term_faults(path: str, term: Json, *, preferred: bool = False) -> Iterator[Fault]:
    """What is wrong with one term; values of a term that is only preferred are not looked at."""
    for number, each in enumerate(term.get("matchExpressions", ())):
        yield from _node_requirement(f"{path}.matchExpressions[{number}]", each, preferred=preferred)
    for number, each in enumerate(term.get("matchFields", ())):
        yield from _node_field(f"{path}.matchFields[{number}]", each)


def _node_requirement(path: str, each: Json, *, preferred: bool) -> Iterator[Fault]:
    values = each.get("values", ())
    match each["operator"]:
        case "In" | "NotIn":
            if not values:
                yield required(f"{path}.values", _NEEDS_VALUES)
        case "Exists" | "DoesNotExist":
            if values:
                yield not_allowed(f"{path}.values", _TAKES_NO_VALUES)
        case "Gt" | "Lt":
            if len(values) != 1:
                yield required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        case other:
            yield wrong(f"{path}.operator", other, _NO_OPERATOR)
    yield from each_wrong(f"{path}.key", each["key"], names.label_key(each["key"]))
    if not preferred:
        for index, value in enumerate(values):
            yield from each_wrong(f"{path}.values[{index}]", value, names.label_value(value))


def _node_field(path: str, each: Json) -> Iterator[Fault]:
    values = each.get("values", ())
    if each["operator"] not in ("In", "NotIn"):
        yield wrong(f"{path}.operator", each["operator"], _NO_OPERATOR)
    elif len(values) != 1:
        yield required(
            f"{path}.values", "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        )
    if each["key"] != "metadata.name":
        yield wrong(f"{path}.key", each["key"], "not a valid field selector key")
    else:
        for index, value in enumerate(values):
            yield from each_wrong(f"{path}.values[{index}]", value, names.subdomain(value))


def merged_key_faults(path: str, owner: Json) -> Iterator[Fault]:
    """What is wrong with `matchLabelKeys` and `mismatchLabelKeys` beside a label selector."""
    selector = owner.get("labelSelector")
    matching, mismatching = owner.get("matchLabelKeys", ()), owner.get("mismatchLabelKeys", ())
    yield from _label_keys(f"{path}.matchLabelKeys", matching, selector)
    yield from _label_keys(f"{path}.mismatchLabelKeys", mismatching, selector)
    seen = set(selector.get("matchLabels", ())) if selector else set()
    for each in selector.get("matchExpressions", ()) if selector else ():
        key = each["key"]
        if key in matching and key in seen:  # once is what the API server itself has merged in
            at = f"{path}[{list(matching).index(key)}]"
            yield wrong(at, key, "exists in both matchLabelKeys and labelSelector")
        seen.add(key)
    for number, key in enumerate(matching):
        if key in mismatching:
            at = f"{path}.matchLabelKeys[{number}]"
            yield wrong(at, key, "exists in both matchLabelKeys and mismatchLabelKeys")


def _label_keys(path: str, keys: Sequence[str], selector: Json | None) -> Iterator[Fault]:
    if keys and selector is None:
        yield not_allowed(path, "must not be specified when labelSelector is not set")
        return
    for number, key in enumerate(keys):
        yield from each_wrong(f"{path}[{number}]", key, names.label_key(key))
