"""A leader for tests about what may begin: the product's watches, start gate and controller, in the test's loop.

It is put together as the composition root does it, without lease, planning loop and garbage collector: tests order
what they like. It ends with its block as a leader that is stopped; what has begun stays as it is, for the next one.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from rescheduler.kube.client import ApiClient
from rescheduler.kube.kubeconfig import KubeconfigOptions, load_connection
from rescheduler.kube.migrations import MigrationClient
from rescheduler.kube.objects import CommandSender
from rescheduler.kube.observer import MigrationObserver
from rescheduler.kube.pause_state import PauseStore
from rescheduler.migration.lifecycle import Lifecycle
from rescheduler.migration.observation import SteeringMethod
from rescheduler.migration.settings import MigrationSettings
from rescheduler.model.migration import PodMigration
from rescheduler.model.plan import Move, Plan
from rescheduler.model.policy import Approval, Concurrency, Policy, Timing
from rescheduler.runtime.executor import ControllerObserver, MigrationExecutor
from rescheduler.runtime.informers import Informers
from rescheduler.runtime.migration_cache import MigrationStore
from rescheduler.runtime.migration_controller import MigrationController
from rescheduler.runtime.planning_loop import ApprovalRevalidator, OrderTerms, create_migrations
from rescheduler.runtime.starting.gate import CachedRevalidator, StartGate
from rescheduler.runtime.starting.holds import Holds, PauseWatcher
from rescheduler.runtime.starting.limits import ConcurrencyLimits
from rescheduler.runtime.starting.windows import TimeWindows
from tests.support.both_clusters import ClusterUnderTest, Space
from tests.support.builders import cluster, node
from tests.support.live import live
from tests.support.migrations import wait_until_undisturbed
from tests.support.planning import planned
from tests.support.pod_migrations import replace

SECONDS = 120.0
STATE = "kube-rescheduler-state"
QUICK = MigrationSettings(eviction_grace_period=1.0, retry_delay=1.0, max_retry_delay=2.0)
LENIENT = Policy(min_pod_age=0.0, cool_down=0.0)


@dataclass(frozen=True)
class Wanted:
    """How a leader is set."""

    approval_timeout: float = 3600.0
    concurrency: Concurrency = field(default_factory=Concurrency)
    settings: MigrationSettings = QUICK
    timing: Callable[[], Timing] = Timing
    """When moves may begin; asked each time."""


@dataclass(frozen=True)
class Leader:
    """A leader at work."""

    client: ApiClient
    watching: Informers
    store: MigrationStore
    pauses: PauseWatcher
    reviewing: ApprovalRevalidator
    hours: TimeWindows

    async def ordered(self, *moves: Move, most: int | None = None) -> list[PodMigration]:
        """A plan of these moves, which needs approval."""
        waiting = sum(each.awaits_approval for each in self.watching.migrations.active())
        terms = OrderTerms(Approval.REQUIRED, most, waiting)
        return await create_migrations(plan_of(*moves), self.store, self.client.clock.now(), terms)

    async def until(self, what: str, reached: Callable[[], Any]) -> Any:
        """Wait for something that shows in the cache; what it gives."""
        try:
            async with asyncio.timeout(SECONDS):
                while not (found := reached()):  # noqa: ASYNC110 - caches and pauses tell in ways of their own
                    await asyncio.sleep(0.02)
        except TimeoutError:
            known = [(each.full_name, each.status) for each in self.watching.migrations.all()]
            raise AssertionError(f"not within {SECONDS} s: {what}; {known}") from None
        return found

    def now(self, migration: PodMigration) -> PodMigration:
        """The migration as it is known now."""
        found = self.watching.migrations.get((migration.namespace, migration.name))
        assert found is not None, f"{migration.full_name} is gone"
        return found

    async def says(self, migration: PodMigration, text: str) -> PodMigration:
        """Wait until it says so."""
        await self.until(f"{migration.name} says {text}", lambda: text in self.now(migration).status.message)
        return self.now(migration)

    async def ends(self, migration: PodMigration) -> PodMigration:
        """Wait until it is over."""
        await self.until(f"{migration.name} is over", lambda: self.now(migration).status.over)
        return self.now(migration)


@asynccontextmanager
async def client_of(cluster: ClusterUnderTest) -> AsyncIterator[ApiClient]:
    connection = load_connection(KubeconfigOptions(cluster.kubeconfig, None), os.environ)
    async with ApiClient(connection) as client:
        yield client


@asynccontextmanager
async def leading(space: Space, wanted: Wanted | None = None) -> AsyncIterator[Leader]:
    """A leader, until the end of the block; its state is in the test's namespace, and it works for all of them."""
    given = wanted or Wanted()
    await asyncio.to_thread(wait_until_undisturbed, space.cluster)
    async with client_of(space.cluster) as client:
        watching, pauses = Informers(client, "test"), PauseWatcher(PauseStore(client, space.name, STATE))
        migrations, observer, now = watching.migrations, MigrationObserver(client), client.clock.now
        store = MigrationStore(MigrationClient(client), migrations, lambda before, after: None)
        now_live = live(
            policy=lambda: replace(LENIENT, when=given.timing()),
            concurrency=lambda: given.concurrency,
            timeout=given.settings.timeout,
            approval_timeout=given.approval_timeout,
        )
        hours = TimeWindows(migrations, now_live, now)
        start_gate = StartGate(
            migrations,
            CachedRevalidator(watching.capture, migrations, live(policy=lambda: LENIENT)),
            ConcurrencyLimits(migrations, now_live, watching.replicas),
            Holds(migrations, now_live, pauses, hours),
            now_live,
        )
        seen = ControllerObserver(observer, migrations, lambda _: SteeringMethod.TEMPLATE)
        executor = MigrationExecutor(
            store, seen, CommandSender(client), lambda: Lifecycle(given.settings), start_gate.check
        )
        controller = MigrationController(executor, start_gate, migrations, watching.cache, seen, now)
        unwindowed = TimeWindows(migrations, live(), now)
        reviewing = ApprovalRevalidator(watching, live(policy=lambda: LENIENT), store, unwindowed, now)
        tasks = [asyncio.create_task(watching.run())]
        try:
            await asyncio.wait_for(watching.wait_for_sync(), SECONDS)
            await pauses.refresh()
            tasks += [asyncio.create_task(pauses.run()), asyncio.create_task(controller.run())]
            yield Leader(client, watching, store, pauses, reviewing, hours)
            start_gate.open = False
            await controller.drain(SECONDS)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)


def plan_of(*moves: Move) -> Plan:
    """A plan of these moves and nothing else."""
    return replace(planned(cluster(node("a"))), moves=moves)
