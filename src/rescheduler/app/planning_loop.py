"""The planning loop: plan, show the plan, and create migrations for its moves."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterable

import structlog

from rescheduler.app.context import AppContext
from rescheduler.app.planning import make_plan
from rescheduler.config.schema import Configuration
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import Phase, PodMigration
from rescheduler.model.plan import Plan
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.thresholds import HotStreaks
from rescheduler.runtime.informers import Informers
from rescheduler.runtime.migration_cache import MigrationCache, MigrationStore
from rescheduler.runtime.planning_loop import (
    ApprovalRevalidator,
    OrderTerms,
    capture_settled,
    create_migrations,
    plan_in_threads,
)
from rescheduler.runtime.reconciler import PeriodicTask
from rescheduler.runtime.starting.windows import TimeWindows
from rescheduler.web.metrics import Metrics

_log = structlog.stdlib.get_logger(__name__)


class PlanningLoop:
    """The periodic tasks of the leader that plan and revalidate."""

    def __init__(
        self,
        context: AppContext,
        store: MigrationStore,
        windows: TimeWindows,
        streaks: HotStreaks,
        show_plan: Callable[[Plan, float, float], None],
    ) -> None:
        """`show_plan` is called with each plan, its time, and the seconds it took."""
        self._context = context
        self._store = store
        self._windows = windows
        self._streaks = streaks
        self._show_plan = show_plan

    def tasks(self, outcome: Counter[Phase] | None, stop: asyncio.Event) -> list[PeriodicTask]:
        """Planning, and the revalidation of moves that await approval.

        With an `outcome`, one plan is executed, the ends of its moves are counted there, and then `stop` is set.
        """
        live = self._context.live

        async def plan_and_create() -> None:
            if stop.is_set():
                return  # with an outcome, the next run may begin before the loops have ended
            await self._context.usage.wait_until_polled()
            created = await self.plan_once(live.config, live.policy())
            if outcome is not None and created is not None:
                outcome.update(await _wait_until_over(self._context.informers.migrations, created))
                stop.set()

        def interval() -> float:
            return live.config.fields.rescheduling_interval

        context = self._context
        revalidator = ApprovalRevalidator(context.informers, live, self._store, self._windows, context.now)
        planning = PeriodicTask("plan", interval, plan_and_create)
        live.listen(planning.wake.set)
        return [planning, PeriodicTask("revalidate moves that wait", interval, revalidator.revalidate)]

    async def plan_once(self, config: Configuration, policy: Policy) -> list[PodMigration] | None:
        """Plan and create migrations by one configuration; None if nothing may be created now."""
        context, now = self._context, self._context.now
        if stale := context.informers.stale():
            _log.warning("not planned, state is stale", why=stale)
            return None
        at, started = now(), time.monotonic()
        plan = await run_cycle(context.informers, policy, context.metrics, self._streaks)
        context.metrics.plans.observe(plan)
        self._show_plan(plan, at, time.monotonic() - started)
        await context.pauses.refresh()
        if (pause := context.pauses.current()) is not None:
            _log.info("no migrations created", why=str(pause))
            return None
        if config is not context.live.config:
            _log.info("no migrations created", why="the configuration has changed during planning")
            return None
        closed = self._windows.why_closed()
        terms = OrderTerms(
            config.fields.approval,
            most=policy.max_reschedule_pods,
            waiting=sum(each.awaits_approval for each in context.informers.migrations.active()),
            hourly=0 if closed else self._windows.room(),
            hindrance=closed or self._windows.why_limited(),
            timed=policy.when.limits,
        )
        with context.metrics.plans.phase("order"):
            return await create_migrations(plan, self._store, now(), terms)


async def run_cycle(informers: Informers, policy: Policy, metrics: Metrics, streaks: HotStreaks) -> Plan:
    """Run one planning cycle, which also counts how long nodes have been hot."""
    capture = capture_settled(informers.capture, informers.migrations, policy.cool_down)

    def plan(snapshot: ClusterSnapshot) -> Plan:
        planner, made = make_plan(snapshot, policy)
        streaks.count(planner.hot_before())
        return made

    return await plan_in_threads(lambda: metrics.plans.timed("snapshot", capture()), metrics.plans.timed("plan", plan))


async def _wait_until_over(migrations: MigrationCache, created: Iterable[PodMigration]) -> Counter[Phase]:
    """Wait until these migrations are over; count how they ended. A deleted one has failed."""
    changed = asyncio.Event()
    migrations.listen(lambda key, ours: changed.set())
    keys: list[ObjectKey] = [(each.namespace, each.name) for each in created]
    while True:
        changed.clear()
        found = [migrations.get(key) for key in keys]
        if all(each is None or each.status.over for each in found):
            return Counter(Phase.FAILED if each is None else each.status.phase for each in found)
        await changed.wait()
