"""The page's pulse: twice a second it looks at what has changed, and has it sent to the pages that are open.

Changes come by the thousand while the cluster is read, and seldom later: gathered, a node that ten pods leave is sent
once. It also takes the samples of the spread over time, which go on while nobody looks.
"""

from __future__ import annotations

import asyncio
from itertools import islice

import structlog

from rescheduler.web.history import EVERY, Sample
from rescheduler.web.live import Hub
from rescheduler.web.showing import Showing
from rescheduler.web.views import migrations, nodes
from rescheduler.web.views.overview import overview, sample, without_time

_log = structlog.stdlib.get_logger(__name__)
BEAT = 0.5  # seconds
_OVERVIEW_EVERY = 2  # beats
_MIGRATIONS = 500  # that are told of in one beat; a plan may have thousands, and the loop has other things to do


class Pulse:
    """Who notices changes; `revision` numbers what was told of the nodes."""

    def __init__(self, showing: Showing, hub: Hub) -> None:
        self._showing = showing
        self._hub = hub
        self._beats = 0
        self._layout = showing.loads.layout
        self._told: object = None
        self._plan: float | None = None
        self.revision = 1

    async def run(self) -> None:
        """Beat until cancelled. One bad object never stops it."""
        while True:
            await asyncio.sleep(BEAT)
            try:
                self.beat()
            except Exception:  # noqa: BLE001 - as said
                _log.exception("the page was not told of a change: a bug of ours")

    def beat(self) -> None:
        """Tell of everything that has changed since the last time."""
        self._beats += 1
        self._nodes()
        self._migrations()
        self._sample()
        self._plans()
        if self._beats % _OVERVIEW_EVERY == 0:
            self._overview()

    def _nodes(self) -> None:
        loads, hub = self._showing.loads, self._hub
        if not loads.touched:
            return
        indexes, anew = loads.indexes(loads.touched), loads.layout != self._layout
        loads.touched.clear()
        if not indexes and not anew:
            return  # a move goes to a node that is not there
        self.revision += 1
        self._layout = loads.layout
        if anew:
            hub.publish("nodes", {"revision": self.revision, "reset": True})
        elif hub.readers:
            rows = nodes.rows(self._showing, indexes)
            hub.publish("nodes", {"revision": self.revision, "count": loads.nodes, "rows": rows})

    def _migrations(self) -> None:
        moves, hub = self._showing.moves, self._hub
        if not hub.readers:
            moves.changed.clear()
        for key in list(islice(moves.changed, _MIGRATIONS)):
            del moves.changed[key]
            migration = self._showing.board.get(key)
            if migration is None:
                hub.publish("gone", {"namespace": key[0], "name": key[1]})
            else:
                hub.publish("migration", migrations.row(self._showing, migration))

    def _sample(self) -> None:
        showing = self._showing
        samples, now = showing.samples, showing.now()
        last = samples.last
        if not showing.loads.nodes or (last is not None and 0 <= now - last.time < EVERY - BEAT / 2):
            return
        taken = Sample(now, showing.loads.standing().spread, showing.moves.completed)
        samples.add(taken)
        self._hub.publish("sample", sample(taken))

    def _plans(self) -> None:
        plans = self._showing.plans
        plans.forget()
        made = plans.newest.made if plans.newest is not None else None
        if made != self._plan:
            self._plan = made
            self._hub.publish("plan", {"made": made})

    def _overview(self) -> None:
        if not self._hub.readers:
            self._told = None
            return
        found = overview(self._showing)
        lasting = without_time(found)
        if lasting != self._told:
            self._told = lasting
            self._hub.publish("overview", found)
