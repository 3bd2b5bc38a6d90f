"""The page, put together: what `web` shows, from the parts of a running controller.

`app.controller` makes it before anything is watched, so that it hears of everything, hands its `api` to the server, and
each plan of the leader's cycle to `plans`.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from rescheduler.app.actions import PageActions
from rescheduler.app.planning import explained, planned
from rescheduler.config.live import LiveConfig
from rescheduler.kube.client import ApiClient
from rescheduler.kube.events import EventRecorder
from rescheduler.kube.lease import LeaderElector
from rescheduler.kube.pause_state import PauseDetails, PauseStore
from rescheduler.kube.reviews import ReviewClient
from rescheduler.model.plan import Plan
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.model.strategy_traits import is_mandatory
from rescheduler.planning.explain import explanation_document
from rescheduler.planning.guards.base import GuardContext
from rescheduler.planning.outcomes import find_backoffs
from rescheduler.planning.workloads import MethodChooser, Workloads
from rescheduler.runtime.informers import Informers
from rescheduler.runtime.pause_watcher import PauseWatcher
from rescheduler.runtime.planning_loop import capture_settled
from rescheduler.runtime.usage_poller import UsagePoller
from rescheduler.web.actions import ActionRoutes
from rescheduler.web.api import Api
from rescheduler.web.auth import PageAccess, RequestChecks
from rescheduler.web.metrics import Metrics, MetricSources
from rescheduler.web.node_stats import NodeStatsTracker, UsageRefresher
from rescheduler.web.plans import PlanCache, PlanningFunctions
from rescheduler.web.server import WebApp, serve
from rescheduler.web.state import ComponentHealth, MigrationTracker, PageState, ReplicaInfo, UsageStatus


@dataclass(frozen=True, slots=True)
class PageParts:
    """What the page is made from."""

    live_config: LiveConfig
    watching: Informers
    identity: str
    cluster: str
    """Where we are connected to, in words."""
    now: Callable[[], float]
    election: LeaderElector | None = None
    """None where there is only one replica."""
    paused: Callable[[], PauseDetails | None] = lambda: None
    local: bool = False
    """Whether the server takes actions from this machine without a token."""
    checks: Mapping[str, Callable[[], str]] = field(default_factory=dict)
    """By name, what else must be fine, each with why it is not."""
    metering: Callable[[], UsagePoller | None] = lambda: None
    """Who measures what is used; None where nobody does."""


@dataclass(frozen=True, slots=True)
class Page:
    """What is served, and who is told of plans."""

    api: Api
    plans: PlanCache
    showing: PageState


def page_of(parts: PageParts) -> Page:
    """The page of a controller."""
    live_config, watching = parts.live_config, parts.watching
    replica = _replica(parts)

    def interval() -> float:
        return live_config.config.fields.rescheduling_interval

    plans = PlanCache(lambda: _mind(watching, live_config.policy()), parts.now, interval, replica.leading)
    loads = NodeStatsTracker(watching.cache, live_config.policy())
    measuring = UsageRefresher(loads, lambda: watching.cache.copied(parts.now()), parts.metering)
    live_config.listen(plans.invalidate)
    live_config.listen(lambda: loads.use_policy(live_config.policy()))
    live_config.listen(measuring.invalidate)
    showing = PageState(
        cluster=parts.cluster.partition(" of ")[0],  # not in which file: whoever looks need not know our paths
        live_config=live_config,
        replica=replica,
        cache=watching.cache,
        board=watching.migrations,
        loads=loads,
        moves=MigrationTracker(watching.migrations, parts.now, loads.touch),
        plans=plans,
        now=parts.now,
        paused=parts.paused,
        health=lambda: _health(parts, replica),
        measuring=measuring,
        usage=lambda: _usage(parts.metering()),
        local=parts.local,
    )
    return Page(Api(showing), plans, showing)


def _replica(parts: PageParts) -> ReplicaInfo:
    election = parts.election
    if election is None:
        return ReplicaInfo(parts.identity, lambda: True, lambda: parts.identity)
    return ReplicaInfo(parts.identity, election.leading.is_set, lambda: election.holder)


def _mind(watching: Informers, policy: Policy) -> PlanningFunctions:
    return PlanningFunctions(
        copied=capture_settled(watching.capture, watching.migrations, policy.cool_down),
        plan=lambda snapshot: planned(snapshot, policy),
        explain=lambda planner, plan, key: explanation_document(explained(planner, plan, key), plan),
        context=lambda snapshot: _context(snapshot, policy),
        lacking=watching.unsynced,
    )


def _context(snapshot: ClusterSnapshot, policy: Policy) -> GuardContext:
    """What guards look things up in, without a planner around it."""
    workloads = Workloads(snapshot)
    methods = MethodChooser(snapshot, workloads, policy.migration_method)
    empty = frozenset(node.name for node in snapshot.nodes if node.maintenance)
    return GuardContext(policy, snapshot, workloads, methods, empty)


def _usage(metering: UsagePoller | None) -> UsageStatus:
    if metering is None:
        return UsageStatus()
    return UsageStatus(metering.last, metering.failure)


def _health(parts: PageParts, replica: ReplicaInfo) -> list[ComponentHealth]:
    leader = replica.leader()
    found = [ComponentHealth("leader", "" if leader else "nobody leads: nothing is planned or moved")]
    found += [ComponentHealth(name, check()) for name, check in parts.checks.items()]
    if (metering := parts.metering()) is not None:
        heard = metering.last
        why = metering.failure or ("" if heard is not None else "asked for the first time")
        lag = max(0.0, parts.now() - heard) if heard is not None else None
        found.append(ComponentHealth("usage", why, metering.known, lag))
    for kind in parts.watching.statuses():
        why = kind.failure or ("" if kind.lag is not None else "being read for the first time")
        found.append(ComponentHealth(kind.kind, why, kind.objects, kind.lag))
    return found


_RESTING_EVERY = 15.0  # seconds: it goes through all kept migrations, of which there may be very many


@dataclass(frozen=True, slots=True)
class Doorway:
    """Where it is served, and to whom."""

    address: str
    port: int | None
    """None serves nothing; 0 is a free port."""
    page: bool = True
    insecure_local: bool = False
    """Whoever is on this machine may use the page's buttons without a token."""
    opened: Callable[[str], None] = lambda address: None
    """Told the page's address."""


