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

from rescheduler.app.planning import planned
from rescheduler.config.configuration import Configuration
from rescheduler.config.live import LiveConfig
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import Phase, PodMigration
from rescheduler.model.plan import Plan
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.thresholds import HotStreaks
from rescheduler.runtime.approval_revalidator import ApprovalRevalidator
from rescheduler.runtime.informers import Informers
from rescheduler.runtime.migration_cache import MigrationCache, MigrationStore
from rescheduler.runtime.pause_watcher import PauseWatcher
from rescheduler.runtime.planning_loop import Cycle, OrderTerms, capture_settled, order
from rescheduler.runtime.reconciler import PeriodicTask
from rescheduler.runtime.starting.windows import TimeWindows
from rescheduler.web.metrics import Metrics

_log = structlog.stdlib.get_logger(__name__)
"""Strategies whose moves a person has asked for already, by a label."""


async def _at_once() -> None:
    return None


@dataclass(frozen=True, slots=True)
class PlanningLoop:
    """What planning needs, and whom it tells."""

    live_config: LiveConfig
    watching: Informers
    logbook: MigrationStore
    pauses: PauseWatcher
    metrics: Metrics
    planned: Callable[[Plan, float, float], None]
    """Told each plan, when it was made, and how many seconds that took."""
    now: Callable[[], float]
    hours: TimeWindows
    streaks: HotStreaks
    heard: Callable[[], Awaitable[object]] = _at_once
    """Waits until what is used is known, where plans go by it: after a change somebody else may have begun to ask."""

    def duties(self, outcome: Counter[Phase] | None, stop: asyncio.Event) -> list[PeriodicTask]:
        """Planning, and second thoughts about what waits for approval.

        With an `outcome` one plan is carried out, how its moves ended is counted there, and then `stop` is set.
        """

        async def plan_and_order() -> None:
            if stop.is_set():
                return  # with an outcome, its time may have come again before the loops have ended
            await self.heard()
            ordered = await self._once(self.live_config.config, self.live_config.policy())
            if outcome is not None and ordered is not None:
                outcome.update(await _until_over(self.watching.migrations, ordered))
                stop.set()

        def every() -> float:
            return self.live_config.config.fields.rescheduling_interval

        planning = PeriodicTask("plan", every, plan_and_order)
        self.live_config.listen(planning.called.set)
        return [planning, PeriodicTask("review what awaits approval", every, self._review())]

    async def _once(self, config: Configuration, policy: Policy) -> list[PodMigration] | None:
        """Plan and order, all of it by this one configuration; None where nothing may be ordered now."""
        if stale := self.watching.stale():
            _log.warning("nothing is planned on what may be out of date", why=stale)
            return None
        at, started = self.now(), time.monotonic()
        made = await cycle_of(self.watching, policy, self.metrics, self.streaks).plan()
        self.metrics.plans.observe(made)
        self.planned(made, at, time.monotonic() - started)
        await self.pauses.refresh()
        if (pause := self.pauses.current()) is not None:
            _log.info("nothing is ordered", why=str(pause))
            return None
        if config is not self.live_config.config:
            _log.info("nothing is ordered", why="the configuration has changed while it was planned")
            return None
        waiting = sum(each.awaits_approval for each in self.watching.migrations.active())
        room, why = self._room()
        terms = OrderTerms(
            config.fields.approval,
            most=policy.max_reschedule_pods,
            waiting=waiting,
            hourly=room,
            hindrance=why,
            hourly_in=self.hours.room,
            timed=policy.when.limits,
        )
        with self.metrics.plans.phase("order"):
            return await order(made, self.logbook, self.now(), terms)

    def _room(self) -> tuple[int | None, str]:
        """How many moves by choice may be ordered now, and what hinders more."""
        if closed := self.hours.why_closed():
            return 0, closed
        return self.hours.room(), self.hours.why_limited()

    def _review(self) -> Callable[[], Awaitable[None]]:
        watching = self.watching

        def held(migration: PodMigration) -> bool:
            return self.hours.check(migration) is not None

        reviewing = ApprovalRevalidator(
            watching.capture, watching.migrations, self.logbook, self.live_config.policy, self.now, held
        )

        async def review() -> None:
            if not watching.stale():
                await reviewing.revalidate()

        return review


def cycle_of(watching: Informers, policy: Policy, metrics: Metrics, streaks: HotStreaks) -> Cycle:
    """The plan loop's work; it counts how long nodes have been hot."""
    copied = capture_settled(watching.capture, watching.migrations, policy.cool_down)

    def plan(snapshot: ClusterSnapshot) -> Plan:
        planner, made = planned(snapshot, policy)
        streaks.count(planner.hot_before())
        return made

    return Cycle(lambda: metrics.plans.timed("snapshot", copied()), metrics.plans.timed("plan", plan))


async def _until_over(board: MigrationCache, ordered: Iterable[PodMigration]) -> Counter[Phase]:
    """Wait until these migrations are over; how they ended. One that is deleted meanwhile has failed."""
    changed = asyncio.Event()
    board.listen(lambda key, ours: changed.set())
    keys: list[ObjectKey] = [(each.namespace, each.name) for each in ordered]
    while True:
        changed.clear()
        found = [board.get(key) for key in keys]
        if all(each is None or each.status.over for each in found):
            return Counter(Phase.FAILED if each is None else each.status.phase for each in found)
        await changed.wait()
