"""What the controller says in its log, heard by the demo: when it has planned, and what went wrong.

A handler of the standard library's logging, because everything that is logged goes there. It hands formatted lines on
to whoever wants to show them, and remembers when the last plan was made.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

Heard = Callable[[int, str], None]
"""Told the level and the line."""


class Hearing(logging.Handler):
    """Listens to all that is logged; `interval` is the time from plan to plan."""

    def __init__(self, interval: float, heard: Heard) -> None:
        super().__init__()
        self.planned: float | None = None
        """When the last plan was made, by the monotonic clock."""
        self.plans = 0
        self._interval = interval
        self._heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        """Take one line."""
        if isinstance(record.msg, dict) and record.msg.get("event") == "planned":
            self.planned = time.monotonic()
            self.plans += 1
        try:
            line = self.format(record)
        except Exception:  # noqa: BLE001 - as every handler does: a line that can't be written must not stop the work
            self.handleError(record)
            return
        self._heard(record.levelno, line)

    @property
    def next_plan(self) -> float | None:
        """In how many seconds the next plan is made; None before the first one."""
        if self.planned is None:
            return None
        return max(0.0, self.planned + self._interval - time.monotonic())
