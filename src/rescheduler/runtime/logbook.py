"""The journal as the loops use it: what is stored is on the board at once, and people are told what happened.

It has the journal's own interface, so that the migrator knows nothing of the board and of Events.
"""

from __future__ import annotations

from collections.abc import Callable

from rescheduler.kube.migrations import Journal
from rescheduler.model.migration import Migration, Progress
from rescheduler.runtime.board import Board

Tell = Callable[[Migration, Migration], None]
"""Told a migration as it was and as it is."""


class Logbook:
    """A journal that tells."""

    def __init__(self, journal: Journal, board: Board, tell: Tell) -> None:
        self._journal = journal
        self._board = board
        self._tell = tell

    async def add(self, migration: Migration) -> Migration:
        """Store a new migration."""
        added = await self._journal.add(migration)
        self._board.put(added)  # whoever carries migrations out hears of it here
        return added

    async def read(self, namespace: str, name: str) -> Migration | None:
        """A migration as it is now."""
        found = await self._journal.read(namespace, name)
        if found is None:
            self._board.drop((namespace, name))
        return found

    async def store(self, migration: Migration, progress: Progress) -> Migration:
        """Record progress, then tell of it."""
        stored = await self._journal.store(migration, progress)
        self._board.put(stored, ours=True)
        self._tell(migration, stored)
        return stored
