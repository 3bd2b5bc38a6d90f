"""Plans on the newest state, turns the moves of a plan into PodMigrations, and revalidates those that wait.

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

from rescheduler.config.live import LiveConfig
from rescheduler.kube.errors import ClusterError
from rescheduler.kube.migrations import StaleError
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import (
    MigrationSpec,
    ObjectMeta,
    Phase,
    PodMigration,
    PodReference,
    ProposalReference,
    RequestedMethod,
    migration_name,
    plan_name,
)
from rescheduler.model.plan import Method, Move, Plan
from rescheduler.model.policy import Approval, Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.model.strategy_traits import is_mandatory
from rescheduler.model.time import format_instant
from rescheduler.planning.cycle import with_inflight_moves
from rescheduler.planning.gain import RealisedGains
from rescheduler.planning.revalidate import MoveVerdict, Revalidator
from rescheduler.runtime.informers import Informers
from rescheduler.runtime.migration_cache import MigrationCache, MigrationStore
from rescheduler.runtime.starting.gate import Capture, request_of
from rescheduler.runtime.starting.windows import TimeWindows

_log = structlog.stdlib.get_logger(__name__)
_NO_USE = "it would not make the busier of its two nodes less busy any more"
_ROUNDS = 10  # each accepts at least one more of the moves

MakePlan = Callable[[ClusterSnapshot], Plan]


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


class ApprovalRevalidator:
    """Revalidates moves that wait for approval or for a time window, and drops those that no longer make sense.

    The leader calls it about as often as it plans. The waiting moves are checked together, on top of the moves under
    way, in any order that works, because one move may need the room that another one leaves. Some reasons pass in a
    moment (a rollout, a spent disruption budget), so a move is dropped only when it is refused twice in a row; the next
    plan may bring it back. A move from a node under maintenance is dropped at once, because emptying needs no approval.
    """

    def __init__(
        self,
        informers: Informers,
        live: LiveConfig,
        store: MigrationStore,
        windows: TimeWindows,
        now: Callable[[], float],
    ) -> None:
        self._informers = informers
        self._live = live
        self._store = store
        self._windows = windows
        self._now = now
        self._refused_once: set[ObjectKey] = set()

    async def revalidate(self) -> int:
        """Drop the moves that no longer make sense; return their number. Stale caches prove nothing."""
        if self._informers.stale():
            return 0
        # In the order of the cache, which is the plan's order for moves that this leader has created.
        active = [each for each in self._informers.migrations.all() if not each.status.over]
        waiting = [each for each in active if self._is_waiting(each)]
        if not waiting:
            self._refused_once = set()
            return 0
        others = [each for each in active if not self._is_waiting(each)]
        snapshot = await asyncio.to_thread(self._informers.capture())
        overtaken = _on_nodes_to_be_emptied(snapshot, waiting)
        left = [each for each in waiting if each.key not in overtaken]
        refused = await asyncio.to_thread(
            find_refusals, with_inflight_moves(snapshot, others, 0.0), self._live.policy(), left
        )
        again = self._refused_once & refused.keys()
        self._refused_once = set(refused) - again
        reasons = overtaken | {key: refused[key] for key in again}
        dropped = [await self._drop(key, reasons[key]) for key in sorted(reasons)]
        return sum(dropped)

    async def _drop(self, key: ObjectKey, reason: str) -> bool:
        migration = self._informers.migrations.get(key)
        if migration is None or not self._is_waiting(migration):
            return False  # approved or deleted meanwhile: the start gate decides
        waited = "for approval" if migration.awaits_approval else "for its hour"
        message = f"given up while it waited {waited}: {reason}"
        failed = structs.replace(
            migration.status, phase=Phase.FAILED, message=message, completion_time=self._now(), retry_time=None
        )
        try:
            await self._store.update_status(migration, failed)
        except StaleError:
            return False  # changed meanwhile, perhaps approved
        _log.info("waiting move dropped", migration=migration.full_name, waited=waited, why=reason)
        return True

    def _is_waiting(self, migration: PodMigration) -> bool:
        """Whether a planned move waits; a move ordered by hand may wait forever."""
        if migration.spec.by_hand:
            return False
        return migration.awaits_approval or (
            migration.spec.approval_required and self._windows.check(migration) is not None
        )


def find_refusals(snapshot: ClusterSnapshot, policy: Policy, waiting: Sequence[PodMigration]) -> dict[ObjectKey, str]:
    """Find the moves that the rules refuse or that have no gain any more, with the reason.

    The order in which they were planned matters, and a new leader does not know it. So a refused move gets two more
    chances: after all others that are accepted, and as the last one of all.
    """
    revalidator = Revalidator(snapshot, policy)
    left, suspects = list(waiting), list[PodMigration]()
    for _ in range(_ROUNDS):
        answers = [(each, revalidator.check(request_of(each))) for each in left]
        suspects += [each for each, verdict in answers if verdict.method is not None and _has_no_gain(each, verdict)]
        refused = [each for each, verdict in answers if verdict.method is None]
        done, left = not refused or len(refused) == len(left), refused
        if done:
            break
    found: dict[ObjectKey, str] = {}
    for each in (*left, *suspects):
        others = [other for other in waiting if other is not each]
        verdict = Revalidator(with_inflight_moves(snapshot, others, 0.0), policy).check(request_of(each))
        if verdict.method is None:
            found[each.key] = verdict.reason
        elif _has_no_gain(each, verdict) and (why := _explain_no_gain(snapshot, policy, each)):
            found[each.key] = why
    return found


def _has_no_gain(migration: PodMigration, verdict: MoveVerdict) -> bool:
    """Whether a move that was planned for its gain has no gain now."""
    promised = migration.spec.expected_gain
    return promised is not None and promised > 0.0 and verdict.gain is not None and verdict.gain <= 0.0


def _explain_no_gain(snapshot: ClusterSnapshot, policy: Policy, migration: PodMigration) -> str:
    """Why it has no gain on its own, either: the load of its nodes has changed. Empty if it has a gain."""
    order = migration.spec
    pod = next(pod for pod in snapshot.pods if (pod.namespace, pod.name) == (migration.namespace, order.pod.name))
    # The gain of the pod on its node, compared with the target, is what the move would lose.
    loss = RealisedGains(snapshot, policy, (pod.node, order.target)).gain(pod, order.target)
    if loss is None or loss < 0.0:
        return ""
    return f"{_NO_USE} ({-loss + 0.0:+.1f} points, not {order.expected_gain or 0.0:+.1f})"


def _on_nodes_to_be_emptied(snapshot: ClusterSnapshot, waiting: Sequence[PodMigration]) -> dict[ObjectKey, str]:
    """The moves whose pods leave anyway; while they wait, nothing else would move these pods."""
    emptied = {node.name for node in snapshot.nodes if node.maintenance}
    return {
        each.key: f"node {each.status.source} is to be emptied, which needs no approval"
        for each in waiting
        if each.status.source in emptied
    }
