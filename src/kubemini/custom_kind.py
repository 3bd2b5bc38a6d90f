"""The kinds that a CustomResourceDefinition adds: a Kind like any other, and the schema that holds for its objects.

`definitions` makes them when a definition is accepted and puts them into the catalogue; rules, patches,
apply and tables find the schema on the kind itself. So a definition that changes takes effect with the new kind, and
two clusters in one process never see each other's.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kubemini.kinds import Kind
from kubemini.refusals import Json


@dataclass(frozen=True, slots=True)
class ScalePaths:
    """Where a custom resource keeps what the scale subresource shows; each like `.spec.replicas`."""

    spec: str
    status: str
    selector: str = ""


@dataclass(frozen=True, slots=True)
class CustomKind(Kind):
    """One served version of a custom resource."""

    schema: Json = field(default_factory=dict, hash=False, repr=False)
    """Its structural schema."""
    columns: tuple[Json, ...] = field(default=(), hash=False, repr=False)
    """The additionalPrinterColumns."""
    scale: ScalePaths | None = None
    stored_version: str = ""
    """The apiVersion that its objects are kept with."""
    terminating: bool = False
    """Whether its definition is being deleted, so that nothing new may be made."""


def kinds_of(definition: Json) -> list[CustomKind]:
    """The kinds that a definition serves, first the one that is stored: the storage version, if it is served."""
    versions = definition["spec"]["versions"]
    served = sorted((each for each in versions if each["served"]), key=lambda each: not each["storage"])
    return [_kind(definition, version, served[0]["name"]) for version in served]


def columns_of(kind: Kind) -> list[Json]:
    """What a table of a custom resource shows besides the name."""
    return list(kind.columns) if isinstance(kind, CustomKind) else []


def at(body: Any, path: str) -> Any:
    """What is at a path like `.spec.replicas` in an object; None if there is nothing."""
    for step in path.removeprefix(".").split("."):
        body = body.get(step) if isinstance(body, dict) else None
    return body


def _kind(definition: Json, version: Json, stored: str) -> CustomKind:
    spec = definition["spec"]
    names = spec["names"]
    offered = version.get("subresources") or {}
    scale = offered.get("scale")
    return CustomKind(
        group=spec["group"],
        version=version["name"],
        name=names["kind"],
        plural=names["plural"],
        short=tuple(names.get("shortNames") or ()),
        categories=tuple(names.get("categories") or ()),
        subresources=tuple(sorted(offered)),
        fields=tuple(each["jsonPath"].removeprefix(".") for each in version.get("selectableFields") or ()),
        generations=True,
        namespaced=spec["scope"] == "Namespaced",
        unconditional=False,
        storage="" if version["name"] == stored else f"{names['plural']}.{spec['group']}",
        custom=True,
        schema=version["schema"]["openAPIV3Schema"],
        columns=tuple(version.get("additionalPrinterColumns") or ()),
        scale=scale
        and ScalePaths(scale["specReplicasPath"], scale["statusReplicasPath"], scale.get("labelSelectorPath", "")),
        stored_version=f"{spec['group']}/{stored}",
        terminating="deletionTimestamp" in definition["metadata"],
    )
