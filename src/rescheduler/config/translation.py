"""Data checked by a pydantic model, with pydantic's errors put into our words.

`checks` hands it the data of a section or of a strategy's settings. Models are fed JSON in strict mode: there a list
may fill a tuple and a word an enum, yet "80" and true are no numbers. That holds for every strategy's settings too,
however lax their author left them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import TypeVar, get_args, get_origin

import annotated_types
from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from rescheduler.config.errors import FieldError, Finding, Loc, hint, not_an_integer, shown, wrong_type
from rescheduler.config.foreign import field_here

Model = TypeVar("Model", bound=BaseModel)

_EXPECTED = {
    "float_type": "a number",
    "int_type": "an integer",
    "int_from_float": "an integer",
    "bool_type": "true or false",
    "string_type": "a string",
    "list_type": "a list",
    "tuple_type": "a list",
    "set_type": "a list",
    "frozen_set_type": "a list",
    "dict_type": "a mapping",
    "model_type": "a mapping",
    "model_attributes_type": "a mapping",
}
_BOUNDS = ("greater_than", "greater_than_equal", "less_than", "less_than_equal")


def fields_by_name(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """A model's fields under the names that files use."""
    return {info.alias or name: info for name, info in model.model_fields.items()}


def nested_model(info: FieldInfo) -> type[BaseModel] | None:
    """The model of a field that is a section itself."""
    annotation = info.annotation
    return annotation if isinstance(annotation, type) and issubclass(annotation, BaseModel) else None


def item_model(info: FieldInfo) -> type[BaseModel] | None:
    """The model of the items of a field that is a list of sections."""
    items = get_args(info.annotation)
    listed = get_origin(info.annotation) is tuple and len(items) == 2 and items[1] is ...
    return items[0] if listed and isinstance(items[0], type) and issubclass(items[0], BaseModel) else None


def known_part(
    data: Mapping[str, object], model: type[BaseModel], findings: list[Finding], at: Loc
) -> dict[str, object]:
    """The data that the model knows, without nulls, which mean "not given"; other fields are found fault with."""
    fields = fields_by_name(model)
    kept: dict[str, object] = {}
    for name, value in data.items():
        loc = (*at, name)
        if name not in fields:
            allowed = f"allowed here: {', '.join(fields)}" if fields else "no fields are allowed here"
            meant = field_here(name, fields) or hint(name, fields) or ";"
            findings.append(Finding(loc, f"is not a known field{meant} {allowed}"))
            continue
        section = nested_model(fields[name])
        if section is not None and isinstance(value, dict):
            kept[name] = known_part(value, section, findings, loc)
        elif (items := item_model(fields[name])) is not None and isinstance(value, list):
            kept[name] = [
                known_part(item, items, findings, (*loc, index)) if isinstance(item, dict) else item
                for index, item in enumerate(value)
            ]
        elif value is not None:
            kept[name] = value
    return kept


def _finite_part(data: Mapping[str, object], findings: list[Finding], at: Loc) -> dict[str, object]:
    """The data without infinities and NaN, which JSON cannot carry and no field can mean."""
    kept: dict[str, object] = {}
    for name, value in data.items():
        loc = (*at, name)
        if isinstance(value, dict):
            kept[name] = _finite_part(value, findings, loc)
        elif endless := [*_not_finite(value, loc)]:
            findings += endless
        else:
            kept[name] = value
    return kept


def _not_finite(value: object, loc: Loc) -> Iterator[Finding]:
    if isinstance(value, float) and not math.isfinite(value):
        yield Finding(loc, f"{value} is not a finite number")
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _not_finite(item, (*loc, name))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _not_finite(item, (*loc, index))


def parse(data: Mapping[str, object], model: type[Model], at: Loc) -> Model | list[Finding]:
    """The model's instance, or what is wrong with the data."""
    findings: list[Finding] = []
    finite = _finite_part(data, findings, at)
    try:
        parsed = model.model_validate_json(json.dumps(finite), strict=True)
    except ValidationError as error:
        return [*findings, *(_finding(details, model, at) for details in error.errors())]
    return findings or parsed


def _finding(details: ErrorDetails, model: type[BaseModel], at: Loc) -> Finding:
    loc = details["loc"]
    cause = details.get("ctx", {}).get("error")
    if isinstance(cause, FieldError):
        loc = (*loc, *cause.field.split("."))
    return Finding((*at, *loc), _sentence(details, model))


def _sentence(details: ErrorDetails, model: type[BaseModel]) -> str:
    kind, value, context = details["type"], details["input"], details.get("ctx", {})
    if kind in _EXPECTED:
        if isinstance(value, float) and kind.startswith("int"):
            return not_an_integer(value)
        return wrong_type(value, _EXPECTED[kind])
    if kind in _BOUNDS:
        return _out_of_bounds(value, _field_at(model, details["loc"]), details)
    if kind in ("enum", "literal_error"):
        allowed = re.findall(r"'([^']*)'", context["expected"]) or [context["expected"]]
        near = hint(value, allowed) if isinstance(value, str) else ""
        return f"{shown(value)} is not one of {', '.join(allowed)}{near}"
    if kind == "extra_forbidden":
        return "is not a known field"
    if kind == "missing":
        return "is required"
    if kind in ("value_error", "assertion_error"):
        return str(context["error"])
    if kind == "json_invalid":
        return "is not Unicode text"
    return f"{shown(value)} is not accepted: {details['msg']}"


def _out_of_bounds(value: object, info: FieldInfo | None, details: ErrorDetails) -> str:
    low: list[tuple[object, bool]] = []
    high: list[object] = []
    for bound in info.metadata if info else ():
        match bound:
            case annotated_types.Gt(gt):
                low.append((gt, True))
            case annotated_types.Ge(ge):
                low.append((ge, False))
            case annotated_types.Lt(edge) | annotated_types.Le(edge):
                high.append(edge)
    if low and high:
        least, excluded = low[0]
        aside = f" ({least} itself excluded)" if excluded and value == least else ""
        return f"{shown(value)} is not between {least} and {high[0]}{aside}"
    ((name, edge),) = details.get("ctx", {}).items()
    words = {"gt": "above", "ge": "at least", "lt": "below", "le": "at most"}
    whole = int(edge) if isinstance(edge, float) and edge.is_integer() else edge
    return f"{shown(value)} is not {words[name]} {whole}"


def _field_at(model: type[BaseModel], loc: Loc) -> FieldInfo | None:
    """The field that a path leads to; None within lists and mappings, which have bounds of their own."""
    owner: type[BaseModel] | None = model
    info: FieldInfo | None = None
    for part in loc:
        info = fields_by_name(owner).get(str(part)) if owner else None
        owner = nested_model(info) if info else None
    return info
