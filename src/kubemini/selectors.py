"""Label selectors in the object form."""

from __future__ import annotations

from kubemini.refusals import Json
from rescheduler.model.selector import Selector, SelectorError, requirement, selector_of


def matcher(selector: Json | None) -> Selector | None:
    """A selector to match labels with; None if there is none, or a malformed one."""
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
    """Whether a selector has no requirements."""
    return not selector.get("matchLabels") and not selector.get("matchExpressions")
