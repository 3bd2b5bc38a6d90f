"""Knows whether rescheduling is paused: every replica reads the ConfigMap at short intervals.

The gatekeeper, the plan loop and recovery ask before anything new is begun; the page shows it. Until it has been read
for the first time nobody knows, and nothing is begun; later, when it cannot be read, what was read last holds. Changes
are logged once, and told once as Events of the ConfigMap: all replicas tell the same, under the same name.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Protocol

import structlog

from rescheduler.kube.errors import ClusterError
from rescheduler.kube.pause_state import PauseDetails, PauseState, PauseStore
from rescheduler.migration.events import ObjectEvent, Subject
from rescheduler.model.time import format_instant

_log = structlog.stdlib.get_logger(__name__)
_EVERY = 2.0  # seconds between two reads
_UNKNOWN = PauseDetails("", None, "it is not known yet whether somebody has paused it")

Hook = Callable[[PauseDetails | None], None]


class Teller(Protocol):
    """Who writes Events."""

    def record(self, news: Iterable[ObjectEvent]) -> Awaitable[None]: ...


class PauseWatcher:
    """What a replica knows of it."""

    def __init__(self, pausing: PauseStore, teller: Teller | None = None, now: Callable[[], float] = time.time) -> None:
        self._pausing = pausing
        self._teller = teller
        self._now = now
        self._went_on = 0.0
        """When a pause was seen to have ended, where the ConfigMap does not say it."""
        self._state: PauseState | None = None
        self._failure = ""
        self._hooks: list[Hook] = []
        self._reading = asyncio.Lock()

    def current(self) -> PauseDetails | None:
        """The pause that holds, as far as is known; one that says so while nothing is known."""
        if self._state is not None:
            return self._state.pause
        return replace(_UNKNOWN, reason=f"{_UNKNOWN.reason}: {self._failure}") if self._failure else _UNKNOWN

    @property
    def known(self) -> bool:
        """Whether it has been read."""
        return self._state is not None

    @property
    def resumed(self) -> float:
        """Since when it has been going on again, by the API server's clock; 0.0 if it never was paused."""
        state = self._state
        return max(state.since or 0.0, self._went_on) if state is not None and state.pause is None else 0.0

    @property
    def failure(self) -> str:
        """Why it cannot be read at the moment; empty when it can."""
        return self._failure

    def listen(self, hook: Hook) -> None:
        """Be told when rescheduling is paused, for another reason, or goes on."""
        self._hooks.append(hook)

    async def run(self) -> None:
        """Follow it until cancelled."""
        while True:
            await self.refresh()
            await asyncio.sleep(_EVERY)

    async def refresh(self) -> bool:
        """Read it now, and tell what has changed; whether it could be read."""
        async with self._reading:
            try:
                found = await self._pausing.look()
            except ClusterError as error:
                if str(error) != self._failure:
                    meanwhile = "what was read last holds" if self.known else "nothing is begun until it can be"
                    _log.warning(f"{self._pausing} could not be read; {meanwhile}", why=str(error))
                self._failure = str(error)
                return False
            before, self._state, self._failure = self._state, found, ""
        if before is not None and before.pause is not None and found.pause is None and not _is_dated(before, found):
            self._went_on = self._now()
        if before is None or before.pause != found.pause:
            await self._changed(before, found)
        return True

    async def _changed(self, before: PauseState | None, found: PauseState) -> None:
        pause = found.pause
        if pause is not None:
            since = format_instant(pause.since) if pause.since is not None else None
            _log.warning("rescheduling is paused: nothing new is begun", by=pause.by, since=since, reason=pause.reason)
        elif before is not None:
            _log.info("rescheduling goes on", by=found.by or None)
        for hook in self._hooks:
            hook(pause)
        if before is not None and self._teller is not None and (found.uid or before.uid):
            await self._teller.record([self._news(before, found)])

    def _news(self, before: PauseState, found: PauseState) -> ObjectEvent:
        about = Subject("ConfigMap", self._pausing.namespace, self._pausing.name, found.uid or before.uid)
        occasion = f"{found.since if _is_dated(before, found) else found.version}"
        if found.pause is not None:
            note = f"{found.pause}; nothing new is begun until `rescheduler resume`"
            return ObjectEvent(about, about, "ReschedulingPaused", "Pause", note, occasion)
        by = f" by {found.by}" if found.by else ""
        return ObjectEvent(about, about, "ReschedulingResumed", "Resume", f"rescheduling was resumed{by}", occasion)


def _is_dated(before: PauseState, found: PauseState) -> bool:
    """Whether what is new has a time of its own: who writes with kubectl may leave the one that was there."""
    return found.since is not None and found.since != before.since
