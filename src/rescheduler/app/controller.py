"""Re-reading, put together: the configuration's file and its flags, and what Events about it are told of.

`cli.run` opens the file; the controller, and its rehearsal, follow it for as long as they run.
"""

from __future__ import annotations

import asyncio
import platform
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import structlog

from rescheduler.app.admission import AdmissionContext, AdmissionServices
from rescheduler.app.planning import LiveCluster
from rescheduler.app.planning_loop import PlanningLoop, cycle_of
from rescheduler.app.servers import Doorway, Front, Knowing
from rescheduler.app.usage import UsageMonitor
from rescheduler.config.configuration import Configuration
from rescheduler.config.live import LiveConfig
from rescheduler.config.loader import ConfigFile, Origin
from rescheduler.decode.cache import ClusterCache
from rescheduler.kube.client import ApiClient, RateLimiter
from rescheduler.kube.connection import Connection
from rescheduler.kube.crd_installer import install_crd
from rescheduler.kube.errors import ClusterError
from rescheduler.kube.events import EventQueue, EventRecorder
from rescheduler.kube.lease import LeaderElector, LeaseName, LeaseTimes
from rescheduler.kube.migrations import MigrationClient
from rescheduler.kube.objects import CommandSender
from rescheduler.kube.observer import MigrationObserver
from rescheduler.kube.pause_state import PauseStore, state_name
from rescheduler.kube.record_owner import RecordOwners
from rescheduler.migration.events import Subject, events_for
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import Phase, PodMigration
from rescheduler.model.objects import Pod
from rescheduler.model.plan import Move
from rescheduler.model.selector import Labels
from rescheduler.model.strategy_traits import is_mandatory
from rescheduler.planning.thresholds import HotStreaks
from rescheduler.runtime.config_watcher import EVERY, ConfigWatcher, ReloadAudience
from rescheduler.runtime.controller import Controller, Runnable, finish_before, run_beside
from rescheduler.runtime.executor import MigrationExecutor
from rescheduler.runtime.informers import MIGRATIONS, WATCHED, Informers
from rescheduler.runtime.maintenance import CordonController
from rescheduler.runtime.migration_cache import MigrationStore
from rescheduler.runtime.migration_controller import MigrationController
from rescheduler.runtime.observer import Circumstances, Sightings
from rescheduler.runtime.orphans import GarbageCollector, OrphanCleaner
from rescheduler.runtime.outcomes import ASSESS_EVERY, AssessmentInputs, OutcomeAssessor
from rescheduler.runtime.pause_watcher import PauseWatcher
from rescheduler.runtime.reconciler import PeriodicTask
from rescheduler.runtime.recovery_controller import Hands, Known, RecoveryController
from rescheduler.runtime.starting.gate import CachedRevalidator, StartGate
from rescheduler.runtime.starting.holds import Holds
from rescheduler.runtime.starting.limits import ConcurrencyLimits
from rescheduler.runtime.starting.windows import TimeWindows
from rescheduler.strategies import settings_by_name
from rescheduler.web.auth import check_insecure_local
from rescheduler.web.metrics import Metrics

_log = structlog.stdlib.get_logger(__name__)


def open_config(path: str, overrides: Mapping[str, object]) -> tuple[Configuration, Origin | None]:
    """The file's configuration with flags over it, and where to look for changes: nowhere, if it came by a pipe."""
    file = ConfigFile(path, overrides, settings_by_name())
    text = file.text()
    return file.read(text), Origin(file, text) if file.can_change else None


def watch_config(
    origin: Origin, live_config: LiveConfig, audience: ReloadAudience, now: Callable[[], float]
) -> PeriodicTask:
    """Re-reads the configuration file as it changes; every replica does."""
    return PeriodicTask(
        "re-read the configuration", EVERY, ConfigWatcher(origin.file, origin.text, live_config, audience, now).check
    )