@dataclass(frozen=True, slots=True)
class Knowing:
    """The parts of a controller that it shows."""

    live_config: LiveConfig
    own: ApiClient
    """May always write: a replica that does not lead serves the page, too."""
    source: str
    identity: str
    watching: Informers
    election: LeaderElector | None
    pausing: PauseStore
    pauses: PauseWatcher
    metrics: Metrics
    checks: Mapping[str, Callable[[], str]]
    metering: Callable[[], UsagePoller | None] = lambda: None
    """Who measures what is used; None where nobody does."""


class Front:
    """What is served."""

    def __init__(self, knowing: Knowing, doorway: Doorway) -> None:
        self._knowing = knowing
        self._doorway = doorway
        self._page = _page(knowing, doorway) if doorway.page and doorway.port is not None else None
        knowing.metrics.use_sources(_sources(knowing, self._page))

    def planned(self, plan: Plan, at: float, seconds: float) -> None:
        """Show the leader's newest plan."""
        if self._page is not None:
            self._page.plans.put(plan, at, seconds)

    @asynccontextmanager
    async def served(self) -> AsyncGenerator[None]:
        """Serve in the block."""
        doorway = self._doorway
        if doorway.port is None:
            yield
            return
        access = RequestChecks(local=doorway.insecure_local)
        parts = (self._page.api, self._actions(access)) if self._page is not None else ()
        pages = WebApp(self._knowing.metrics, self._knowing.checks, parts, access)
        async with serve(pages, doorway.address, doorway.port) as port:
            host = f"[{doorway.address}]" if ":" in doorway.address else doorway.address
            doorway.opened(f"http://{host}:{port}/")
            yield

    def _actions(self, access: RequestChecks) -> ActionRoutes:
        knowing = self._knowing
        handlers = PageActions(
            knowing.own,
            EventRecorder(knowing.own, knowing.identity, knowing.own.clock.now),
            knowing.pausing,
            knowing.watching.migrations,
            knowing.pauses.refresh,
            empties=lambda: any(map(is_mandatory, knowing.live_config.policy().strategies_anywhere)),
        )
        return ActionRoutes(access, PageAccess(ReviewClient(knowing.own)), handlers)


def _every(seconds: float, count: Callable[[], int]) -> Callable[[], int]:
    """The same, asked anew only so often."""
    known: list[tuple[float, int]] = []

    def asked() -> int:
        if not known or time.monotonic() - known[0][0] >= seconds:
            known[:] = [(time.monotonic(), count())]
        return known[0][1]

    return asked


def _page(knowing: Knowing, doorway: Doorway) -> Page:
    return page_of(
        PageParts(
            live_config=knowing.live_config,
            watching=knowing.watching,
            identity=knowing.identity,
            cluster=knowing.source,
            now=knowing.own.clock.now,
            election=knowing.election,
            paused=knowing.pauses.current,
            local=doorway.insecure_local,
            checks=knowing.checks,
            metering=knowing.metering,
        )
    )


def _sources(knowing: Knowing, page: Page | None) -> MetricSources:
    watching, election, live_config = knowing.watching, knowing.election, knowing.live_config
    board, pauses, now = watching.migrations, knowing.pauses, knowing.own.clock.now

    def resting() -> int:
        return sum(rest.until > now() for rest in find_backoffs(board.all(), live_config.policy()).values())

    return MetricSources(
        lease=live_config.config.fields.leader_election.resource_name,
        leading=election.leading.is_set if election is not None else lambda: True,
        fresh=lambda: not watching.why_not_ready(),
        kinds=watching.statuses,
        stats=page.showing.loads.stats if page is not None else None,
        migrations=board.count,
        awaiting=lambda: sum(each.awaits_approval for each in board.active()),
        resting=_every(_RESTING_EVERY, resting),
        paused=lambda: pauses.current() is not None if pauses.known else None,
        window_open=lambda: live_config.policy().when.schedule.open_at(now()),
        viewers=(lambda: page.api.readers) if page is not None else None,
        metering=knowing.metering,
        live_config=lambda: live_config,
    )
