"""Kubernetes objects as kubectl prints them, written by hand: for tests that start from a file.

Each builder gives one plain object (or a few); `dump` puts them into a List, `written` into a file. Fields that
planning doesn't read, secrets among them, are there as in real objects, so that recordings can be shown to lose them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

Object = dict[str, Any]

BORN = "2020-01-15T07:00:00Z"
NOW = "2020-01-15T08:00:00Z"
SECRET = "hunter2-do-not-record"  # in every place of an object that must not be recorded

_LEAKY = {
    "kubectl.kubernetes.io/last-applied-configuration": f'{{"password":"{SECRET}"}}',
    "vault.example.com/token": SECRET,
}


def node(
    name: str,
    cpu: str | int = "4",
    memory: str = "8Gi",
    *,
    labels: Mapping[str, str] | None = None,
    **spec: Any,
) -> Object:
    """A Node that is ready, with room for 110 pods."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/hostname": name, **(labels or {})},
            "annotations": dict(_LEAKY),
            "managedFields": [{"manager": SECRET}],
        },
        "spec": {"providerID": SECRET, **spec},
        "status": {
            "allocatable": {"cpu": cpu, "memory": memory, "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True", "message": SECRET}],
            "images": [{"names": [SECRET]}],
        },
    }


def pod(
    name: str,
    on: str | None = None,
    cpu: str | int | None = "100m",
    memory: str | None = "64Mi",
    *,
    namespace: str = "default",
    labels: Mapping[str, str] | None = None,
    owner: Object | None = None,
    annotations: Mapping[str, str] | None = None,
    **spec: Any,
) -> Object:
    """A running pod, an hour old at NOW."""
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value is not None}
    metadata: Object = {
        "name": name,
        "namespace": namespace,
        "uid": f"uid-{namespace}-{name}",
        "creationTimestamp": BORN,
        "labels": dict(labels or {}),
        "annotations": {**_LEAKY, **(annotations or {})},
        "managedFields": [{"manager": SECRET}],
    }
    if owner is not None:
        meta = owner["metadata"]
        metadata["ownerReferences"] = [
            {
                "apiVersion": owner["apiVersion"],
                "kind": owner["kind"],
                "name": meta["name"],
                "uid": meta["uid"],
                "controller": True,
            }
        ]
    container = {
        "name": "main",
        "image": SECRET,
        "command": [SECRET],
        "args": [SECRET],
        "env": [{"name": "PASSWORD", "value": SECRET}],
        "envFrom": [{"secretRef": {"name": SECRET}}],
        "livenessProbe": {"exec": {"command": [SECRET]}},
        "resources": {"requests": requests},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {
            "containers": [container],
            "imagePullSecrets": [{"name": SECRET}],
            "volumes": [{"name": "token", "secret": {"secretName": SECRET}}],
            **({"nodeName": on} if on else {}),
            **spec,
        },
        "status": {
            "phase": "Running" if on else "Pending",
            "message": SECRET,
            "conditions": [{"type": "Ready", "status": "True" if on else "False", "message": SECRET}],
            "containerStatuses": [{"name": "main", "image": SECRET, "lastState": {"terminated": {"message": SECRET}}}],
        },
    }


def deployment(
    name: str, on: Iterable[str], *, namespace: str = "default", recreate: bool = False, **options: Any
) -> list[Object]:
    """A Deployment, its ReplicaSet, and `<name>-<n>` pods on these nodes."""
    nodes = list(on)
    labels = {"app": name, "pod-template-hash": "5d4f"}
    above = _workload("Deployment", name, namespace, len(nodes), {"app": name})
    above["spec"]["strategy"] = {"type": "Recreate" if recreate else "RollingUpdate"}
    below = _workload("ReplicaSet", f"{name}-5d4f", namespace, len(nodes), labels)
    below["metadata"]["ownerReferences"] = [
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "name": name,
            "uid": above["metadata"]["uid"],
            "controller": True,
        }
    ]
    pods = [
        pod(f"{name}-{index}", place, namespace=namespace, labels=labels, owner=below, **options)
        for index, place in enumerate(nodes)
    ]
    return [above, below, *pods]


def pdb(name: str, allowed: int, *, namespace: str = "default") -> Object:
    """A PodDisruptionBudget over `app=<name>` with this headroom."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": name, "namespace": namespace, "generation": 1},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": name}}},
        "status": {"disruptionsAllowed": allowed, "observedGeneration": 1},
    }


def dump(*objects: Object | Iterable[Object]) -> Object:
    """The List that kubectl prints."""
    return {"apiVersion": "v1", "items": flat(objects), "kind": "List", "metadata": {"resourceVersion": ""}}


def flat(objects: Iterable[Object | Iterable[Object]]) -> list[Object]:
    """Objects and lists of objects as one list."""
    found: list[Object] = []
    for item in objects:
        if isinstance(item, dict):
            found.append(item)
        else:
            found.extend(item)
    return found


def written(path: Path, *objects: Object | Iterable[Object]) -> str:
    """The file that holds them; its name."""
    path.write_text(json.dumps(dump(*objects)))
    return str(path)


def hot_cluster() -> list[Object]:
    """Three nodes: `a` is at 90% CPU, `b` at 10%, `c` at 2.5%; four pods can leave `a`, one is the system's."""
    return flat(
        [
            node("a"),
            node("b"),
            node("c"),
            *deployment("web", ["a", "a", "b"], cpu="400m"),
            *deployment("api", ["a", "a"], cpu="1", namespace="shop"),
            pod("lonely", "a", "700m"),
            pod("dns", "a", "100m", namespace="kube-system"),
            pod("log", "c", "100m", namespace="kube-system"),
        ]
    )


def _workload(kind: str, name: str, namespace: str, replicas: int, selector: Mapping[str, str]) -> Object:
    template = {"spec": {"containers": [{"name": "main", "env": [{"name": "PASSWORD", "value": SECRET}]}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": f"uid-{kind}-{namespace}-{name}",
            "annotations": dict(_LEAKY),
        },
        "spec": {"replicas": replicas, "selector": {"matchLabels": dict(selector)}, "template": template},
    }
