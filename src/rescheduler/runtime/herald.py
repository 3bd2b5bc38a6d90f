"""Tells people what migrations did, beside the work: no step waits for an Event to be written.

The logbook hands it every change; a loop of the leader tells what is news. What is still untold at the end is told
then; after a crash it is lost, as Events may be.
"""

from __future__ import annotations

import asyncio
from collections import deque

from rescheduler.cluster.events import Recorder
from rescheduler.migration.news import News, news
from rescheduler.model.migration import Migration

_MOST = 10_000  # what nobody could be told for so long is old


class Herald:
    """News that are to be told, in order."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._untold: deque[tuple[News, ...]] = deque(maxlen=_MOST)
        self._some = asyncio.Event()

    def hear(self, before: Migration, after: Migration) -> None:
        """Take note of a change."""
        if found := news(before, after):
            self._untold.append(found)
            self._some.set()

    async def run(self) -> None:
        """Tell until cancelled."""
        while True:
            await self._some.wait()
            self._some.clear()
            await self.flush()

    async def flush(self) -> None:
        """Tell what is there to tell."""
        while self._untold:
            await self._recorder.tell(self._untold[0])
            self._untold.popleft()
