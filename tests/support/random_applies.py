"""Random things that several managers apply to one ReplicaSet or one custom resource.

`tests/contract/test_applies_agree.py` has the real API server and the embedded cluster's own functions apply them. A
seed makes the same story on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

Json = dict[str, Any]

MANAGERS = ["alice", "bob", "carol"]
LETTERS = ["a", "b", "c", "d"]
GROUP = "applies.example.com"
SCHEMA: Json = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "size": {"type": "integer", "default": 3},
                "names": {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"},
                "order": {"type": "array", "items": {"type": "string"}},
                "parts": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name", "sort"],
                    "items": {
                        "type": "object",
                        "required": ["name"],
                        "properties": {
                            "name": {"type": "string"},
                            "sort": {"type": "string", "default": "plain"},
                            "size": {"type": "integer", "default": 1},
                            "marks": {"type": "object", "additionalProperties": {"type": "string"}},
                        },
                    },
                },
                "marks": {"type": "object", "additionalProperties": {"type": "string"}},
                "whole": {
                    "type": "object",
                    "x-kubernetes-map-type": "atomic",
                    "properties": {"x": {"type": "string"}, "y": {"type": "string"}},
                },
                "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                "deep": {
                    "type": "object",
                    "properties": {
                        "er": {
                            "type": "object",
                            "properties": {"x": {"type": "string"}, "y": {"type": "string", "nullable": True}},
                        }
                    },
                },
            },
        },
        "status": {
            "type": "object",
            "properties": {"phase": {"type": "string"}, "seen": {"type": "array", "items": {"type": "string"}}},
        },
    },
}
DEFINITION: Json = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"stories.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "stories", "kind": "Story"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {"openAPIV3Schema": SCHEMA},
            }
        ],
    },
}


@dataclass(frozen=True)
class Step:
    """What somebody does: apply an object, or (with `apply` False) patch it by a merge patch."""

    manager: str
    body: Json
    apply: bool = True
    force: bool = False
    subresource: str = ""


class RandomApplies:
    """Endless stories."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def story_steps(self, name: str, count: int, group: str = GROUP) -> list[Step]:
        """What happens to a custom resource."""
        head = {"apiVersion": f"{group}/v1", "kind": "Story"}
        return [self._step(head, name, self._story_spec, with_status=True) for _ in range(count)]

    def replica_set_steps(self, name: str, count: int) -> list[Step]:
        """What happens to a ReplicaSet; at first somebody makes a whole one."""
        head = {"apiVersion": "apps/v1", "kind": "ReplicaSet"}
        labels = {"app": name}
        made = {
            "replicas": 0,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "a", "image": "one"}]}},
        }
        first = Step("maker", {**head, "metadata": {"name": name}, "spec": made})
        return [first, *(self._step(head, name, self._replica_set_spec, with_status=False) for _ in range(count))]

    def _step(self, head: Json, name: str, spec: Any, *, with_status: bool) -> Step:
        manager = self._random.choice(MANAGERS)
        if self._maybe(0.08):
            return Step(manager, {"metadata": {"managedFields": [{}]}}, apply=False)  # forget who owns what
        metadata: Json = {"name": name}
        if self._maybe(0.4):
            metadata["labels"] = self._texts()
        if self._maybe(0.2):
            metadata["finalizers"] = [f"example.com/{each}" for each in self._some(LETTERS)]
        if self._maybe(0.25):
            patch = {"metadata": {key: metadata[key] for key in metadata if key != "name"}, "spec": spec(patch=True)}
            return Step(f"patching-{manager}", patch, apply=False)
        if with_status and self._maybe(0.15):
            status = {"phase": self._random.choice(LETTERS), "seen": self._some(LETTERS)}
            body = {**head, "metadata": {"name": name}, "status": status}
            return Step(manager, body, force=self._maybe(0.5), subresource="status")
        body = {**head, "metadata": metadata, "spec": spec()}
        return Step(manager, body, force=self._maybe(0.4))

    def _story_spec(self, *, patch: bool = False) -> Json:
        # Nothing empty: what a manager empties becomes null in the real API server, which then refuses the null.
        makers: dict[str, Callable[[], Any]] = {
            "size": lambda: self._random.randint(1, 3),
            "names": lambda: self._some(LETTERS) or LETTERS,
            "order": lambda: self._some(LETTERS) or LETTERS,
            "parts": lambda: [self._part(each) for each in self._some(LETTERS) or LETTERS],
            "marks": lambda: self._texts() or {"a": "1"},
            "whole": lambda: {each: self._random.choice(LETTERS) for each in self._some(["x", "y"]) or ["x"]},
            "free": lambda: {each: {"x": self._random.randint(1, 2)} for each in self._some(LETTERS[:2]) or ["a"]},
            "deep": lambda: {"er": {each: self._random.choice(LETTERS) for each in self._some(["x", "y"]) or ["x"]}},
        }
        chosen = self._some([key for key in makers if not patch or key not in ("parts", "names")])
        return {key: makers[key]() for key in chosen or ["size"]}

    def _part(self, name: str) -> Json:
        part: Json = {"name": name}
        if self._maybe(0.3):
            part["sort"] = self._random.choice(["plain", "fancy"])
        if self._maybe(0.4):
            part["size"] = self._random.randint(1, 3)
        if self._maybe(0.3):
            part["marks"] = self._texts() or {"a": "1"}
        return part

    def _replica_set_spec(self, *, patch: bool = False) -> Json:
        pod: Json = {}
        if not patch and self._maybe(0.6):
            pod["containers"] = [self._container(each) for each in self._some(LETTERS[:3])]
        if not patch and self._maybe(0.3):
            pod["volumes"] = [{"name": each, "emptyDir": {}} for each in self._some(LETTERS)]
        if self._maybe(0.3):
            pod["tolerations"] = [{"key": each, "operator": "Exists"} for each in self._some(LETTERS)]
        if self._maybe(0.3):
            pod["nodeSelector"] = self._texts()
        if self._maybe(0.2):
            pod["hostname"] = self._random.choice(LETTERS)
        if self._maybe(0.2):
            terms = [{"matchExpressions": [{"key": each, "operator": "Exists"}]} for each in LETTERS[:1]]
            pod["affinity"] = {
                "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
            }
        spec: Json = {"template": {"spec": pod}} if pod else {}
        if self._maybe(0.3):
            spec["minReadySeconds"] = self._random.randint(1, 3)
        if self._maybe(0.3):
            spec.setdefault("template", {})["metadata"] = {"labels": self._texts()}
        return spec

    def _container(self, name: str) -> Json:
        container: Json = {"name": name, "image": self._random.choice(["one", "two"])}
        if self._maybe(0.5):
            container["env"] = [{"name": each, "value": self._random.choice("12")} for each in self._some(LETTERS)]
        if self._maybe(0.3):
            container["ports"] = [{"containerPort": port} for port in self._some([80, 81])]
        if self._maybe(0.2):
            container["args"] = self._some(LETTERS)
        if self._maybe(0.3):
            container["resources"] = {"requests": {"cpu": self._random.choice(["1", "2"])}}
        return container

    def _texts(self) -> Json:
        return {each: self._random.choice(["1", "2"]) for each in self._some(LETTERS)}

    def _some(self, whole: list[Any]) -> list[Any]:
        return self._random.sample(whole, self._random.randint(0, len(whole)))

    def _maybe(self, chance: float) -> bool:
        return self._random.random() < chance
