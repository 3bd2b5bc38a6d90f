"""Whether a value conforms to the schema of a CustomResourceDefinition: OpenAPI v3, as far as definitions may use it.

The rules for custom resources ask, and so do the rules for definitions about defaults. Words and sorts of the faults
are those of Kubernetes. As there, a value that an update leaves as it was is not judged again, so that objects older
than a stricter schema can still be written. Of the CEL rules (`x-kubernetes-validations`) only one is understood, the
common `self == oldSelf` (a field that may not change); others are not evaluated.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from kubemini.formats import FORMATS, INTEGER_LIMITS
from kubemini.refusals import Fault, Json
from kubemini.rules.faults import duplicate, required, too_long, too_many, unsupported, wrong
from kubemini.structural import part_of

NOTHING: Final = object()
"""In the place of an older value where there is none."""

_NOWHERE = "<nil>"
"""The path of a fault of a whole alternative: the API server gives none."""
_IMMUTABLE = frozenset({"self == oldSelf", "oldSelf == self"})
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "boolean": (bool,),
    "number": (int, float),
    "integer": (int, float),
}


@dataclass(frozen=True, slots=True)
class TypeFault(Fault):
    """A value of another type than its schema says; it has a reason of its own."""

    @property
    def cause(self) -> Json:
        """The fault as a cause in a Status."""
        told = str(self).removeprefix(f"{self.path}: ")
        return {"reason": "FieldValueTypeInvalid", "message": told, "field": self.path}


def faults(schema: Json, value: Any, path: str, old: Any = NOTHING) -> Iterator[Fault]:
    """What is wrong with a value; `old` is the value that it replaces."""
    if old is not NOTHING and _same(value, old):
        return
    mistyped = _type_fault(schema, value, path)
    if mistyped is not None:
        yield mistyped
    may_be_null = value is None and schema.get("nullable")
    if "enum" in schema and not may_be_null and not any(_same(value, each) for each in schema["enum"]):
        yield unsupported(path, value, schema["enum"])
    if mistyped is not None or value is None:
        return
    match value:
        case dict():
            yield from _object_faults(schema, value, path, old)
        case list():
            yield from _list_faults(schema, value, path, old)
        case str():
            yield from _text_faults(schema, value, path)
        case bool():
            pass
        case int() | float():
            yield from _number_faults(schema, value, path)
    yield from _alternatives(schema, value, path)
    for rule in schema.get("x-kubernetes-validations") or ():
        if old is not NOTHING and " ".join(rule.get("rule", "").split()) in _IMMUTABLE:
            yield wrong(path, value, rule.get("message") or f"failed rule: {rule['rule']}")


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern as Python reads it; Kubernetes' own dialect (RE2) differs in corners only."""
    return re.compile(pattern)


def _type_fault(schema: Json, value: Any, path: str) -> Fault | None:
    if value is None:
        wanted = schema.get("type")
        if schema.get("nullable") or not wanted:
            return None
        return _wrong_type(path, "null", wanted)
    if schema.get("x-kubernetes-int-or-string"):
        right = isinstance(value, str) or _is_whole(value)
        return None if right else _wrong_type(path, _type_name(value), "integer,string")
    wanted = schema.get("type")
    if not wanted or wanted not in _PYTHON_TYPES:
        return None
    right = isinstance(value, _PYTHON_TYPES[wanted]) and (wanted == "boolean" or not isinstance(value, bool))
    if right and (wanted != "integer" or _is_whole(value)):
        return None
    return _wrong_type(path, _type_name(value), wanted)


def _object_faults(schema: Json, value: Json, path: str, old: Any) -> Iterator[Fault]:
    if len(value) > schema.get("maxProperties", len(value)):
        yield too_many(path, len(value), schema["maxProperties"])
    if len(value) < schema.get("minProperties", 0):
        yield wrong(path, len(value), f"{path} in body should have at least {schema['minProperties']} properties")
    for key in schema.get("required") or ():
        if key not in value:
            yield required(_below(path, key))
    if schema.get("x-kubernetes-embedded-resource"):
        for key in ("apiVersion", "kind"):
            if not value.get(key):
                yield required(_below(path, key), "must not be empty")
    for key, each in value.items():
        part = part_of(schema, key)
        if part is not None:
            before = old.get(key, NOTHING) if isinstance(old, dict) else NOTHING
            yield from faults(part, each, _below(path, key), before)


