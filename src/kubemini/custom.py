"""Custom kinds: the rules of a CustomResourceDefinition for its objects.

A definition becomes a `CustomKind`, which carries its schema. The API prunes and defaults custom objects with it, and
checks them with `jsonschema`. It does not know additionalProperties, nullable fields, and values that may be numbers or
texts; CEL rules (`x-kubernetes-validations`) are not evaluated. Only the storage version of a definition is served.
`definitions` is the controller.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec
from jsonschema import Draft4Validator, FormatChecker, ValidationError

from kubemini import clock
from kubemini.errors import FieldError, Json
from kubemini.kinds import Kind

HEAD = frozenset({"apiVersion", "kind", "metadata"})
"""Fields of every object, whatever its schema."""


@dataclass(frozen=True, slots=True)
class CustomKind(Kind):
    """The kind that a definition adds."""

    schema: Json = field(default_factory=dict, hash=False, repr=False)
    """Its openAPIV3Schema."""
    columns: tuple[Json, ...] = field(default=(), hash=False, repr=False)
    """Its additionalPrinterColumns."""
    terminating: bool = False
    """Whether the definition is being deleted, so that no new object may be created."""


def kind_of(definition: Json) -> CustomKind:
    """The kind that a definition adds."""
    spec, names = definition["spec"], definition["spec"]["names"]
    version = storage_version(definition)
    return CustomKind(
        group=spec["group"],
        version=version["name"],
        name=names["kind"],
        plural=names["plural"],
        short=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=("status",) if "status" in (version.get("subresources") or {}) else (),
        fields=tuple(each["jsonPath"].removeprefix(".") for each in version.get("selectableFields") or ()),
        generations=True,
        namespaced=spec["scope"] == "Namespaced",
        unconditional=False,
        custom=True,
        schema=version["schema"]["openAPIV3Schema"],
        columns=tuple(version.get("additionalPrinterColumns") or ()),
        terminating="deletionTimestamp" in definition["metadata"],
    )


def storage_version(definition: Json) -> Json:
    """The version that is stored and served; a LookupError where a definition has none."""
    for version in definition["spec"].get("versions") or ():
        if version.get("storage") and version.get("served"):
            found: Json = version
            return found
    raise LookupError("no version is both served and stored")


def prune(schema: Json, body: Json) -> list[str]:
    """Remove the fields that a schema does not have; returns their paths."""
    unknown: list[str] = []
    head = {key: {"x-kubernetes-preserve-unknown-fields": True} for key in HEAD}
    _prune({"properties": {**schema.get("properties", {}), **head}}, body, "", unknown)
    return unknown


def _prune(schema: Json, value: Any, path: str, unknown: list[str]) -> None:
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return
    if isinstance(value, list):
        for number, each in enumerate(value):
            _prune(schema.get("items", {}), each, f"{path}[{number}]", unknown)
    elif isinstance(value, dict):
        properties = schema.get("properties", {})
        for key in list(value):
            where = f"{path}.{key}" if path else key
            if key in properties:
                _prune(properties[key], value[key], where, unknown)
            else:
                unknown.append(where)
                del value[key]


def fill(schema: Json, body: Json) -> None:
    """Put defaults in, and remove nulls."""
    properties = {key: part for key, part in schema.get("properties", {}).items() if key not in HEAD}
    _fill({"properties": properties}, body)


def _fill(schema: Json, value: Any) -> None:
    if isinstance(value, list):
        for each in value:
            _fill(schema.get("items", {}), each)
    elif isinstance(value, dict):
        for key, part in schema.get("properties", {}).items():
            if key in value and value[key] is None:
                del value[key]
            if key not in value and "default" in part:
                value[key] = copy.deepcopy(part["default"])
            if key in value:
                _fill(part, value[key])


def check(kind: CustomKind, body: Json) -> list[FieldError]:
    """What is wrong with an object."""
    errors = _validator(msgspec.json.encode(kind.schema)).iter_errors(body)
    return [FieldError(error.json_path.removeprefix("$."), _why(error)) for error in errors]


def _why(error: ValidationError) -> str:
    if error.validator != "enum":
        return error.message
    # In the words of the real API server: the product recognises an older definition by them.
    return f"Unsupported value: {msgspec.json.encode(error.instance).decode()}"


@lru_cache(maxsize=64)
def _validator(schema: bytes) -> Draft4Validator:
    return Draft4Validator(msgspec.json.decode(schema), format_checker=_formats)


_formats = FormatChecker(formats=())


@_formats.checks("date-time", raises=ValueError)
def _is_time(value: object) -> bool:
    return not isinstance(value, str) or bool(clock.moment(value))
