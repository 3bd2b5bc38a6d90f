"""Orders one move for a person, by `move` or on the page: checks the request, then creates a PodMigration.

What is wrong now is refused now. Whether the move may start is decided by the controller when its turn comes.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from rescheduler.app.planning import InputError
from rescheduler.kube.client import ApiClient
from rescheduler.kube.migrations import MigrationClient
from rescheduler.kube.objects import ObjectClient
from rescheduler.migration.observation import controller_of, find_condition, has_finished, is_terminating, labels_of
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.migration import (
    MigrationSpec,
    ObjectMeta,
    PodMigration,
    PodReference,
    RequestedMethod,
    migration_name,
)
from rescheduler.model.plan import Method
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.model.time import format_instant
from rescheduler.planning.revalidate import MoveVerdict, RequestedMove, Revalidator


class MoveRefusedError(InputError):
    """The move makes no sense, or is not possible."""


@dataclass(frozen=True, slots=True)
class ManualMove:
    """The requested move; an empty target is any node, and without a method the least disruptive one is taken."""

    namespace: str
    pod: str
    target: str = ""
    method: Method | None = None
    reason: str = ""


async def order(client: ApiClient, migration: PodMigration) -> PodMigration:
    """Store the migration; the controller carries it out."""
    return await MigrationClient(client).create(migration)


async def fetch(client: ApiClient, migration: PodMigration) -> Json:
    """Read the object as it is now."""
    return await ObjectClient(client).get("PodMigration", migration.namespace, migration.name)


async def find_landing_node(client: ApiClient, migration: PodMigration) -> str:
    """Return the node of a completed migration's replacement; if that is gone, the migration's target."""
    replacement = migration.status.replacement
    found = replacement and await ObjectClient(client).find("Pod", migration.namespace, replacement.name)
    return (str(found["spec"].get("nodeName", "")) if found else "") or migration.status.target


def judge(snapshot: ClusterSnapshot, policy: Policy, migration: PodMigration) -> MoveVerdict:
    """Judge the migration as the controller would now: the method and the node, or why not."""
    order, pod = migration.spec, (migration.namespace, migration.spec.pod.name)
    return Revalidator(snapshot, policy).check(
        RequestedMove(*pod, order.pod.uid, order.target, order.fixed_method, by_hand=True)
    )


async def check(client: ApiClient, wish: ManualMove) -> PodMigration:
    """Make the migration for a request, without storing it; MoveRefusedError says why it makes no sense."""
    lookup = ObjectClient(client)
    pod = await lookup.get("Pod", wish.namespace, wish.pod)
    _check_pod(pod)
    if wish.target:
        _check_target(await lookup.get("Node", "", wish.target), pod)
    _check_method(wish.method, pod)
    for body in await lookup.list_migrations(wish.namespace):
        _check_rival(body, wish)
    uid = str(pod["metadata"]["uid"])
    # A person may order the same move again: the time makes the name unique.
    name = migration_name(wish.pod, uid, format_instant(time.time()))
    method = RequestedMethod(wish.method) if wish.method else RequestedMethod.AUTO
    spec = MigrationSpec(PodReference(wish.pod, uid), wish.target, method, reason=wish.reason)
    return PodMigration(ObjectMeta(wish.namespace, name), spec)


def _check_pod(pod: Json) -> None:
    title = f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']}"
    if is_terminating(pod):
        raise MoveRefusedError(f"{title} is being deleted")
    if has_finished(pod):
        raise MoveRefusedError(f"{title} has ended ({pod['status']['phase']}), so there is nothing to move")
    if not pod["spec"].get("nodeName"):
        raise MoveRefusedError(f"{title} is not on a node yet, so there is nothing to move it from")


def _check_target(node: Json, pod: Json) -> None:
    name = node["metadata"]["name"]
    if name == pod["spec"]["nodeName"]:
        raise MoveRefusedError(f"pod {pod['metadata']['namespace']}/{pod['metadata']['name']} is on {name} already")
    if find_condition(node, "Ready").get("status", "True") != "True":
        raise MoveRefusedError(f"node {name} is not Ready")
    if labels_of(node).get(labels.MAINTENANCE) == "true":
        raise MoveRefusedError(f"node {name} is under maintenance; `rescheduler maintenance stop {name}` ends it")
    if node["spec"].get("unschedulable"):
        raise MoveRefusedError(f"node {name} is cordoned; `kubectl uncordon {name}` opens it")


def _check_method(method: Method | None, pod: Json) -> None:
    owner = controller_of(pod)
    if method is Method.REMOVE:
        raise MoveRefusedError(
            "remove is the method for pods that have ended; a pod that runs is moved, or deleted by you"
        )
    if method is Method.COPY and owner is not None:
        raise MoveRefusedError(
            f"{owner['kind']} {owner['name']} manages the pod: the method copy would make one too many"
        )
    if method in (Method.HANDOFF, Method.EVICT) and owner is None:
        raise MoveRefusedError(f"no controller manages the pod, so the method {method} would lose it; copy can move it")


def _check_rival(body: Json, wish: ManualMove) -> None:
    phase = (body.get("status") or {}).get("phase", "Pending")
    about = ((body.get("spec") or {}).get("pod") or {}).get("name")
    if about == wish.pod and phase in ("Pending", "InProgress"):
        name, namespace = body["metadata"]["name"], wish.namespace
        raise MoveRefusedError(
            f"migration {name} of the pod is {phase} already; watch it with\n"
            f"  rescheduler migrations {name} -n {namespace} -w\nor cancel it with\n"
            f"  kubectl delete pmig {name} -n {namespace}"
        )
