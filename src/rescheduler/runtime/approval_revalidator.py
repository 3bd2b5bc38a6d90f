"""Looks again at moves that wait for people: one that may not begin any more, or would not help, is given up.

A loop of the leader calls it about as often as plans are made. What waits is judged as a whole, on top of what is under
way, in any order that works, because one move may need the room that another one leaves. Something may pass in a
moment (a rollout, a spent disruption budget), so only what is refused twice in a row goes; then it is planned anew.
What waits on a node that somebody wants to be emptied goes at once, because that needs no approval. What is approved of
and waits for its time window is looked at, too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import structlog
from msgspec import structs

from rescheduler.kube.migrations import StaleError
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import Phase, PodMigration
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.cycle import with_inflight_moves
from rescheduler.planning.gain import RealisedGains
from rescheduler.planning.revalidate import MoveVerdict, RequestedMove, Revalidator
from rescheduler.runtime.migration_cache import MigrationCache, MigrationStore

_log = structlog.stdlib.get_logger(__name__)
_NO_USE = "it would not make the busier of its two nodes less busy any more"
_ROUNDS = 10  # each lays in at least one more of the moves

Copied = Callable[[], Callable[[], ClusterSnapshot]]
"""Copies what is known of the cluster; the snapshot can then be made of it in a thread."""


@dataclass
class ApprovalRevalidator:
    """One leader's second thoughts."""

    copied: Copied
    board: MigrationCache
    logbook: MigrationStore
    policy: Callable[[], Policy]
    now: Callable[[], float]
    held: Callable[[PodMigration], bool] = lambda migration: False
    """Whether one that is approved of has to wait until its hour comes."""
    _doubts: set[ObjectKey] = field(default_factory=set)
    """Those that were refused the last time."""

    async def revalidate(self) -> int:
        """Give up what makes no sense any more; how many were."""
        # As the board was told of them: of what this leader has ordered, that is the plan's own order.
        active = [each for each in self.board.all() if not each.status.over]
        waiting = [each for each in active if self._is_waiting(each)]
        if not waiting:
            self._doubts = set()
            return 0
        others = [each for each in active if not self._is_waiting(each)]
        snapshot = await asyncio.to_thread(self.copied())
        overtaken = _on_nodes_to_be_emptied(snapshot, waiting)
        left = [each for each in waiting if (each.namespace, each.name) not in overtaken]
        refused = await asyncio.to_thread(refusals, with_inflight_moves(snapshot, others, 0.0), self.policy(), left)
        again = self._doubts & refused.keys()
        self._doubts = set(refused) - again
        reasons = overtaken | {key: refused[key] for key in again}
        given_up = [await self._give_up(key, reasons[key]) for key in sorted(reasons)]
        return sum(given_up)

    async def _give_up(self, key: ObjectKey, reason: str) -> bool:
        migration = self.board.get(key)
        if migration is None or not self._is_waiting(migration):
            return False  # approved of, or gone, since it was judged: the gatekeeper decides
        waited = "for approval" if migration.awaits_approval else "for its hour"
        message = f"given up while it waited {waited}: {reason}"
        failed = structs.replace(
            migration.status, phase=Phase.FAILED, message=message, completion_time=self.now(), retry_time=None
        )
        try:
            await self.logbook.store(migration, failed)
        except StaleError:
            return False  # somebody has written to it, perhaps his approval
        _log.info(f"a move that waited {waited} is given up", migration=migration.full_name, why=reason)
        return True

    def _is_waiting(self, migration: PodMigration) -> bool:
        """A planner's move that waits for people; what a person has ordered by hand waits for as long as he likes."""
        if migration.spec.by_hand:
            return False
        return migration.awaits_approval or (migration.spec.approval_required and self.held(migration))


def refusals(snapshot: ClusterSnapshot, policy: Policy, waiting: Sequence[PodMigration]) -> dict[ObjectKey, str]:
    """Which of the moves the rules refuse, or have no use any more, and why.

    The order in which they were planned matters, and a new leader does not know it. So who is refused has two more
    chances: once all others are laid in that may be, and as the very last.
    """
    rulings = Revalidator(snapshot, policy)
    left, suspects = list(waiting), list[PodMigration]()
    for _ in range(_ROUNDS):
        answers = [(each, rulings.check(_wanted(each))) for each in left]
        suspects += [each for each, ruling in answers if ruling.method is not None and _has_no_gain(each, ruling)]
        refused = [each for each, ruling in answers if ruling.method is None]
        done, left = not refused or len(refused) == len(left), refused
        if done:
            break
    found: dict[ObjectKey, str] = {}
    for each in (*left, *suspects):
        others = [other for other in waiting if other is not each]
        ruling = Revalidator(with_inflight_moves(snapshot, others, 0.0), policy).check(_wanted(each))
        if ruling.method is None:
            found[each.namespace, each.name] = ruling.reason
        elif _has_no_gain(each, ruling) and (why := _useless(snapshot, policy, each)):
            found[each.namespace, each.name] = why
    return found


def _wanted(migration: PodMigration) -> RequestedMove:
    order = migration.spec
    return RequestedMove(migration.namespace, order.pod.name, order.pod.uid, order.target, order.fixed_method)


def _has_no_gain(migration: PodMigration, ruling: MoveVerdict) -> bool:
    """Whether a move that was planned for its gain has none."""
    promised = migration.spec.expected_gain
    return promised is not None and promised > 0.0 and ruling.gain is not None and ruling.gain <= 0.0


def _useless(snapshot: ClusterSnapshot, policy: Policy, migration: PodMigration) -> str:
    """Why it has no gain on its own, either: its nodes have become less busy by themselves. Empty if it has."""
    order = migration.spec
    pod = next(pod for pod in snapshot.pods if (pod.namespace, pod.name) == (migration.namespace, order.pod.name))
    # The gain of having it where it is, rather than on the target, is what would be lost.
    loss = RealisedGains(snapshot, policy, (pod.node, order.target)).gain(pod, order.target)
    if loss is None or loss < 0.0:
        return ""
    return f"{_NO_USE} ({-loss + 0.0:+.1f} points, not {order.expected_gain or 0.0:+.1f})"


def _on_nodes_to_be_emptied(snapshot: ClusterSnapshot, waiting: Sequence[PodMigration]) -> dict[ObjectKey, str]:
    """Those whose pods go anyway; while they wait, nobody else would move them."""
    emptied = {node.name for node in snapshot.nodes if node.maintenance}
    return {
        (each.namespace, each.name): f"node {each.status.source} is to be emptied, which needs no approval"
        for each in waiting
        if each.status.source in emptied
    }
