"""Runs the controller: makes its parts, wires them, plans, and runs until it is stopped. Also the dry run."""

from __future__ import annotations

import asyncio
import platform
import time
import uuid
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager
from functools import partial

import structlog

from rescheduler.app.admission import AdmissionServices
from rescheduler.app.context import AppContext, RunRequest, UsageMonitor
from rescheduler.app.planning import make_plan
from rescheduler.app.servers import WebServer
from rescheduler.config.live import LiveConfig
from rescheduler.config.loader import ConfigFile, Origin
from rescheduler.config.schema import Configuration
from rescheduler.kube.client import ApiClient, RateLimiter
from rescheduler.kube.connection import Connection
from rescheduler.kube.crd_installer import install_crd
from rescheduler.kube.errors import ClusterError
from rescheduler.kube.events import EventQueue, EventRecorder
from rescheduler.kube.lease import LeaderElector, LeaseName, LeaseTimes
from rescheduler.kube.migrations import MigrationClient
from rescheduler.kube.objects import MIGRATIONS, CommandSender
from rescheduler.kube.observer import MigrationObserver
from rescheduler.kube.pause_state import PauseStore, state_name
from rescheduler.kube.record_owner import RecordOwners
from rescheduler.migration.events import Subject, events_for
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import Phase, PodMigration
from rescheduler.model.objects import Pod
from rescheduler.model.plan import Plan
from rescheduler.model.policy import Policy
from rescheduler.model.selector import Labels
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.model.strategy_traits import is_mandatory
from rescheduler.planning.thresholds import HotStreaks
from rescheduler.runtime.config_watcher import EVERY, ConfigWatcher
from rescheduler.runtime.controller import Controller, Runnable, finish_before, run_all, run_beside
from rescheduler.runtime.executor import ControllerObserver, MigrationExecutor
from rescheduler.runtime.informers import WATCHED, Informers
from rescheduler.runtime.maintenance import CordonController
from rescheduler.runtime.migration_cache import MigrationCache, MigrationStore
from rescheduler.runtime.migration_controller import MigrationController
from rescheduler.runtime.orphans import GarbageCollector, OrphanCleaner
from rescheduler.runtime.outcomes import ASSESS_EVERY, OutcomeAssessor
from rescheduler.runtime.planning_loop import (
    ApprovalRevalidator,
    OrderTerms,
    capture_settled,
    create_migrations,
    plan_in_threads,
)
from rescheduler.runtime.reconciler import PeriodicTask
from rescheduler.runtime.recovery_controller import RecoveryController
from rescheduler.runtime.starting.gate import CachedRevalidator, StartGate
from rescheduler.runtime.starting.holds import Holds, PauseWatcher
from rescheduler.runtime.starting.limits import ConcurrencyLimits
from rescheduler.runtime.starting.windows import TimeWindows
from rescheduler.strategies import settings_by_name
from rescheduler.web.auth import check_insecure_local
from rescheduler.web.metrics import Metrics

_log = structlog.stdlib.get_logger(__name__)
_CORDONS_EVERY = 10.0  # seconds; a change of a node runs it earlier


def open_config(path: str, overrides: Mapping[str, object]) -> tuple[Configuration, Origin | None]:
    """Read the file's configuration with flags over it; the origin is None if the file cannot change (a pipe)."""
    file = ConfigFile(path, overrides, settings_by_name())
    text = file.text()
    return file.read(text), Origin(file, text) if file.can_change else None


async def run_controller(request: RunRequest, stop: asyncio.Event) -> Counter[Phase]:
    """Run until stopped, or with `once` until one plan is executed; count how its moves ended."""
    outcome = Counter[Phase]()
    if request.insecure_local:
        check_insecure_local(request.config.fields.web.bind_address, request.web_port)
    async with _connect(request, stop) as context:
        if context is None:
            return outcome
        admission = AdmissionServices(context)
        checks = {"caches": context.informers.why_not_ready, "webhook": admission.why_not_served}
        web = WebServer(context, request, checks)
        controller = _make_controller(context, request, admission, web, outcome, stop)
        async with web.serving():
            if await finish_before(context.pauses.refresh(), stop):
                await controller.run(stop)
    return outcome


@asynccontextmanager
async def _connect(request: RunRequest, stop: asyncio.Event) -> AsyncGenerator[AppContext | None]:
    """Connect to the cluster and install the CRD; None if stopped before."""
    config, connection, timeout = request.config, request.live.connection(), request.live.request_timeout
    metrics, live = Metrics(), LiveConfig(config, time.time())
    report = metrics.requests.reporter(connection.server)
    async with ApiClient(connection, request_timeout=timeout) as own:
        own.report = report
        if not await finish_before(install_crd(own), stop):
            yield None
            return
        election = _make_elector(config, connection, own)
        async with ApiClient(
            connection,
            request_timeout=timeout,
            may_write=election.may_act if election is not None else lambda: True,
            pace=_make_rate_limiter(config),
        ) as client:
            client.report = report
            identity = election.lease.identity if election is not None else platform.node()
            leases = config.fields.leader_election
            namespace = leases.resource_namespace or connection.namespace
            informers = Informers(client, connection.source)
            pause_store = PauseStore(own, namespace, state_name(leases.resource_name))
            yield AppContext(
                live=live,
                own=own,
                client=client,
                connection=connection,
                namespace=namespace,
                identity=identity,
                informers=informers,
                election=election,
                pause_store=pause_store,
                pauses=PauseWatcher(pause_store, EventRecorder(own, identity, own.clock.now), own.clock.now),
                metrics=metrics,
                usage=UsageMonitor(live, client, lambda: informers.cache.rows("Pod")),
            )


