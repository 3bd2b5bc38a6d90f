"""Watches whether rescheduling is paused: every replica reads the ConfigMap at short intervals.

The start gate, the planning loop and recovery check it before they start anything; the page shows it. Nothing starts
until the ConfigMap has been read once. Later, while it cannot be read, the last known state holds. A change is logged
once, and recorded once as an Event of the ConfigMap: all replicas write the same Event under the same name.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

import structlog

from rescheduler.kube.errors import ClusterError
from rescheduler.kube.events import EventRecorder
from rescheduler.kube.pause_state import PauseDetails, PauseState, PauseStore
from rescheduler.migration.events import ObjectEvent, Subject
from rescheduler.model.time import format_instant

_log = structlog.stdlib.get_logger(__name__)
_EVERY = 2.0  # seconds between two reads
_UNKNOWN = PauseDetails("", None, "the pause state has not been read yet")

Hook = Callable[[PauseDetails | None], None]


class PauseWatcher:
    """The pause state as this replica knows it."""

    def __init__(
        self, pausing: PauseStore, recorder: EventRecorder | None = None, now: Callable[[], float] = time.time
    ) -> None:
        self._pausing = pausing
        self._recorder = recorder
        self._now = now
        self._seen_resumed = 0.0
        """When a pause was seen to end, if the ConfigMap does not say when."""
        self._state: PauseState | None = None
        self._failure = ""
        self._hooks: list[Hook] = []
        self._reading = asyncio.Lock()

    def current(self) -> PauseDetails | None:
        """The current pause; a placeholder that blocks starts while the state is unknown."""
        if self._state is not None:
            return self._state.pause
        return replace(_UNKNOWN, reason=f"{_UNKNOWN.reason}: {self._failure}") if self._failure else _UNKNOWN

    @property
    def known(self) -> bool:
        """Whether the ConfigMap has been read."""
        return self._state is not None

    @property
    def resumed(self) -> float:
        """When rescheduling was last resumed, by the API server's clock; 0.0 if it was never paused."""
        state = self._state
        return max(state.since or 0.0, self._seen_resumed) if state is not None and state.pause is None else 0.0

    @property
    def failure(self) -> str:
        """Why the ConfigMap cannot be read; empty if it can."""
        return self._failure

    def listen(self, hook: Hook) -> None:
        """Call the hook when rescheduling is paused, is paused for another reason, or is resumed."""
        self._hooks.append(hook)

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            await self.refresh()
            await asyncio.sleep(_EVERY)

    async def refresh(self) -> bool:
        """Read the ConfigMap now and report changes; return whether it could be read."""
        async with self._reading:
            try:
                found = await self._pausing.look()
            except ClusterError as error:
                if str(error) != self._failure:
                    effect = "last known state holds" if self.known else "nothing starts"
                    _log.warning("pause state not readable", object=str(self._pausing), effect=effect, why=str(error))
                self._failure = str(error)
                return False
            before, self._state, self._failure = self._state, found, ""
        if before is not None and before.pause is not None and found.pause is None and not _is_dated(before, found):
            self._seen_resumed = self._now()
        if before is None or before.pause != found.pause:
            await self._changed(before, found)
        return True

    async def _changed(self, before: PauseState | None, found: PauseState) -> None:
        pause = found.pause
        if pause is not None:
            since = format_instant(pause.since) if pause.since is not None else None
            _log.warning("rescheduling paused", by=pause.by, since=since, reason=pause.reason)
        elif before is not None:
            _log.info("rescheduling resumed", by=found.by or None)
        for hook in self._hooks:
            hook(pause)
        if before is not None and self._recorder is not None and (found.uid or before.uid):
            await self._recorder.record([self._news(before, found)])

    def _news(self, before: PauseState, found: PauseState) -> ObjectEvent:
        about = Subject("ConfigMap", self._pausing.namespace, self._pausing.name, found.uid or before.uid)
        occasion = f"{found.since if _is_dated(before, found) else found.version}"
        if found.pause is not None:
            note = f"{found.pause}; nothing new is begun until `rescheduler resume`"
            return ObjectEvent(about, about, "ReschedulingPaused", "Pause", note, occasion)
        by = f" by {found.by}" if found.by else ""
        return ObjectEvent(about, about, "ReschedulingResumed", "Resume", f"rescheduling was resumed{by}", occasion)


def _is_dated(before: PauseState, found: PauseState) -> bool:
    """Whether the new state has its own time; an edit with kubectl may leave the old one."""
    return found.since is not None and found.since != before.since
