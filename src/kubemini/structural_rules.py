"""Whether the schema in a CustomResourceDefinition may be so: structural, and with nothing in it that is forbidden.

The rules for definitions ask. A structural schema says the type of every field, and says it outside of allOf, anyOf,
oneOf and not, so that objects can be pruned, filled in and merged along it.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from typing import Any

from kubemini.conformance import compiled, faults
from kubemini.copies import fresh
from kubemini.refusals import Fault, Json
from kubemini.rules.faults import not_allowed, required, unsupported, wrong
from kubemini.structural import prune

_TYPES = ("array", "boolean", "integer", "number", "object", "string")
_LIST_TYPES = ("atomic", "set", "map")
_FORBIDDEN = {
    "$ref": "$ref is not supported",
    "definitions": "definitions is not supported",
    "dependencies": "dependencies is not supported",
    "patternProperties": "patternProperties is not supported",
    "additionalItems": "additionalItems is not supported",
    "$schema": "$schema is not supported",
    "id": "id is not supported",
}
_ONLY_STRUCTURAL = {
    "type": "must be empty to be structural",
    "description": "must be empty to be structural",
    "title": "must be empty to be structural",
    "default": "must be undefined to be structural",
    "nullable": "must be false to be structural",
    "additionalProperties": "must be undefined to be structural",
    "x-kubernetes-preserve-unknown-fields": "must be undefined to be structural",
    "x-kubernetes-embedded-resource": "must be false to be structural",
    "x-kubernetes-int-or-string": "must be false to be structural",
    "x-kubernetes-list-type": "must be undefined to be structural",
}


def schema_faults(schema: Json, path: str) -> Iterator[Fault]:
    """What is wrong with the schema of a version."""
    if schema.get("type") not in ("object", None, ""):
        yield wrong(f"{path}.type", schema["type"], "must be object at the root")
    yield from _place_faults(schema, path, "at the root")
    metadata = (schema.get("properties") or {}).get("metadata") or {}
    if not (metadata.get("properties") or {}).keys() <= {"name", "generateName"}:
        why = "must not specify anything other than name and generateName, but metadata is implicitly specified"
        yield not_allowed(f"{path}.properties[metadata]", why)


def _place_faults(schema: Json, path: str, place: str) -> Iterator[Fault]:
    """Faults of a schema that says what is at a place, and of all below it."""
    if ref := next((key for key in _FORBIDDEN if schema.get(key)), None):
        yield not_allowed(f"{path}.{ref}", _FORBIDDEN[ref])
        return
    if schema.get("uniqueItems"):
        why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic"
        yield not_allowed(f"{path}.uniqueItems", why)
    yield from _type_faults(schema, path, place)
    yield from _list_type_faults(schema, path)
    yield from _object_faults(schema, path)
    yield from _pattern_faults(schema, path)
    for key, part in (schema.get("properties") or {}).items():
        yield from _place_faults(part, f"{path}.properties[{key}]", "for specified object fields")
    if isinstance(schema.get("additionalProperties"), dict):
        below = f"{path}.additionalProperties"
        yield from _place_faults(schema["additionalProperties"], below, "for specified object fields")
    if isinstance(schema.get("items"), dict):
        yield from _place_faults(schema["items"], f"{path}.items", "for specified array items")
    for where, part in _alternatives(schema, path):
        yield from _condition_faults(part, where, may_have_type=bool(schema.get("x-kubernetes-int-or-string")))
    yield from _default_faults(schema, path)


def _type_faults(schema: Json, path: str, place: str) -> Iterator[Fault]:
    sort = schema.get("type")
    untyped = schema.get("x-kubernetes-int-or-string") or schema.get("x-kubernetes-preserve-unknown-fields")
    if not sort:
        if not untyped or place == "at the root":
            yield required(f"{path}.type", f"must not be empty {place}")
    elif sort not in _TYPES:
        yield unsupported(f"{path}.type", sort, _TYPES)
    if sort == "array" and not isinstance(schema.get("items"), dict):
        yield required(f"{path}.items", "must be specified")


def _object_faults(schema: Json, path: str) -> Iterator[Fault]:
    if schema.get("properties") and schema.get("additionalProperties"):
        why = "additionalProperties and properties are mutual exclusive"
        yield not_allowed(f"{path}.additionalProperties", why)
    keeps_unknown = schema.get("x-kubernetes-preserve-unknown-fields")
    if keeps_unknown is False:
        key = f"{path}.x-kubernetes-preserve-unknown-fields"
        yield wrong(key, value=False, detail="must be true or undefined")
    if schema.get("x-kubernetes-embedded-resource") and not keeps_unknown and not schema.get("properties"):
        why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields"
        yield required(f"{path}.properties", why)
    if schema.get("x-kubernetes-map-type") not in (None, "atomic", "granular"):
        where = f"{path}.x-kubernetes-map-type"
        yield unsupported(where, schema["x-kubernetes-map-type"], ("atomic", "granular"))


def _list_type_faults(schema: Json, path: str) -> Iterator[Fault]:
    way, keys = schema.get("x-kubernetes-list-type"), schema.get("x-kubernetes-list-map-keys") or []
    where = f"{path}.x-kubernetes-list-map-keys"
    items = schema["items"] if isinstance(schema.get("items"), dict) else {}
    if way is None:
        if keys:
            yield not_allowed(where, "must not be set if x-kubernetes-list-type is not map")
        return
    if way not in _LIST_TYPES:
        yield unsupported(f"{path}.x-kubernetes-list-type", way, _LIST_TYPES)
    if schema.get("type") != "array":
        why = "must be array if x-kubernetes-list-type is specified"
        yield wrong(f"{path}.type", schema.get("type", ""), why)
    if way == "set" and items.get("type") == "object" and items.get("x-kubernetes-map-type") != "atomic":
        why = "must be atomic as item of a list with x-kubernetes-list-type=set"
        yield wrong(f"{path}.items.x-kubernetes-map-type", items.get("x-kubernetes-map-type"), why)
    if way != "map":
        return
    if not keys:
        yield required(where, "must not be empty if x-kubernetes-list-type is map")
    properties = items.get("properties") or {}
    if not set(keys) <= properties.keys():
        yield wrong(where, keys, "entries must all be names of item properties")
    for key in keys:
        if key in properties and key not in (items.get("required") or ()) and "default" not in properties[key]:
            why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property"
            yield required(f"{path}.items.properties[{key}].default", why)


def _condition_faults(schema: Json, path: str, *, may_have_type: bool = False) -> Iterator[Fault]:
    """Faults of a schema that only restricts what another one has said."""
    for key, why in _ONLY_STRUCTURAL.items():
        if key in schema and not (key == "type" and may_have_type):
            yield not_allowed(f"{path}.{key}", why)
    yield from _pattern_faults(schema, path)
    for key, part in (schema.get("properties") or {}).items():
        yield from _condition_faults(part, f"{path}.properties[{key}]")
    if isinstance(schema.get("items"), dict):
        yield from _condition_faults(schema["items"], f"{path}.items")
    for where, part in _alternatives(schema, path):
        yield from _condition_faults(part, where, may_have_type=may_have_type)


def _alternatives(schema: Json, path: str) -> Iterator[tuple[str, Json]]:
    for key in ("allOf", "anyOf", "oneOf"):
        for number, part in enumerate(schema.get(key) or ()):
            yield f"{path}.{key}[{number}]", part
    if schema.get("not"):
        yield f"{path}.not", schema["not"]


def _pattern_faults(schema: Json, path: str) -> Iterator[Fault]:
    pattern = schema.get("pattern")
    if not pattern:
        return
    try:
        compiled(pattern)
    except re.error as error:
        why = f"must be a valid regular expression, but isn't: {error}"
        yield wrong(f"{path}.pattern", pattern, why)


def _default_faults(schema: Json, path: str) -> Iterator[Fault]:
    """A default must be what the schema itself would accept."""
    if schema.get("default") is None:
        return
    where = f"{path}.default"
    value: Any = fresh(schema["default"])
    if isinstance(value, dict) and prune({"properties": {"it": schema}}, {"it": value}):
        yield wrong(where, schema["default"], "must not have unknown fields")
    for fault in faults(schema, value, ""):
        yield dataclasses.replace(fault, path=where + fault.path)
