"""The CustomResourceDefinition of PodMigration, as `rescheduler crds` prints it and the controller installs it.

Every field has a description, which `kubectl explain pmig.spec` shows. What a person may write is checked here, so that
`kubectl apply` refuses what could not be carried out. The columns of `kubectl get pmig -w` are short ones first: the
message may be of any length, so it comes last.
"""

from __future__ import annotations

from typing import Any

from rescheduler import __version__
from rescheduler.model.json import Json
from rescheduler.model.strategy_traits import MANUAL

API_VERSION = "rescheduler.io/v1alpha1"
KIND = "PodMigration"
CURE = "rescheduler crds | kubectl apply -f -"
"""What somebody with the rights runs where the controller may not install or update the definition."""
VERSION_ANNOTATION = "rescheduler.io/version"
"""Which version of ours wrote the definition: an older one leaves it alone."""

_TEXT: Json = {"type": "string"}
_TIME: Json = {"type": "string", "format": "date-time"}
_COUNT: Json = {"type": "integer", "minimum": 0}
_GENERATION: Json = {"type": "integer", "format": "int64", "minimum": 0}
_NAMES: Json = {"type": "array", "x-kubernetes-list-type": "atomic", "items": _TEXT}
_METHODS = ["handoff", "evict", "copy", "remove"]
# As Go writes durations, and as `model.duration` reads them; none of these is longer than it can count.
_DURATION = r"^([0-9]{1,6}(\.[0-9]{1,9})?h)?([0-9]{1,6}(\.[0-9]{1,9})?(m|s|ms|us|µs|ns))*$"


# Both stand in labels of the pod: the migration's name, and its strategy.
_LABEL: Json = {"minLength": 1, "maxLength": 63, "pattern": r"^[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"}
_METADATA: Json = {"type": "object", "properties": {"name": {**_TEXT, "maxLength": 63}}}


def _described(schema: Json, description: str, **more: Any) -> Json:
    return {**schema, "description": description, **more}


def _object(description: str, required: list[str], properties: Json, **more: Any) -> Json:
    needed = {"required": required} if required else {}
    return {"type": "object", "description": description, **needed, "properties": properties, **more}


def _reference(description: str) -> Json:
    properties = {
        "kind": _described(_TEXT, "Its kind."),
        "name": _described(_TEXT, "Its name."),
        "uid": _described(_TEXT, "Its UID."),
    }
    return _object(f"{description} It is in the same namespace.", ["name"], properties)


def _unchanging(message: str, rule: str = "self == oldSelf") -> Json:
    return {"x-kubernetes-validations": [{"rule": rule, "message": message}]}


_SPEC = _object(
    "What is to be done.",
    ["pod"],
    {
        "pod": _object(
            "The pod to move or remove, in the migration's namespace.",
            ["name"],
            {
                "name": _described(_TEXT, "Its name.", minLength=1, maxLength=253),
                "uid": _described(
                    _TEXT, "Its UID; without it, whichever pod has the name when the migration begins.", maxLength=128
                ),
            },
            **_unchanging("a migration moves one pod: create another one for another pod"),
        ),
        "target": _described(_TEXT, "The node to move it to; without it, the best one is chosen.", maxLength=253),
        "method": _described(
            _TEXT,
            "How it is moved: handoff starts the replacement first and lets the pod's ReplicaSet adopt it, evict "
            "evicts the pod and waits for its replacement, copy starts a copy first and then evicts the pod. Auto "
            "takes the gentlest of these that fits. Remove deletes a pod that has ended, and takes no target.",
            enum=["auto", *_METHODS],
            default="auto",
        ),
        "strategy": _described(_TEXT, "Who wants it moved.", default=MANUAL, **_LABEL),
        "reason": _described(_TEXT, "Why, for people."),
        "paused": _described({"type": "boolean"}, "Do not begin yet; what has begun goes on.", default=False),
        "timeout": _described(
            _TEXT,
            "When it takes longer than this, such as 10m, it is rolled back; without it, what the controller's "
            "configuration says.",
            pattern=_DURATION,
            minLength=2,
            maxLength=64,
        ),
        "approvalRequired": _described(
            {"type": "boolean"},
            "Do not begin until somebody approves of it: rescheduler approve, or the annotation "
            "rescheduler.io/approved with who approves.",
            default=False,
        ),
        "windowed": _described(
            {"type": "boolean"},
            "Set by the controller: it waits for the time windows of the configuration and counts for "
            "when.movesPerHour and movesPerHourPerNamespace, because nobody but the planner has asked for it.",
            default=False,
        ),
        "plan": _described(_TEXT, "Set by the controller: the plan that it is a part of; also a label.", **_LABEL),
        "expectedGain": _described(
            {"type": "number"},
            "Set by the controller: by how many percentage points the busier of the two nodes becomes less busy.",
        ),
        "proposal": _object(
            "Set by the controller: migrations that stand or fall together.",
            ["name", "members"],
            {
                "name": _described(_TEXT, "What they have in common.", minLength=1, maxLength=253),
                "members": _described({"type": "integer"}, "How many they are.", minimum=1),
            },
            **_unchanging("migrations that stand or fall together stay together"),
        ),
    },
    **_unchanging(
        "migrations that stand or fall together stay together", "has(self.proposal) == has(oldSelf.proposal)"
    ),
)

