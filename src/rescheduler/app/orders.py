"""Orders moves for people: those of a reviewed plan, by `apply`, and single ones, by `move` or on the page.

What is wrong now is refused now, with the reason. What is accepted becomes a PodMigration; the controller decides when
it may start. Moves of a plan that were ordered before are found by the name of their migration, and not ordered twice.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from rescheduler.app.follow import read_migrations
from rescheduler.app.planning import STDIN, InputError, open_input
from rescheduler.kube.client import ApiClient
from rescheduler.kube.errors import ApiError
from rescheduler.kube.migrations import MigrationClient
from rescheduler.kube.objects import ObjectClient
from rescheduler.migration.observation import controller_of, find_condition, has_finished, is_terminating, labels_of
from rescheduler.model import labels
from rescheduler.model.json import Json, ObjectKey
from rescheduler.model.migration import (
    MigrationSpec,
    ObjectMeta,
    PodMigration,
    PodReference,
    ProposalReference,
    RequestedMethod,
    migration_name,
)
from rescheduler.model.plan import Method, Move, Plan, PlanFormatError, decode_plan, plan_document
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.model.time import format_instant
from rescheduler.planning.cycle import with_inflight_moves
from rescheduler.planning.revalidate import MoveVerdict, RequestedMove, Revalidator, revalidate_moves

_REFUSALS = frozenset({400, 403, 404, 409, 422})


class ApplyOutcome(StrEnum):
    """The outcome of one move of a plan."""

    CREATED = "created"
    UNCHANGED = "unchanged"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class AppliedMove:
    """One move of a plan, with its outcome; without a migration it was refused, for this reason."""

    move: Move
    outcome: ApplyOutcome
    migration: PodMigration | None = None
    reason: str = ""


def read_plan(path: str) -> Plan:
    """Read a plan from a file; `-` is standard input."""
    with open_input(path) as stream:
        text = stream.read()
    try:
        return decode_plan(text)
    except PlanFormatError as error:
        name = "<stdin>" if path == STDIN else path
        raise InputError(f"{name}: {error}\nA plan is what `rescheduler plan -o json` or `-o yaml` writes.") from None


async def apply_plan(
    client: ApiClient, plan: Plan, snapshot: ClusterSnapshot, policy: Policy, *, namespace: str | None, dry: bool
) -> list[AppliedMove]:
    """Order the moves of the plan, or of one namespace, that are still valid; with `dry`, nothing is ordered.

    Returns the outcome of each move, in the order of the plan.
    """
    known = {(each.namespace, each.name): each for each in await read_migrations(client)}
    orders, migrations = _make_migrations(plan, snapshot), MigrationClient(client)
    moves = [move for move in plan.moves if namespace in (None, move.namespace)]
    # The moves of a proposal are made together or not at all.
    why = "it belongs to moves in other namespaces, which -n leaves out"
    refusals = {move.proposal: why for move in plan.moves if namespace not in (None, move.namespace)}
    outcomes: dict[ObjectKey, AppliedMove] = {}
    for move in moves:
        order = orders[_key(move)]
        if (found := known.get((order.namespace, order.name))) is not None:
            outcomes[_key(move)] = AppliedMove(move, ApplyOutcome.UNCHANGED, found)
    left = [move for move in moves if _key(move) not in outcomes]
    settled = with_inflight_moves(snapshot, known.values(), 0.0)
    for checked in revalidate_moves(settled, policy, left):
        move, key = checked.move, _key(checked.move)
        if refusal := refusals.get(move.proposal, checked.refusal):
            outcomes[key] = AppliedMove(move, ApplyOutcome.REFUSED, reason=refusal)
            continue
        try:
            created = orders[key] if dry else await migrations.create(orders[key])
            outcomes[key] = AppliedMove(move, ApplyOutcome.CREATED, created)
        except ApiError as error:
            if error.status not in _REFUSALS:
                raise
            outcomes[key] = AppliedMove(move, ApplyOutcome.REFUSED, reason=str(error))
            refusals[move.proposal] = f"{move.namespace}/{move.pod}, which belongs to it, is refused"
            await _take_back(migrations, outcomes, move.proposal, refusals[move.proposal])
    return [outcomes[_key(move)] for move in moves]


def _make_migrations(plan: Plan, snapshot: ClusterSnapshot) -> dict[ObjectKey, PodMigration]:
    """Make a migration for each move. Its name depends on the plan alone, so applying a plan twice orders nothing."""
    uids = {(pod.namespace, pod.name): pod.uid for pod in snapshot.pods}  # for plans of dumps that have none
    document = json.dumps(plan_document(plan)["moves"], sort_keys=True)
    digest = hashlib.sha256(document.encode()).hexdigest()[:8]
    sizes = Counter(move.proposal for move in plan.moves)
    return {
        _key(move): PodMigration(
            ObjectMeta(move.namespace, migration_name(move.pod, move.uid, digest)),
            MigrationSpec(
                PodReference(move.pod, move.uid or uids.get(_key(move), "")),
                move.target, RequestedMethod(move.method), move.strategy, move.reason,
                expected_gain=move.gain,
                proposal=ProposalReference(f"plan-{digest}-{move.proposal}", sizes[move.proposal])
                if sizes[move.proposal] > 1
                else None,
            ),
        )
        for move in plan.moves
    }  # fmt: skip


async def _take_back(
    migrations: MigrationClient, outcomes: dict[ObjectKey, AppliedMove], proposal: int, why: str
) -> None:
    """Delete the migrations of a proposal that were created before one of it was refused."""
    for key, each in outcomes.items():
        if each.move.proposal == proposal and each.migration is not None and each.outcome is ApplyOutcome.CREATED:
            await migrations.remove(each.migration)
            outcomes[key] = AppliedMove(each.move, ApplyOutcome.REFUSED, reason=why)


def _key(move: Move) -> ObjectKey:
    return move.namespace, move.pod


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


async def draft_migration(client: ApiClient, wish: ManualMove) -> PodMigration:
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
