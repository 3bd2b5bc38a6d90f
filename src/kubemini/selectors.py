"""Selectors, taints and tolerations of stored objects, as the planner's own types.

The planner and the embedded cluster decide by the same code which labels a selector matches and which taints a pod
tolerates.
"""

from __future__ import annotations

from collections.abc import Callable

from kubemini.errors import Json
from rescheduler.model.selector import Labels, Operator, Requirement, Selector, SelectorError, requirement, selector_of
from rescheduler.model.shape import NodeTerm, Taint, Toleration


def label_selector(found: Json | None) -> Selector | None:
    """Parse the object form of a label selector; an absent or wrong one is None and selects nothing."""
    if found is None:
        return None
    try:
        equal = [requirement(key, "In", [value]) for key, value in (found.get("matchLabels") or {}).items()]
        return selector_of([*equal, *_requirements(found.get("matchExpressions"), node=False)])
    except SelectorError:
        return None


def workload_selector(body: Json) -> Selector | None:
    """The selector of a workload; an empty one selects nothing there."""
    selector = label_selector(body["spec"].get("selector"))
    return selector if selector is not None and selector.requirements else None


def matcher(selector: Selector) -> Callable[[Labels], bool]:
    """A fast form of `selector.matches`: most selectors are labels with one value each."""
    equal = {
        each.key: each.values[0]
        for each in selector.requirements
        if each.operator is Operator.IN and len(each.values) == 1
    }
    if len(equal) < len(selector.requirements):
        return selector.matches
    wanted = equal.items()
    return lambda labels: wanted <= labels.items()


def node_terms(selector: Json | None) -> tuple[NodeTerm, ...] | None:
    """The terms of a node selector, of which one must match; None where there is no selector."""
    if selector is None:
        return None
    return tuple(_node_term(term) for term in selector.get("nodeSelectorTerms") or ())


def terms_match(terms: tuple[NodeTerm, ...] | None, labels: Labels, name: str) -> bool:
    """Whether a node with this name and these labels is selected."""
    return terms is None or any(term.matches(labels, name) for term in terms)


def taints_of(node: Json) -> list[Taint]:
    """The taints of a node."""
    found = node.get("spec", {}).get("taints") or ()
    return [Taint(each["key"], each.get("value", ""), each["effect"]) for each in found]


def toleration(found: Json) -> Toleration:
    """Parse one toleration of a pod."""
    values = (found.get(key) or "" for key in ("key", "operator", "value", "effect"))
    return Toleration(*values)


def _node_term(term: Json) -> NodeTerm:
    try:
        expressions = _requirements(term.get("matchExpressions"), node=True)
        fields = _requirements(term.get("matchFields"), node=True)
    except SelectorError:
        return NodeTerm((), ())  # as in Kubernetes: a term that cannot be parsed matches no node
    return NodeTerm(tuple(expressions), tuple(fields))


def _requirements(found: list[Json] | None, *, node: bool) -> list[Requirement]:
    return [requirement(each["key"], each["operator"], each.get("values"), node=node) for each in found or ()]
