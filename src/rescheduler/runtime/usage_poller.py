"""The loop that measures: every so often a source is asked what nodes and pods use, and the answers are remembered.

`app.metering` puts it together where `utilization` asks for usage; otherwise nothing of it runs. Every replica
measures, so that a new leader has a history to plan by. Whatever goes wrong with a source never ends the controller:
what is known stays until it is too old, and then requests count, which plans say.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import replace

import structlog

from rescheduler.kube.errors import ClusterError
from rescheduler.model.objects import Pod
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.usage.history import SystemOverhead, UsageHistory
from rescheduler.usage.samples import UsageBackend, UsageError

_log = structlog.stdlib.get_logger(__name__)

_AT_ONCE = 5000

Copied = Callable[[], Callable[[], ClusterSnapshot]]


class UsagePoller:
    """A source, asked again and again, and what it has told."""

    def __init__(
        self,
        source: UsageBackend,
        history: UsageHistory,
        every: float,
        now: Callable[[], float],
        pods: Callable[[], Sequence[Pod]] = tuple,
    ) -> None:
        """`pods` gives those that are known, where they stand while the source is asked."""
        self._source = source
        self._history = history
        self._every = every
        self._now = now
        self._pods = pods
        self.polled = asyncio.Event()
        """Set when the source has been asked once, whatever came of it: before that a plan would know of no usage."""
        self.failure = ""
        """Why the source did not answer the last time; empty when it did."""
        self.last: float | None = None
        """When it last did."""
        self.failures = 0
        """How often it did not."""
        self._warned: tuple[str, ...] = ()

    @property
    def known(self) -> int:
        """Of how many nodes and pods there are samples."""
        return len(self._history)

    async def run(self) -> None:
        """Ask until cancelled; the time that an answer takes counts as time waited."""
        clock = asyncio.get_running_loop().time
        opened: AbstractAsyncContextManager[object] = (
            self._source if isinstance(self._source, AbstractAsyncContextManager) else nullcontext()
        )
        async with opened:
            while True:
                due = clock() + self._every
                await self.poll()
                await asyncio.sleep(max(0.0, due - clock()))

    async def poll(self) -> None:
        """Ask once, and remember the answer. No error comes out of it, but `failure` says what happened."""
        now = self._now()
        try:
            self._history.begin(now, await self._placed())
            self._answered(now, await self._source.read(self._history.take))
        except (ClusterError, UsageError) as error:
            self._failed(str(error))
        except Exception as error:  # noqa: BLE001 - one bad answer never stops the loop
            _log.exception("a bug of ours, or an answer that makes no sense", source=type(self._source).__name__)
            self._failed(f"{type(error).__name__}: {error}")
        self.polled.set()

    def with_usage(self, snapshot: ClusterSnapshot) -> ClusterSnapshot:
        """The snapshot with what is used; for any thread."""
        return replace(snapshot, measured=self._history.measured(snapshot))

    def measuring(self, copied: Copied) -> Copied:
        """The same copies of the cluster, whose snapshots carry what is used."""

        def both() -> Callable[[], ClusterSnapshot]:
            copy = copied()
            return lambda: self.with_usage(copy())

        return both

    async def _placed(self) -> SystemOverhead:
        """Where pods stand now; others get their turn while very many are looked at."""
        placed, pods = SystemOverhead(), self._pods()
        for first in range(0, len(pods), _AT_ONCE):
            placed.place(pods[first : first + _AT_ONCE])
            await asyncio.sleep(0)
        return placed

    def _answered(self, now: float, warnings: tuple[str, ...]) -> None:
        self._history.end(warnings)
        if self.failure:
            _log.info("usage is measured again")
        self.failure, self.last = "", now
        if warnings != self._warned:
            for warning in warnings:
                _log.warning("usage", warning=warning)
        self._warned = warnings

    def _failed(self, why: str) -> None:
        self._history.failed(why)
        self.failures += 1
        if why != self.failure:  # once a change, not once a round
            _log.warning("what is used could not be read; asked again", why=why)
        self.failure = why
