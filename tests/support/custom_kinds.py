"""A kind of the tests' own, made by a CustomResourceDefinition: Widgets, of a group that no other test uses.

The contract's tests of custom kinds use it, and those of watches that must begin before a kind's history.
"""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rescheduler.model.json import Json
from tests.support.both_clusters import ClusterUnderTest, condition
from tests.testbed.api import ApiError
from tests.testbed.processes import until

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
SIZES = ["small", "large"]
SCHEMA: Json = {
    "type": "object",
    "required": ["spec"],
    "properties": {
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "string", "enum": SIZES},
                "count": {"type": "integer", "minimum": 0, "maximum": 9, "default": 1},
                "color": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 10},
                "target": {
                    "type": "object",
                    "default": {},
                    "properties": {"node": {"type": "string", "default": "any"}},
                },
                "when": {"type": "string", "format": "date-time"},
                "parts": {"type": "array", "maxItems": 2, "items": {"type": "string"}},
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "phase": {"type": "string"},
                "conditions": {
                    "type": "array",
                    "items": {
                        "type": "object",
                        "required": ["type"],
                        "properties": {"type": {"type": "string"}, "status": {"type": "string"}},
                    },
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["type"],
                },
            },
        },
    },
}
COLUMNS: list[Json] = [
    {"name": "Size", "type": "string", "jsonPath": ".spec.size"},
    {"name": "Phase", "type": "string", "jsonPath": ".status.phase"},
    {"name": "Count", "type": "integer", "jsonPath": ".spec.count", "priority": 1},
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
]


@dataclass(frozen=True)
class Widgets:
    """The kind, as one test has it."""

    cluster: ClusterUnderTest
    group: str

    @property
    def definition(self) -> str:
        return f"widgets.{self.group}"

    def path(self, namespace: str, name: str = "") -> str:
        return f"/apis/{self.group}/v1/namespaces/{namespace}/widgets" + (f"/{name}" if name else "")

    def widget(self, name: str, **spec: Any) -> Json:
        body = {"size": "small"} | spec
        return {"apiVersion": f"{self.group}/v1", "kind": "Widget", "metadata": {"name": name}, "spec": body}


@contextlib.contextmanager
def widgets(cluster: ClusterUnderTest, group: str = "") -> Iterator[Widgets]:
    """Established, and served, until the end of the block; in a new group, where none is named."""
    made = Widgets(cluster, group or f"contract-{secrets.token_hex(4)}.test")
    cluster.api.post(DEFINITIONS, definition(made.group))
    until(f"{made.definition} is served", lambda: is_served(made))
    try:
        yield made
    finally:
        with contextlib.suppress(ApiError):  # the test may have deleted it
            cluster.api.delete(f"{DEFINITIONS}/{made.definition}")
        until(f"{made.definition} is gone", lambda: not _exists(made))


def definition(group: str) -> Json:
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": SCHEMA},
        "subresources": {"status": {}},
        "additionalPrinterColumns": COLUMNS,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"widgets.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"]},
            "versions": [version],
        },
    }


def is_served(made: Widgets) -> bool:
    """Established is said a moment before all requests are served; its storage may be about to start (429)."""
    found = made.cluster.api.get(f"{DEFINITIONS}/{made.definition}")
    if condition(found, "Established").get("status") != "True":
        return False
    try:
        made.cluster.api.get(made.path("default"))
        kinds = made.cluster.api.get(f"/apis/{made.group}/v1")["resources"]
    except ApiError as error:
        if error.code not in (404, 429, 503):
            raise
        return False
    return any(each["name"] == "widgets" for each in kinds)


def _exists(made: Widgets) -> bool:
    found = made.cluster.api.get(DEFINITIONS)["items"]
    return any(each["metadata"]["name"] == made.definition for each in found)
