"""Orders the moves of a reviewed plan, for `apply`: reads the file and creates PodMigrations.

The plan is checked against the current state first. Refused moves are returned with the reason. Moves that were ordered
before are found by the name of their migration, and are not ordered twice.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path

from rescheduler.app.planning import STDIN, InputError, LiveCluster
from rescheduler.kube.client import ApiClient
from rescheduler.kube.errors import ApiError
from rescheduler.kube.migrations import InvalidMigrationError, MigrationClient, decode_migration
from rescheduler.kube.objects import ObjectClient
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
from rescheduler.planning.revalidate import CheckedMove, revalidate_moves

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


@dataclass(frozen=True, slots=True)
class ApplyScope:
    """The moves of a plan to apply: of one namespace, or all. With `dry`, nothing is ordered."""

    namespace: str | None = None
    dry: bool = False


def read_plan(path: str) -> Plan:
    """Read a plan from a file; `-` is standard input."""
    try:
        return decode_plan(_text(path))
    except PlanFormatError as error:
        name = "<stdin>" if path == STDIN else path
        raise InputError(f"{name}: {error}\nA plan is what `rescheduler plan -o json` or `-o yaml` writes.") from None


def _text(path: str) -> bytes:
    if path == STDIN:
        if sys.stdin is None:  # closed by the shell: `<&-`
            raise InputError("<stdin>: cannot be read: standard input is closed")
        return sys.stdin.buffer.read()
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from None


def apply_plan(
    live: LiveCluster, plan: Plan, snapshot: ClusterSnapshot, policy: Policy, part: ApplyScope
) -> list[AppliedMove]:
    """Order the moves of the plan that are still valid; return the outcome of each move, in the order of the plan."""
    return asyncio.run(_apply(live, plan, snapshot, policy, part))


async def _apply(
    live: LiveCluster, plan: Plan, snapshot: ClusterSnapshot, policy: Policy, part: ApplyScope
) -> list[AppliedMove]:
    async with ApiClient(live.connection(), request_timeout=live.request_timeout) as client:
        known = await _known(client)
        orders = _orders(plan, snapshot)
        moves = [move for move in plan.moves if part.namespace in (None, move.namespace)]
        there = {_key(move): known[each] for move in moves if (each := _target(orders[_key(move)])) in known}
        left = [move for move in moves if _key(move) not in there]
        settled = with_inflight_moves(snapshot, known.values(), 0.0)
        checked = _whole(plan, moves, revalidate_moves(settled, policy, left))
        made = await _made(client, [one for one in checked if not one.refusal], orders, dry=part.dry)
    refused = {
        _key(one.move): AppliedMove(one.move, ApplyOutcome.REFUSED, None, one.refusal) for one in checked if one.refusal
    }
    unchanged = {
        _key(move): AppliedMove(move, ApplyOutcome.UNCHANGED, there[_key(move)])
        for move in moves
        if _key(move) in there
    }
    return [(made | refused | unchanged)[_key(move)] for move in moves]


async def _known(client: ApiClient) -> dict[ObjectKey, PodMigration]:
    """Read all migrations, except malformed ones."""
    found: dict[ObjectKey, PodMigration] = {}
    for body in await ObjectClient(client).list_migrations():
        try:
            migration = decode_migration(body)
        except InvalidMigrationError:
            continue  # it moves nothing, so it is in the way of nothing
        found[migration.namespace, migration.name] = migration
    return found


def _orders(plan: Plan, snapshot: ClusterSnapshot) -> dict[ObjectKey, PodMigration]:
    """Make a migration for each move. Its name depends on the plan alone, so applying a plan twice orders nothing."""
    uids = {(pod.namespace, pod.name): pod.uid for pod in snapshot.pods}  # for plans of dumps that have none
    document = json.dumps(plan_document(plan)["moves"], sort_keys=True)
    digest = hashlib.sha256(document.encode()).hexdigest()[:8]
    sizes: dict[int, int] = {}
    for move in plan.moves:
        sizes[move.proposal] = sizes.get(move.proposal, 0) + 1
    return {
        _key(move): PodMigration(
            ObjectMeta(move.namespace, migration_name(move.pod, move.uid, digest)),
            MigrationSpec(
                PodReference(move.pod, move.uid or uids.get(_key(move), "")),
                move.target, RequestedMethod(move.method), move.strategy, move.reason,
                expected_gain=move.gain,
                proposal=_proposal(f"plan-{digest}-{move.proposal}", sizes[move.proposal]),
            ),
        )
        for move in plan.moves
    }  # fmt: skip


def _proposal(name: str, members: int) -> ProposalReference | None:
    return ProposalReference(name, members) if members > 1 else None


def _whole(plan: Plan, taken: Sequence[Move], checked: Iterable[CheckedMove]) -> list[CheckedMove]:
    """Refuse the moves of a proposal of which -n leaves out a part: its moves are made together or not at all."""
    kept = {_key(move) for move in taken}
    torn = {move.proposal for move in plan.moves if _key(move) not in kept}
    why = "it belongs to moves in other namespaces, which -n leaves out"
    return [replace(one, refusal=why) if one.move.proposal in torn else one for one in checked]


async def _made(
    client: ApiClient, checked: Sequence[CheckedMove], orders: Mapping[ObjectKey, PodMigration], *, dry: bool
) -> dict[ObjectKey, AppliedMove]:
    """Create the migrations. If the server refuses one, the others of its proposal are deleted or not created."""
    migration_client = MigrationClient(client)
    entries: dict[ObjectKey, AppliedMove] = {}
    refused_proposals: dict[int, str] = {}
    for one in checked:
        move, order = one.move, orders[_key(one.move)]
        if dry:
            entries[_key(move)] = AppliedMove(move, ApplyOutcome.CREATED, order)
        elif move.proposal in refused_proposals:
            entries[_key(move)] = AppliedMove(move, ApplyOutcome.REFUSED, None, refused_proposals[move.proposal])
        else:
            try:
                entries[_key(move)] = AppliedMove(move, ApplyOutcome.CREATED, await migration_client.create(order))
            except ApiError as error:
                if error.status not in _REFUSALS:
                    raise
                entries[_key(move)] = AppliedMove(move, ApplyOutcome.REFUSED, None, str(error))
                refused_proposals[move.proposal] = f"{move.namespace}/{move.pod}, which belongs to it, is refused"
                await _take_back(migration_client, entries, move.proposal, refused_proposals[move.proposal])
    return entries


async def _take_back(
    migration_client: MigrationClient, entries: dict[ObjectKey, AppliedMove], proposal: int, why: str
) -> None:
    for key, entry in entries.items():
        if entry.move.proposal == proposal and entry.migration is not None:
            await migration_client.remove(entry.migration)
            entries[key] = AppliedMove(entry.move, ApplyOutcome.REFUSED, None, why)


def _key(move: Move) -> ObjectKey:
    return move.namespace, move.pod


def _target(migration: PodMigration) -> ObjectKey:
    return migration.namespace, migration.name
