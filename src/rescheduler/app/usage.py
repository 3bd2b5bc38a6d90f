"""Measured usage, put together: who is asked, for the controller's loop or once for a plan.

With `utilization: requests` nobody is asked. A plan of a live cluster has what metrics.k8s.io said when it was listed,
or asks Prometheus once; a plan of a file has what the file holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from rescheduler.config.live import Mandate
from rescheduler.kube.client import ApiClient
from rescheduler.model.objects import Pod
from rescheduler.model.policy import Utilization
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.model.usage import UsageSettings, UsageSource
from rescheduler.runtime.controller import before, beside
from rescheduler.runtime.usage_poller import Metering
from rescheduler.usage.history import History
from rescheduler.usage.overhead import Remainder
from rescheduler.usage.source import UsageError

if TYPE_CHECKING:
    from rescheduler.kube.client import ApiClient
    from rescheduler.runtime.usage_poller import Metering
    from rescheduler.usage.source import Source

_NO_FILE = "usage: a file has nothing of Prometheus; what it has of metrics.k8s.io counts"


def metering_of(
    utilization: Utilization, settings: UsageSettings, client: ApiClient, pods: Callable[[], Sequence[Pod]] = tuple
) -> Metering | None:
    """The loop that measures; None where only requests count. `pods` gives those that are known at a moment."""
    from rescheduler.runtime.usage_poller import Metering  # noqa: PLC0415 - the same
    from rescheduler.usage.metrics_api import MetricsApi  # noqa: PLC0415 - aiohttp takes long, and files need none of it
    from rescheduler.usage.prometheus import Prometheus  # noqa: PLC0415 - the same

    if utilization is Utilization.REQUESTS:
        return None
    by_prometheus = settings.source is UsageSource.PROMETHEUS
    source: Source = Prometheus(settings.prometheus) if by_prometheus else MetricsApi(client)
    return Metering(source, History(settings), settings.interval, client.clock.now, pods)


def measured_once(
    snapshot: ClusterSnapshot, utilization: Utilization, settings: UsageSettings, *, live: bool
) -> ClusterSnapshot:
    """The snapshot of a plan that is made once, with what is used now. Samples are single ones: nothing is smoothed."""
    if utilization is Utilization.REQUESTS:
        return snapshot
    history = History(settings)
    if settings.source is UsageSource.PROMETHEUS and live:
        asyncio.run(_ask(history, settings, snapshot))  # as of when the snapshot was taken, however long that took
    else:
        _take(history, settings, snapshot)
    return replace(snapshot, measured=history.measured(snapshot))


def _take(history: History, settings: UsageSettings, snapshot: ClusterSnapshot) -> None:
    times = [row.timestamp for row in snapshot.usage if row.timestamp is not None]
    asked = snapshot.taken_at if snapshot.taken_at is not None else max(times, default=0.0)
    history.begin(asked, Remainder(snapshot.pods))
    history.take(snapshot.usage)
    if not snapshot.usage:
        history.failed("there is nothing of metrics.k8s.io: install metrics-server, or set usage.source: prometheus")
    else:
        history.end((_NO_FILE,) if settings.source is UsageSource.PROMETHEUS else ())


async def _ask(history: History, settings: UsageSettings, snapshot: ClusterSnapshot) -> None:
    from rescheduler.usage.prometheus import Prometheus  # noqa: PLC0415 - aiohttp takes long, and files need none of it

    history.begin(snapshot.taken_at or 0.0, Remainder(snapshot.pods))
    try:
        async with Prometheus(settings.prometheus, snapshot.taken_at) as prometheus:
            history.end(await prometheus.read(history.take))
    except UsageError as error:
        history.failed(str(error))


_PATIENCE = 60.0  # seconds; a large cluster's answer takes a few


class Meters:
    """Whoever measures by the configuration in force: another one when that says otherwise."""

    def __init__(self, mandate: Mandate, client: ApiClient, pods: Callable[[], Sequence[Pod]]) -> None:
        self._mandate = mandate
        self._client = client
        self._pods = pods
        self._changed = asyncio.Event()
        self._by = self._wanted()
        self.current: Metering | None = self._made()
        mandate.listen(self._renew)

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            metering = self.current
            async with beside(metering.run() if metering is not None else _nothing()) as measuring:
                while self.current is metering:
                    self._changed.clear()
                    await before(self._changed.wait(), None, measuring)

    async def heard(self) -> None:
        """Wait until the source was asked once, if there is one: a plan before that would go by requests.

        One that says nothing at all is not waited for: moves that are under way do not need it.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                while (metering := self.current) is not None and not metering.heard.is_set():
                    await metering.heard.wait()

    def lacking(self) -> str:
        """Why nobody can tell what is used, where that counts: then nothing is to be judged by it."""
        metering, (_, settings) = self.current, self._by
        if metering is None:
            return ""
        if metering.last is not None and self._client.clock.now() - metering.last <= settings.max_age:
            return ""
        return f"what is used is not known: {metering.failure or 'it is asked for the first time'}"

    def laid_over(self, snapshot: ClusterSnapshot) -> ClusterSnapshot:
        """The snapshot with what is measured; for any thread."""
        metering = self.current
        return snapshot if metering is None else metering.measured(snapshot)

    def _renew(self) -> None:
        """Have another one measure if the configuration says so; at once, so that nobody asks the old one any more."""
        if self._wanted() == self._by:
            return
        old, self._by = self.current, self._wanted()
        self.current = self._made()
        self._changed.set()
        if old is not None:
            old.heard.set()  # whoever waits for it waits for the new one

    def _wanted(self) -> tuple[Utilization, UsageSettings]:
        return self._mandate.policy().utilization, self._mandate.config.usage()

    def _made(self) -> Metering | None:
        return metering_of(*self._by, self._client, self._pods)


async def _nothing() -> None:
    await asyncio.get_running_loop().create_future()
