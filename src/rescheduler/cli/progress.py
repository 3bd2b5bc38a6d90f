"""Shows progress on stderr: of reading, if that is a terminal and reading takes long, and of migrations.

Commands pass `advance` to the reader. Files are counted in bytes, a live cluster in objects, whose number is unknown.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from rescheduler.cli import messages
from rescheduler.cli.output import plain
from rescheduler.model.migration import Phase, PodMigration

if TYPE_CHECKING:
    from rich.progress import Progress

ShowProgress = Callable[[str, str], None]
"""Shows progress: the event as a line of its own, or on a terminal the state after it in the live line."""
PATIENCE = 1.0
"""Seconds before anything is shown."""


@contextmanager
def show_bytes_read(total: int | None, *, of_bytes: bool) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with each step; the line appears late, and is removed when the block ends."""
    if not _has_live_line():
        yield lambda step: None
        return
    started, done = time.monotonic(), 0
    shown: Progress | None = None

    def advance(step: int) -> None:
        nonlocal done, shown
        done += step
        if shown is None and time.monotonic() - started > PATIENCE:
            shown = _start_reading_line(total, of_bytes=of_bytes)
        if shown is not None:
            shown.update(shown.task_ids[0], completed=done)

    try:
        yield advance
    finally:
        if shown is not None:
            shown.stop()


def _start_reading_line(total: int | None, *, of_bytes: bool) -> Progress:
    # rich takes a while to import, which does not matter after such a wait.
    from rich import progress  # noqa: PLC0415 - as said above
    from rich.console import Console  # noqa: PLC0415 - the same

    amount = progress.DownloadColumn() if of_bytes else progress.TextColumn("{task.completed:.0f} objects")
    columns = [progress.TextColumn("reading"), progress.BarColumn(), amount, progress.TimeRemainingColumn()]
    shown = progress.Progress(*columns, console=Console(stderr=True), transient=True)
    shown.add_task("reading", total=total)
    shown.start()
    return shown


def _has_live_line() -> bool:
    return sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def show_progress() -> Iterator[ShowProgress]:
    """Yield a function to call with each event and the state after it, until the end of the block."""
    with warnings_as_messages():
        if not _has_live_line():
            yield _make_log()
            return
        # rich takes a while to import, which does not matter before a wait.
        from rich.console import Console  # noqa: PLC0415 - as said above
        from rich.markup import escape  # noqa: PLC0415 - the same
        from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - the same

        columns = [SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()]
        with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
            task = shown.add_task("", total=None)
            yield lambda event, state: shown.update(task, description=escape(plain(state)))


def _make_log() -> ShowProgress:
    """Make a function that prints a line for each event that differs from the one before."""
    last = ""

    def show(event: str, state: str) -> None:
        nonlocal last
        if event != last:
            click.echo(plain(event), err=True)
        last = event

    return show


@contextmanager
def warnings_as_messages() -> Iterator[None]:
    """Show logged warnings of the block as warnings of the command."""
    from rescheduler.runtime.logs import forward_warnings  # noqa: PLC0415 - it takes a while to import

    with forward_warnings(lambda text: messages.warn([text])):
        yield


class MigrationProgress:
    """Shows the progress of migrations."""

    def __init__(self, show: ShowProgress, total: int) -> None:
        self._show = show
        self._total = total
        self.known: dict[tuple[str, str], PodMigration] = {}
        """The migrations in their last state."""

    def show(self, migration: PodMigration) -> None:
        """Show a migration that has changed."""
        self.known[migration.namespace, migration.name] = migration
        text = describe_migration(migration)
        phases = [each.status.phase for each in self.known.values()]
        done, failed = phases.count(Phase.COMPLETED), phases.count(Phase.FAILED)
        tally = f"{done} of {self._total} moved" + (f", {failed} failed" if failed else "")
        self._show(text, text if self._total == 1 else f"{tally}; {text}")


def describe_migration(migration: PodMigration) -> str:
    """Describe the state of one migration in a line: `shop/web-0: AwaitReady: web-0-copy is not Ready on b yet`."""
    made = migration.status
    title = f"{migration.namespace}/{migration.spec.pod.name}"
    again = f" (attempt {made.attempts})" if made.attempts > 1 and not made.over else ""
    at = made.step or made.phase.value
    return f"{title}: {at}{again}" + (f": {made.message}" if made.message else "")
