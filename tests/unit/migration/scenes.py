"""Scenes for the lifecycle's tests: one Deployment of two pods, of which `web-a` on node `one` is to move to `two`.

Builders give Kubernetes' own JSON; what a test varies is an argument. Nothing here talks to a cluster.
"""

from __future__ import annotations

from typing import Any

from rescheduler.migration.observation import Observation, StepContext
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.migration import MigrationSpec, MigrationStatus, ObjectReference, Phase, PodMigration
from rescheduler.model.plan import Method
from rescheduler.model.time import format_instant
from tests.support.pod_migrations import migration_spec, pod_migration

NOW = 1_800_000_000.0
SET = ObjectReference("ReplicaSet", "web-1", "rs-uid")
HASH = {"app": "web", "pod-template-hash": "1"}


def meta(name: str, uid: str, **more: Any) -> Json:
    return {"name": name, "namespace": "shop", "uid": uid, "resourceVersion": "7", "generation": 1, **more}


def pod(name: str = "web-a", *, node: str = "one", ready: bool = True, owner: bool = True, **more: Any) -> Json:
    metadata = meta(name, f"{name}-uid", labels=dict(HASH), creationTimestamp=format_instant(NOW - 500))
    if owner:
        metadata["ownerReferences"] = [{"kind": "ReplicaSet", "name": "web-1", "uid": "rs-uid", "controller": True}]
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": format_instant(NOW - 100)}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata | more,
        "spec": {"nodeName": node, "containers": [{"name": "main", "image": "x"}]},
        "status": {"phase": "Running", "conditions": [condition]},
    }


def copy_of(**more: Any) -> Json:
    """A copy that is Ready on the target, and still ours."""
    body = pod("copy", node="two", owner=False)
    body["metadata"] |= {
        "labels": {"app": "web", labels.MIGRATION_ID: "m", labels.MIGRATION_STATUS: "in-progress"},
        "annotations": {labels.ORIGINAL_POD: "web-a-uid", labels.WITHHELD: '{"pod-template-hash": "1"}'},
        "ownerReferences": [{"kind": "PodMigration", "name": "m", "uid": "m-uid"}],
    }
    body["metadata"] |= more
    return body


def replica_set(replicas: int = 2, **more: Any) -> Json:
    owner = {"kind": "Deployment", "name": "web", "uid": "dep-uid", "controller": True}
    template = {"metadata": {"labels": dict(HASH)}, "spec": {"containers": [{"name": "main", "image": "x"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": meta("web-1", "rs-uid", ownerReferences=[owner]) | more,
        "spec": {"replicas": replicas, "selector": {"matchLabels": dict(HASH)}, "template": template},
        "status": {"observedGeneration": 1},
    }


def deployment(replicas: int = 2, *, paused: bool = False, **more: Any) -> Json:
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": meta("web", "dep-uid") | more,
        "spec": {"replicas": replicas} | ({"paused": True} if paused else {}),
        "status": {"observedGeneration": 1, "replicas": replicas, "updatedReplicas": replicas},
    }


def budget(name: str = "web", *, allowed: int = 1, **more: Any) -> Json:
    return {
        "kind": "PodDisruptionBudget",
        "metadata": meta(name, f"{name}-uid") | more,
        "spec": {"selector": {"matchLabels": {"app": "web"}}},
        "status": {"observedGeneration": 1, "disruptionsAllowed": allowed},
    }


def node(name: str = "two", *, ready: bool = True, **more: Any) -> Json:
    metadata = {"name": name, "uid": f"{name}-uid", "resourceVersion": "7"} | more
    status = {"conditions": [{"type": "Ready", "status": str(ready)}]}
    return {"apiVersion": "v1", "kind": "Node", "metadata": metadata, "spec": {}, "status": status}


def stateful_set(replicas: int = 2) -> Json:
    """In the place of the ReplicaSet, and the owner of the same pods."""
    return replica_set(replicas) | {"kind": "StatefulSet"}


def migration(
    method: Method = Method.HANDOFF, step: str = "", *, order: MigrationSpec | None = None, **more: Any
) -> PodMigration:
    """In progress, in a step, begun a minute ago."""
    known: Json = {
        "phase": Phase.IN_PROGRESS,
        "method": method,
        "step": step,
        "pod_uid": "web-a-uid",
        "source": "one",
        "target": "two",
        "controller": SET if method is not Method.COPY else None,
        "replacement": ObjectReference("Pod", "copy"),
        "attempts": 1,
        "start_time": NOW - 60,
        "step_time": NOW - 10,
    }
    return pod_migration(
        "shop", "m", order or migration_spec("web-a", target="two"), MigrationStatus(**(known | more)), "m-uid", "1"
    )


def scene(moving: PodMigration, *copies: Json, **seen: Any) -> StepContext:
    """The workload at rest, but for what is given."""
    original = seen.pop("pod", pod())
    there: Json = {
        "pod": original,
        "marked": copies,
        "controller": replica_set() if moving.status.method is not Method.COPY else None,
        "deployment": deployment() if moving.status.method is not Method.COPY else None,
        "siblings": tuple(each for each in (original, pod("web-b")) if each is not None),
        "target": node(),
    }
    return StepContext(moving, Observation(**(there | seen)), NOW)


def leaving(body: Json) -> Json:
    return body | {"metadata": body["metadata"] | {"deletionTimestamp": format_instant(NOW)}}


def evicted(body: Json) -> Json:
    """Leaving by an eviction, not by a deletion."""
    status = body["status"]
    conditions = [*status["conditions"], {"type": "DisruptionTarget", "status": "True"}]
    return leaving(body | {"status": status | {"conditions": conditions}})
