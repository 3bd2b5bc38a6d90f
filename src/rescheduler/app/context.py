"""What the parts of a running controller share: how it was started, its clients and caches, and measured usage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from rescheduler.app.planning import LiveCluster
from rescheduler.config.live import LiveConfig
from rescheduler.config.loader import Origin
from rescheduler.config.schema import Configuration, UsageSettings, UsageSource
from rescheduler.kube.client import ApiClient
from rescheduler.kube.connection import Connection
from rescheduler.kube.events import EventRecorder
from rescheduler.kube.lease import LeaderElector
from rescheduler.kube.pause_state import PauseStore
from rescheduler.model.objects import Pod
from rescheduler.model.policy import Utilization
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.runtime.controller import finish_before, run_beside
from rescheduler.runtime.informers import Informers
from rescheduler.runtime.starting.holds import PauseWatcher
from rescheduler.runtime.usage_poller import UsagePoller
from rescheduler.usage.history import UsageHistory
from rescheduler.usage.metrics_api import MetricsApi
from rescheduler.usage.prometheus import Prometheus
from rescheduler.usage.samples import UsageBackend
from rescheduler.web.metrics import Metrics

_PATIENCE = 60.0  # seconds for a first poll; a large cluster's answer takes a few


@dataclass(frozen=True, slots=True)
class RunRequest:
    """How to run the controller."""

    live: LiveCluster
    config: Configuration
    once: bool = False
    """Execute one plan, then end."""
    insecure_local: bool = False
    """Allow actions on the page from this machine without a token."""
    port: int | None = None
    """The port of the page; 0 is a free port, None takes the configured one."""
    opened: Callable[[str], None] = field(default=lambda address: None)
    """Called with the page's address."""
    origin: Origin | None = None
    """Where the configuration was read from, to be re-read when it changes."""

    @property
    def web_port(self) -> int | None:
        """The port of the web server; None serves nothing."""
        return self.port if self.port is not None else self.config.fields.web.port or None


@dataclass(frozen=True, slots=True)
class AppContext:
    """The clients, caches and state of one replica."""

    live: LiveConfig
    own: ApiClient
    """May write on every replica."""
    client: ApiClient
    """May write only while this replica leads."""
    connection: Connection
    namespace: str
    """The namespace of the Lease, the pause state and the webhook."""
    identity: str
    informers: Informers
    election: LeaderElector | None
    """None if there is only one replica."""
    pause_store: PauseStore
    pauses: PauseWatcher
    metrics: Metrics
    usage: UsageMonitor

    @property
    def recorder(self) -> EventRecorder:
        """Records Events on every replica."""
        return EventRecorder(self.own, self.identity, self.now)

    def now(self) -> float:
        """The API server's time."""
        return self.own.clock.now()

    def is_leading(self) -> bool:
        """Whether this replica leads."""
        return self.election is None or self.election.leading.is_set()

    def leader(self) -> str:
        """The identity of the replica that leads; empty if none does."""
        return self.identity if self.election is None else self.election.holder


class UsageMonitor:
    """Runs the usage poller of the active configuration; a change of the configuration replaces it.

    With `utilization: requests` nothing is polled.
    """

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
        utilization, settings = self._settings
        if utilization is Utilization.REQUESTS:
            return None
        by_prometheus = settings.source is UsageSource.PROMETHEUS
        source: UsageBackend = Prometheus(settings.prometheus) if by_prometheus else MetricsApi(self._client)
        return UsagePoller(source, UsageHistory(settings), settings.interval, self._client.clock.now, self._pods)


async def _wait_forever() -> None:
    await asyncio.get_running_loop().create_future()
