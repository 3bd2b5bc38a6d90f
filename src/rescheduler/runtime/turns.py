"""Turns: work that must not be done twice at once waits for its turn, by key.

Migrations of one controller take turns, because a ReplicaSet that is handed two copies at once may delete the wrong
pods; evictions against one disruption budget do, because they would only conflict in the API server.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Hashable, Iterable
from contextlib import AsyncExitStack, asynccontextmanager


class Turns:
    """One lock a key, for as long as somebody holds or awaits it."""

    def __init__(self) -> None:
        self._locks: dict[Hashable, asyncio.Lock] = {}
        self._users: dict[Hashable, int] = {}

    @asynccontextmanager
    async def take(self, keys: Iterable[Hashable]) -> AsyncGenerator[None]:
        """Hold all these keys; they are taken in a fixed order, so that nobody waits for each other."""
        async with AsyncExitStack() as held:
            for key in sorted(set(keys), key=repr):
                await held.enter_async_context(self._one(key))
            yield

    @asynccontextmanager
    async def _one(self, key: Hashable) -> AsyncGenerator[None]:
        lock = self._locks.setdefault(key, asyncio.Lock())
        self._users[key] = self._users.get(key, 0) + 1
        try:
            async with lock:
                yield
        finally:
            self._users[key] -= 1
            if not self._users[key]:
                del self._users[key], self._locks[key]
