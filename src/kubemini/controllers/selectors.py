"""Selectors, taints and tolerations as the embedded objects carry them, in the words of `model`.

What the planner decides by (which labels a selector matches, which taints a pod tolerates) is decided here by the same
code. An absent selector matches nothing and an empty one everything; the API has refused those that make no sense.
"""

from __future__ import annotations

from kubemini.refusals import Json
from rescheduler.model.selector import Labels, Requirement, Selector, SelectorError, requirement, selector_of
from rescheduler.model.shape import NodeTerm, Taint, Toleration


def label_selector(found: Json | None) -> Selector | None:
    """The object form of a label selector."""
    if found is None:
        return None
    equal = [requirement(key, "In", [value]) for key, value in (found.get("matchLabels") or {}).items()]
    return selector_of([*equal, *_requirements(found.get("matchExpressions"), node=False)])


def node_terms(selector: Json | None) -> tuple[NodeTerm, ...] | None:
    """The terms of a node selector, of which one has to match; None is no rule at all."""
    if selector is None:
        return None
    return tuple(_node_term(term) for term in selector.get("nodeSelectorTerms") or ())


def terms_match(terms: tuple[NodeTerm, ...] | None, labels: Labels, name: str) -> bool:
    """Whether a node of this name and these labels is meant."""
    return terms is None or any(term.matches(labels, name) for term in terms)


def taints_of(node: Json) -> list[Taint]:
    """What a node keeps pods away by."""
    found = node.get("spec", {}).get("taints") or ()
    return [Taint(each["key"], each.get("value", ""), each["effect"]) for each in found]


def toleration(found: Json) -> Toleration:
    """One toleration of a pod."""
    values = (found.get(key) or "" for key in ("key", "operator", "value", "effect"))
    return Toleration(*values)


def _node_term(term: Json) -> NodeTerm:
    try:
        expressions = _requirements(term.get("matchExpressions"), node=True)
        fields = _requirements(term.get("matchFields"), node=True)
    except SelectorError:
        return NodeTerm((), ())  # as in Kubernetes: a term that cannot be understood matches no node
    return NodeTerm(tuple(expressions), tuple(fields))


def _requirements(found: list[Json] | None, *, node: bool) -> list[Requirement]:
    return [requirement(each["key"], each["operator"], each.get("values"), node=node) for each in found or ()]
