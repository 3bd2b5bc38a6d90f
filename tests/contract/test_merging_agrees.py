"""Our table of how lists and maps are merged says what the real API server says of itself in its OpenAPI document."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kubemini.kinds import BUILT_IN
from kubemini.schema import shape_of
from kubemini.schemas.shapes import Anything, List, Map, Scalar, Shape, Struct
from tests.testbed.api import Json
from tests.testbed.cluster import ControlPlane

pytestmark = pytest.mark.cluster

Comparison = tuple[str, Any, Any]
"""Where, what the real one says, what we say."""


def test_every_list_and_map_is_merged_as_the_real_one_says(control_plane: ControlPlane) -> None:
    document = control_plane.api.get("/openapi/v2")["definitions"]
    roots = {
        (each["group"], each["version"], each["kind"]): definition
        for definition in document.values()
        for each in definition.get("x-kubernetes-group-version-kind", ())
    }
    compared = [
        each
        for kind in BUILT_IN
        for each in Walk(document).compare(roots[(kind.group, kind.version, kind.name)], shape_of(kind), kind.name)
    ]
    differing = [each for each in compared if each[1] != each[2]]
    print(f"{len(compared)} lists, maps and types of {len(BUILT_IN)} kinds compared")
    assert differing == []
    assert len(compared) > 1000


class Walk:
    """Down the document and a shape at once, each type once."""

    def __init__(self, document: Json) -> None:
        self._document = document
        self._seen: set[str] = set()

    def compare(self, said: Json, ours: Shape, path: str) -> Iterator[Comparison]:
        said = self._resolved(said)
        match ours:
            case Struct():
                yield path, (said.get("x-kubernetes-map-type") == "atomic"), ours.atomic
                yield from self._fields(said, ours, path)
            case Map():
                yield path, (said.get("x-kubernetes-map-type") == "atomic"), ours.atomic
                yield from self.compare(said.get("additionalProperties", {}), ours.of, path)
            case List():
                yield path, list_said(said), list_of_ours(ours)
                yield from self.compare(said["items"], ours.of, f"{path}[]")
            case Scalar() | Anything():
                yield path, "x-kubernetes-list-map-keys" in said, False

    def _fields(self, said: Json, ours: Struct, path: str) -> Iterator[Comparison]:
        if ours.name in self._seen:
            return
        self._seen.add(ours.name)
        for key, field in ours.fields.items():
            if key not in said.get("properties", {}):
                continue  # older versions do not have it yet
            below = said["properties"][key]
            replaced = below.get("x-kubernetes-patch-strategy") == "replace"
            yield f"{path}.{key} replaced", replaced, field.replaced
            yield from self.compare(below, field.shape, f"{path}.{key}")

    def _resolved(self, said: Json) -> Json:
        """What a reference refers to, with what is said beside the reference."""
        if "$ref" not in said or not isinstance(said["$ref"], str):
            return said
        return {**self._document[said["$ref"].rpartition("/")[2]], **said}


def list_said(said: Json) -> Json:
    merges = "merge" in said.get("x-kubernetes-patch-strategy", "")
    return {
        "type": said.get("x-kubernetes-list-type", "atomic"),
        "keys": said.get("x-kubernetes-list-map-keys", []),
        "merges": merges,
        "by": said.get("x-kubernetes-patch-merge-key", "") if merges else "",
    }


def list_of_ours(ours: List) -> Json:
    return {
        "type": "map" if ours.keys else "set" if ours.unique else "atomic",
        "keys": list(ours.keys),
        "merges": bool(ours.merges or ours.merge_key),
        "by": ours.merge_key,
    }
