"""Shows progress on stderr: of reading, if that is a terminal and reading takes long, and of migrations.

Commands pass `advance` to the reader. Files are counted in bytes, a live cluster in objects, whose number is unknown.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol

import click

from rescheduler.cli import messages
from rescheduler.cli.output.terminal import plain
from rescheduler.model.migration import Phase, PodMigration

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.progress import Progress

PATIENCE = 1.0
"""Seconds before anything is shown."""


@contextmanager
def show_bytes_read(total: int | None, *, of_bytes: bool) -> Iterator[Callable[[int], None]]:
    """Yield a function to call with each step; the display is removed when the block ends."""
    if not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield lambda step: None
        return
    display = _Display(total, of_bytes=of_bytes)
    try:
        yield display.advance
    finally:
        display.close()


class _Display:
    """A line that appears late."""

    def __init__(self, total: int | None, *, of_bytes: bool) -> None:
        self._total = total
        self._of_bytes = of_bytes
        self._started = time.monotonic()
        self._done = 0
        self._shown: Progress | None = None

    def advance(self, step: int) -> None:
        """Take a step into account."""
        self._done += step
        if self._shown is None and time.monotonic() - self._started > PATIENCE:
            self._shown = self._show()
        if self._shown is not None:
            self._shown.update(self._shown.task_ids[0], completed=self._done)

    def close(self) -> None:
        """Remove the line."""
        if self._shown is not None:
            self._shown.stop()

    def _show(self) -> Progress:
        # rich takes a while to import, which does not matter after such a wait.
        from rich.console import Console  # noqa: PLC0415 - as said above
        from rich.progress import (  # noqa: PLC0415 - the same
            BarColumn,
            DownloadColumn,
            Progress,
            TextColumn,
            TimeRemainingColumn,
        )

        counted = DownloadColumn() if self._of_bytes else TextColumn("{task.completed:.0f} objects")
        columns = [TextColumn("reading"), BarColumn(), counted, TimeRemainingColumn()]
        shown = Progress(*columns, console=Console(stderr=True), transient=True)
        shown.add_task("reading", total=self._total)
        shown.start()
        return shown


class ProgressLine(Protocol):
    """A line that shows progress."""

    def change(self, text: str) -> None:
        """Show an event, which gets a line of its own if there is no live line."""

    def state(self, text: str) -> None:
        """Show the current state in the live line."""


@contextmanager
def show_progress() -> Iterator[ProgressLine]:
    """Yield a line for progress, until the end of the block."""
    with warnings_as_messages():
        if sys.stderr.isatty() and os.environ.get("TERM") != "dumb":
            with _live() as line:
                yield line
        else:
            yield _Log()


class _Log:
    """Prints a line for each change."""

    def __init__(self) -> None:
        self._last = ""

    def change(self, text: str) -> None:
        if text != self._last:
            click.echo(plain(text), err=True)
        self._last = text

    def state(self, text: str) -> None:
        """Nothing: each change has its own line."""


@contextmanager
def _live() -> Iterator[ProgressLine]:
    # rich takes a while to import, which does not matter before a wait.
    from rich.console import Console  # noqa: PLC0415 - as said above
    from rich.markup import escape  # noqa: PLC0415 - the same
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn  # noqa: PLC0415 - the same

    columns = [SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn()]
    shown = Progress(*columns, console=Console(stderr=True), transient=True)
    task = shown.add_task("", total=None)

    class Live:
        def change(self, text: str) -> None:
            """Nothing: the live line shows the state."""

        def state(self, text: str) -> None:
            shown.update(task, description=escape(plain(text)))

    with shown:
        yield Live()


@contextmanager
def warnings_as_messages() -> Iterator[None]:
    """Show logged warnings of the block as warnings of the command."""
    from rescheduler.runtime.logs import forward_warnings  # noqa: PLC0415 - it takes a while to import

    with forward_warnings(lambda text: messages.warn([text])):
        yield


class MigrationProgress:
    """Shows the progress of migrations."""

    def __init__(self, line: ProgressLine, total: int) -> None:
        self._line = line
        self._total = total
        self.known: dict[tuple[str, str], PodMigration] = {}
        """The migrations in their last state."""

    def show(self, migration: PodMigration) -> None:
        """Show a migration that has changed."""
        self.known[migration.namespace, migration.name] = migration
        text = describe_migration(migration)
        self._line.change(text)
        self._line.state(text if self._total == 1 else f"{self._tally()}; {text}")

    def _tally(self) -> str:
        phases = [each.status.phase for each in self.known.values()]
        done, failed = phases.count(Phase.COMPLETED), phases.count(Phase.FAILED)
        return f"{done} of {self._total} moved" + (f", {failed} failed" if failed else "")


def describe_migration(migration: PodMigration) -> str:
    """Describe the state of one migration in a line: `shop/web-0: AwaitReady: web-0-copy is not Ready on b yet`."""
    made = migration.status
    title = f"{migration.namespace}/{migration.spec.pod.name}"
    again = f" (attempt {made.attempts})" if made.attempts > 1 and not made.over else ""
    at = made.step or made.phase.value
    return f"{title}: {at}{again}" + (f": {made.message}" if made.message else "")
