"""Polls measured usage for the controller, and replaces the poller when the configuration changes.

With `utilization: requests` nothing is polled.
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
    """Make the poller; None if only requests count. `pods` returns the current pods."""
    if utilization is Utilization.REQUESTS:
        return None
    by_prometheus = settings.source is UsageSource.PROMETHEUS
    source: UsageBackend = Prometheus(settings.prometheus) if by_prometheus else MetricsApi(client)
    return UsagePoller(source, UsageHistory(settings), settings.interval, client.clock.now, pods)


_PATIENCE = 60.0  # seconds; a large cluster's answer takes a few


class UsageMonitor:
    """Runs the poller of the active configuration; a change of the configuration replaces it."""

    def __init__(self, live_config: LiveConfig, client: ApiClient, pods: Callable[[], Sequence[Pod]]) -> None:
        self._live = live_config
        self._client = client
        self._pods = pods
        self._changed = asyncio.Event()
        self._settings = self._wanted_settings()
        self.current: UsagePoller | None = self._make_poller()
        live_config.listen(self._renew)

    async def run(self) -> None:
        """Poll until cancelled."""
        while True:
            poller = self.current
            async with run_beside(poller.run() if poller is not None else _wait_forever()) as polling:
                while self.current is poller:
                    self._changed.clear()
                    await finish_before(self._changed.wait(), None, polling)

    async def wait_until_polled(self) -> None:
        """Wait for the first poll, if there is a source: a plan before that would use requests.

        The wait is limited: moves under way do not need usage.
        """
        with suppress(TimeoutError):
            async with asyncio.timeout(_PATIENCE):
                while (poller := self.current) is not None and not poller.polled.is_set():
                    await poller.polled.wait()

    def why_missing(self) -> str:
        """Explain why usage is unknown although it is needed; empty if it is known or not needed."""
        poller, (_, settings) = self.current, self._settings
        if poller is None:
            return ""
        if poller.last is not None and self._client.clock.now() - poller.last <= settings.max_age:
            return ""
        return f"what is used is not known: {poller.failure or 'it is asked for the first time'}"

    def with_usage(self, snapshot: ClusterSnapshot) -> ClusterSnapshot:
        """Add measured usage to the snapshot; safe in any thread."""
        poller = self.current
        return snapshot if poller is None else poller.with_usage(snapshot)

    def _renew(self) -> None:
        """Replace the poller if the configuration needs another one; at once, so that the old one is not used again."""
        if self._wanted_settings() == self._settings:
            return
        old, self._settings = self.current, self._wanted_settings()
        self.current = self._make_poller()
        self._changed.set()
        if old is not None:
            old.polled.set()  # waiters continue, and wait for the new one

    def _wanted_settings(self) -> tuple[Utilization, UsageSettings]:
        return self._live.policy().utilization, self._live.config.fields.usage

    def _make_poller(self) -> UsagePoller | None:
        return make_usage_poller(*self._settings, self._client, self._pods)


async def _wait_forever() -> None:
    await asyncio.get_running_loop().create_future()
