"""The plan loop, put together: plan, tell the page and the metrics, and order what may be ordered.

`app.controller` runs its duties while we lead; `app.rehearsal` uses the cycle alone.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

import structlog

from rescheduler.app.planning import plan
from rescheduler.config import Configuration
from rescheduler.model.migration import Migration, Phase
from rescheduler.model.plan import Plan
from rescheduler.model.policy import Policy
from rescheduler.runtime.board import Board, Key
from rescheduler.runtime.cycle import Cycle, Terms, order, settled
from rescheduler.runtime.duties import Duty
from rescheduler.runtime.logbook import Logbook
from rescheduler.runtime.pausing import Pauses
from rescheduler.runtime.reviewing import Reviewing
from rescheduler.runtime.watching import Watching
from rescheduler.strategies.node_maintenance import NodeMaintenance
from rescheduler.web.metrics import Metrics

_log = structlog.stdlib.get_logger(__name__)
_BY_PEOPLE = frozenset({NodeMaintenance.name})
"""Strategies whose moves a person has asked for already, by a label."""


@dataclass(frozen=True, slots=True)
class Cycling:
    """What planning needs, and whom it tells."""

    config: Configuration
    watching: Watching
    logbook: Logbook
    pauses: Pauses
    metrics: Metrics
    planned: Callable[[Plan, float, float], None]
    """Told each plan, when it was made, and how many seconds that took."""
    now: Callable[[], float]

    def duties(self, outcome: Counter[Phase] | None, stop: asyncio.Event) -> list[Duty]:
        """Planning, and second thoughts about what waits for approval.

        With an `outcome` one plan is carried out, how its moves ended is counted there, and then `stop` is set.
        """
        policy = self.config.policy()
        cycle = cycle_of(self.watching, policy, self.metrics)
        every = self.config.fields.rescheduling_interval

        async def plan_and_order() -> None:
            if stop.is_set():
                return  # with an outcome, its time may have come again before the loops have ended
            ordered = await self._once(cycle, policy.limits.total)
            if outcome is not None and ordered is not None:
                outcome.update(await _until_over(self.watching.board, ordered))
                stop.set()

        return [
            Duty("plan", every, plan_and_order),
            Duty("review what awaits approval", every, self._review(policy)),
        ]

    async def _once(self, cycle: Cycle, most: int | None) -> list[Migration] | None:
        """Plan and order; None where nothing may be ordered now."""
        if stale := self.watching.stale():
            _log.warning("nothing is planned on what may be out of date", why=stale)
            return None
        at, started = self.now(), time.monotonic()
        made = await cycle.plan()
        self.metrics.planned(made)
        self.planned(made, at, time.monotonic() - started)
        await self.pauses.refresh()
        if (pause := self.pauses.paused()) is not None:
            _log.info("nothing is ordered", why=str(pause))
            return None
        waiting = sum(each.awaits_approval for each in self.watching.board.active())
        terms = Terms(self.config.fields.approval, _BY_PEOPLE, most, waiting)
        with self.metrics.phase("order"):
            return await order(made, self.logbook, self.now(), terms)

    def _review(self, policy: Policy) -> Callable[[], Awaitable[None]]:
        watching = self.watching
        reviewing = Reviewing(watching.snapshot, watching.board, self.logbook, policy, self.now)

        async def review() -> None:
            if not watching.stale():
                await reviewing.review()

        return review


def cycle_of(watching: Watching, policy: Policy, metrics: Metrics) -> Cycle:
    """The plan loop's work."""
    copied = settled(watching.copied, watching.board, policy.cool_down)
    return Cycle(
        lambda: metrics.timed("snapshot", copied()),
        metrics.timed("plan", lambda snapshot: plan(snapshot, policy)),
    )


async def _until_over(board: Board, ordered: Iterable[Migration]) -> Counter[Phase]:
    """Wait until these migrations are over; how they ended. One that is deleted meanwhile has failed."""
    changed = asyncio.Event()
    board.listen(lambda key, ours: changed.set())
    keys: list[Key] = [(each.namespace, each.name) for each in ordered]
    while True:
        changed.clear()
        found = [board.get(key) for key in keys]
        if all(each is None or each.progress.over for each in found):
            return Counter(Phase.FAILED if each is None else each.progress.phase for each in found)
        await changed.wait()
