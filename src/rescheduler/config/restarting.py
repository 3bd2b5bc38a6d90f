"""What can be changed while the controller runs, and what waits until it is started again.

`runtime.rereading` asks when the file has changed. Servers, the connection and the election are made once, when the
process starts: a new value there is told, and the old one stays in force beside everything else that is new.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from rescheduler.config.configuration import Configuration
from rescheduler.config.errors import Loc, path_of

RESTART_ONLY = ("leader_election", "client_connection", "web", "webhook", "extender")
"""Sections that are looked at once. No check of the schema may bind one of them to a field outside of them."""


def carried_over(running: Configuration, wanted: Configuration) -> tuple[Configuration, tuple[str, ...]]:
    """What is wanted, but for what cannot change while we run; and the fields that wait for a restart, by path."""
    kept = {name: getattr(running.fields, name) for name in RESTART_ONLY}
    taken = replace(wanted, fields=wanted.fields.model_copy(update=kept))
    waiting = changes(taken, wanted)
    return (taken, waiting) if waiting else (wanted, ())


def changes(before: Configuration, after: Configuration) -> tuple[str, ...]:
    """The fields in which two configurations differ, by path; of lists as a whole."""
    return tuple(path_of(loc) for loc in _differences(before.effective(), after.effective(), ()))


def _differences(before: Mapping[str, object], after: Mapping[str, object], loc: Loc) -> Iterator[Loc]:
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        if isinstance(old, Mapping) and isinstance(new, Mapping):
            yield from _differences(old, new, (*loc, name))
        elif old != new:
            yield (*loc, name)
