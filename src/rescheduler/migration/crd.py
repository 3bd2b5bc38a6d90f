"""The CustomResourceDefinition of PodMigration, as `rescheduler crds` prints it and the controller installs it.

The schema is generated from the structs of `model.migration`, with their descriptions and constraints, so that
`kubectl apply` refuses what could not be carried out. Rules that span time and the columns of `kubectl get` are here.
The message is the last column, because it may have any length.
"""

from __future__ import annotations

from enum import EnumType
from types import NoneType, UnionType
from typing import Annotated, Any, get_args, get_origin

import msgspec

from rescheduler import __version__
from rescheduler.model.json import Json
from rescheduler.model.migration import MigrationSpec, ObjectMeta, PodMigration, PodReference, ProposalReference
from rescheduler.model.time import Duration, Timestamp

API_VERSION = "rescheduler.io/v1alpha1"
KIND = "PodMigration"
CURE = "rescheduler crds | kubectl apply -f -"
"""The command that installs the definition, for people, if the controller may not."""
VERSION_ANNOTATION = "rescheduler.io/version"
"""Which version of ours wrote the definition: an older one leaves it alone."""

_METADATA: Json = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 63}}}
_TOGETHER = "migrations that stand or fall together stay together"
_RULES: dict[type, tuple[str, str]] = {
    PodReference: ("self == oldSelf", "a migration moves one pod: create another one for another pod"),
    ProposalReference: ("self == oldSelf", _TOGETHER),
    MigrationSpec: ("has(self.proposal) == has(oldSelf.proposal)", _TOGETHER),
}
"""What may not change once it is there: a CEL rule and its message, by struct."""
_TYPES: dict[Any, Json] = {
    str: {"type": "string"},
    bool: {"type": "boolean"},
    int: {"type": "integer"},
    float: {"type": "number"},
    Duration: {"type": "string"},
    Timestamp: {"type": "string", "format": "date-time"},
}


def _schema(hint: Any, default: object = None) -> Json:
    """The schema of a type, with keys in the order of its annotations."""
    metas: list[msgspec.Meta] = []
    if get_origin(hint) is Annotated:
        hint, *metas = get_args(hint)
    if get_origin(hint) is UnionType:  # absent is None
        hint = next(each for each in get_args(hint) if each is not NoneType)
    if get_origin(hint) is tuple:
        schema: Json = {"type": "array"}
    elif issubclass(hint, msgspec.Struct):
        schema = {"type": "object", "description": hint.__doc__}
    else:
        schema = dict(_TYPES.get(hint, _TYPES[str]))
    for meta in metas:
        keywords = meta.extra_json_schema or {}
        if meta.description:
            schema["description"] = meta.description
            if isinstance(hint, EnumType):
                schema["enum"] = msgspec.to_builtins(list[Any](hint))
            schema |= {"default": default} if default is not None else {}
        schema |= {key: value for key, value in keywords.items() if key != "required"}
        if "x-kubernetes-list-type" in keywords:
            schema["items"] = _schema(get_args(hint)[0])
    return schema | _members(hint) if schema["type"] == "object" else schema


def _members(struct: type[msgspec.Struct]) -> Json:
    """The fields of a struct, which of them are required, and what may not change."""
    required: list[str] = []
    properties: Json = {}
    for field in msgspec.structs.fields(struct):
        keywords = [meta.extra_json_schema or {} for meta in getattr(field.type, "__metadata__", ())]
        if field.required and all(each.get("required", True) for each in keywords):
            required.append(field.encode_name)
        # Only what people write has defaults; an empty one is the same as none.
        default = msgspec.to_builtins(field.default) if struct is MigrationSpec and not field.required else None
        if field.type is ObjectMeta:
            properties[field.encode_name] = _METADATA
        else:
            properties[field.encode_name] = _schema(field.type, None if default == "" else default)
    found: Json = {"required": [name for name in required if properties[name] is not _METADATA]} if required else {}
    found["properties"] = properties
    if struct in _RULES:
        rule, message = _RULES[struct]
        found["x-kubernetes-validations"] = [{"rule": rule, "message": message}]
    return found


def _column(name: str, path: str, description: str, **more: Any) -> Json:
    return {"name": name, "type": "string", "jsonPath": path, "description": description, **more}


_COLUMNS = [
    _column("Phase", ".status.phase", "The phase of the migration."),
    _column("Step", ".status.step", "The current step; it may not have been taken yet."),
    _column("From", ".status.source", "The node that the pod is moved from."),
    _column("To", ".status.target", "The node that the pod is moved to."),
    _column("Method", ".status.method", "How it is moved."),
    _column("Pod", ".spec.pod.name", "The pod that is moved; our own migrations are named after it.", priority=1),
    _column("Replacement", ".status.replacement.name", "The pod that takes its place.", priority=1),
    _column(
        "Strategy",
        ".spec.strategy",
        "The strategy that proposed the move, or Manual.",
        priority=1,
    ),
    _column("Attempts", ".status.attempts", "How often it was started.", type="integer", priority=1),
    _column("Age", ".metadata.creationTimestamp", "How long it has existed.", type="date"),
    _column("Message", ".status.message", "What it waits for, or what went wrong."),
]
_SELECTABLE = (".spec.pod.name", ".spec.strategy", ".status.phase", ".status.source", ".status.target")

POD_MIGRATION: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {
        "name": "podmigrations.rescheduler.io",
        "labels": {"app.kubernetes.io/name": "rescheduler"},
        "annotations": {VERSION_ANNOTATION: __version__},
    },
    "spec": {
        "group": "rescheduler.io",
        "scope": "Namespaced",
        "names": {
            "kind": "PodMigration",
            "listKind": "PodMigrationList",
            "plural": "podmigrations",
            "singular": "podmigration",
            "shortNames": ["pmig"],
        },
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "selectableFields": [{"jsonPath": path} for path in _SELECTABLE],
                "additionalPrinterColumns": _COLUMNS,
                "schema": {"openAPIV3Schema": _schema(PodMigration)},
            }
        ],
    },
}
