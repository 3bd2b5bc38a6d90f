"""Removes the webhook's scheduling gate from pods that have had it for too long.

Normally the leader nominates a node for a new pod and removes the gate within a second. If the leader has died, a pod
that is still gated after some seconds goes to the scheduler as it is. This runs on every replica, leader or not, with
a client that may always write. Each gated pod in the cache gets a timer by the server's clock, and is read again from
the API server when the timer fires.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import structlog

from rescheduler.decode.cache import ClusterCache
from rescheduler.kube.objects import CommandSender
from rescheduler.kube.observer import MigrationObserver
from rescheduler.migration.steps.common import remove_nominate_gate
from rescheduler.model import labels
from rescheduler.model.json import ObjectKey, annotations_of
from rescheduler.model.objects import Pod
from rescheduler.model.time import parse_instant
from rescheduler.runtime.reconciler import BackoffPolicy, Reconciler

_log = structlog.stdlib.get_logger(__name__)
PATIENCE = 10.0
_WORKERS = 4  # a leader that dies in the middle of a large move leaves many gates at once
_CONFLICT_DELAY = 1.0  # seconds after a refusal: the pod has changed meanwhile
_BACKOFF = BackoffPolicy(longest=5.0)
_RETRY_DELAY = 5.0  # seconds between tries once the back-off is exhausted: a gated pod never runs


class StaleGateController(Reconciler[ObjectKey]):
    """Removes stale gates."""

    noun = "pod"

    def __init__(
        self,
        cache: ClusterCache,
        observer: MigrationObserver,
        sender: CommandSender,
        now: Callable[[], float],
        patience: float = PATIENCE,
    ) -> None:
        """`now` is the server's clock, which also stamps the creation of pods."""
        super().__init__(_WORKERS, _BACKOFF)
        self._cache = cache
        self._observer = observer
        self._sender = sender
        self._now = now
        self._patience = patience
        cache.listen(self._changed)

    async def run(self) -> None:
        """Remove gates until cancelled."""
        for row in self._cache.rows("Pod"):
            self._schedule((row.namespace, row.name), row)
        await super().run()

    def retry_delay(self, key: ObjectKey) -> float | None:
        """Never give up."""
        return _RETRY_DELAY

    def _changed(self, kind: str, key: Any, _version: str) -> None:
        if kind == "Pod":
            self._schedule(key, self._cache.row("Pod", key))

    def _schedule(self, key: ObjectKey, row: Pod | None) -> None:
        """Set a timer for a gated pod; later changes of the pod do not postpone it."""
        if row is not None and not row.deleting and labels.GATED in row.annotations:
            self._queue.add_later(key, self._time_left(row.created))

    async def reconcile(self, key: ObjectKey) -> float | None:
        """Remove the gate of a pod that still has it."""
        pod = await self._observer.find("Pod", *key)
        if pod is None or labels.GATED not in annotations_of(pod):
            return None
        created = parse_instant(pod["metadata"]["creationTimestamp"])
        if (left := self._time_left(created)) > 0:
            return left  # another pod has the name by now
        migration = annotations_of(pod)[labels.GATED]
        for command in remove_nominate_gate(pod):
            refused = await self._sender.carry_out(command)
            if refused is not None:
                _log.info("command refused", command=str(command), code=refused.code, why=refused.message)
                return _CONFLICT_DELAY
            _log.warning("stale scheduling gate removed", pod="/".join(key), migration=migration)
        return None

    def _time_left(self, created: float | None) -> float:
        return 0.0 if created is None else max(0.0, created + self._patience - self._now())