@dataclass(frozen=True, slots=True)
class OwnObject:
    """By which object people know this controller."""

    cache: ClusterCache
    observer: MigrationObserver
    pods: str
    """The namespace that we run in, if we run in the cluster."""
    lease: tuple[str, str]
    """Namespace and name of our Lease."""

    async def known_as(self) -> Subject:
        """This replica's pod; outside of the cluster the Lease, be there one or not."""
        pod: Pod | None = self.cache.row("Pod", (self.pods, platform.node()))
        if pod is not None:
            return Subject("Pod", pod.namespace, pod.name, pod.uid)
        namespace, name = self.lease
        try:
            lease = await self.observer.find("Lease", namespace, name)
        except ClusterError as error:
            _log.debug("our Lease cannot be read; it is told of without its UID", why=str(error))
            lease = None
        return Subject("Lease", namespace, name, lease["metadata"]["uid"] if lease is not None else "")


_CORDONS_EVERY = 10.0  # seconds; changes of nodes call for it sooner


@dataclass(frozen=True, slots=True)
class RunRequest:
    """How the controller is to run."""

    live: LiveCluster
    config: Configuration
    once: bool = False
    """Carry one plan out, and end."""
    insecure_local: bool = False
    """Whoever reaches the page from this machine may use its buttons."""
    port: int | None = None
    """Where the page is served; 0 is a free port, None what the configuration says."""
    opened: Callable[[str], None] = field(default=lambda address: None)
    """Told the page's address."""
    origin: Origin | None = None
    """Where the configuration comes from, to be read again when it changes."""


async def run_controller(running: RunRequest, stop: asyncio.Event) -> Counter[Phase]:
    """Run until asked to stop, or with `once` until one plan is carried out; how many moves of it ended how."""
    fields = running.config.fields
    port = running.port if running.port is not None else fields.web.port or None
    if running.insecure_local:
        check_insecure_local(fields.web.bind_address, port)
    connection, timeout = running.live.connection(), running.live.request_timeout
    metrics, live_config = Metrics(), LiveConfig(running.config, time.time())
    report = metrics.requests.reporter(connection.server)
    async with ApiClient(connection, request_timeout=timeout) as own:
        own.report = report
        if not await finish_before(install_crd(own), stop):
            return Counter()
        election = election_of(running.config, connection, own)
        async with ApiClient(
            connection,
            request_timeout=timeout,
            may_write=election.may_act if election is not None else lambda: True,
            pace=_pace(running.config),
        ) as client:
            client.report = report
            identity = election.lease.identity if election is not None else platform.node()
            watching = Informers(client, connection.source)
            meters = UsageMonitor(live_config, client, lambda: watching.cache.rows("Pod"))
            namespace = fields.leader_election.resource_namespace or connection.namespace
            pausing = PauseStore(own, namespace, state_name(fields.leader_election.resource_name))
            pauses = PauseWatcher(pausing, EventRecorder(own, identity, own.clock.now), own.clock.now)
            steering = AdmissionServices(
                AdmissionContext(live_config, namespace, own, client, watching, metrics, identity)
            )
            checks = {"caches": watching.why_not_ready, "webhook": steering.why_not_served}
            doorway = Doorway(fields.web.bind_address, port, fields.web.page, running.insecure_local, running.opened)
            front = Front(
                Knowing(
                    live_config,
                    own,
                    connection.source,
                    identity,
                    watching,
                    election,
                    pausing,
                    pauses,
                    metrics,
                    checks,
                    metering=lambda: meters.current,
                ),
                doorway,
            )
            recorder = EventRecorder(client, identity, client.clock.now)
            ourselves = OwnObject(
                watching.cache,
                MigrationObserver(own),
                connection.namespace,
                (namespace, fields.leader_election.resource_name),
            )
            audience = ReloadAudience(
                metrics.config.count_reload, EventRecorder(own, identity, own.clock.now), ourselves.known_as
            )
            reads = [watch_config(running.origin, live_config, audience, own.clock.now)] if running.origin else []
            parts = _Parts(
                running,
                live_config,
                client,
                election,
                recorder,
                watching,
                steering,
                metrics,
                pauses,
                front,
                meters,
                reads,
            )
            async with front.served():
                if await finish_before(pauses.refresh(), stop):
                    await parts.controller(stop).run(stop)
            return parts.outcome


