"""Events do not stay: one that nobody has repeated for an hour is removed, as the API server's etcd would.

The events are kept in the order in which they were last written, so finding the old ones costs nothing.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable

from kubemini.api import Api, Target
from kubemini.kinds import CORE_EVENT, Kind
from kubemini.refusals import Refusal
from kubemini.store import Change, Key

HOUR = 3600.0
_ALL: Key = ("", "events")
_AT_ONCE = 500  # removed before others have their turn


class ExpiryController:
    """Removes old events."""

    name = "event-expiry"
    kinds: tuple[Kind, ...] = (CORE_EVENT,)

    def __init__(self, api: Api, lifetime: float = HOUR) -> None:
        self._api = api
        self._lifetime = lifetime
        self._written: OrderedDict[Key, float] = OrderedDict()

    def concerned(self, change: Change) -> Iterable[Key]:
        """Nothing for each of them: once the first is there, its time says when to look."""
        key = change.entry.key
        if change.type == "DELETED":
            self._written.pop(key, None)
            return ()
        first = not self._written
        self._written[key] = asyncio.get_running_loop().time()
        self._written.move_to_end(key)
        return (_ALL,) if first else ()

    async def reconcile(self, key: Key) -> float | None:
        """Remove those whose time is over; come back when the next one's is."""
        now = asyncio.get_running_loop().time()
        for _ in range(_AT_ONCE):
            if not self._written:
                return None
            oldest, written = next(iter(self._written.items()))
            if written + self._lifetime > now:
                return written + self._lifetime - now
            await self._remove(oldest)
            self._written.pop(oldest, None)
        return 0.0

    async def _remove(self, key: Key) -> None:
        try:
            await self._api.delete(Target(CORE_EVENT, *key))
        except Refusal as refusal:
            if refusal.code != 404:
                raise
