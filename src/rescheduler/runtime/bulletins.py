"""Tells people what happens, beside the work: no step and no deletion waits for an Event to be written.

The logbook hands over what each migration has to tell, the recovery loop what each decision has. Decisions repeat
themselves (a pod that a guard protects is refused at every look), so what was told already is not told again, nor
logged. What is still untold at the end is told then; after a crash it is lost, as Events may be.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Iterable
from typing import Protocol

from rescheduler.migration.news import News, Subject

_MOST = 10_000  # news that nobody could be told for so long; and those that are remembered as told


class Teller(Protocol):
    """Who tells people."""

    async def tell(self, news: Iterable[News]) -> None: ...


class Bulletins:
    """News that are to be told, in order, each once."""

    def __init__(self, teller: Teller) -> None:
        self._teller = teller
        self._untold: deque[list[News]] = deque(maxlen=_MOST)
        self._known: OrderedDict[tuple[Subject, str, str], None] = OrderedDict()
        self._some = asyncio.Event()

    def hear(self, news: Iterable[News]) -> list[News]:
        """Take note of what is new, and say what that is."""
        fresh = [each for each in news if self._is_fresh(each)]
        if fresh:
            self._untold.append(fresh)
            self._some.set()
        return fresh

    async def run(self) -> None:
        """Tell until cancelled."""
        while True:
            await self._some.wait()
            self._some.clear()
            await self.flush()

    async def flush(self) -> None:
        """Tell what is there to tell."""
        while self._untold:
            await self._teller.tell(self._untold[0])
            self._untold.popleft()

    def _is_fresh(self, news: News) -> bool:
        key = (news.regarding, news.reason, news.occasion)
        is_known = key in self._known
        self._known[key] = None
        self._known.move_to_end(key)
        if len(self._known) > _MOST:
            self._known.popitem(last=False)
        return not is_known