def election_of(config: Configuration, connection: Connection, client: ApiClient) -> LeaderElector | None:
    """Our part in the election; None where the configuration says that there is nobody else."""
    wanted = config.fields.leader_election
    if not wanted.leader_elect:
        return None
    lease = LeaseName(
        wanted.resource_namespace or connection.namespace,
        wanted.resource_name,
        f"{platform.node()}_{uuid.uuid4()}",
    )
    return LeaderElector(client, lease, LeaseTimes(wanted.lease_duration, wanted.renew_deadline, wanted.retry_period))


def _pace(config: Configuration) -> RateLimiter | None:
    wanted = config.fields.client_connection
    if wanted.qps is None:
        return None
    return RateLimiter(wanted.qps, wanted.burst or max(1, round(wanted.qps)))


@dataclass(frozen=True, slots=True)
class _Parts:
    """What the controller is made of."""

    running: RunRequest
    live_config: LiveConfig
    client: ApiClient
    election: LeaderElector | None
    recorder: EventRecorder
    watching: Informers
    steering: AdmissionServices
    metrics: Metrics
    pauses: PauseWatcher
    front: Front
    meters: UsageMonitor
    rereading: Sequence[Runnable]
    """What follows the configuration's file; nothing where there is none."""
    outcome: Counter[Phase] = field(default_factory=Counter)

    def controller(self, stop: asyncio.Event) -> Controller:
        """All of it, wired."""
        live_config, client = self.live_config, self.client
        watching, steering = self.watching, self.steering
        board = watching.migrations
        journal, observer, writer = (
            MigrationClient(client, client.clock.now),
            MigrationObserver(client),
            CommandSender(client),
        )
        writer.refused = self.metrics.moves.count_refusal
        bulletins = EventQueue(self.recorder)

        def tell(finish_before: PodMigration, after: PodMigration) -> None:
            bulletins.add(events_for(finish_before, after))
            self.metrics.moves.observe(finish_before, after)

        logbook = MigrationStore(journal, board, tell)
        judge = CachedRevalidator(watching.capture, board, live_config.policy)
        hours = TimeWindows(board, lambda: live_config.policy().when, client.clock.now)

        def patience() -> float:
            return live_config.config.fields.migration.timeout

        consent = Holds(board, lambda: live_config.config.fields.approval_timeout, self.pauses, hours, patience)
        slots = ConcurrencyLimits(board, live_config.concurrency, watching.replicas)
        gatekeeper = StartGate(board, judge, slots, patience, consent)
        sightings = Sightings(observer, watching.cache)
        circumstances = Circumstances(sightings, board, steering.steered)
        migrator = MigrationExecutor(logbook, circumstances, writer, live_config.lifecycle, gatekeeper.check)
        carrier = MigrationController(migrator, gatekeeper, board, sightings, client.clock.now)
        sweeper = OrphanCleaner(watching.cache, observer, writer)
        now = client.clock.now

        def after() -> float:
            return live_config.config.fields.outcomes.assess_after

        def keep() -> float:
            return live_config.config.fields.migration.keep_finished

        def empties(labels: Labels) -> bool:
            return any(is_mandatory(name) for name in live_config.policy().strategies_for(labels))

        by = AssessmentInputs(
            board, watching.capture, watching.stale, live_config.policy, after, now, self.meters.why_missing
        )
        assessor = OutcomeAssessor(by, logbook, self.metrics.outcomes.observe)
        assessing = PeriodicTask("assess moves", ASSESS_EVERY, assessor.assess)

        def needed(at: float) -> set[ObjectKey]:
            return assessor.needed(at) | hours.needed(at)

        janitor = GarbageCollector(board, journal, sweeper.clean, keep, carrier.is_busy, now, needed)
        cordons = CordonController(watching.cache, observer, writer, cordoned=empties)
        keeping = PeriodicTask("cordons", _CORDONS_EVERY, lambda: cordons.reconcile(client.clock.now()))
        watching.cache.listen(lambda kind, key, version: keeping.called.set() if kind == "Node" else None)
        watching.add_overlay(self.meters.with_usage)
        streaks = HotStreaks()
        if not self.running.once:  # one plan by itself has no cycles before it
            watching.add_overlay(streaks.with_streaks)
        told, heard = self.front.planned, self.meters.wait_until_polled
        cycling = PlanningLoop(
            live_config, watching, logbook, self.pauses, self.metrics, told, now, hours, streaks, heard
        )
        recovery = self._recovery(writer)
        live_config.listen(recovery.restart)
        live_config.listen(keeping.called.set)
        once = self.running.once
        return Controller(
            watching=watching,
            election=self.election,
            gatekeeper=gatekeeper,
            carrier=carrier,
            # What moves came to is looked at before the janitor forgets them.
            first=[
                PeriodicTask("hear what is used", 0.0, self.meters.wait_until_polled),
                assessing,
                PeriodicTask("clean up", 0.0, lambda: janitor.collect(client.clock.now())),
                keeping,
            ],
            duties=[
                bulletins,
                janitor,
                keeping,
                assessing,
                *cycling.duties(self.outcome if once else None, stop),
                # What is not done for the sake of one plan.
                *([] if once else [*steering.duties, recovery]),
            ],
            last=[
                PeriodicTask("tell the rest", 0.0, bulletins.flush),
                PeriodicTask("tell of failed pods", 0.0, recovery.flush),
            ],
            grace=lambda: live_config.config.fields.migration.shutdown_grace_period,
            everybody=[self.pauses, self.meters, *([] if once else [*self.rereading, *steering.everybody])],
        )

    def _recovery(self, writer: CommandSender) -> RecoveryController:
        watching, now = self.watching, self.client.clock.now
        known = Known(watching.cache, watching.migrations, self.live_config.policy, self.live_config.recovery, now)

        def may_act() -> bool:
            return self.steering.keeps_off() and self.pauses.current() is None

        hands = Hands(RecordOwners(self.client), writer, self.recorder, self.metrics.count_recovery, may_act)
        return RecoveryController(known, hands)