def _make_elector(config: Configuration, connection: Connection, client: ApiClient) -> LeaderElector | None:
    """The leader election of this replica; None if the configuration disables it."""
    wanted = config.fields.leader_election
    if not wanted.leader_elect:
        return None
    lease = LeaseName(
        wanted.resource_namespace or connection.namespace,
        wanted.resource_name,
        f"{platform.node()}_{uuid.uuid4()}",
    )
    return LeaderElector(client, lease, LeaseTimes(wanted.lease_duration, wanted.renew_deadline, wanted.retry_period))


def _make_rate_limiter(config: Configuration) -> RateLimiter | None:
    wanted = config.fields.client_connection
    if wanted.qps is None:
        return None
    return RateLimiter(wanted.qps, wanted.burst or max(1, round(wanted.qps)))


def _make_controller(
    context: AppContext,
    request: RunRequest,
    admission: AdmissionServices,
    web: WebServer,
    outcome: Counter[Phase],
    stop: asyncio.Event,
) -> Controller:
    """Wire the controller."""
    live, client, informers, usage = context.live, context.client, context.informers, context.usage
    migrations, cache, now, once = informers.migrations, informers.cache, client.clock.now, request.once
    observer, sender = MigrationObserver(client), CommandSender(client)
    sender.refused = context.metrics.moves.count_refusal
    recorder = EventRecorder(client, context.identity, now)
    events = EventQueue(recorder)

    def notify(before: PodMigration, after: PodMigration) -> None:
        events.add(events_for(before, after))
        context.metrics.moves.observe(before, after)

    store = MigrationStore(MigrationClient(client), migrations, notify)
    windows = TimeWindows(migrations, live, now)
    gate = StartGate(
        migrations,
        CachedRevalidator(informers.capture, migrations, live),
        ConcurrencyLimits(migrations, live, informers.replicas),
        Holds(migrations, live, context.pauses, windows),
        live,
    )
    controller_observer = ControllerObserver(observer, migrations, admission.steering)
    executor = MigrationExecutor(store, controller_observer, sender, live.lifecycle, gate.check)
    controller = MigrationController(executor, gate, migrations, cache, controller_observer, now)

    assessor = OutcomeAssessor(informers, live, store, now, context.metrics.outcomes.observe, usage.why_missing)
    assessing = PeriodicTask("assess outcomes", ASSESS_EVERY, assessor.assess)

    def needed(at: float) -> set[ObjectKey]:
        return assessor.needed(at) | windows.needed(at)

    collector = GarbageCollector(store, OrphanCleaner(cache, observer, sender), live, controller.is_busy, needed, now)

    def is_emptied(labels: Labels) -> bool:
        return any(is_mandatory(name) for name in live.policy().strategies_for(labels))

    cordons = CordonController(cache, observer, sender, should_cordon=is_emptied)
    cordoning = PeriodicTask("cordons", _CORDONS_EVERY, lambda: cordons.reconcile(now()))
    cache.listen(lambda kind, key, version: cordoning.wake.set() if kind == "Node" else None)
    live.listen(cordoning.wake.set)

    streaks = HotStreaks()
    informers.add_overlay(usage.with_usage)
    if not once:  # a single plan has no earlier cycles
        informers.add_overlay(streaks.with_streaks)
    planning = PlanningLoop(context, store, windows, streaks, web.show_plan)

    def may_recover() -> bool:
        return admission.steers_pods() and context.pauses.current() is None

    recovery = RecoveryController(RecordOwners(client), informers, live, sender, recorder, may_recover)
    recovery.count_outcome = context.metrics.count_recovery
    live.listen(recovery.restart)

    replica_tasks: list[Runnable] = [context.pauses, usage, *([] if once else admission.replica_tasks)]
    if request.origin is not None and not once:
        own_object = partial(find_own_object, context, MigrationObserver(context.own))
        count_reload = context.metrics.count_reload
        watcher = ConfigWatcher(request.origin, live, context.now, count_reload, context.recorder, own_object)
        replica_tasks.append(PeriodicTask("re-read configuration", EVERY, watcher.check))
    return Controller(
        informers=informers,
        election=context.election,
        gate=gate,
        migrations=controller,
        # Outcomes are assessed before the garbage collector removes their migrations.
        startup_tasks=[
            PeriodicTask("first usage poll", 0.0, usage.wait_until_polled),
            assessing,
            collector.task,
            cordoning,
        ],
        leader_tasks=[
            events,
            collector.task,
            cordoning,
            assessing,
            *planning.tasks(outcome if once else None, stop),
            *([] if once else [*admission.leader_tasks, recovery]),
        ],
        shutdown_tasks=[
            PeriodicTask("write events", 0.0, events.flush),
            PeriodicTask("write events of recovery", 0.0, recovery.flush),
        ],
        grace=lambda: live.config.fields.migration.shutdown_grace_period,
        replica_tasks=replica_tasks,
    )


