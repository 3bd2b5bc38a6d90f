"""The live configuration: the active one, which every part reads when it needs a value.

`app` makes it of the configuration that the command was started with; `runtime.config_watcher` swaps in another one
when the file changes. A Configuration never changes, so a part that must not mix two of them (a planning cycle, one
look at a migration) reads it once and keeps it. The last rejected file is here too, for the page and the metrics.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from rescheduler.config.errors import ConfigError, Loc, format_path
from rescheduler.config.schema import Configuration
from rescheduler.migration.lifecycle import Lifecycle
from rescheduler.model.policy import Concurrency, Policy
from rescheduler.recovery.settings import RecoverySettings

_DIGITS = 12


@dataclass(frozen=True, slots=True)
class RejectedConfig:
    """A file that was rejected: when, and all its errors."""

    at: float
    errors: tuple[ConfigError, ...]


class _Derived:
    """What is made of one configuration. Policy and lifecycle at once, so that errors in them reject the file."""

    def __init__(self, config: Configuration) -> None:
        self.config = config
        self.policy = config.policy()
        self.lifecycle = Lifecycle(config.fields.migration)

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.config.effective_yaml().encode()).hexdigest()[:_DIGITS]


class LiveConfig:
    """The active configuration, and since when (epoch). Only the event loop changes it; threads may read."""

    def __init__(self, config: Configuration, since: float = 0.0) -> None:
        self._derived = _Derived(config)
        self._hooks: list[Callable[[], None]] = []
        self.started_with = config
        """Holds the values that cannot change at run time."""
        self.since = since
        """When the file was last read and accepted."""
        self.awaiting_restart: tuple[str, ...] = ()
        """Fields whose value in the file differs from the active one until a restart."""
        self.revision = 0
        """Grows with every file that is accepted or rejected."""
        self.rejected: RejectedConfig | None = None
        """Why the file as it is now was rejected; None if it was accepted."""

    @property
    def config(self) -> Configuration:
        """The active configuration."""
        return self._derived.config

    @property
    def digest(self) -> str:
        """A hash of the active configuration; replicas with the same one act alike."""
        return self._derived.digest

    def policy(self) -> Policy:
        """The part that planning reads; the same object until it changes."""
        return self._derived.policy

    def lifecycle(self) -> Lifecycle:
        """Decides the next step of migrations."""
        return self._derived.lifecycle

    def concurrency(self) -> Concurrency:
        """How many migrations may be under way at once."""
        return self.config.fields.migration.concurrency

    def recovery(self) -> RecoverySettings:
        """What is done about failed pods."""
        return self.config.fields.recovery

    def listen(self, hook: Callable[[], None]) -> None:
        """Call the hook after each swap that changes something."""
        self._hooks.append(hook)

    def swap(self, config: Configuration, waiting: tuple[str, ...], now: float) -> bool:
        """Make this configuration the active one; returns whether it differs from the one before."""
        derived = _Derived(config)
        changed = config != self.config
        self.since, self.awaiting_restart, self.rejected = now, waiting, None
        self.revision += 1
        if not changed:
            return False
        self._derived = derived
        for hook in self._hooks:
            hook()
        return True

    def reject(self, errors: tuple[ConfigError, ...], now: float) -> None:
        """Record a file that is invalid; the active configuration stays."""
        self.rejected = RejectedConfig(now, errors)
        self.revision += 1


RESTART_ONLY = ("leader_election", "client_connection", "web", "webhook", "extender")
"""Sections that are read once, at the start. No check may bind one of them to a field outside of them."""


def keep_restart_only(running: Configuration, wanted: Configuration) -> tuple[Configuration, tuple[str, ...]]:
    """The wanted configuration, with the restart-only sections of the running one; and the fields that must wait."""
    kept = {name: getattr(running.fields, name) for name in RESTART_ONLY}
    taken = replace(wanted, fields=replace(wanted.fields, **kept))
    waiting = list_changes(taken, wanted)
    return (taken, waiting) if waiting else (wanted, ())


def list_changes(before: Configuration, after: Configuration) -> tuple[str, ...]:
    """The paths of the fields in which two configurations differ; a list counts as one field."""
    return tuple(format_path(loc) for loc in _differences(before.effective(), after.effective(), ()))


def _differences(before: Mapping[str, object], after: Mapping[str, object], loc: Loc) -> Iterator[Loc]:
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from _differences(old, new, (*loc, name))
        elif old != new:
            yield (*loc, name)
