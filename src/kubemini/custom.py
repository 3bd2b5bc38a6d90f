"""Custom kinds: what a CustomResourceDefinition says about its objects.

A definition becomes a `CustomKind`, which carries its schema. The API prunes and defaults custom objects with it, and
checks them with `jsonschema`. Of the CEL rules (`x-kubernetes-validations`) only `self == oldSelf` is evaluated. Only
the storage version of a definition is served. `definitions` is the controller.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import msgspec
from jsonschema import Draft4Validator, FormatChecker, SchemaError, ValidationError
from jsonschema.validators import extend

from kubemini import clock
from kubemini.kinds import Kind
from kubemini.refusals import Fault, Json

HEAD = frozenset({"apiVersion", "kind", "metadata"})
"""What every object has, whatever its schema says."""

_IMMUTABLE = frozenset({"self == oldSelf", "oldSelf == self"})


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
    _prune({**schema, "x-kubernetes-embedded-resource": True}, body, "", unknown)
    return unknown


def _prune(schema: Json, value: Any, path: str, unknown: list[str]) -> None:
    if isinstance(value, list) and "items" in schema:
        for number, each in enumerate(value):
            _prune(schema["items"], each, f"{path}[{number}]", unknown)
    if not isinstance(value, dict):
        return
    kept = HEAD if schema.get("x-kubernetes-embedded-resource") else frozenset()
    keeps_unknown = schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("additionalProperties") is True
    for key in list(value):
        part = _part_of(schema, key)
        where = f"{path}.{key}" if path else key
        if key in kept:
            continue
        if part is not None:
            _prune(part, value[key], where, unknown)
        elif not keeps_unknown:
            unknown.append(where)
            del value[key]


def fill(schema: Json, body: Json) -> None:
    """Put defaults in, and remove nulls that the schema does not allow."""
    properties = {key: part for key, part in schema.get("properties", {}).items() if key not in HEAD}
    _fill({**schema, "properties": properties}, body)


def _fill(schema: Json, value: Any) -> None:
    if isinstance(value, list) and "items" in schema:
        for each in value:
            _fill(schema["items"], each)
    if not isinstance(value, dict):
        return
    for key, each in list(value.items()):
        part = _part_of(schema, key)
        if each is None and part is not None and not part.get("nullable"):
            del value[key]
    for key, part in schema.get("properties", {}).items():
        if key not in value and "default" in part:
            value[key] = copy.deepcopy(part["default"])
    for key, each in value.items():
        below = _part_of(schema, key)
        if below is not None:
            _fill(below, each)


def _part_of(schema: Json, key: str) -> Json | None:
    """What a schema says about one key of an object."""
    found: Json | None = schema.get("properties", {}).get(key)
    if found is None and isinstance(schema.get("additionalProperties"), dict):
        found = schema["additionalProperties"]
    return found


def schema_error(schema: Json) -> str:
    """Why a schema is none that objects could be checked with; empty if it is one."""
    try:
        Draft4Validator.check_schema(schema)
    except SchemaError as error:
        return error.message
    return ""


def check(kind: CustomKind, body: Json, before: Json | None) -> list[Fault]:
    """What is wrong with an object; `before` is the version that it replaces."""
    found = [_fault(error) for error in _validator(msgspec.json.encode(kind.schema)).iter_errors(body)]
    return found if before is None else [*found, *_changed(kind.schema, body, before, "")]


@lru_cache(maxsize=64)
def _validator(schema: bytes) -> Any:
    return _Validator(msgspec.json.decode(schema), format_checker=_formats)


def _check_type(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if not (value is None and schema.get("nullable")) and not validator.is_type(value, wanted):
        yield ValidationError(f"must be of type {wanted}")


def _check_enum(validator: Any, allowed: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if value not in allowed and not (value is None and schema.get("nullable")):
        yield ValidationError("supported values: " + ", ".join(f'"{each}"' for each in allowed))


def _check_required(validator: Any, keys: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    for key in keys if isinstance(value, dict) else ():
        if key not in value:
            yield ValidationError("", path=(key,))


def _check_int_or_string(validator: Any, wanted: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if wanted and not any(validator.is_type(value, each) for each in ("integer", "string")):
        yield ValidationError("must be of type integer,string")


_formats = FormatChecker(formats=())


@_formats.checks("date-time", raises=ValueError)
def _is_time(value: object) -> bool:
    return not isinstance(value, str) or bool(clock.moment(value))


_Validator: Any = extend(  # type: ignore[no-untyped-call]  # jsonschema does not annotate it
    Draft4Validator,
    {
        "type": _check_type,
        "enum": _check_enum,
        "required": _check_required,
        "x-kubernetes-int-or-string": _check_int_or_string,
    },
)

_SORTS = {"required": "Required value", "enum": "Unsupported value"}  # all others are an "Invalid value"


def _fault(error: ValidationError) -> Fault:
    path = ""
    for step in error.absolute_path:
        path += f"[{step}]" if isinstance(step, int) else f".{step}"
    return Fault(
        path.removeprefix("."), _SORTS.get(str(error.validator), "Invalid value"), error.message, error.instance
    )


def _changed(schema: Json, value: Any, before: Any, path: str) -> Iterator[Fault]:
    """Changes of values that the schema declares as immutable."""
    if value == before or not isinstance(value, dict) or not isinstance(before, dict):
        return
    for key in value.keys() & before.keys():
        part = _part_of(schema, key)
        if part is None or value[key] == before[key]:
            continue
        where = f"{path}.{key}" if path else key
        for rule in part.get("x-kubernetes-validations") or ():
            if rule["rule"].strip() in _IMMUTABLE:
                yield Fault(where, "Invalid value", rule.get("message") or f"failed rule: {rule['rule']}", value[key])
        yield from _changed(part, value[key], before[key], where)
