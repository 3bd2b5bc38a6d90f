"""Re-reads the configuration's file while the controller runs, on every replica, whether it leads or not.

The file is read every few seconds. New content is parsed when two reads in a row agree, so a file that is half-written,
or absent for a moment while it is replaced, is never parsed. A valid configuration becomes active (`LiveConfig.swap`),
except for fields that need a restart. An invalid one is rejected with all its errors, once, and the active one stays.
Both are logged, counted, and recorded as Events.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from enum import StrEnum

import structlog

from rescheduler.config.configuration import Configuration
from rescheduler.config.errors import ConfigError, ConfigErrors
from rescheduler.config.live import LiveConfig, keep_restart_only, list_changes
from rescheduler.config.loader import ConfigFile
from rescheduler.kube.events import EventRecorder
from rescheduler.migration.events import ObjectEvent, Subject
from rescheduler.model.time import format_instant

EVERY = 2.0
"""Seconds between two reads; kubelet itself needs up to a minute to bring a ConfigMap's change to its pods."""
_STAYS = "what was in force stays in force"
_log = structlog.stdlib.get_logger(__name__)


class ReloadResult(StrEnum):
    """The result of reading a changed file."""

    ACCEPTED = "accepted"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class ReloadAudience:
    """Where results are reported; without a recorder, only in the log."""

    count: Callable[[ReloadResult], None] = lambda _: None
    recorder: EventRecorder | None = None
    subject: Callable[[], Awaitable[Subject]] | None = None
    """Returns the object that Events are about: one that stands for this controller."""


@dataclass(frozen=True, slots=True)
class _FileState:
    """The content of the file, or why it cannot be read."""

    text: str = ""
    unreadable: tuple[ConfigError, ...] = ()


class ConfigWatcher:
    """Watches one file; `text` is the content that the active configuration was read from."""

    def __init__(
        self, file: ConfigFile, text: str, live_config: LiveConfig, audience: ReloadAudience, now: Callable[[], float]
    ) -> None:
        self._file = file
        self._live = live_config
        self._audience = audience
        self._now = now
        self._judged = self._last = _FileState(text)

    async def check(self) -> ReloadResult | None:
        """Look at the file once; what became of it, if it was judged."""
        said = await asyncio.to_thread(self._said)
        last, self._last = self._last, said
        if said == self._judged or said != last:
            return None  # known already, or perhaps still being written
        self._judged = said
        try:
            wanted = await asyncio.to_thread(self._read, said)
        except ConfigErrors as errors:
            result = ReloadResult.REFUSED
            news = self._refused(errors.errors)
        else:
            result = ReloadResult.ACCEPTED
            news = self._accepted(wanted)
        self._audience.count(result)
        await self._tell(news)
        return result

    def _said(self) -> _FileState:
        try:
            return _FileState(self._file.reread_text())
        except ConfigErrors as errors:
            return _FileState(unreadable=errors.errors)

    def _read(self, said: _FileState) -> Configuration:
        if said.unreadable:
            raise ConfigErrors(said.unreadable)
        return self._file.read(said.text)

    def _accepted(self, wanted: Configuration) -> list[_Notice]:
        live_config, before = self._live, self._live.config
        config, waiting = keep_restart_only(live_config.started_with, wanted)
        already = waiting == live_config.awaiting_restart
        notices: list[_Notice] = []
        if live_config.swap(config, waiting, self._now()):
            changed = ", ".join(list_changes(before, config))
            _log.info("configuration reloaded", file=self._file.path, changed=changed)
            notices.append(
                _Notice("ConfigurationChanged", f"{self._file.path} was re-read, and is in force: {changed}")
            )
        elif not waiting:
            _log.info("configuration file changed, configuration is the same", file=self._file.path)
        if waiting and not already:
            fields = ", ".join(waiting)
            _log.warning("configuration fields await a restart", fields=fields)
            note = f"cannot change while the controller runs, and waits for a restart: {fields}"
            notices.append(_Notice("ConfigurationAwaitsRestart", note, warning=True))
        return notices

    def _refused(self, errors: tuple[ConfigError, ...]) -> list[_Notice]:
        self._live.reject(errors, self._now())
        why = "; ".join(each.in_file for each in errors)
        _log.error("configuration rejected", file=self._file.path, errors=len(errors), why=why)
        return [_Notice("ConfigurationRefused", f"{self._file.path} is refused, {_STAYS}: {why}", warning=True)]

    async def _tell(self, notices: list[_Notice]) -> None:
        audience = self._audience
        if audience.recorder is None or audience.subject is None or not notices:
            return
        about, occasion = await audience.subject(), format_instant(self._now())
        await audience.recorder.record(
            [ObjectEvent(about, about, each.reason, "Reread", each.note, occasion, each.warning) for each in notices]
        )


@dataclass(frozen=True, slots=True)
class _Notice:
    """One Event."""

    reason: str
    note: str
    warning: bool = False
