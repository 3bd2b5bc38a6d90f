"""The web server of a replica: the page, its actions, metrics and health."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache

from rescheduler.app.actions import PageActions
from rescheduler.app.context import AppContext, RunRequest
from rescheduler.app.planning import explain_in_plan, make_plan
from rescheduler.kube.reviews import ReviewClient
from rescheduler.model.plan import Plan
from rescheduler.model.strategy_traits import is_mandatory
from rescheduler.planning.outcomes import find_backoffs
from rescheduler.web.actions import ActionRoutes
from rescheduler.web.api import Api
from rescheduler.web.auth import PageAccess, RequestChecks
from rescheduler.web.metrics import MetricSources
from rescheduler.web.node_stats import NodeStatsTracker, UsageRefresher
from rescheduler.web.plans import PlanCache
from rescheduler.web.server import WebApp, serve
from rescheduler.web.state import ComponentHealth, MigrationTracker, PageState

_RESTING_EVERY = 15.0  # seconds: counting goes through all kept migrations, of which there may be very many
Checks = Mapping[str, Callable[[], str]]
"""Health checks by name; each returns why it fails, or an empty text."""


class WebServer:
    """Serves the page of one replica."""

    def __init__(self, context: AppContext, request: RunRequest, checks: Checks) -> None:
        self._context = context
        self._request = request
        self._checks = checks
        served = request.config.fields.web.page and request.web_port is not None
        self._page = make_page(context, checks, local=request.insecure_local) if served else None
        context.metrics.use_sources(_make_sources(context, self._page))

    def show_plan(self, plan: Plan, at: float, seconds: float) -> None:
        """Show the leader's newest plan."""
        if self._page is not None:
            self._page.state.plans.put(plan, at, seconds)

    @asynccontextmanager
    async def serving(self) -> AsyncGenerator[None]:
        """Serve in the block."""
        address, wanted = self._request.config.fields.web.bind_address, self._request.web_port
        if wanted is None:
            yield
            return
        access = RequestChecks(local=self._request.insecure_local)
        parts = (self._page.api, self._make_actions(access)) if self._page is not None else ()
        async with serve(WebApp(self._context.metrics, self._checks, parts, access), address, wanted) as port:
            self._request.opened(f"http://{f'[{address}]' if ':' in address else address}:{port}/")
            yield

    def _make_actions(self, access: RequestChecks) -> ActionRoutes:
        context = self._context
        actions = PageActions(
            context.own,
            context.recorder,
            context.pause_store,
            context.pauses.refresh,
            empties=lambda: any(map(is_mandatory, context.live.policy().strategies_anywhere)),
        )
        return ActionRoutes(
            access,
            PageAccess(ReviewClient(context.own)),
            actions.handlers,
            (context.pause_store.namespace, context.pause_store.name),
            context.informers.migrations,
        )


@dataclass(frozen=True, slots=True)
class Page:
    """The page's API and its state."""

    api: Api
    state: PageState


def make_page(context: AppContext, checks: Checks, *, local: bool = False) -> Page:
    """Make the page of a replica; `local` says that actions from this machine need no token."""
    live, informers, usage = context.live, context.informers, context.usage

    plans = PlanCache(informers, live, make_plan, explain_in_plan, context.is_leading)
    node_stats = NodeStatsTracker(informers.cache, live.policy())
    refresher = UsageRefresher(node_stats, informers, lambda: usage.current)
    live.listen(plans.invalidate)
    live.listen(lambda: node_stats.use_policy(live.policy()))
    live.listen(refresher.invalidate)
    state = PageState(
        cluster=context.connection.source.partition(" of ")[0],  # without the path of the kubeconfig
        live_config=live,
        identity=context.identity,
        leading=context.is_leading,
        leader=context.leader,
        cache=informers.cache,
        migrations=informers.migrations,
        loads=node_stats,
        moves=MigrationTracker(informers.migrations, context.now, node_stats.touch),
        plans=plans,
        now=context.now,
        paused=context.pauses.current,
        health=lambda: _list_health(context, checks),
        measuring=refresher,
        usage=lambda: usage.current,
        local=local,
    )
    return Page(Api(state), state)


def _list_health(context: AppContext, checks: Checks) -> list[ComponentHealth]:
    found = [ComponentHealth("leader", "" if context.leader() else "no replica leads: nothing is planned or moved")]
    found += [ComponentHealth(name, check()) for name, check in checks.items()]
    if (poller := context.usage.current) is not None:
        last = poller.last
        why = poller.failure or ("" if last is not None else "asked for the first time")
        lag = max(0.0, context.now() - last) if last is not None else None
        found.append(ComponentHealth("usage", why, poller.known, lag))
    for kind in context.informers.statuses():
        why = kind.failure or ("" if kind.lag is not None else "being read for the first time")
        found.append(ComponentHealth(kind.kind, why, kind.objects, kind.lag))
    return found


def _make_sources(context: AppContext, page: Page | None) -> MetricSources:
    informers, live, pauses = context.informers, context.live, context.pauses
    migrations, now = informers.migrations, context.now

    @lru_cache(maxsize=1)
    def count_resting(period: int) -> int:
        return sum(rest.until > now() for rest in find_backoffs(migrations.all(), live.policy()).values())

    return MetricSources(
        lease=live.config.fields.leader_election.resource_name,
        leading=context.is_leading,
        fresh=lambda: not informers.why_not_ready(),
        kinds=informers.statuses,
        stats=page.state.loads.stats if page is not None else lambda: None,
        migrations=migrations.count,
        awaiting=lambda: sum(each.awaits_approval for each in migrations.active()),
        resting=lambda: count_resting(int(time.monotonic() / _RESTING_EVERY)),
        paused=lambda: pauses.current() is not None if pauses.known else None,
        window_open=lambda: live.policy().when.schedule.open_at(now()),
        viewers=lambda: page.api.readers if page is not None else None,
        metering=lambda: context.usage.current,
        live_config=lambda: live,
    )
