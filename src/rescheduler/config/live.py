"""The live configuration: the active one, which every part reads when it needs a value.

`app` makes it of what the command was started with; `runtime.rereading` has it take over what its file says later. A
Configuration never changes, so whoever must not mix two of them (a cycle, a look at a migration) takes one in the
beginning and keeps it. What was refused last is here too, for the page and the metrics.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from rescheduler.config.configuration import Configuration
from rescheduler.config.errors import ConfigError, Loc, format_path
from rescheduler.migration.lifecycle import Lifecycle, MigrationSettings
from rescheduler.model.policy import Concurrency, Policy
from rescheduler.recovery.settings import RecoverySettings

_DIGITS = 12


@dataclass(frozen=True, slots=True)
class RejectedConfig:
    """A file that was not taken: when, and everything that is wrong with it."""

    at: float
    errors: tuple[ConfigError, ...]


class _Terms:
    """What one configuration tells the parts, each worked out when it is first asked for."""

    def __init__(self, config: Configuration) -> None:
        self.config = config

    @cached_property
    def policy(self) -> Policy:
        return self.config.policy()

    @cached_property
    def manner(self) -> MigrationSettings:
        return self.config.manner()

    @cached_property
    def lifecycle(self) -> Lifecycle:
        return Lifecycle(self.manner)

    @cached_property
    def concurrency(self) -> Concurrency:
        return self.config.concurrency()

    @cached_property
    def recovery(self) -> RecoverySettings:
        return self.config.recovery()

    def work_out(self) -> tuple[object, ...]:
        """Everything that parts go by: what cannot be worked out is found before anybody relies on it."""
        return (self.policy, self.lifecycle, self.concurrency, self.recovery)

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.config.effective_yaml().encode()).hexdigest()[:_DIGITS]


class LiveConfig:
    """What holds now, and since when (epoch). Only the event loop changes it; threads may read."""

    def __init__(self, config: Configuration, since: float = 0.0) -> None:
        self._terms = _Terms(config)
        self._hooks: list[Callable[[], None]] = []
        self.started_with = config
        """What cannot change while we run is as it is here."""
        self.since = since
        """When what holds was last read and found sound."""
        self.awaiting_restart: tuple[str, ...] = ()
        """Fields with another value in the file, which waits for a restart."""
        self.revision = 0
        """Grows with everything that there is to tell of it."""
        self.rejected: RejectedConfig | None = None
        """Why the file as it is now was not taken; None if it was."""

    @property
    def config(self) -> Configuration:
        """The configuration in force."""
        return self._terms.config

    @property
    def digest(self) -> str:
        """By which one sees that two replicas go by the same."""
        return self._terms.digest

    def policy(self) -> Policy:
        """What planning is told; the same object until it changes."""
        return self._terms.policy

    def manner(self) -> MigrationSettings:
        """How moves are carried out."""
        return self._terms.manner

    def lifecycle(self) -> Lifecycle:
        """Who decides what migrations do next, in that manner."""
        return self._terms.lifecycle

    def concurrency(self) -> Concurrency:
        """How many migrations may be under way at once."""
        return self._terms.concurrency

    def recovery(self) -> RecoverySettings:
        """What is done about failed pods."""
        return self._terms.recovery

    def listen(self, hook: Callable[[], None]) -> None:
        """Be told when another configuration is in force."""
        self._hooks.append(hook)

    def swap(self, config: Configuration, waiting: tuple[str, ...], now: float) -> bool:
        """Go by this one from now on; whether it says anything else than the one before."""
        terms = _Terms(config)
        terms.work_out()
        changed = config != self.config
        self.since, self.awaiting_restart, self.rejected = now, waiting, None
        self.revision += 1
        if not changed:
            return False
        self._terms = terms
        for hook in self._hooks:
            hook()
        return True

    def reject(self, errors: tuple[ConfigError, ...], now: float) -> None:
        """Remember that the file makes no sense; what holds, holds on."""
        self.rejected = RejectedConfig(now, errors)
        self.revision += 1


RESTART_ONLY = ("leader_election", "client_connection", "web", "webhook", "extender")
"""Sections that are looked at once. No check of the schema may bind one of them to a field outside of them."""


def keep_restart_only(running: Configuration, wanted: Configuration) -> tuple[Configuration, tuple[str, ...]]:
    """What is wanted, but for what cannot change while we run; and the fields that wait for a restart, by path."""
    kept = {name: getattr(running.fields, name) for name in RESTART_ONLY}
    taken = replace(wanted, fields=replace(wanted.fields, **kept))
    waiting = list_changes(taken, wanted)
    return (taken, waiting) if waiting else (wanted, ())


def list_changes(before: Configuration, after: Configuration) -> tuple[str, ...]:
    """The fields in which two configurations differ, by path; of lists as a whole."""
    return tuple(format_path(loc) for loc in _differences(before.effective(), after.effective(), ()))


def _differences(before: Mapping[str, object], after: Mapping[str, object], loc: Loc) -> Iterator[Loc]:
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from _differences(old, new, (*loc, name))
        elif old != new:
            yield (*loc, name)