async def find_own_object(context: AppContext, observer: MigrationObserver) -> Subject:
    """Find the object that stands for this replica in Events: its pod; outside of the cluster the Lease, if any."""
    pod: Pod | None = context.informers.cache.row("Pod", (context.connection.namespace, platform.node()))
    if pod is not None:
        return Subject("Pod", pod.namespace, pod.name, pod.uid)
    namespace, name = context.namespace, context.live.config.fields.leader_election.resource_name
    try:
        lease = await observer.find("Lease", namespace, name)
    except ClusterError as error:
        _log.debug("lease not readable, event has no UID", why=str(error))
        lease = None
    return Subject("Lease", namespace, name, lease["metadata"]["uid"] if lease is not None else "")


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
        at, started = now(), time.monotonic()
        plan = await run_cycle(context.informers, policy, context.metrics, self._streaks)
        if plan is None:
            return None
        context.metrics.plans.observe(plan)
        self._show_plan(plan, at, time.monotonic() - started)
        await context.pauses.refresh()
        if (pause := context.pauses.current()) is not None:
            _log.info("no migrations created", why=str(pause))
            return None
        if config is not context.live.config:
            _log.info("no migrations created", why="the configuration has changed during planning")
            return None
        room, hindrance = self._windows.room()
        terms = OrderTerms(
            config.fields.approval,
            most=policy.max_reschedule_pods,
            waiting=sum(each.awaits_approval for each in context.informers.migrations.active()),
            hourly=room,
            hindrance=hindrance,
            timed=policy.when.limits,
        )
        with context.metrics.plans.phase("order"):
            return await create_migrations(plan, self._store, now(), terms)


async def run_cycle(informers: Informers, policy: Policy, metrics: Metrics, streaks: HotStreaks) -> Plan | None:
    """Run one planning cycle, which also counts how long nodes have been hot; None while the caches are stale."""
    if stale := informers.stale():
        _log.warning("not planned, state is stale", why=stale)
        return None
    capture = capture_settled(informers.capture, informers.migrations, policy.cool_down)

    def plan(snapshot: ClusterSnapshot) -> Plan:
        planner, made = make_plan(snapshot, policy)
        streaks.count(planner.hot_before())
        return made

    return await plan_in_threads(lambda: metrics.plans.phase("snapshot")(capture()), metrics.plans.phase("plan")(plan))


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


async def run_dry(request: RunRequest, stop: asyncio.Event) -> None:
    """Plan and log the moves until stopped, or with `once` a single time; write nothing."""
    connection = request.live.connection()
    async with ApiClient(connection, request_timeout=request.live.request_timeout) as client:
        served = asyncio.ensure_future(client.find(f"/apis/{MIGRATIONS.api_version}"))
        if not await finish_before(served, stop):
            return
        watched = (*WATCHED, MIGRATIONS) if served.result() is not None else WATCHED  # a dry run does not install them
        informers = Informers(client, connection.source, watched)
        live, metrics, streaks = LiveConfig(request.config, time.time()), Metrics(), HotStreaks()
        usage = UsageMonitor(live, client, lambda: informers.cache.rows("Pod"))
        informers.add_overlay(usage.with_usage)
        if not request.once:  # a single plan has no earlier cycles
            informers.add_overlay(streaks.with_streaks)

        async def plan_and_log() -> None:
            if stop.is_set():
                return  # with `once`, the next run may begin before the loops have ended
            await usage.wait_until_polled()
            plan = await run_cycle(informers, live.policy(), metrics, streaks)
            if plan is None:
                return
            for move in plan.moves:
                _log.info(
                    "would move",
                    pod=f"{move.namespace}/{move.pod}",
                    source=move.source,
                    target=move.target,
                    method=move.method.value,
                    strategy=move.strategy,
                    reason=move.reason,
                )
            if request.once:
                stop.set()

        async with run_beside(informers.run()) as watching:
            if await finish_before(informers.wait_for_sync(), stop, watching):
                planning = PeriodicTask("plan", lambda: live.config.fields.rescheduling_interval, plan_and_log)
                live.listen(planning.wake.set)
                tasks: list[Runnable] = [planning, usage]
                if request.origin is not None:
                    watcher = ConfigWatcher(request.origin, live, client.clock.now)
                    tasks.append(PeriodicTask("re-read configuration", EVERY, watcher.check))
                async with run_beside(run_all(each.run() for each in tasks)) as running:
                    await finish_before(stop.wait(), stop, watching, running)
