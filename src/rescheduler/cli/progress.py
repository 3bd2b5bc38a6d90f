"""How far reading has come, on stderr, when that is a terminal and reading takes longer than a moment.

Commands hand `advance` to the reader. Files are counted in bytes, a live cluster in objects, whose number is not known
beforehand.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from rich.progress import Progress

PATIENCE = 1.0
"""Seconds before anything is shown."""


@contextmanager
def reading(total: int | None, *, of_bytes: bool) -> Iterator[Callable[[int], None]]:
    """Gives what to call with each step; the display goes when the block ends."""
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
        """Take the line away again."""
        if self._shown is not None:
            self._shown.stop()

    def _show(self) -> Progress:
        # rich takes a while to import: whoever waits this long already doesn't mind.
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
