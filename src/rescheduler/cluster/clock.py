"""The API server's clock, as its answers tell it: what our times are compared with was stamped by it.

`client.py` shows it every answer. A clock that runs a little differently is normal, and on a machine without NTP it may
be minutes: then a pod would seem to have been Ready for longer than it was, or to be older than its own workload.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from email.utils import parsedate_to_datetime

_TICK = 1.0  # answers tell whole seconds


class ServerClock:
    """Our own clock, put right by as much as it is surely wrong."""

    def __init__(self, local: Callable[[], float] = time.time) -> None:
        self._local = local
        self.offset = 0.0
        """By how many seconds the server is ahead; 0 while the difference may be none."""

    def now(self) -> float:
        """The time there."""
        return self._local() + self.offset

    def hear(self, date: str | None, sent: float, received: float) -> None:
        """Take a `Date` header; `sent` and `received` are by our clock, and it was stamped between them."""
        if not date:
            return
        try:
            told = parsedate_to_datetime(date).timestamp()
        except ValueError:
            return  # whoever answers so is no API server, which others will find out
        least, most = told - received, told + _TICK - sent
        self.offset = least if least > 0 else min(most, 0.0)

    def local(self) -> float:
        """Our own time, for `sent` and `received`."""
        return self._local()
