"""Orders the moves of a reviewed plan, for `apply`: reads the file and creates PodMigrations.

The plan is checked against the current state first. Refused moves are returned with the reason. Moves that were ordered
before are found by the name of their migration, and are not ordered twice.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum

from rescheduler.app.follow import read_migrations
from rescheduler.app.planning import STDIN, InputError, open_input
from rescheduler.kube.client import ApiClient
from rescheduler.kube.errors import ApiError
from rescheduler.kube.migrations import MigrationClient
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import (
    MigrationSpec,
    ObjectMeta,
    PodMigration,
    PodReference,
    ProposalReference,
    RequestedMethod,
    migration_name,
)
from rescheduler.model.plan import Move, Plan, PlanFormatError, decode_plan, plan_document
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.cycle import with_inflight_moves
from rescheduler.planning.revalidate import revalidate_moves

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
