"""What the parts of a running controller share."""

from __future__ import annotations

from dataclasses import dataclass

from rescheduler.app.usage import UsageMonitor
from rescheduler.config.live import LiveConfig
from rescheduler.kube.client import ApiClient
from rescheduler.kube.connection import Connection
from rescheduler.kube.events import EventRecorder
from rescheduler.kube.lease import LeaderElector
from rescheduler.kube.pause_state import PauseStore
from rescheduler.runtime.informers import Informers
from rescheduler.runtime.starting.holds import PauseWatcher
from rescheduler.web.metrics import Metrics


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
