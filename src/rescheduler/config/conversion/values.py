"""How single values come over: a converter for each form that options of other tools have.

The tables of options are made of these. A value that makes no sense is told, and nothing is put in its place.
"""

from __future__ import annotations

from rescheduler.config.conversion.draft import Draft
from rescheduler.config.conversion.options import Convert, Given, Option, take_options
from rescheduler.config.errors import wrong_type
from rescheduler.model.duration import DurationError, format_duration, parse_duration
from rescheduler.model.selector import SelectorError, parse_selector, requirement, selector_of


def same(*path: str) -> Convert:
    """The value as it is."""
    return lambda draft, given: draft.put(path, given.value, given.loc)


def flag(*path: str, comment: str = "") -> Convert:
    """True or false, as it is; false where that is the default is told."""

    def convert(draft: Draft, given: Given) -> None:
        if given.value is True:
            draft.put(path, value=True, loc=given.loc, comment=comment)
        elif given.value is False:
            draft.settled(given.loc, "false is the default here, too")
        else:
            draft.wrong(given.loc, wrong_type(given.value, "true or false"))

    return convert


def seconds(*path: str) -> Convert:
    """A number of seconds as a duration."""

    def convert(draft: Draft, given: Given) -> None:
        if (number := whole(draft, given)) is not None:
            draft.put(path, format_duration(float(number)), given.loc)

    return convert


def duration(*path: str, comment: str = "") -> Convert:
    """A duration as it is."""

    def convert(draft: Draft, given: Given) -> None:
        if (length := length_of(draft, given)) is not None:
            draft.put(path, format_duration(length), given.loc, comment)

    return convert


def length_of(draft: Draft, given: Given) -> float | None:
    """The seconds of a duration's text; None, and told, if it is none."""
    if not isinstance(given.value, str):
        draft.wrong(given.loc, wrong_type(given.value, "a duration such as 30s"))
        return None
    try:
        return parse_duration(given.value)
    except DurationError as error:
        draft.wrong(given.loc, str(error))
        return None


def whole(draft: Draft, given: Given) -> int | None:
    """A whole number of at least 0; None, and told, if it is none."""
    value = given.value
    if isinstance(value, bool) or not isinstance(value, int):
        draft.wrong(given.loc, wrong_type(value, "an integer"))
    elif value < 0:
        draft.wrong(given.loc, f"{value} is below 0")
    else:
        return value
    return None


def one_more(*path: str) -> Convert:
    """`numberOfNodes`: there more than so many nodes, here at least so many."""

    def convert(draft: Draft, given: Given) -> None:
        number = whole(draft, given)
        if number:
            draft.put(path, number + 1, given.loc, f"there: more than {number}; here: at least so many")
        elif number == 0:
            draft.settled(given.loc, "0 is the default here, too")

    return convert


def texts(*path: str) -> Convert:
    """A list of texts as it is."""

    def convert(draft: Draft, given: Given) -> None:
        if (found := texts_of(draft, given)) is not None:
            draft.put(path, found, given.loc)

    return convert


def texts_of(draft: Draft, given: Given) -> list[str] | None:
    """A list of texts; None, and told, if it is none."""
    value = given.value
    if isinstance(value, list) and all(isinstance(each, str) for each in value):
        return [*value]
    draft.wrong(given.loc, "is not a list of texts")
    return None


def selector(*path: str, comment: str = "") -> Convert:
    """A label selector, as an object or as text, as text."""

    def convert(draft: Draft, given: Given) -> None:
        text = selector_text(draft, given)
        if text:
            draft.put(path, text, given.loc, comment)
        elif text is not None:
            draft.settled(given.loc, "it selects everything, as the default does here")

    return convert


def selector_text(draft: Draft, given: Given) -> str | None:
    """A label selector's text; None, and told, if it is none."""
    value = given.value
    try:
        if isinstance(value, str):
            return str(parse_selector(value))
        if isinstance(value, dict):
            return _of_object(draft, given)
    except SelectorError as error:
        draft.wrong(given.loc, f"is not a label selector: {error}")
        return None
    draft.wrong(given.loc, wrong_type(value, "a label selector"))
    return None


def _of_object(draft: Draft, given: Given) -> str:
    labels, expressions = given.inner("matchLabels").value or {}, given.inner("matchExpressions").value or []
    if not isinstance(labels, dict) or not isinstance(expressions, list):
        raise SelectorError("matchLabels is a mapping and matchExpressions a list")
    for name in given.value if isinstance(given.value, dict) else ():
        if name not in ("matchLabels", "matchExpressions"):
            draft.unknown((*given.loc, name), "a label selector has matchLabels and matchExpressions")
    found = [requirement(str(key), "In", [str(value)]) for key, value in labels.items()]
    for each in expressions:
        if not isinstance(each, dict):
            raise SelectorError("an expression is a mapping with key, operator and values")
        values = each.get("values") or []
        if not isinstance(values, list):
            raise SelectorError("the values of an expression are a list")
        found.append(requirement(str(each.get("key", "")), str(each.get("operator", "")), [str(one) for one in values]))
    return str(selector_of(found))


def namespaces(*base: str) -> Convert:
    """`{include, exclude}` as two lists of which one may be given."""

    def convert(draft: Draft, given: Given) -> None:
        include, exclude = given.inner("include"), given.inner("exclude")
        take_options(draft, given, (Option("include", (), lambda *_: None), Option("exclude", (), lambda *_: None)))
        if not isinstance(given.value, dict):
            return
        if include.value and (found := texts_of(draft, include)) is not None:
            draft.put((*base, "namespaces"), found, include.loc)
            draft.named.update(found)
            if exclude.value:
                draft.wrong(exclude.loc, "include and exclude are not possible at once, there and here")
        elif exclude.value and (found := texts_of(draft, exclude)) is not None:
            draft.put((*base, "excludedNamespaces"), found, exclude.loc)
        else:
            draft.settled(given.loc, "it names no namespaces")

    return convert


def missing(why: str, nearest: str = "", *, limits: bool = False) -> Convert:
    """Nothing here is like it; what is empty is no loss."""

    def convert(draft: Draft, given: Given) -> None:
        if given.value in ("", {}, []):
            draft.settled(given.loc, "it says nothing")
        else:
            draft.miss(given.loc, why, nearest, limits=limits)

    return convert


def settled(why: str) -> Convert:
    """It is so here."""
    return lambda draft, given: draft.settled(given.loc, why)


def only_true(why: str, lost: str, nearest: str = "") -> Convert:
    """True is always so here; false is not possible."""

    def convert(draft: Draft, given: Given) -> None:
        if given.value is True:
            draft.settled(given.loc, why)
        else:
            draft.miss(given.loc, lost, nearest)

    return convert


def only_false(lost: str, nearest: str = "") -> Convert:
    """False is always so here; true is not possible."""

    def convert(draft: Draft, given: Given) -> None:
        if given.value is False:
            draft.settled(given.loc, "so it is here")
        else:
            draft.miss(given.loc, lost, nearest)

    return convert


def idle(lost: str, nearest: str) -> Convert:
    """True has nothing moved there, so its plugin stays off, or nothing is moved; false is always so here."""

    def convert(draft: Draft, given: Given) -> None:
        if given.value is True:
            draft.miss(given.loc, lost, nearest, limits=True)
        else:
            flag()(draft, given)

    return convert
