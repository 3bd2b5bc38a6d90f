"""Random patches for a Deployment: merge, JSON and strategic ones, most of them sensible, some of them not.

`tests/contract/test_patches_agree.py` sends each to the real API server and gives it to the embedded cluster's own
functions. A seed makes the same patches on every machine.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any

Json = dict[str, Any]

NAMES = ["a", "b", "c", "d"]
POD = "/spec/template/spec"
PLACES: dict[str, list[Any]] = {
    "/metadata/labels/a": ["1", "2"],
    "/metadata/labels/z": ["1", "2", None],
    "/metadata/annotations/x~1y": ["1"],
    "/metadata/annotations/a": ["1", "2"],
    "/metadata/finalizers/0": ["example.com/c", "example.com/a"],
    "/metadata/finalizers/-": ["example.com/d"],
    "/metadata/finalizers/-1": ["example.com/e"],
    f"{POD}/containers/1": [{"name": "d", "image": "i"}],
    f"{POD}/containers/0/image": ["one", "two"],
    f"{POD}/containers/0/env/1": [{"name": "d", "value": "4"}, {"name": "b", "value": "1"}],
    f"{POD}/containers/0/env/-": [{"name": "e", "value": "5"}],
    f"{POD}/containers/2/args/0": ["x", "z"],
    f"{POD}/nodeSelector": [{}, {"a": "1", "b": "2"}],
    f"{POD}/nodeSelector/a": ["1", "3"],
    f"{POD}/hostAliases": [[], [{"ip": "10.0.0.9", "hostnames": ["q"]}]],
    "/spec/replicas": [0, 3, None],
}
NOWHERE = ["/spec/nothing/there", f"{POD}/containers/x/args/0", "/metadata/finalizers/7", "", f"{POD}/affinity/x"]
VALUES = ["1", "two", 3, None, True, {"name": "d"}, ["q"], {}]
DIRECTIVES = ["delete", "delete", "delete", "replace", "merge", "nonsense"]


def deployment(name: str, owners: list[str]) -> Json:
    """One with something in every list that a patch may merge; `owners` are uids of ConfigMaps."""
    container = {
        "image": "one",
        "env": [{"name": each, "value": "1"} for each in NAMES[:3]],
        "ports": [{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}, {"containerPort": 81}],
        "volumeMounts": [{"name": "a", "mountPath": "/a"}, {"name": "b", "mountPath": "/b"}],
        "args": ["x", "y"],
        "resources": {"requests": {"cpu": "100m", "memory": "1Mi"}},
    }
    spec = {
        "containers": [{"name": each, **container} for each in NAMES[:3]],
        "initContainers": [{"name": "z", "image": "one"}],
        "volumes": [{"name": "a", "emptyDir": {}}, {"name": "b", "configMap": {"name": "b"}}],
        "tolerations": [{"key": "a", "operator": "Exists"}],
        "imagePullSecrets": [{"name": "a"}, {"name": "b"}],
        "hostAliases": [{"ip": "10.0.0.1", "hostnames": ["a"]}],
        "nodeSelector": {"a": "1", "b": "2"},
        "topologySpreadConstraints": [
            {"topologyKey": each, "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"} for each in NAMES[:2]
        ],
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {
            "name": name,
            "labels": {"a": "1", "b": "2"},
            "annotations": {"a": "1"},
            "finalizers": ["example.com/a", "example.com/b"],
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid}
                for name, uid in zip(NAMES, owners, strict=False)
            ],
        },
        "spec": {
            "replicas": 0,
            "paused": True,
            "selector": {"matchLabels": {"app": name}},
            "template": {"metadata": {"labels": {"app": name, "a": "1"}}, "spec": spec},
        },
    }


class RandomPatches:
    """An endless supply of patches."""

    def __init__(self, seed: int, owners: list[str]) -> None:
        self._random = Random(seed)
        self._owners = [*owners, "another"]

    def merge(self) -> Json:
        """A merge patch: parts of objects, whole lists."""
        return self._object(strategic=False)

    def strategic(self) -> Json:
        """A strategic merge patch, with directives here and there."""
        return self._object(strategic=True)

    def operations(self) -> list[Json]:
        """A JSON patch."""
        return [self._operation() for _ in range(self._random.randint(1, 3))]

    def _operation(self) -> Json:
        places = [*PLACES, *NOWHERE] if self._random.random() < 0.1 else [*PLACES]
        operation: Json = {
            "op": self._random.choice(["add", "add", "remove", "replace", "move", "copy", "test"]),
            "path": self._random.choice(places),
        }
        if operation["op"] in ("move", "copy"):
            operation["from"] = self._random.choice([operation["path"], *places[:4]])
        elif operation["op"] != "remove":
            values = VALUES if self._random.random() < 0.1 else PLACES.get(operation["path"], VALUES)
            operation["value"] = self._random.choice(values)
        return operation

    def _object(self, *, strategic: bool) -> Json:
        pick = self._random.random
        patch: Json = {}
        if pick() < 0.4:
            patch["metadata"] = self._metadata(strategic=strategic)
        if pick() < 0.2:
            patch["spec"] = {"replicas": self._random.choice([0, 1, None, "three"])}
        if pick() < 0.2:
            strategy: Json = {"type": self._random.choice(["Recreate", "RollingUpdate"])}
            if strategic and pick() < 0.7:
                strategy["$retainKeys"] = self._random.choice([["type"], ["type", "rollingUpdate"], ["rollingUpdate"]])
            patch.setdefault("spec", {})["strategy"] = strategy
        if pick() < 0.8:
            patch.setdefault("spec", {})["template"] = {"spec": self._pod(strategic=strategic)}
        return self._directed(patch, strategic=strategic, chance=0.01)

    def _metadata(self, *, strategic: bool) -> Json:
        metadata: Json = {"labels": self._texts()}
        if self._random.random() < 0.5:
            metadata["finalizers"] = self._some([f"example.com/{each}" for each in NAMES])
        if strategic and self._random.random() < 0.4:
            metadata["$deleteFromPrimitiveList/finalizers"] = ["example.com/a"]
            metadata.pop("finalizers", None)
        if self._random.random() < 0.4:
            owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x"}
            metadata["ownerReferences"] = [{**owner, "uid": each} for each in self._some(self._owners)]
        return metadata

    def _pod(self, *, strategic: bool) -> Json:
        pod: Json = {}
        builders: dict[str, Callable[[str], Json]] = {
            "containers": lambda each: self._container(each, strategic=strategic),
            "initContainers": lambda each: self._container(each, strategic=strategic),
            "volumes": lambda each: {"name": each, **self._volume(strategic=strategic)},
            "imagePullSecrets": lambda each: {"name": each},
            "hostAliases": lambda each: {"ip": f"10.0.0.{ord(each) - 96}", "hostnames": [each, "x"]},
            "topologySpreadConstraints": lambda each: {"topologyKey": each, "maxSkew": 2},
            "tolerations": lambda each: {"key": each, "operator": "Exists"},
            "schedulingGates": lambda each: {"name": f"example.com/{each}"},
        }
        keys = {"hostAliases": "ip", "topologySpreadConstraints": "topologyKey", "tolerations": "key"}
        for field, build in builders.items():
            if self._random.random() < 0.35:
                pod |= self._list(
                    field, keys.get(field, "name"), [build(each) for each in self._some(NAMES)], strategic
                )
        if self._random.random() < 0.3:
            pod["nodeSelector"] = self._texts()
        if self._random.random() < 0.2:
            pod[self._random.choice(["affinity", "hostname", "tolerations", "volumes", "nodeSelector"])] = None
        return self._directed(pod, strategic=strategic, chance=0.03)

    def _container(self, name: str, *, strategic: bool) -> Json:
        container: Json = {"name": name, "image": self._random.choice(["one", "two", None])}
        if self._random.random() < 0.5:
            items = [{"name": each, "value": self._random.choice(["1", "2", None])} for each in self._some(NAMES)]
            container |= self._list("env", "name", items, strategic)
        if self._random.random() < 0.3:
            items = [{"containerPort": port, "name": f"p{port}"} for port in self._some([80, 81, 82])]
            container |= self._list("ports", "containerPort", items, strategic)
        if self._random.random() < 0.2:
            container["args"] = self._some(["x", "y", "z"])
        if self._random.random() < 0.2:
            container["resources"] = {"requests": {"cpu": self._random.choice(["1", None, 2])}}
        return self._directed(container, strategic=strategic, chance=0.02)

    def _volume(self, *, strategic: bool) -> Json:
        kind = self._random.choice(["emptyDir", "configMap", "hostPath"])
        source = {"emptyDir": {}, "configMap": {"name": "x"}, "hostPath": {"path": "/x"}}[kind]
        if strategic and self._random.random() < 0.5:
            return {"$retainKeys": ["name", kind], kind: source}
        return {kind: source}

    def _list(self, field: str, key: str, items: list[Json], strategic: bool) -> Json:
        if not strategic or field == "tolerations":  # which are not merged; an order for them breaks the real one
            return {field: items}
        patch: Json = {field: items}
        if self._random.random() < 0.25:
            order = [{key: each[key]} for each in items] + [{key: each} for each in self._some(NAMES[:2])]
            if self._random.random() < 0.3:
                self._random.shuffle(order)
            patch[f"$setElementOrder/{field}"] = order
            if self._random.random() < 0.2:
                del patch[field]
        # Not both: where the API server puts additions beside deletions depends on free memory behind its list.
        elif items and self._random.random() < 0.3:
            victim = self._random.choice(items)
            patch[field] = [*items, {key: victim[key], "$patch": self._random.choice(DIRECTIVES)}]
            if self._random.random() < 0.7:
                patch[field].remove(victim)
        if field in patch and self._random.random() < 0.03:
            patch[field] = [*patch[field], self._random.choice([{"$patch": "replace"}, {"image": "keyless"}])]
        return patch

    def _directed(self, patch: Json, *, strategic: bool, chance: float) -> Json:
        if strategic and self._random.random() < chance:
            return {**patch, "$patch": self._random.choice(["replace", "delete", "nonsense"])}
        return patch

    def _texts(self) -> Json:
        return {each: self._random.choice(["1", "9", None]) for each in self._some(NAMES)}

    def _some(self, whole: list[Any]) -> list[Any]:
        return self._random.sample(whole, self._random.randint(0, len(whole)))
