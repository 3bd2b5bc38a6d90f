"""The rules that a CustomResourceDefinition makes for its objects.

`rules.table` asks for them where a kind is custom. Unknown fields are taken out and defaults put in by `structural`,
and what is left is judged by `conformance`. CEL rules are not evaluated, except for the one that `conformance` knows.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubemini.conformance import NOTHING, faults
from kubemini.custom_kind import CustomKind, at
from kubemini.kinds import Kind
from kubemini.refusals import Fault, Json, forbidden
from kubemini.rules.base import Rules
from kubemini.rules.faults import wrong
from kubemini.rules.typed import read_as
from kubemini.structural import fill, part_of, prune


def custom_rules(kind: Kind) -> Rules:
    """The rules for a custom resource."""
    return CustomRules(kind)


class CustomRules(Rules):
    """What a definition says about its objects."""

    def prepare_create(self, body: Json) -> None:
        """Nothing new comes where the definition is about to go."""
        if self._custom.terminating:
            name = body["metadata"].get("name", "")
            why = "create not allowed while custom resource definition is terminating"
            raise forbidden(self.kind, name, why)
        read_as("ObjectMeta", body["metadata"])
        super().prepare_create(body)

    def prepare_update(self, body: Json, before: Json, subresource: str) -> None:
        """The metadata have types, as everywhere; a write to the status leaves them, but for who wrote it."""
        given = read_as("ObjectMeta", body["metadata"])
        super().prepare_update(body, before, subresource)
        if "managedFields" in given:
            body["metadata"]["managedFields"] = given["managedFields"]

    def default(self, body: Json) -> None:
        """Unknown fields go, defaults come."""
        prune(self._custom.schema, body)
        fill(self._custom.schema, body)

    def faults(self, body: Json, before: Json | None, subresource: str) -> list[Fault]:
        """Whatever does not conform to the schema; of a write to the status only the status is looked at."""
        schema = self._custom.schema
        old: Any = NOTHING if before is None else before
        if subresource != "status":
            found = list(faults(schema, body, "", old))
        else:
            part = part_of(schema, "status")
            old = NOTHING if before is None else before.get("status", NOTHING)
            found = list(faults(part, body["status"], "status", old)) if part and "status" in body else []
        return [*found, *self._scale_faults(body, subresource)]

    @property
    def _custom(self) -> CustomKind:
        if not isinstance(self.kind, CustomKind):
            raise TypeError(f"{self.kind.resource} is no custom resource")
        return self.kind

    def _scale_faults(self, body: Json, subresource: str) -> Iterator[Fault]:
        scale = self._custom.scale
        if scale is None:
            return
        path = scale.status if subresource == "status" else scale.spec
        replicas = at(body, path)
        if isinstance(replicas, int) and replicas < 0:
            yield wrong(path, replicas, "should be a non-negative integer")
