"""Plans on the newest state, and turns the moves of a plan into PodMigrations.

The plan counts migrations under way as done, so that it never moves the same load twice. Planning is pure and may take
seconds in a large cluster. It runs in a thread, so that leases are renewed and moves go on meanwhile. If plans need
approval, their moves are stored, too, and wait; no more of them than one plan may have.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import structlog
from msgspec import structs

from rescheduler.kube.errors import ClusterError
from rescheduler.kube.migrations import StaleError
from rescheduler.model.migration import (
    MigrationSpec,
    ObjectMeta,
    PodMigration,
    PodReference,
    ProposalReference,
    RequestedMethod,
    migration_name,
    plan_name,
)
from rescheduler.model.plan import Method, Move, Plan
from rescheduler.model.policy import Approval
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.model.strategy_traits import is_mandatory
from rescheduler.model.time import format_instant
from rescheduler.planning.cycle import with_inflight_moves
from rescheduler.runtime.migration_cache import MigrationCache, MigrationStore

_log = structlog.stdlib.get_logger(__name__)

MakePlan = Callable[[ClusterSnapshot], Plan]
Capture = Callable[[], Callable[[], ClusterSnapshot]]
"""Captures the cache; the function it returns builds the snapshot, in a thread if need be."""


def capture_settled(capture: Capture, migrations: MigrationCache, rest: float) -> Capture:
    """Capture the cluster as it will be when migrations under way have ended; failed moves rest for `rest` seconds."""

    def both() -> Callable[[], ClusterSnapshot]:
        snapshot, known = capture(), list(migrations.all())
        return lambda: with_inflight_moves(snapshot(), known, rest)

    return both


async def plan_in_threads(capture: Capture, make_plan: MakePlan) -> Plan:
    """Plan on a snapshot of now; log the result."""
    started = asyncio.get_running_loop().time()
    snapshot = await asyncio.to_thread(capture())
    plan = await asyncio.to_thread(make_plan, snapshot)
    _log.info(
        "planned",
        moves=len(plan.moves),
        rejections=len(plan.rejections),
        nodes=len(snapshot.nodes),
        pods=len(snapshot.pods),
        hot_nodes=plan.before.hot_nodes,
        seconds=round(asyncio.get_running_loop().time() - started, 3),
    )
    for warning in plan.warnings:
        _log.warning("plan warning", warning=warning)
    return plan


@dataclass(frozen=True, slots=True)
class OrderTerms:
    """The conditions under which moves of a plan become migrations."""

    approval: Approval = Approval.AUTOMATIC
    most: int | None = None
    """The number of moves that may wait for approval at a time; None means no limit."""
    waiting: int = 0
    """The number that wait already."""
    hourly: int | None = None
    """The number of optional moves that may be created without approval; None means no limit."""
    hindrance: str = ""
    """Why no more may be created."""
    timed: bool = False
    """Whether optional moves must keep to time windows or hourly limits when they start."""

    def needs_approval(self, move: Move) -> bool:
        """Whether a move needs approval."""
        return self.approval is Approval.REQUIRED and not is_mandatory(move.strategy)

    def room(self) -> tuple[int | None, str]:
        """How many optional moves may be created, and why no more; hourly limits do not stop moves with approval."""
        if self.approval is not Approval.REQUIRED:
            return self.hourly, self.hindrance
        if self.most is None:
            return None, ""
        why = f"{self.waiting} wait for approval already, and {self.most} may (maxReschedulePods)"
        return self.most - self.waiting, why


async def create_migrations(plan: Plan, store: MigrationStore, now: float, terms: OrderTerms) -> list[PodMigration]:
    """Store a migration for each move of a plan; the migration controller executes them."""
    moves, occasion = _select_moves(plan.moves, terms), format_instant(now)
    name = plan_name(occasion, *(f"{m.namespace}/{m.pod}/{m.uid}/{m.target}" for m in moves if terms.needs_approval(m)))
    sizes = Counter(move.proposal for move in moves)
    ordered: list[PodMigration] = []
    torn: set[int] = set()
    for move in moves:
        if move.proposal in torn:
            continue  # it would only wait for the missing one
        migration = make_migration(move, sizes[move.proposal], occasion)
        spec = structs.replace(migration.spec, windowed=terms.timed and not is_mandatory(move.strategy))
        if terms.needs_approval(move):
            spec = structs.replace(spec, approval_required=True, plan=name)
        migration = structs.replace(migration, spec=spec)
        try:
            ordered.append(await store.create(migration))
        except (ClusterError, StaleError) as error:  # such as a namespace that is being deleted
            _log.warning("migration not created", pod=f"{move.namespace}/{move.pod}", why=str(error))
            torn.add(move.proposal)
            continue
        _log.info(
            "migration created",
            migration=migration.full_name,
            pod=f"{move.namespace}/{move.pod}",
            source=move.source,
            target=move.target,
            strategy=move.strategy,
            reason=move.reason,
        )
    if waiting := sum(each.spec.approval_required for each in ordered):
        _log.info("plan awaits approval", plan=name, moves=waiting, approve=f"rescheduler approve {name}")
    return ordered


def _select_moves(moves: Sequence[Move], terms: OrderTerms) -> list[Move]:
    """Select the moves that may be created: whole proposals, in the plan's order, as long as there is room."""
    room, why = terms.room()
    taken: set[int] = set()
    for proposal, size in Counter(move.proposal for move in moves if not is_mandatory(move.strategy)).items():
        if room is not None:
            if size > room:
                break  # later proposals may depend on it
            room -= size
        taken.add(proposal)
    kept = [move for move in moves if is_mandatory(move.strategy) or move.proposal in taken]
    if len(kept) < len(moves):
        _log.info("plan limited", moves=len(moves), created=len(kept), why=why)
    return kept


def make_migration(move: Move, members: int, occasion: str) -> PodMigration:
    """Make the migration of a planned move; the same move in the same plan has the same name."""
    proposal = migration_name("proposal", str(move.proposal), occasion)
    spec = MigrationSpec(
        PodReference(move.pod, move.uid),
        move.target,
        # The method is chosen again at the start; but a pod that is to be moved is never removed.
        RequestedMethod.REMOVE if move.method is Method.REMOVE else RequestedMethod.AUTO,
        move.strategy,
        move.reason,
        expected_gain=move.gain,
        proposal=ProposalReference(proposal, members) if members > 1 else None,
    )
    return PodMigration(ObjectMeta(move.namespace, migration_name(move.pod, move.uid, occasion)), spec)
