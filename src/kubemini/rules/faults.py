"""The sorts of faults that Kubernetes tells apart, one function each, in its own words.

The rules of all kinds say with these what is wrong with an object; `api` refuses the object with them. Clients decide
by the sort and the path, people read the rest.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kubemini.refusals import Fault

IMMUTABLE = "field is immutable"
NOT_NEGATIVE = "must be greater than or equal to 0"


def required(path: str, detail: str = "") -> Fault:
    """Something has to be there."""
    return Fault(path, "Required value", detail)


def wrong(path: str, value: object, detail: str = "") -> Fault:
    """The value makes no sense."""
    return Fault(path, "Invalid value", detail, value)


def unsupported(path: str, value: object, allowed: Iterable[str]) -> Fault:
    """The value is none of those that are allowed."""
    listed = ", ".join(f'"{each}"' for each in allowed)
    return Fault(path, "Unsupported value", f"supported values: {listed}" if listed else "", value)


def not_allowed(path: str, detail: str) -> Fault:
    """The value would be fine elsewhere or at another time."""
    return Fault(path, "Forbidden", detail)


def duplicate(path: str, value: object, detail: str = "") -> Fault:
    """The value is there once already."""
    return Fault(path, "Duplicate value", detail, value)


def unknown(path: str, value: object) -> Fault:
    """The value names something that is not there."""
    return Fault(path, "Not found", "", value)


def too_long(path: str, most: int) -> Fault:
    """There are more bytes than allowed."""
    return Fault(path, "Too long", f"may not be more than {most} bytes")


def too_many(path: str, number: int, most: int) -> Fault:
    """There are more items than allowed."""
    return Fault(path, "Too many", f"must have at most {most} items", number)


def each_wrong(path: str, value: object, details: Iterable[str]) -> Iterator[Fault]:
    """One fault for each thing that a name or number breaks."""
    return (wrong(path, value, detail) for detail in details)


def negative(path: str, value: int | None) -> Iterator[Fault]:
    """A number that must not be below 0."""
    if value is not None and value < 0:
        yield wrong(path, value, NOT_NEGATIVE)


def changed(path: str, value: object, before: object) -> Iterator[Fault]:
    """A field that must stay as it was made."""
    if value != before:
        yield wrong(path, value, IMMUTABLE)


def one_of(path: str, value: str, allowed: Iterable[str]) -> Iterator[Fault]:
    """A value from a fixed set, which must be given."""
    allowed = tuple(allowed)
    if not value:
        yield required(path)
    elif value not in allowed:
        yield unsupported(path, value, allowed)
