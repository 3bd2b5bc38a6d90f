"""Polls usage: reads the usage of nodes and pods from a source at intervals, and keeps the samples.

Runs only if `utilization` asks for usage. Every replica polls, so that a new leader has a history to plan with. An
error of the source never ends the controller: known samples are used until they are too old. Then requests count, and
the plan says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

import structlog

from rescheduler.kube.errors import ClusterError
from rescheduler.model.objects import Pod
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.runtime.reconciler import PeriodicTask
from rescheduler.usage.history import SystemOverhead, UsageHistory
from rescheduler.usage.samples import UsageBackend, UsageError

_log = structlog.stdlib.get_logger(__name__)

_AT_ONCE = 5000


class UsagePoller:
    """Polls one source, and keeps the history of its samples."""

    def __init__(
        self,
        source: UsageBackend,
        history: UsageHistory,
        every: float,
        now: Callable[[], float],
        pods: Callable[[], Sequence[Pod]] = tuple,
    ) -> None:
        """`pods` returns the known pods with their nodes at the time of a poll."""
        self._source = source
        self._history = history
        self._every = every
        self._now = now
        self._pods = pods
        self.polled = asyncio.Event()
        """Set after the first poll, successful or not: an earlier plan would have no usage."""
        self.failure = ""
        """Why the last poll failed; empty if it succeeded."""
        self.last: float | None = None
        """When a poll last succeeded."""
        self.failures = 0
        """The number of failed polls."""
        self._warned: tuple[str, ...] = ()

    @property
    def known(self) -> int:
        """The number of nodes and pods with samples."""
        return len(self._history)

    async def run(self) -> None:
        """Poll until cancelled; the interval includes the time of a poll."""
        await PeriodicTask("poll usage", self._every, self.poll).run()

    async def poll(self) -> None:
        """Poll once and store the samples. Raises nothing; `failure` says what went wrong."""
        now = self._now()
        try:
            self._history.begin(now, await self._read_positions())
            self._finish(now, await self._source.read(self._history.take))
        except (ClusterError, UsageError) as error:
            self._fail(str(error))
        except Exception as error:  # noqa: BLE001 - one bad answer is a failed poll, too
            _log.exception("internal error or malformed answer", source=type(self._source).__name__)
            self._fail(f"{type(error).__name__}: {error}")
        self.polled.set()

    def with_usage(self, snapshot: ClusterSnapshot) -> ClusterSnapshot:
        """The snapshot with measured usage; thread-safe."""
        return replace(snapshot, measured=self._history.measured(snapshot))

    async def _read_positions(self) -> SystemOverhead:
        """Where pods stand now; others get their turn while very many are looked at."""
        placed, pods = SystemOverhead(), self._pods()
        for first in range(0, len(pods), _AT_ONCE):
            placed.place(pods[first : first + _AT_ONCE])
            await asyncio.sleep(0)
        return placed

    def _finish(self, now: float, warnings: tuple[str, ...]) -> None:
        self._history.end(warnings)
        if self.failure:
            _log.info("usage source answers again")
        self.failure, self.last = "", now
        if warnings != self._warned:
            for warning in warnings:
                _log.warning("usage warning", warning=warning)
        self._warned = warnings

    def _fail(self, why: str) -> None:
        self._history.failed(why)
        self.failures += 1
        if why != self.failure:  # once a change, not once a round
            _log.warning("usage source failed, retrying", why=why)
        self.failure = why
