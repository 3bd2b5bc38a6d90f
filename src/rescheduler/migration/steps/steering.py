"""Steering a new pod by its ReplicaSet's template, and undoing that; shared by the method evict and the orphan cleaner.

It is used if our webhook is not active. Annotations of Deployment and ReplicaSet name the migration that changed them
and keep what was there before. The order of undoing matters: first the template, then, once controllers have observed
it, the pause.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from rescheduler.migration import commands
from rescheduler.migration.commands import Command
from rescheduler.migration.observation import SteeringMethod, StepContext
from rescheduler.migration.steps.common import Do, Done, Wait, is_observed
from rescheduler.model import labels
from rescheduler.model.json import Json, annotations_of
from rescheduler.model.migration import MigrationStatus

HOSTNAME = "kubernetes.io/hostname"


def add_preference(affinity: Json | None, progress: MigrationStatus) -> Json:
    """An affinity with a preference for the target and one against the source; weights cannot be negative."""
    terms = [
        {"weight": 100, "preference": _hostname("In", progress.target)},
        {"weight": 50, "preference": _hostname("NotIn", progress.source)},
    ]
    affinity = affinity or {}
    nodes = affinity.get("nodeAffinity") or {}
    preferred = [*(nodes.get("preferredDuringSchedulingIgnoredDuringExecution") or ()), *terms]
    return {**affinity, "nodeAffinity": {**nodes, "preferredDuringSchedulingIgnoredDuringExecution": preferred}}


def restore(context: StepContext) -> Do | Wait | Done:
    """Restore the template and the Deployment, if this migration changed them."""
    controller, deployment, name = context.seen.controller, context.seen.deployment, context.migration.name
    if controller is not None and read_steering(controller).get("migration") == name:
        return Do((restore_template(controller),))
    if deployment is not None and annotations_of(deployment).get(labels.PAUSED_BY) == name:
        return resume(deployment, (controller,) if controller is not None else ())
    return Done()


def restore_template(controller: Json) -> Command:
    """Restore the affinity of a ReplicaSet's template from its annotation."""
    metadata, before = controller["metadata"], read_steering(controller)["affinity"]
    at = "/spec/template/spec/affinity"
    note = "/metadata/annotations/" + labels.AFFINITY_BEFORE.replace("~", "~0").replace("/", "~1")
    body: list[Json] = [
        {"op": "test", "path": "/metadata/uid", "value": metadata["uid"]},
        {"op": "test", "path": note, "value": annotations_of(controller)[labels.AFFINITY_BEFORE]},
        {"op": "remove", "path": at} if before is None else {"op": "replace", "path": at, "value": before},
        {"op": "remove", "path": note},
    ]
    why = "take the preference out again"
    return Command(commands.Verb.PATCH, "ReplicaSet", metadata["namespace"], metadata["name"], body, why=why)


def resume(deployment: Json, controllers: Iterable[Json]) -> Do | Wait:
    """Resume a Deployment that we paused.

    If it were resumed before its controller observed the restored template, no ReplicaSet would match and it would roll
    out. The ReplicaSet's controller uses the same informer, so its observed generation holds for both.
    """
    if not all(is_observed(each) for each in controllers):
        return Wait("its controller has not seen the restored template yet", 1.0)
    changes = {"metadata": {"annotations": {labels.PAUSED_BY: None}}, "spec": {"paused": None}}
    return Do((commands.patch(deployment, changes, "resume it"),))


def read_steering(controller: Json) -> Json:
    """The migration that steers the template, and the affinity before; empty if there is none."""
    written = annotations_of(controller).get(labels.AFFINITY_BEFORE)
    found: Json = json.loads(written) if written else {}
    return found


def uses_template(context: StepContext) -> bool:
    """Whether the new pod is steered by its ReplicaSet's template.

    A migration that began this way, before the webhook was active, also ends this way.
    """
    controller, deployment, name = context.seen.controller, context.seen.deployment, context.migration.name
    if controller is None or controller["kind"] != "ReplicaSet" or not context.migration.status.target:
        return False
    has_begun = read_steering(controller).get("migration") == name
    has_paused = deployment is not None and annotations_of(deployment).get(labels.PAUSED_BY) == name
    return context.seen.steered is SteeringMethod.TEMPLATE or has_begun or has_paused


def _hostname(operator: str, node: str) -> Json:
    return {"matchExpressions": [{"key": HOSTNAME, "operator": operator, "values": [node]}]}


def prefers(pod: Json, target: str) -> bool:
    """Whether a pod was created while its template preferred this target."""
    nodes = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    wanted = _hostname("In", target)
    return any(t["preference"] == wanted for t in nodes.get("preferredDuringSchedulingIgnoredDuringExecution") or ())
