"""values.schema.json: what helm accepts as values of the chart, made from values.yaml and the configuration's models.

A value is of the type of its default, and a section has no values but those of values.yaml: a misspelt one is refused.
`SPECIAL` says what a default does not tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from charts.config_schema import config_schema
from charts.value_comments import Value

Schema = dict[str, Any]
_TEXTS: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
_OBJECTS: Schema = {"type": "array", "items": {"type": "object"}}
_NAME: Schema = {"type": "string", "pattern": "^([a-z0-9]([-a-z0-9]*[a-z0-9])?)?$", "maxLength": 50}
_OBJECT_NAME: Schema = {
    "type": "string", "pattern": "^([a-z0-9]([-.a-z0-9]*[a-z0-9])?)?$", "maxLength": 253,
}  # fmt: skip
_PORT: Schema = {"type": "integer", "minimum": 1, "maximum": 65535}
_QUANTITIES: Schema = {"type": "object", "additionalProperties": {"type": ["string", "number"]}}
_AS_IN_A_POD: Schema = {"type": "object"}
"""Checked by the API server, which knows the fields of its version."""
_SPREAD: Schema = {"enum": ["DoNotSchedule", "ScheduleAnyway", ""]}

SPECIAL: dict[str, Schema] = {
    "replicas": {"type": "integer", "minimum": 0},
    "image.repository": {"type": "string", "minLength": 1},
    "image.digest": {"type": "string", "pattern": "^(sha256:[0-9a-f]{64})?$"},
    "image.pullPolicy": {"enum": ["Always", "IfNotPresent", "Never"]},
    "imagePullSecrets": _OBJECTS,
    "nameOverride": _NAME,
    "fullnameOverride": _NAME,
    "logs.format": {"enum": ["text", "json"]},
    "extraArgs": {"type": "array", "items": {"type": "string"}},
    "extraEnv": _OBJECTS,
    "extraVolumes": _OBJECTS,
    "extraVolumeMounts": _OBJECTS,
    "commonLabels": _TEXTS,
    "existingConfigMap": _OBJECT_NAME,
    "serviceAccount.name": _OBJECT_NAME,
    "serviceAccount.annotations": _TEXTS,
    "crds.by": {"enum": ["chart", "controller", "nobody"]},
    "service.type": {"enum": ["ClusterIP", "NodePort", "LoadBalancer"]},
    "service.port": _PORT,
    "service.annotations": _TEXTS,
    "resources": {
        "type": "object",
        "properties": {"requests": _QUANTITIES, "limits": _QUANTITIES, "claims": _OBJECTS},
        "additionalProperties": False,
    },
    "spread.nodes": _SPREAD,
    "spread.zones": _SPREAD,
    "nodeSelector": _TEXTS,
    "tolerations": _OBJECTS,
    "affinity": _AS_IN_A_POD,
    "deploymentAnnotations": _TEXTS,
    "podAnnotations": _TEXTS,
    "podLabels": _TEXTS,
    "dnsPolicy": {"enum": ["ClusterFirst", "ClusterFirstWithHostNet", "Default", "None", ""]},
    "dnsConfig": _AS_IN_A_POD,
    "podSecurityContext": _AS_IN_A_POD,
    "securityContext": _AS_IN_A_POD,
    "terminationGracePeriodSeconds": {"type": "integer", "minimum": 0},
    "priorityClass.value": {"type": "integer", "minimum": -2147483648, "maximum": 1000000000},
    "podDisruptionBudget.maxUnavailable": {
        "anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "pattern": "^[0-9]{1,3}%$"}]
    },
    "networkPolicy.webFrom": _OBJECTS,
    "networkPolicy.webhookFrom": _OBJECTS,
    "networkPolicy.apiServerPorts": {"type": "array", "minItems": 1, "items": _PORT},
    "networkPolicy.apiServerTo": _OBJECTS,
    "networkPolicy.dnsTo": _OBJECTS,
    "networkPolicy.extraEgress": _OBJECTS,
    "serviceMonitor.interval": {"type": "string", "pattern": "^([0-9]+(ms|s|m|h))+$"},
    "serviceMonitor.labels": _TEXTS,
    "serviceMonitor.relabelings": _OBJECTS,
    "serviceMonitor.metricRelabelings": _OBJECTS,
    "prometheusRule.labels": _TEXTS,
    "grafanaDashboard.labels": _TEXTS,
    "grafanaDashboard.annotations": _TEXTS,
}
_TYPES = {bool: "boolean", str: "string", int: "integer"}


def value_schema(values: Sequence[Value]) -> Schema:
    """The whole schema."""
    config, definitions = config_schema()
    root = _section(values, (), SPECIAL | {"config": config})
    root["required"] = ["config"]  # null takes a value's default away, and the chart reads ports and names in this one
    root["properties"]["global"] = {
        "type": "object",
        "description": "Given by helm where the chart is a part of another; not used.",
    }
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **root, "$defs": definitions}


def _section(values: Sequence[Value], at: tuple[str, ...], special: dict[str, Schema]) -> Schema:
    properties: Schema = {}
    for each in values:
        if each.path[:-1] != at:
            continue
        known = special.get(each.name) or (_section(values, each.path, special) if each.is_section else _typed(each))
        properties[each.path[-1]] = {**known, "description": each.comment}
    return {"type": "object", "properties": properties, "additionalProperties": False}


def _typed(value: Value) -> Schema:
    kind = _TYPES.get(type(value.default))
    if kind is None:
        raise ValueError(f"{value.name}: say in SPECIAL of charts/value_schema.py what it may be")
    return {"type": kind}
