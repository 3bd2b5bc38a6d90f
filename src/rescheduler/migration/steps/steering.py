"""Leading a new pod by its ReplicaSet's template, and taking that back: what the method evict and the janitor share.

It is the way where no webhook of ours is asked about new pods. Deployment and ReplicaSet say by their notes which
migration changed them, and what was there before. The order of taking back matters: first the template, then, when
controllers have seen it, the pause.
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


def restore(scene: StepContext) -> Do | Wait | Done:
    """What brings the template and the Deployment back, as far as it was this migration that changed them."""
    controller, deployment, name = scene.seen.controller, scene.seen.deployment, scene.migration.name
    if controller is not None and read_steering(controller).get("migration") == name:
        return Do((restore_template(controller),))
    if deployment is not None and annotations_of(deployment).get(labels.PAUSED_BY) == name:
        return resume(deployment, (controller,) if controller is not None else ())
    return Done()


def restore_template(controller: Json) -> Command:
    """What takes the preference out of a ReplicaSet's template, exactly as its note tells what was there."""
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
    """What resumes a Deployment that we paused.

    A Deployment that is resumed before its controller has the restored template in sight would find no ReplicaSet for
    its own, and roll out. The ReplicaSet's controller looks through the same informer: what it has seen, both have.
    """
    if not all(is_observed(each) for each in controllers):
        return Wait("its controller has not seen the restored template yet", 1.0)
    changes = {"metadata": {"annotations": {labels.PAUSED_BY: None}}, "spec": {"paused": None}}
    return Do((commands.patch(deployment, changes, "resume it"),))


def read_steering(controller: Json) -> Json:
    """By whom the template is steered, and what its affinity was."""
    written = annotations_of(controller).get(labels.AFFINITY_BEFORE)
    found: Json = json.loads(written) if written else {}
    return found


def uses_template(scene: StepContext) -> bool:
    """Whether the new pod is led by its ReplicaSet's template.

    What this migration has begun in this way, before the webhook was asked, it ends in this way.
    """
    controller, deployment, name = scene.seen.controller, scene.seen.deployment, scene.migration.name
    if controller is None or controller["kind"] != "ReplicaSet" or not scene.migration.status.target:
        return False
    has_begun = read_steering(controller).get("migration") == name
    has_paused = deployment is not None and annotations_of(deployment).get(labels.PAUSED_BY) == name
    return scene.seen.steered is SteeringMethod.TEMPLATE or has_begun or has_paused


def _hostname(operator: str, node: str) -> Json:
    return {"matchExpressions": [{"key": HOSTNAME, "operator": operator, "values": [node]}]}


def prefers(pod: Json, target: str) -> bool:
    """Whether a pod was made while its template led to this target."""
    nodes = (pod["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    wanted = _hostname("In", target)
    return any(t["preference"] == wanted for t in nodes.get("preferredDuringSchedulingIgnoredDuringExecution") or ())
