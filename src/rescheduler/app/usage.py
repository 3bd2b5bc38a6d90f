"""Measured usage for the controller: which source is polled, and a new one when the configuration says otherwise.

With `utilization: requests` none is.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress

from rescheduler.config.live import LiveConfig
from rescheduler.config.schema import UsageSettings, UsageSource
from rescheduler.kube.client import ApiClient
from rescheduler.model.objects import Pod
from rescheduler.model.policy import Utilization
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.runtime.controller import finish_before, run_beside
from rescheduler.runtime.usage_poller import UsagePoller
from rescheduler.usage.history import UsageHistory
from rescheduler.usage.metrics_api import MetricsApi
from rescheduler.usage.prometheus import Prometheus
from rescheduler.usage.samples import UsageBackend


def make_usage_poller(
    utilization: Utilization, settings: UsageSettings, client: ApiClient, pods: Callable[[], Sequence[Pod]] = tuple
) -> UsagePoller | None:
    """The loop that measures; None where only requests count. `pods` gives those that are known at a moment."""
    if utilization is Utilization.REQUESTS:
        return None
    by_prometheus = settings.source is UsageSource.PROMETHEUS
    source: UsageBackend = Prometheus(settings.prometheus) if by_prometheus else MetricsApi(client)
    return UsagePoller(source, UsageHistory(settings), settings.interval, client.clock.now, pods)


_PATIENCE = 60.0  # seconds; a large cluster's answer takes a few


class UsageMonitor:
    """Whoever measures by the configuration in force: another one when that says otherwise."""

    def __init__(self, live_config: LiveConfig, client: ApiClient, pods: Callable[[], Sequence[Pod]]) -> None:
        self._live = live_config
        self._client = client
        self._pods = pods
        self._changed = asyncio.Event()
        self._by = self._wanted()
        self.current: UsagePoller | None = self._made()
        live_config.listen(self._renew)

    async def run(self) -> None:
        """Measure until cancelled."""
        while True:
            metering = self.current
            async with run_beside(metering.run() if metering is not None else _nothing()) as measuring:
                while self.current is metering:
                    self._changed.clear()
                    await finish_before(self._changed.wait(), None, measuring)

    async def wait_until_polled(self) -> None:
        """Wait until the source was asked once, if there is one: a plan before that would go by requests.

        One that says nothing at all is not waited for: moves that are under way do not need it.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                while (metering := self.current) is not None and not metering.polled.is_set():
                    await metering.polled.wait()

    def why_missing(self) -> str:
        """Why nobody can tell what is used, where that counts: then nothing is to be judged by it."""
        metering, (_, settings) = self.current, self._by
        if metering is None:
            return ""
        if metering.last is not None and self._client.clock.now() - metering.last <= settings.max_age:
            return ""
        return f"what is used is not known: {metering.failure or 'it is asked for the first time'}"

    def with_usage(self, snapshot: ClusterSnapshot) -> ClusterSnapshot:
        """The snapshot with what is measured; for any thread."""
        metering = self.current
        return snapshot if metering is None else metering.with_usage(snapshot)

    def _renew(self) -> None:
        """Have another one measure if the configuration says so; at once, so that nobody asks the old one any more."""
        if self._wanted() == self._by:
            return
        old, self._by = self.current, self._wanted()
        self.current = self._made()
        self._changed.set()
        if old is not None:
            old.polled.set()  # whoever waits for it waits for the new one

    def _wanted(self) -> tuple[Utilization, UsageSettings]:
        return self._live.policy().utilization, self._live.config.fields.usage

    def _made(self) -> UsagePoller | None:
        return make_usage_poller(*self._by, self._client, self._pods)


async def _nothing() -> None:
    await asyncio.get_running_loop().create_future()
