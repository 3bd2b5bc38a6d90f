"""The plan loop: every so often a plan is made on the newest state, and its moves become migrations.

The plan counts what is under way as done, so that it never moves the same load twice. Planning itself is pure and may
take seconds in a large cluster: it runs in a thread, so that leases are renewed and moves go on meanwhile. Where plans
need approval, their moves are stored all the same, and wait; no more of them than one plan may have.
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
from rescheduler.planning.budgets import FIELD
from rescheduler.planning.cycle import with_inflight_moves
from rescheduler.runtime.migration_cache import MigrationCache, MigrationStore

_log = structlog.stdlib.get_logger(__name__)

MakePlan = Callable[[ClusterSnapshot], Plan]
Copied = Callable[[], Callable[[], ClusterSnapshot]]
"""Copies what is known of the cluster; the snapshot can then be made of it in a thread."""


def capture_settled(copied: Copied, board: MigrationCache, rest: float) -> Copied:
    """The same, as the cluster will be when what is under way has ended; failed moves rest for so many seconds."""

    def both() -> Callable[[], ClusterSnapshot]:
        copy, migrations = copied(), list(board.all())
        return lambda: with_inflight_moves(copy(), migrations, rest)

    return both


@dataclass(frozen=True, slots=True)
class Cycle:
    """One look at the cluster, and what comes of it."""

    copied: Copied
    make_plan: MakePlan

    async def plan(self) -> Plan:
        """What should move, on top of what is moving already."""
        started = asyncio.get_running_loop().time()
        snapshot = await asyncio.to_thread(self.copied())
        plan = await asyncio.to_thread(self.make_plan, snapshot)
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
            _log.warning("planning", warning=warning)
        return plan


@dataclass(frozen=True, slots=True)
class OrderTerms:
    """On what terms a plan's moves are ordered."""

    approval: Approval = Approval.AUTOMATIC
    most: int | None = None
    """How many moves may wait for approval at a time; None is no limit."""
    waiting: int = 0
    """How many do already."""
    hourly: int | None = None
    """How many moves may be ordered that nobody has asked for and nobody approves of; None is no limit."""
    hindrance: str = ""
    """Why there are no more."""
    hourly_in: Callable[[str], int | None] = lambda namespace: None
    """How many of these in one namespace."""
    timed: bool = False
    """Whether these have to heed time windows, or how many begin within an hour, when they begin."""

    def by_choice(self, move: Move) -> bool:
        """Whether nobody but the planner has asked for it."""
        return not is_mandatory(move.strategy)

    def need(self, move: Move) -> bool:
        """Whether somebody has to approve of it."""
        return self.approval is Approval.REQUIRED and self.by_choice(move)

    def room(self) -> tuple[int | None, str]:
        """How many moves by choice may be ordered, and why no more. What is to be approved of may wait for its hour."""
        if self.approval is not Approval.REQUIRED:
            return self.hourly, self.hindrance
        if self.most is None:
            return None, ""
        why = f"{self.waiting} wait for approval already, and {self.most} may (maxReschedulePods)"
        return self.most - self.waiting, why

    def full(self, proposal: Counter[str], taken: Counter[str]) -> str:
        """Why a proposal's moves, by namespace, may not be ordered besides those; empty when they may."""
        if self.approval is Approval.REQUIRED:
            return ""
        for namespace, count in proposal.items():
            room = self.hourly_in(namespace)
            if room is not None and taken[namespace] + count > room:
                return f"{f'only {room}' if room else 'no'} more may begin within the hour in {namespace} ({FIELD})"
        return ""


AUTOMATIC = OrderTerms()


async def order(plan: Plan, logbook: MigrationStore, now: float, terms: OrderTerms = AUTOMATIC) -> list[PodMigration]:
    """Have a plan's moves carried out: each becomes a migration, stored before anything is done."""
    moves, occasion = _within(plan.moves, terms), format_instant(now)
    name = plan_name(occasion, *(f"{m.namespace}/{m.pod}/{m.uid}/{m.target}" for m in moves if terms.need(m)))
    sizes = Counter(move.proposal for move in moves)
    ordered: list[PodMigration] = []
    torn: set[int] = set()
    for move in moves:
        if move.proposal in torn:
            continue  # without the others it would only wait for them
        migration = migration_of(move, sizes[move.proposal], occasion)
        if terms.timed and terms.by_choice(move):
            migration = structs.replace(migration, spec=structs.replace(migration.spec, windowed=True))
        if terms.need(move):
            migration = structs.replace(
                migration, spec=structs.replace(migration.spec, approval_required=True, plan=name)
            )
        try:
            ordered.append(await logbook.add(migration))
        except (ClusterError, StaleError) as error:  # such as a namespace that is being deleted
            _log.warning("a move could not be ordered", pod=f"{move.namespace}/{move.pod}", why=str(error))
            torn.add(move.proposal)
            continue
        _log.info(
            "ordered",
            migration=migration.full_name,
            pod=f"{move.namespace}/{move.pod}",
            source=move.source,
            target=move.target,
            strategy=move.strategy,
            reason=move.reason,
        )
    if waiting := sum(each.spec.approval_required for each in ordered):
        _log.info("a plan waits for approval", plan=name, moves=waiting, approve=f"rescheduler approve {name}")
    return ordered


def _within(moves: Sequence[Move], terms: OrderTerms) -> list[Move]:
    """The moves that may be ordered: whole proposals, in the plan's order, as long as there is room for them."""
    room, why = terms.room()
    proposals: dict[int, Counter[str]] = {}
    for move in moves:
        if terms.by_choice(move):
            proposals.setdefault(move.proposal, Counter())[move.namespace] += 1
    taken: set[int] = set()
    spent: Counter[str] = Counter()
    hindrances: list[str] = []
    for proposal, namespaces in proposals.items():
        if room is not None and spent.total() + namespaces.total() > room:
            hindrances.append(why)
            break  # what follows may count on it
        if full := terms.full(namespaces, spent):
            hindrances.append(full)
            continue  # so may this, and is judged again before it begins; yet one namespace does not hold up all others
        spent += namespaces
        taken.add(proposal)
    kept = [move for move in moves if not terms.by_choice(move) or move.proposal in taken]
    if len(kept) < len(moves):
        told = "; ".join(dict.fromkeys(hindrances))
        _log.info("not all is ordered", moves=len(moves), ordered=len(kept), why=told)
    return kept


def migration_of(move: Move, members: int, occasion: str) -> PodMigration:
    """The migration that carries a planned move out; the same move on the same occasion has the same name."""
    proposal = migration_name("proposal", str(move.proposal), occasion)
    spec = MigrationSpec(
        PodReference(move.pod, move.uid),
        move.target,
        # Chosen again when it begins, by the same rules; but nothing that is to be moved is ever removed.
        RequestedMethod.REMOVE if move.method is Method.REMOVE else RequestedMethod.AUTO,
        move.strategy,
        move.reason,
        expected_gain=move.gain,
        proposal=ProposalReference(proposal, members) if members > 1 else None,
    )
    return PodMigration(ObjectMeta(move.namespace, migration_name(move.pod, move.uid, occasion)), spec)
