"""The CustomResourceDefinition of PodMigration, as `rescheduler crds` prints it and the controller installs it."""

from __future__ import annotations

from typing import Any

Json = dict[str, Any]

_TEXT: Json = {"type": "string"}
_TIME: Json = {"type": "string", "format": "date-time"}
_METHODS = ["auto", "handoff", "evict", "copy"]
_REFERENCE: Json = {"type": "object", "properties": {"kind": _TEXT, "name": _TEXT, "uid": _TEXT}}


def _described(schema: Json, description: str, **more: Any) -> Json:
    return {**schema, "description": description, **more}


_SPEC: Json = {
    "type": "object",
    "required": ["pod"],
    "x-kubernetes-validations": [
        {
            "rule": "self.pod == oldSelf.pod",
            "message": "a migration moves one pod: create another one for another pod",
        },
    ],
    "properties": {
        "pod": {
            "type": "object",
            "description": "The pod to move, in the migration's namespace.",
            "required": ["name"],
            "properties": {
                "name": _described(_TEXT, "Its name.", minLength=1, maxLength=253),
                "uid": _described(_TEXT, "Its UID; without it, whichever pod has the name when the migration begins."),
            },
        },
        "target": _described(_TEXT, "The node to move it to; without it, the best one is chosen."),
        "method": _described(_TEXT, "How it is moved.", enum=_METHODS, default="auto"),
        "strategy": _described(_TEXT, "Who wants it moved.", default="Manual"),
        "reason": _described(_TEXT, "Why."),
        "paused": _described({"type": "boolean"}, "Do not begin yet.", default=False),
        "timeout": _described(
            _TEXT, "After this time it is rolled back, such as 10m.", pattern=r"^([0-9.]+(h|m|s|ms))+$"
        ),
        "proposal": {
            "type": "object",
            "description": "Migrations that stand or fall together.",
            "required": ["name", "members"],
            "properties": {"name": _TEXT, "members": {"type": "integer", "minimum": 1}},
        },
    },
}
_STATUS: Json = {
    "type": "object",
    "properties": {
        "phase": _described(_TEXT, "Where it is in its life.", enum=["Pending", "InProgress", "Completed", "Failed"]),
        "step": _described(_TEXT, "The step that may have been begun."),
        "method": _described(_TEXT, "The method that was chosen."),
        "podUID": _described(_TEXT, "The UID of the pod that is moved."),
        "source": _described(_TEXT, "The node that it is moved from."),
        "target": _described(_TEXT, "The node that it is moved to."),
        "controller": _described(_REFERENCE, "Who manages the pod."),
        "workload": _described(_REFERENCE, "What carries the note of the move: the Deployment, or the controller."),
        "replacement": _described(_REFERENCE, "The pod that takes its place."),
        "bystanders": _described({"type": "array", "items": _TEXT}, "UIDs of pods that the new one is not."),
        "attempts": _described({"type": "integer"}, "How often it was begun."),
        "triedMethods": _described({"type": "array", "items": _TEXT}, "Methods that could not go on."),
        "message": _described(_TEXT, "What is going on, or went wrong."),
        "startTime": _described(_TIME, "When it was last begun."),
        "stepTime": _described(_TIME, "When its step was begun."),
        "completionTime": _described(_TIME, "When it was over."),
        "retryTime": _described(_TIME, "When it is tried again."),
        "observedGeneration": _described({"type": "integer", "format": "int64"}, "The spec that this status is about."),
        "conditions": {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": {
                "type": "object",
                "required": ["type", "status"],
                "properties": {
                    "type": _TEXT,
                    "status": _described(_TEXT, "True, False or Unknown.", enum=["True", "False", "Unknown"]),
                    "reason": _TEXT,
                    "message": _TEXT,
                    "lastTransitionTime": _TIME,
                    "observedGeneration": {"type": "integer", "format": "int64"},
                },
            },
        },
    },
}


def _column(name: str, path: str, **more: Any) -> Json:
    return {"name": name, "type": "string", "jsonPath": path, **more}


POD_MIGRATION: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "podmigrations.rescheduler.io", "labels": {"app.kubernetes.io/name": "rescheduler"}},
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
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "description": "One pod being moved to another node.",
                        "required": ["spec"],
                        "properties": {"spec": _SPEC, "status": _STATUS},
                    }
                },
                "additionalPrinterColumns": [
                    _column("Pod", ".spec.pod.name"),
                    _column("Phase", ".status.phase"),
                    _column("Step", ".status.step"),
                    _column("From", ".status.source"),
                    _column("To", ".status.target"),
                    _column("Method", ".status.method"),
                    _column("Strategy", ".spec.strategy", priority=1),
                    _column("Replacement", ".status.replacement.name", priority=1),
                    _column("Message", ".status.message"),
                    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
                ],
            }
        ],
    },
}