_CONDITION = _object(
    "Whether something is true of the migration, and since when.",
    ["type", "status", "lastTransitionTime", "reason", "message"],
    {
        "type": _described(_TEXT, "Progressing, Completed or Failed.", maxLength=316),
        "status": _described(_TEXT, "True, False or Unknown.", enum=["True", "False", "Unknown"]),
        "lastTransitionTime": _described(_TIME, "When the status last changed."),
        "reason": _described(
            _TEXT,
            "Why, in one word.",
            minLength=1,
            maxLength=1024,
            pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$",
        ),
        "message": _described(_TEXT, "Why, for people.", maxLength=32768),
        "observedGeneration": _described(_GENERATION, "The generation of the spec that this is about."),
    },
)

_STATUS = _object(
    "How far it has come; the controller writes it.",
    [],
    {
        "phase": _described(_TEXT, "Where it is in its life.", enum=["Pending", "InProgress", "Completed", "Failed"]),
        "step": _described(_TEXT, "The step that may have been begun."),
        "method": _described(_TEXT, "The method that was chosen.", enum=_METHODS),
        "podUID": _described(_TEXT, "The UID of the pod that is moved."),
        "source": _described(_TEXT, "The node that it is moved from."),
        "target": _described(_TEXT, "The node that it is moved to."),
        "controller": _reference("Who manages the pod."),
        "workload": _reference("What carries the note of the move: the Deployment, or the controller."),
        "replacement": _reference("The pod that takes its place."),
        "bystanders": _described(_NAMES, "UIDs of pods beside it, of which none is the replacement."),
        "attempts": _described(_COUNT, "How often it was begun."),
        "triedMethods": _described(
            _NAMES, "Methods that could not go on.", items=_described(_TEXT, "One of them.", enum=_METHODS)
        ),
        "message": _described(_TEXT, "What is going on, or went wrong."),
        "remark": _described(_TEXT, "What it had to do without."),
        "startTime": _described(_TIME, "When it was last begun."),
        "stepTime": _described(_TIME, "When its step was begun."),
        "completionTime": _described(_TIME, "When it was over."),
        "retryTime": _described(_TIME, "When it is tried again."),
        "outcome": _object(
            "What it came to, some time after it was completed.",
            ["verdict"],
            {
                "verdict": _described(
                    _TEXT, "Whether it was worth it.", enum=["Paid", "NotPaid", "CameBack", "Unknown"]
                ),
                "gain": _described({"type": "number"}, "The gain that came true, in percentage points."),
                "assessedTime": _described(_TIME, "When that was looked at."),
            },
        ),
        "observedGeneration": _described(_GENERATION, "The generation of the spec that this status is about."),
        "conditions": {
            "type": "array",
            "description": "Progressing while it is carried out, Completed once the pod has been moved, Failed once it "
            "was given up and everything was undone.",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["type"],
            "items": _CONDITION,
        },
    },
)


def _column(name: str, path: str, description: str, **more: Any) -> Json:
    return {"name": name, "type": "string", "jsonPath": path, "description": description, **more}


_COLUMNS = [
    _column("Phase", ".status.phase", "Where it is in its life."),
    _column("Step", ".status.step", "The step that may have been begun."),
    _column("From", ".status.source", "The node that the pod is moved from."),
    _column("To", ".status.target", "The node that the pod is moved to."),
    _column("Method", ".status.method", "How it is moved."),
    _column("Pod", ".spec.pod.name", "The pod that is moved; our own migrations are named after it.", priority=1),
    _column("Replacement", ".status.replacement.name", "The pod that takes its place.", priority=1),
    _column("Strategy", ".spec.strategy", "Who wants it moved.", priority=1),
    _column("Attempts", ".status.attempts", "How often it was begun.", type="integer", priority=1),
    _column("Age", ".metadata.creationTimestamp", "How long it has been there.", type="date"),
    _column("Message", ".status.message", "What is going on, or went wrong."),
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
                "schema": {
                    "openAPIV3Schema": _object(
                        "One pod being moved to another node.",
                        ["spec"],
                        {"metadata": _METADATA, "spec": _SPEC, "status": _STATUS},
                    )
                },
            }
        ],
    },
}
