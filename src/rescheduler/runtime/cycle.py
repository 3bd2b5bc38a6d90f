"""The plan loop: every so often a plan is made on the newest state, and its moves become migrations.

The plan counts what is under way as done, so that it never moves the same load twice. Planning itself is pure and may
take seconds in a large cluster: it runs in a thread, so that leases are renewed and moves go on meanwhile.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import structlog

from rescheduler.cluster.errors import ClusterError
from rescheduler.cluster.journal import StaleError
from rescheduler.migration.naming import migration_name
from rescheduler.model.instant import format_instant
from rescheduler.model.migration import Migration, Order
from rescheduler.model.plan import Move, Plan
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.inflight import as_settled
from rescheduler.runtime.board import Board
from rescheduler.runtime.logbook import Logbook

_log = structlog.stdlib.get_logger(__name__)

MakePlan = Callable[[ClusterSnapshot], Plan]
TakeSnapshot = Callable[[], ClusterSnapshot]


@dataclass(frozen=True, slots=True)
class Cycle:
    """One look at the cluster, and what comes of it."""

    take_snapshot: TakeSnapshot
    make_plan: MakePlan
    board: Board
    rest: float
    """Seconds for which a pod whose move failed is left alone."""

    async def plan(self) -> Plan:
        """What should move, on top of what is moving already."""
        snapshot = as_settled(self.take_snapshot(), self.board.all(), self.rest)
        started = asyncio.get_running_loop().time()
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


async def order(plan: Plan, logbook: Logbook, now: float) -> list[Migration]:
    """Have a plan's moves carried out: each becomes a migration, stored before anything is done."""
    sizes = Counter(move.proposal for move in plan.moves)
    ordered: list[Migration] = []
    torn: set[int] = set()
    for move in plan.moves:
        if move.proposal in torn:
            continue  # without the others it would only wait for them
        migration = migration_of(move, sizes[move.proposal], occasion=format_instant(now))
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
    return ordered


def migration_of(move: Move, members: int, occasion: str) -> Migration:
    """The migration that carries a planned move out; the same move on the same occasion has the same name."""
    proposal = migration_name("proposal", str(move.proposal), occasion) if members > 1 else ""
    wanted = Order(
        move.pod,
        move.uid,
        move.target,
        None,  # chosen anew when it begins, by the same rules
        move.strategy,
        move.reason,
        proposal,
        members,
    )
    return Migration(move.namespace, migration_name(move.pod, move.uid, occasion), wanted)
