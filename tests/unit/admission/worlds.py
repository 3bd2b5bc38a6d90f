"""A cluster as the watches tell it, in namespace `shop`, for those who decide about new pods from memory."""

from __future__ import annotations

import json
from typing import Any

from rescheduler.admission.advisor import PlacementAdvisor
from rescheduler.decode.cache import ClusterCache
from rescheduler.model.advice import NewPod
from rescheduler.model.json import Json
from rescheduler.model.labels import FAILURES, SCHEDULING_RETRIES
from rescheduler.model.migration import MigrationStatus, ObjectReference, Phase, PodMigration
from rescheduler.model.objects import Owner
from rescheduler.model.plan import Method
from rescheduler.model.time import format_instant
from rescheduler.recovery.record import WHOLE, NodeFailure, RecordEntry, format_record
from rescheduler.recovery.settings import RecoverySettings
from rescheduler.runtime.migration_cache import MigrationCache
from tests.support.pod_migrations import migration_spec, pod_migration

NOW = 1_800_000_000.0
FORGET_AFTER = 3600.0
RETRIES = {SCHEDULING_RETRIES: "3"}
WEB = Owner("ReplicaSet", "web-abc", "web-abc-uid")


def record(*nodes: str, at: float = NOW - 60, slot: str = WHOLE, revision: str = "") -> Json:
    """The annotations of a workload whose pods failed on these nodes."""
    failures = {node: NodeFailure(at, "CrashLoopBackOff") for node in nodes}
    text = format_record({slot: RecordEntry(count=len(nodes), nodes=failures, revision=revision)})
    return {**RETRIES, FAILURES: text}


def reference(owner: Owner, api_version: str = "apps/v1") -> Json:
    """How an object names its controller."""
    return {"apiVersion": api_version, "kind": owner.kind, "name": owner.name, "uid": owner.uid, "controller": True}


class World:
    """Three worker nodes, one, two and three, and whatever is put."""

    def __init__(self, *nodes: str) -> None:
        self.time = NOW
        self.cache = ClusterCache("test")
        self.migrations = MigrationCache()
        for name in nodes or ("one", "two", "three"):
            self.node(name)

    def placement_advisor(self, *, gate: bool = False) -> PlacementAdvisor:
        settings = RecoverySettings(forget_after=FORGET_AFTER)
        return PlacementAdvisor(self.cache, self.migrations, lambda: settings, lambda: self.time, gate=gate)

    def put(self, kind: str, metadata: Json, **sections: Any) -> None:
        whole = {"namespace": "shop", "uid": f"{metadata['name']}-uid", "resourceVersion": "1"} | metadata
        self.cache.put(kind, json.dumps({"metadata": whole, "spec": {}, "status": {}} | sections).encode())

    def node(self, name: str, *, ready: bool = True, cordoned: bool = False, labels: Json | None = None) -> None:
        """One of the nodes, as it is now."""
        conditions = [{"type": "Ready", "status": "True" if ready else "False"}]
        metadata = {"name": name, "labels": labels or {}}
        self.put("Node", metadata, spec={"unschedulable": cordoned}, status={"conditions": conditions})

    def deployment(self, annotations: Json, name: str = "web") -> None:
        """A Deployment with one ReplicaSet, `<name>-abc`."""
        self.put("Deployment", {"name": name, "annotations": annotations})
        above = reference(Owner("Deployment", name, f"{name}-uid"))
        self.put("ReplicaSet", {"name": f"{name}-abc", "ownerReferences": [above]})

    def failed(self, name: str, owner: Owner, on: str, reason: str = "Evicted", uid: str = "") -> None:
        """A pod that has failed on its node."""
        metadata = {"name": name, "uid": uid or f"{name}-uid", "ownerReferences": [reference(owner)]}
        self.put("Pod", metadata, spec={"nodeName": on}, status={"phase": "Failed", "reason": reason})

    def migration(self, name: str = "m", *, pod: str = "web-abc-1", version: str = "1", **more: Any) -> PodMigration:
        """A pod of the ReplicaSet was evicted from node one, and the next is awaited, for node two."""
        known: Json = {
            "phase": Phase.IN_PROGRESS,
            "step": "AwaitRebuilt",
            "method": Method.EVICT,
            "pod_uid": "original-uid",
            "source": "one",
            "target": "two",
            "controller": ObjectReference("ReplicaSet", WEB.name, WEB.uid),
            "start_time": NOW - 5,
        }
        order = migration_spec(pod, strategy="LoadBalancing")
        found = pod_migration("shop", name, order, MigrationStatus(**(known | more)), f"{name}-uid", version, NOW)
        self.migrations.put(found)
        return found


def new_pod(owner: Owner | None = WEB, name: str = "", **more: Any) -> NewPod:
    """A pod that its controller is about to make."""
    return NewPod("shop", name, **({"owner": owner} | more))


def pod_json(owner: Owner | None = WEB, *, spec: Json | None = None, **metadata: Any) -> Json:
    """A new pod, as the API server shows it to webhooks."""
    about: Json = {"namespace": "shop"} | ({"generateName": f"{owner.name}-"} if owner else {"name": "solo"})
    if owner is not None:
        about["ownerReferences"] = [reference(owner)]
    inside = {"containers": [{"name": "c", "image": "i"}]} | (spec or {})
    return {"apiVersion": "v1", "kind": "Pod", "metadata": about | metadata, "spec": inside}


def review(pod: Any, **request: Any) -> bytes:
    """An AdmissionReview of the creation of a pod."""
    asked = {
        "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "requestKind": {"group": "", "version": "v1", "kind": "Pod"},
        "operation": "CREATE",
        "namespace": "shop",
        "object": pod,
        "oldObject": None,
        "dryRun": False,
    }
    return json.dumps(
        {"kind": "AdmissionReview", "apiVersion": "admission.k8s.io/v1", "request": asked | request}
    ).encode()


def at(seconds: float) -> str:
    return format_instant(seconds)
