"""Builders for stories about failed pods: Kubernetes objects as JSON, and cases made of them."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from rescheduler.migration.events import ObjectEvent
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.time import format_instant
from rescheduler.recovery.decision import RecoveryDecision, WorkloadState
from rescheduler.recovery.record import WHOLE, NodeFailure, RecordEntry, format_record, parse_record
from rescheduler.recovery.settings import RecoverySettings
from tests.support.pod_migrations import replace

NOW = 1_700_000_000.0
LONG_AGO = NOW - 10_000
NODES = tuple(f"n{number}" for number in range(1, 7))


def stamp(ago: float) -> str:
    """The time so many seconds before now."""
    return format_instant(NOW - ago)


def workload(kind: str, name: str = "web", retries: str | None = "3", **spec: Any) -> Json:
    """A workload with three retries."""
    metadata: Json = {"name": name, "namespace": "shop", "uid": f"uid-{name}", "annotations": {"team": "blue"}}
    if retries is not None:
        metadata["annotations"][labels.SCHEDULING_RETRIES] = retries
    template = {"metadata": {}, "spec": {"containers": [{"name": "app", "image": "shop/web:1"}]}}
    return {"kind": kind, "metadata": metadata, "spec": {"template": template} | spec, "status": {}}


def replica_set(deployment: Json, hashed: str = "aaa", revision: int = 1) -> Json:
    """A ReplicaSet of a Deployment."""
    name = f"{deployment['metadata']['name']}-{hashed}"
    made = workload("ReplicaSet", name, retries=None)
    made["metadata"]["labels"] = {labels.TEMPLATE_HASH: hashed}
    made["metadata"]["annotations"]["deployment.kubernetes.io/revision"] = str(revision)
    return made


def pod(name: str, node: str = "n1", owner: Json | None = None, **status: Any) -> Json:
    """A pod that has run well for a long time, unless its status says otherwise."""
    metadata: Json = {
        "name": name,
        "namespace": "shop",
        "uid": f"uid-{name}",
        "resourceVersion": "7",
        "creationTimestamp": format_instant(LONG_AGO),
        "labels": dict((owner or {}).get("metadata", {}).get("labels", {})),
        "annotations": {},
    }
    if owner is not None:
        reference = {"kind": owner["kind"], "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
        metadata["ownerReferences"] = [reference | {"controller": True}]
    spec = {"containers": [{"name": "app", "image": "shop/web:1"}]} | ({"nodeName": node} if node else {})
    well = {
        "phase": "Running",
        "startTime": format_instant(LONG_AGO),
        "conditions": [ready("True", NOW - LONG_AGO), scheduled(NOW - LONG_AGO)],
        "containerStatuses": [container(running={"startedAt": format_instant(LONG_AGO)})],
    }
    return {"kind": "Pod", "metadata": metadata, "spec": spec, "status": well | status}


def ready(status: str, ago: float = 60.0) -> Json:
    return {"type": "Ready", "status": status, "lastTransitionTime": stamp(ago)}


def scheduled(ago: float) -> Json:
    return {"type": "PodScheduled", "status": "True", "lastTransitionTime": stamp(ago)}


def container(name: str = "app", restarts: int = 0, last: Json | None = None, **state: Json) -> Json:
    """What is known of a container: its state, and how it ended before."""
    found: Json = {"name": name, "image": "shop/web:1", "restartCount": restarts, "state": state}
    return found | ({"lastState": {"terminated": last}} if last is not None else {})


def ended(code: int = 1, ago: float = 30.0, **more: Any) -> Json:
    return {"exitCode": code, "finishedAt": stamp(ago), "startedAt": stamp(ago + 5)} | more


def crashing(
    name: str = "web-x", node: str = "n1", owner: Json | None = None, restarts: int = 3, ago: float = 30.0
) -> Json:
    """A pod whose container crashes again and again."""
    waiting = container(restarts=restarts, last=ended(ago=ago), waiting={"reason": "CrashLoopBackOff"})
    return pod(name, node, owner, conditions=[ready("False"), scheduled(9_000)], containerStatuses=[waiting])


def failed(name: str, node: str = "n1", owner: Json | None = None, reason: str = "", ago: float = 30.0) -> Json:
    """A pod that has failed as a whole."""
    status: Json = {"phase": "Failed", "conditions": [ready("False", ago)], "containerStatuses": []}
    return pod(name, node, owner, **(status | ({"reason": reason} if reason else {})))


def node(name: str, status: str = "True", ago: float = 5_000.0) -> Json:
    return {"kind": "Node", "metadata": {"name": name}, "status": {"conditions": [ready(status, ago)]}}


class Everywhere(dict[str, frozenset[str]]):
    """The same nodes for every pod."""

    def __init__(self, nodes: frozenset[str]) -> None:
        super().__init__()
        self.nodes = nodes

    def __missing__(self, uid: str) -> frozenset[str]:
        return self.nodes


def case(
    holder: Json,
    *pods: Json,
    controllers: Iterable[Json] | None = None,
    feasible_nodes: Iterable[str] = NODES,
    **more: Any,
) -> WorkloadState:
    """A workload on healthy nodes, all of which could take its pods unless the test says which."""
    own = (holder,) if controllers is None and holder["kind"] != "Pod" else tuple(controllers or ())
    given: Json = {
        "nodes": {name: node(name) for name in NODES},
        "feasible_nodes": Everywhere(frozenset(feasible_nodes)),
        "settings": RecoverySettings(),
        "now": NOW,
    }
    return WorkloadState(
        workload=holder, controllers=own, pods=pods or ((holder,) if holder["kind"] == "Pod" else ()), **given | more
    )


def deployment_case(*pods: Json, replicas: int = 2, retries: str = "3", **more: Any) -> WorkloadState:
    """A Deployment whose pods, made by `of_deployment`, are these."""
    deployment = workload("Deployment", retries=retries, replicas=replicas)
    return case(deployment, *pods, controllers=(replica_set(deployment),), **more)


OWNER = replica_set(workload("Deployment"))
"""The ReplicaSet of the Deployment in `deployment_case`."""


def entries(decision: RecoveryDecision) -> dict[str, RecordEntry]:
    """The record that was decided on."""
    assert decision.record is not None
    return parse_record(decision.record)


def recorded(seen: WorkloadState, text: str | None) -> WorkloadState:
    """The same case after the record was written."""
    if text is None:
        return seen
    holder = copy.deepcopy(seen.workload)
    notes = holder["metadata"].setdefault("annotations", {})
    notes.pop(labels.FAILURES, None)
    if text:
        notes[labels.FAILURES] = text
    own = tuple(holder if each["metadata"]["uid"] == holder["metadata"]["uid"] else each for each in seen.controllers)
    pods = tuple(holder if each["metadata"]["uid"] == holder["metadata"]["uid"] else each for each in seen.pods)
    return replace(seen, workload=holder, controllers=own, pods=pods)


def known(count: int, *nodes: str, reason: str = "CrashLoopBackOff", ago: float = 60, **more: Any) -> str:
    """A record of failures on these nodes."""
    found = {name: NodeFailure(NOW - ago, reason) for name in nodes}
    return format_record({WHOLE: replace(RecordEntry(count=count, nodes=found), **more)})


def later(seen: WorkloadState, seconds: float, *pods: Json) -> WorkloadState:
    """The same case with other pods, some time later."""
    return replace(seen, now=seen.now + seconds, pods=pods)


def names(pods: Iterable[Json]) -> list[str]:
    return [each["metadata"]["name"] for each in pods]


def reasons(news: Iterable[ObjectEvent]) -> list[str]:
    """What was told, each once: most is told of the workload and of the pod."""
    return list(dict.fromkeys(each.reason for each in news))


def with_notes(body: Json, notes: Mapping[str, str]) -> Json:
    """The object with these annotations as well."""
    changed = copy.deepcopy(body)
    changed["metadata"].setdefault("annotations", {}).update(notes)
    return changed
