"""What a replica serves to people and their monitoring, put together: the page and its buttons, metrics, health.

`app.controller` makes it before anything is watched, tells it of the leader's plans, and serves it for as long as the
controller lives.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass

from rescheduler.app.deeds import Deeds
from rescheduler.app.page import Page, PageParts, page_of
from rescheduler.kube.client import ApiClient
from rescheduler.kube.events import Recorder
from rescheduler.kube.lease import Election
from rescheduler.kube.pause_state import Pausing
from rescheduler.kube.reviews import Reviews
from rescheduler.model.plan import Plan
from rescheduler.planning.outcomes import rests
from rescheduler.runtime.mandate import Mandate
from rescheduler.runtime.metering import Metering
from rescheduler.runtime.pausing import Pauses
from rescheduler.runtime.watching import Watching
from rescheduler.strategies.node_maintenance import NodeMaintenance
from rescheduler.web.access import Access
from rescheduler.web.actions import Actions
from rescheduler.web.identity import Identity
from rescheduler.web.metrics import Metrics, Sources
from rescheduler.web.server import Pages, serving

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

    mandate: Mandate
    own: ApiClient
    """May always write: a replica that does not lead serves the page, too."""
    source: str
    identity: str
    watching: Watching
    election: Election | None
    pausing: Pausing
    pauses: Pauses
    metrics: Metrics
    checks: Mapping[str, Callable[[], str]]
    metering: Callable[[], Metering | None] = lambda: None
    """Who measures what is used; None where nobody does."""


class Front:
    """What is served."""

    def __init__(self, knowing: Knowing, doorway: Doorway) -> None:
        self._knowing = knowing
        self._doorway = doorway
        self._page = _page(knowing, doorway) if doorway.page and doorway.port is not None else None
        knowing.metrics.read(_sources(knowing, self._page))

    def planned(self, plan: Plan, at: float, seconds: float) -> None:
        """Show the leader's newest plan."""
        if self._page is not None:
            self._page.plans.made(plan, at, seconds)

    @asynccontextmanager
    async def served(self) -> AsyncGenerator[None]:
        """Serve in the block."""
        doorway = self._doorway
        if doorway.port is None:
            yield
            return
        access = Access(local=doorway.insecure_local)
        parts = (self._page.api, self._actions(access)) if self._page is not None else ()
        pages = Pages(self._knowing.metrics, self._knowing.checks, parts, access)
        async with serving(pages, doorway.address, doorway.port) as port:
            host = f"[{doorway.address}]" if ":" in doorway.address else doorway.address
            doorway.opened(f"http://{host}:{port}/")
            yield

    def _actions(self, access: Access) -> Actions:
        knowing = self._knowing
        deeds = Deeds(
            knowing.own,
            Recorder(knowing.own, knowing.identity, knowing.own.clock.now),
            knowing.pausing,
            knowing.watching.board,
            knowing.pauses.refresh,
            empties=lambda: NodeMaintenance.name in knowing.mandate.policy().strategies,
        )
        return Actions(access, Identity(Reviews(knowing.own)), deeds)


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
            mandate=knowing.mandate,
            watching=knowing.watching,
            identity=knowing.identity,
            cluster=knowing.source,
            now=knowing.own.clock.now,
            election=knowing.election,
            paused=knowing.pauses.paused,
            local=doorway.insecure_local,
            checks=knowing.checks,
            metering=knowing.metering,
        )
    )


def _sources(knowing: Knowing, page: Page | None) -> Sources:
    watching, election, mandate = knowing.watching, knowing.election, knowing.mandate
    board, pauses, now = watching.board, knowing.pauses, knowing.own.clock.now

    def resting() -> int:
        return sum(rest.until > now() for rest in rests(board.all(), mandate.policy()).values())

    return Sources(
        lease=mandate.config.fields.leader_election.resource_name,
        leading=election.leading.is_set if election is not None else lambda: True,
        fresh=lambda: not watching.lacking(),
        kinds=watching.kinds,
        standing=page.showing.loads.standing if page is not None else None,
        migrations=board.count,
        awaiting=lambda: sum(each.awaits_approval for each in board.active()),
        resting=_every(_RESTING_EVERY, resting),
        paused=lambda: pauses.paused() is not None if pauses.known else None,
        window_open=lambda: mandate.policy().timing.schedule.open_at(now()),
        viewers=(lambda: page.api.readers) if page is not None else None,
        metering=knowing.metering,
        mandate=lambda: mandate,
    )
