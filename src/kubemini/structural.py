"""What a structural schema does to an object before it is judged: unknown fields go, defaults come.

The rules for custom resources call it on every write, and `views` when an object comes in by another version. A
structural schema (definitions must have one) says at each place what is there, so both are one walk down the object.
"""

from __future__ import annotations

from typing import Any

from kubemini.copies import fresh
from kubemini.refusals import Json

HEAD = frozenset({"apiVersion", "kind", "metadata"})
"""What every object has, whatever its schema says."""


def prune(schema: Json, body: Json) -> list[str]:
    """Take the fields out that a schema does not know; the answer is their paths."""
    unknown: list[str] = []
    _prune({**schema, "x-kubernetes-embedded-resource": True}, body, "", unknown)
    return unknown


def fill(schema: Json, body: Json) -> None:
    """Put defaults in, and take out nulls where a schema does not allow them."""
    head = {key: body[key] for key in HEAD if key in body}
    properties = {key: part for key, part in _properties(schema).items() if key not in HEAD}
    _fill({**schema, "properties": properties}, body)
    body.update(head)


def part_of(schema: Json, key: str) -> Json | None:
    """What a schema says about one key of an object; None if nothing."""
    found = _properties(schema).get(key)
    if found is None and isinstance(schema.get("additionalProperties"), dict):
        found = schema["additionalProperties"]
    return found


def _properties(schema: Json) -> dict[str, Json]:
    return schema.get("properties") or {}


def _prune(schema: Json, value: Any, path: str, unknown: list[str]) -> None:
    if isinstance(value, list):
        items = schema.get("items")
        for number, each in enumerate(value):
            if items is not None:
                _prune(items, each, f"{path}[{number}]", unknown)
        return
    if not isinstance(value, dict):
        return
    kept = HEAD if schema.get("x-kubernetes-embedded-resource") else frozenset()
    keeps_unknown = schema.get("x-kubernetes-preserve-unknown-fields") or schema.get("additionalProperties") is True
    for key in list(value):
        part = part_of(schema, key)
        where = f"{path}.{key}" if path else key
        if part is not None and not (key in HEAD and not path):
            _prune(part, value[key], where, unknown)
        elif part is None and not keeps_unknown and key not in kept:
            unknown.append(where)
            del value[key]


def _fill(schema: Json, value: Any) -> None:
    if isinstance(value, list):
        items = schema.get("items")
        for each in value:
            if items is not None:
                _fill(items, each)
    elif isinstance(value, dict):
        for key, each in list(value.items()):
            _settle_null(part_of(schema, key), value, key, each)
        for key, part in _properties(schema).items():
            if key not in value and "default" in part:
                value[key] = fresh(part["default"])
        for key, each in value.items():
            below = part_of(schema, key)
            if below is not None:
                _fill(below, each)


def _settle_null(part: Json | None, value: Json, key: str, each: Any) -> None:
    """A null where none may be is the same as nothing, so that the default may take its place."""
    if each is None and part is not None and not part.get("nullable"):
        del value[key]
