"""Shapes of the built-in kinds: the fields that the rules' tables name, and how `merging` says they are merged."""

from __future__ import annotations

import dataclasses
from typing import Any

from kubemini.rules.fields_cluster import CLUSTER_FIELDS
from kubemini.rules.fields_pods import POD_FIELDS
from kubemini.rules.fields_workloads import WORKLOAD_FIELDS
from kubemini.schemas.definition_fields import DEFINITION_FIELDS
from kubemini.schemas.merging import ATOMIC, KEY_DEFAULTS, MERGING
from kubemini.schemas.shapes import ANYTHING, Field, List, Map, Scalar, Shape, Struct

_ZEROES: dict[str, Any] = {"string": "", "bool": False, "int32": 0, "int64": 0, "IntOrString": 0}


def read(merging: str, *tables: str) -> dict[str, Struct]:
    """The types that tables describe, by name."""
    rows = [line.partition("=")[::2] for line in " ".join(" ".join(tables).split()).split(";") if "=" in line]
    how = _how(merging)
    types = {name.strip(): Struct(name.strip(), atomic=name.strip() in ATOMIC) for name, _ in rows}
    for name, fields in rows:
        struct = types[name.strip()]
        for text in fields.split():
            key, _, kind = text.partition(":")
            struct.fields[key.removesuffix("!")] = _field(
                kind or "string", types, how.pop((struct.name, key.removesuffix("!")), ""), shown=key.endswith("!")
            )
    if how:
        raise ValueError(f"no table has the fields {sorted(how)}")
    for struct in types.values():
        for field in struct.fields.values():
            _settle_keys(field.shape)
    return types


def _how(merging: str) -> dict[tuple[str, str], str]:
    """What MERGING says, by type and field."""
    said: dict[tuple[str, str], str] = {}
    for line in merging.replace("\n ", " ").split("\n"):
        name, _, fields = line.partition(":")
        for each in fields.split():
            field, _, way = each.partition("=")
            said[(name, field)] = way
    return said


def _field(kind: str, types: dict[str, Struct], how: str, *, shown: bool) -> Field:
    bare = kind.removeprefix("*")
    shape = _shape(bare, types, how)
    # What is no pointer in Go is there even in an empty object, as a struct without anything or as null.
    always = bare == kind and (bare in types or (shown and bare[0] in "[{"))
    return Field(shape, always, replaced=how == "replace")


def _shape(kind: str, types: dict[str, Struct], how: str = "") -> Shape:
    if kind.startswith("["):
        return _list(_shape(kind[1:-1], types), how)
    if kind.startswith("{"):
        return Map(_shape(kind[1:-1], types), atomic=how == "atomic")
    if kind == "any":
        return ANYTHING
    if kind not in types:
        return Scalar(kind)
    return dataclasses.replace(types[kind], atomic=False) if how == "granular" else types[kind]


def _list(of: Shape, how: str) -> List:
    whose, _, names = how.rpartition(":")
    match whose, names:
        case "", "":
            return List(of)
        case "", "set":
            return List(of, unique=True)
        case "", "merge":
            return List(of, unique=True, merges=True)
        case "apply", _:
            return List(of, keys=tuple(names.split(",")))
        case "patch", _:
            return List(of, merge_key=names)
    keys = tuple(names.split(","))
    return List(of, keys=keys, merge_key=keys[0])


def _settle_keys(shape: Shape) -> None:
    """An item that leaves a key out has the key's default; in Go every key has at least its zero."""
    if isinstance(shape, List) and isinstance(shape.of, Struct):
        for key in shape.keys:
            kind = shape.of.fields[key].shape
            zero = _ZEROES.get(kind.sort) if isinstance(kind, Scalar) else None
            shape.key_defaults[key] = KEY_DEFAULTS.get(key, zero)


TYPES = read(MERGING, POD_FIELDS, CLUSTER_FIELDS, WORKLOAD_FIELDS, DEFINITION_FIELDS)
METADATA = TYPES["ObjectMeta"]
