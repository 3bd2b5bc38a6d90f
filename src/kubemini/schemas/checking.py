"""Whether what somebody applies fits the shape of its kind.

Server-side apply is stricter than other writes: a field that the kind does not have is an error, not left out. The
API server holds these for errors of its own (500), and says where.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubemini.field_sets import in_words
from kubemini.field_walks import step_to
from kubemini.kinds import Kind
from kubemini.refusals import Json, Refusal
from kubemini.schemas.shapes import Anything, List, Map, Scalar, Shape, Struct

_NUMBERS = frozenset({"int32", "int64", "number"})
_EITHER = frozenset({"IntOrString", "Quantity"})


def check_applied(kind: Kind, shape: Shape, body: Json) -> None:
    """Refuse what does not fit, naming every place."""
    if faults := list(_faults(shape, body, "")):
        metadata = body["metadata"]
        called = f"{metadata.get('namespace', '')}/{metadata.get('name', '')}; {kind.api_version}, Kind={kind.name}"
        listed = faults[0] if len(faults) == 1 else "errors:\n" + "\n".join(f"  {fault}" for fault in faults)
        raise Refusal(500, "", f"failed to create typed patch object ({called}): {listed}")


def _faults(shape: Shape, value: Any, path: str) -> Iterator[str]:
    if value is None:
        return
    match shape:
        case Anything():
            return
        case Struct() | Map():
            if not isinstance(value, dict):
                yield f"{path}: expected map, got {value!r}"
                return
            for key, each in value.items():
                part = _part(shape, key)
                if part is None:
                    yield f"{path}.{key}: field not declared in schema"
                else:
                    yield from _faults(part, each, f"{path}.{key}")
        case List():
            if not isinstance(value, list):
                yield f"{path}: expected list, got {value!r}"
                return
            yield from _duplicates(shape, value, path)
            for number, item in enumerate(value):
                yield from _faults(shape.of, item, f"{path}[{number}]")
        case Scalar():
            yield from _scalar_faults(shape, value, path)


def _part(shape: Struct | Map, key: str) -> Shape | None:
    if isinstance(shape, Map):
        return shape.of
    found = shape.fields.get(key)
    return found.shape if found else shape.rest


def _duplicates(shape: List, items: list[Any], path: str) -> Iterator[str]:
    if shape.atomic:
        return
    seen: set[str] = set()
    for item in items:
        step = step_to(shape, item)
        if step in seen:
            yield f"{path}: duplicate entries for key {in_words((step,))}"
        seen.add(step)


def _scalar_faults(shape: Scalar, value: Any, path: str) -> Iterator[str]:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if shape.sort in _NUMBERS:
        if not is_number:
            yield f"{path}: expected numeric (int or float), got {_called(value)}"
    elif shape.sort == "bool":
        if not isinstance(value, bool):
            yield f"{path}: expected boolean, got {_called(value)}"
    elif not (isinstance(value, str) or (is_number and shape.sort in _EITHER)):
        yield f"{path}: expected string, got {_called(value)}"


def _called(value: Any) -> str:
    names = {str: "string", bool: "boolean", int: "int", float: "float", list: "list", dict: "map"}
    return names.get(type(value), "null")
