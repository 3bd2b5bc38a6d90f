"""What takes longer than the event loop may wait: done in turn, one piece at a time, for whoever still wants it.

Planning and explaining run in threads, which nobody can stop. So a request only waits for its piece of work, which has
a task of its own: if the client goes away, what has not begun is never begun, and what has begun ends by itself before
the next one does. However many ask, one thread is busy, and a bounded number waits.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from rescheduler.web.answers import Refusal

Found = TypeVar("Found")
Wanted = Callable[[], bool]
"""Whether somebody still waits for it."""
_MOST = 16


def always() -> bool:
    """Wanted, whoever has gone."""
    return True


class Thinking:
    """One lane of work."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[object]] = set()

    async def do(self, work: Callable[[], Awaitable[Found]], wanted: Wanted = always) -> Found:
        """Do it when its turn comes, and give what it found."""
        if len(self._tasks) >= self._most:
            raise Refusal(503, "too many ask at once for what takes time: try again", Retry_After="2")
        task = asyncio.create_task(self._in_turn(work, wanted))
        self._tasks.add(task)
        task.add_done_callback(self._over)
        return await asyncio.shield(task)

    async def end(self) -> None:
        """Begin nothing more. A thread that is busy ends by itself."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _in_turn(self, work: Callable[[], Awaitable[Found]], wanted: Wanted) -> Found:
        async with self._turn:
            if not wanted():
                raise Refusal(408, "nobody waits for it any more")
            return await work()

    def _over(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waits for it has it; if nobody does, it is no error