async def rehearse(running: RunRequest, stop: asyncio.Event) -> None:
    """Plan until asked to stop, or with `once` a single time."""
    connection = running.live.connection()
    async with ApiClient(connection, request_timeout=running.live.request_timeout) as client:
        served = asyncio.ensure_future(_is_served(client))
        if not await finish_before(served, stop):
            return
        known = (*WATCHED, MIGRATIONS) if served.result() else WATCHED
        watching = Informers(client, connection.source, known)
        live_config, metrics, streaks = LiveConfig(running.config, time.time()), Metrics(), HotStreaks()
        meters = UsageMonitor(live_config, client, lambda: watching.cache.rows("Pod"))
        watching.add_overlay(meters.with_usage)
        if not running.once:  # one plan by itself has no cycles before it
            watching.add_overlay(streaks.with_streaks)

        async def tell() -> None:
            if stop.is_set():
                return  # with `once`, its time may have come again before the loops have ended
            await meters.wait_until_polled()
            if stale := watching.stale():
                _log.warning("nothing is planned on what may be out of date", why=stale)
                return
            for move in (await cycle_of(watching, live_config.policy(), metrics, streaks).plan()).moves:
                _tell(move)
            if running.once:
                stop.set()

        async with run_beside(watching.run()) as watched:
            if await finish_before(watching.wait_for_sync(), stop, watched):
                duty = PeriodicTask("plan", lambda: live_config.config.fields.rescheduling_interval, tell)
                live_config.listen(duty.called.set)
                async with (
                    run_beside(_followed(running.origin, live_config)) as rereading,
                    run_beside(meters.run()) as measuring,
                ):
                    await finish_before(duty.run(), stop, watched, rereading, measuring)


async def _followed(origin: Origin | None, live_config: LiveConfig) -> None:
    """Go by the file as it changes; nobody is told but by the log."""
    if origin is not None:
        await watch_config(origin, live_config, ReloadAudience(), time.time).run()
    await asyncio.get_running_loop().create_future()  # nothing to do is no reason to end


def _tell(move: Move) -> None:
    _log.info(
        "would move",
        pod=f"{move.namespace}/{move.pod}",
        source=move.source,
        target=move.target,
        method=move.method.value,
        strategy=move.strategy,
        reason=move.reason,
    )


async def _is_served(client: ApiClient) -> bool:
    """Whether the cluster knows migrations; it need not, where nothing is moved."""
    return await client.find(f"/apis/{MIGRATIONS.api_version}") is not None
