"""Shapes of custom resources, from the structural schemas in their definitions.

Lists without `x-kubernetes-list-type` belong to one writer as a whole, as in Kubernetes; fields that the schema does
not name are kept only below `x-kubernetes-preserve-unknown-fields`, and nothing is known about them.
"""

from __future__ import annotations

from typing import Any

from kubemini.schemas.shapes import ANYTHING, Field, List, Map, Scalar, Shape, Struct

Json = dict[str, Any]

_SCALARS = {"string": "string", "boolean": "bool", "integer": "int64", "number": "number"}


def shape_of(schema: Json, metadata: Shape, name: str = "") -> Shape:
    """The shape of a value that a structural schema describes; `metadata` is that of a whole object's metadata."""
    if schema.get("x-kubernetes-int-or-string"):
        return Scalar("IntOrString")
    match schema.get("type"):
        case "object":
            return _object(schema, metadata, name)
        case "array":
            return _list(schema, metadata)
        case str() as sort if sort in _SCALARS:
            return Scalar(_SCALARS[sort])
        case _:
            return ANYTHING


def custom_shape(schema: Json, metadata: Shape, name: str) -> Struct:
    """The shape of a whole custom resource."""
    shape = _object({**schema, "x-kubernetes-embedded-resource": True}, metadata, name)
    assert isinstance(shape, Struct)  # noqa: S101  an embedded resource has named fields
    return shape


def _object(schema: Json, metadata: Shape, name: str) -> Shape:
    atomic = schema.get("x-kubernetes-map-type") == "atomic"
    keeps_unknown = bool(schema.get("x-kubernetes-preserve-unknown-fields"))
    embedded = bool(schema.get("x-kubernetes-embedded-resource"))
    additional = schema.get("additionalProperties")
    if additional and not schema.get("properties") and not embedded:
        return Map(shape_of(additional, metadata) if isinstance(additional, dict) else ANYTHING, atomic)
    fields = {key: Field(shape_of(each, metadata)) for key, each in (schema.get("properties") or {}).items()}
    if embedded:
        text = Scalar("string")
        fields |= {"apiVersion": Field(text), "kind": Field(text), "metadata": Field(metadata, always=True)}
    return Struct(name, fields, atomic, rest=ANYTHING if keeps_unknown else None)


def _list(schema: Json, metadata: Shape) -> Shape:
    items: Json = schema.get("items") or {}
    of = shape_of(items, metadata)
    match schema.get("x-kubernetes-list-type"):
        case "set":
            return List(of, unique=True)
        case "map":
            keys = tuple(schema.get("x-kubernetes-list-map-keys") or ())
            properties = items.get("properties") or {}
            return List(of, keys=keys, key_defaults={key: properties.get(key, {}).get("default") for key in keys})
        case _:
            return List(of)
