"""Lets pods through the webhook's gate that have been behind it for too long, so that a dead leader blocks nobody.

It runs in every replica, leader or not, with a client that may always write. Normally the leader nominates a new pod
and lets it through within a second; what is still gated after some seconds goes to the scheduler as it is. The cache
tells of gated pods, each gets an appointment by the server's clock, and is read anew when its time has come.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Protocol

import structlog

from rescheduler.decode.cache import Changed
from rescheduler.kube.errors import ClusterError
from rescheduler.migration.commands import Command
from rescheduler.migration.observation import FailedCommand
from rescheduler.migration.steps.common import remove_nominate_gate
from rescheduler.model import labels
from rescheduler.model.json import Json, ObjectKey, annotations_of
from rescheduler.model.objects import Pod
from rescheduler.model.time import parse_instant
from rescheduler.runtime.reconciler import BackoffPolicy, WorkQueue

_log = structlog.stdlib.get_logger(__name__)
PATIENCE = 10.0
_WORKERS = 4  # a leader that dies in the middle of a large move leaves many at once
_AGAIN = 1.0  # seconds after a refusal: somebody has changed the pod meanwhile
_RETRIES = BackoffPolicy(longest=5.0)
_STUBBORN = 5.0  # seconds between tries when all tries with back-off have failed: without us the pod would never run


class Changes(Protocol):
    """Who tells of pods."""

    def listen(self, listener: Changed) -> None: ...
    def row(self, kind: str, key: Any) -> Any: ...
    def rows(self, kind: str) -> list[Any]: ...


class Observer(Protocol):
    """Who reads a pod as it is now."""

    async def find(self, kind: str, namespace: str, name: str) -> Json | None: ...


class Writer(Protocol):
    """Who acts, whoever leads."""

    async def carry_out(self, command: Command) -> FailedCommand | None: ...


@dataclass
class StaleGateController:
    """The appointments, and who keeps them."""

    _changes: Changes
    _observer: Observer
    _writer: Writer
    _now: Callable[[], float]
    """By the server's clock, which says when a pod was made."""
    _patience: float = PATIENCE
    _queue: WorkQueue[ObjectKey] = field(default_factory=lambda: WorkQueue(_RETRIES), init=False)
    _known: set[ObjectKey] = field(default_factory=set, init=False)
    """Pods that have an appointment."""
    _running: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._changes.listen(self._changed)

    async def run(self) -> None:
        """Keep appointments until cancelled."""
        self._running = True
        for row in self._changes.rows("Pod"):
            self._expect((row.namespace, row.name), row)
        try:
            async with asyncio.TaskGroup() as group:
                for _ in range(_WORKERS):
                    group.create_task(self._work())
        finally:
            self._running = False
            self._known.clear()
            self._queue.close()

    def _changed(self, kind: str, key: Any, _version: str) -> None:
        if kind == "Pod" and self._running:
            self._expect(key, self._changes.row("Pod", key))

    def _expect(self, key: ObjectKey, row: Pod | None) -> None:
        """Make an appointment for a gated pod; other changes of it don't put that off."""
        if row is None or row.deleting or labels.GATED not in row.annotations:
            self._known.discard(key)  # whoever keeps the appointment finds nothing to do
        elif key not in self._known:
            self._known.add(key)
            self._queue.add_later(key, self._left(row.created))

    async def _work(self) -> None:
        while True:
            key = await self._queue.take()
            try:
                again = await self._look(key)
            except ClusterError as error:
                self._failed(key, str(error))
            except Exception as error:  # noqa: BLE001 - one bad object never stops the others
                _log.exception("a bug of ours, or a pod that makes no sense", pod="/".join(key))
                self._failed(key, f"{type(error).__name__}: {error}")
            else:
                if again is None:
                    self._known.discard(key)
                self._queue.done(key, again)

    async def _look(self, key: ObjectKey) -> float | None:
        """Let a pod through if it is still there and gated; in how many seconds to look again, if at all."""
        pod = await self._observer.find("Pod", *key)
        if pod is None or labels.GATED not in annotations_of(pod):
            return None
        made = parse_instant(pod["metadata"]["creationTimestamp"])
        if (left := self._left(made)) > 0:
            return left  # another pod has the name by now
        migration = annotations_of(pod)[labels.GATED]
        for command in remove_nominate_gate(pod):
            refused = await self._writer.carry_out(command)
            if refused is not None:
                _log.info("refused", command=str(command), code=refused.code, why=refused.message)
                return _AGAIN
            _log.warning("let a pod through that nobody else did", pod="/".join(key), migration=migration)
        return None

    def _failed(self, key: ObjectKey, why: str) -> None:
        delay = self._queue.failed(key)
        if delay is None:
            delay = _STUBBORN
            self._queue.add_later(key, delay)
        _log.warning("a gated pod could not be let through", pod="/".join(key), why=why, again=f"in {delay:.1f} s")

    def _left(self, created: float | None) -> float:
        return 0.0 if created is None else max(0.0, created + self._patience - self._now())
