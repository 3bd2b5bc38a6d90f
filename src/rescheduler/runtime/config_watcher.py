"""Re-reads the configuration's file while the controller runs, on every replica, whether it leads or not.

The file is read every few seconds. New content is parsed when two reads in a row agree, so a file that is half-written,
or absent for a moment while it is replaced, is never parsed. A valid configuration becomes active (`LiveConfig.swap`),
except for fields that need a restart. An invalid one is rejected with all its errors, once, and the active one stays.
Both are logged, counted, and recorded as Events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from enum import StrEnum

import structlog

from rescheduler.config.errors import ConfigError, ConfigErrors
from rescheduler.config.live import LiveConfig, keep_restart_only, list_changes
from rescheduler.config.loader import Origin
from rescheduler.config.schema import Configuration
from rescheduler.kube.events import EventRecorder
from rescheduler.migration.events import ObjectEvent, Subject
from rescheduler.model.time import format_instant

EVERY = 2.0
"""Seconds between two reads; kubelet itself needs up to a minute to bring a ConfigMap's change to its pods."""
_log = structlog.stdlib.get_logger(__name__)


class ReloadResult(StrEnum):
    """The result of reading a changed file."""

    ACCEPTED = "accepted"
    REFUSED = "refused"


_Content = str | tuple[ConfigError, ...]
"""The text of the file, or why it cannot be read."""


class ConfigWatcher:
    """Watches one file; results are logged, counted and, with a recorder, recorded as Events."""

    def __init__(
        self,
        origin: Origin,
        live_config: LiveConfig,
        now: Callable[[], float],
        count: Callable[[ReloadResult], None] = lambda _: None,
        recorder: EventRecorder | None = None,
        subject: Callable[[], Awaitable[Subject]] | None = None,
    ) -> None:
        """`origin` is what the active configuration was read from; `subject` returns the object of the Events."""
        self._file = origin.file
        self._live = live_config
        self._now = now
        self._count = count
        self._recorder = recorder
        self._subject = subject
        self._judged: _Content = origin.text
        self._last: _Content = origin.text

    async def check(self) -> ReloadResult | None:
        """Read the file once; return what became of it, if it was judged."""
        content = await asyncio.to_thread(self._read)
        last, self._last = self._last, content
        if content == self._judged or content != last:
            return None  # known already, or perhaps still being written
        self._judged = content
        try:
            wanted = await asyncio.to_thread(self._parse, content)
        except ConfigErrors as errors:
            await self._reject(errors.errors)
            return ReloadResult.REFUSED
        await self._accept(wanted)
        return ReloadResult.ACCEPTED

    def _read(self) -> _Content:
        try:
            return self._file.reread_text()
        except ConfigErrors as errors:
            return errors.errors

    def _parse(self, content: _Content) -> Configuration:
        if not isinstance(content, str):
            raise ConfigErrors(content)
        return self._file.read(content)

    async def _accept(self, wanted: Configuration) -> None:
        live_config, before = self._live, self._live.config
        config, waiting = keep_restart_only(live_config.started_with, wanted)
        already = waiting == live_config.awaiting_restart
        has_changed = live_config.swap(config, waiting, self._now())
        self._count(ReloadResult.ACCEPTED)
        if has_changed:
            changed = ", ".join(list_changes(before, config))
            _log.info("configuration reloaded", file=self._file.path, changed=changed)
            await self._record("ConfigurationChanged", f"{self._file.path} was re-read, and is in force: {changed}")
        elif not waiting:
            _log.info("configuration file changed, configuration is the same", file=self._file.path)
        if waiting and not already:
            fields = ", ".join(waiting)
            _log.warning("configuration fields await a restart", fields=fields)
            note = f"cannot change while the controller runs, and waits for a restart: {fields}"
            await self._record("ConfigurationAwaitsRestart", note, warning=True)

    async def _reject(self, errors: tuple[ConfigError, ...]) -> None:
        self._live.reject(errors, self._now())
        self._count(ReloadResult.REFUSED)
        why = "; ".join(each.in_file for each in errors)
        _log.error("configuration rejected", file=self._file.path, errors=len(errors), why=why)
        note = f"{self._file.path} is refused, what was in force stays in force: {why}"
        await self._record("ConfigurationRefused", note, warning=True)

    async def _record(self, reason: str, note: str, *, warning: bool = False) -> None:
        if self._recorder is not None and self._subject is not None:
            about, occasion = await self._subject(), format_instant(self._now())
            await self._recorder.record([ObjectEvent(about, about, reason, "Reread", note, occasion, warning)])