def _list_faults(schema: Json, value: list[Any], path: str, old: Any) -> Iterator[Fault]:
    if len(value) > schema.get("maxItems", len(value)):
        yield too_many(path, len(value), schema["maxItems"])
    if len(value) < schema.get("minItems", 0):
        yield wrong(path, len(value), f"{path} in body should have at least {schema['minItems']} items")
    keys = schema.get("x-kubernetes-list-map-keys") or ()
    earlier = {_identity(each, keys): each for each in old} if keys and isinstance(old, list) else {}
    seen: set[str] = set()
    for number, each in enumerate(value):
        where = f"{path}[{number}]"
        if schema.get("x-kubernetes-list-type") in ("set", "map"):
            identity = _identity(each, keys)
            if identity in seen:
                yield duplicate(where, json.loads(identity))
            seen.add(identity)
        if "items" in schema:
            before = earlier.get(_identity(each, keys), NOTHING) if keys else NOTHING
            yield from faults(schema["items"], each, where, before)


def _text_faults(schema: Json, value: str, path: str) -> Iterator[Fault]:
    if len(value) > schema.get("maxLength", len(value)):
        yield too_long(path, schema["maxLength"])
    elif len(value) < schema.get("minLength", 0):
        yield wrong(path, value, f"{path} in body should be at least {schema['minLength']} chars long")
    elif "pattern" in schema and not compiled(schema["pattern"]).search(value):
        yield wrong(path, value, f"{path} in body should match '{schema['pattern']}'")
    fits = FORMATS.get(schema.get("format", ""))
    if fits and not fits(value):
        yield TypeFault(path, "Invalid value", f'{path} in body must be of type {schema["format"]}: "{value}"', value)


def _number_faults(schema: Json, value: float, path: str) -> Iterator[Fault]:
    for limit, exclusive, sign, words in (
        ("minimum", "exclusiveMinimum", 1, ("greater than", "greater than or equal to")),
        ("maximum", "exclusiveMaximum", -1, ("less than", "less than or equal to")),
    ):
        if limit not in schema:
            continue
        over = sign * (value - schema[limit])
        if over < 0 or (over == 0 and schema.get(exclusive)):
            word = words[0] if schema.get(exclusive) else words[1]
            yield wrong(path, value, f"{path} in body should be {word} {_plain(schema[limit])}")
    if "multipleOf" in schema and not _is_whole(value / schema["multipleOf"]):
        yield wrong(path, value, f"{path} in body should be a multiple of {_plain(schema['multipleOf'])}")
    bound = INTEGER_LIMITS.get(schema.get("format", ""))
    if bound and not -bound <= value < bound:
        told = f"Checked value must be of type integer with format {schema['format']} in {path}"
        yield wrong(_NOWHERE, "", told)


def _alternatives(schema: Json, value: Any, path: str) -> Iterator[Fault]:
    """What the schema says by allOf, anyOf, oneOf and not."""

    def wrongs(part: Json) -> list[Fault]:
        return list(faults(part, value, path))

    if every := [fault for part in schema.get("allOf") or () for fault in wrongs(part)]:
        yield from every
        yield wrong(_NOWHERE, "", f'"{path}" must validate all the schemas (allOf)')
    some = [wrongs(part) for part in schema.get("anyOf") or ()]
    if some and all(some):
        yield wrong(_NOWHERE, "", f'"{path}" must validate at least one schema (anyOf)')
        yield from some[0]
    one = [wrongs(part) for part in schema.get("oneOf") or ()]
    right = sum(not each for each in one)
    if one and right != 1:
        told = f"Found {right} valid alternatives" if right else "Found none valid"
        yield wrong(_NOWHERE, "", f'"{path}" must validate one and only one schema (oneOf). {told}')
        yield from () if right else one[0]
    if "not" in schema and not wrongs(schema["not"]):
        yield wrong(_NOWHERE, "", f'"{path}" must not validate the schema (not)')


def _wrong_type(path: str, found: str, wanted: str) -> TypeFault:
    return TypeFault(path, "Invalid value", f'{path} in body must be of type {wanted}: "{found}"', found)


def _type_name(value: Any) -> str:
    if _is_whole(value):
        return "integer"
    return next(name for name, types in _TYPE_NAMES if isinstance(value, types))


_TYPE_NAMES: tuple[tuple[str, type], ...] = (
    ("boolean", bool), ("number", float), ("string", str), ("array", list), ("object", dict), ("null", type(None))
)  # fmt: skip


def _is_whole(value: Any) -> bool:
    return not isinstance(value, bool) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))


def _identity(item: Any, keys: tuple[str, ...] | list[str]) -> str:
    """What tells an item of a set or a keyed list from others."""
    if keys and isinstance(item, dict):
        item = {key: item[key] for key in keys if key in item}
    return json.dumps(item, sort_keys=True, separators=(",", ":"))


def _same(one: Any, other: Any) -> bool:
    """Equal, where true is not 1."""
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _plain(number: float) -> str:
    return str(int(number)) if _is_whole(number) else str(number)
