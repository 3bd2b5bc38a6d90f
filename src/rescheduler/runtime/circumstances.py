"""What the runtime itself knows and a look at the cluster does not tell: how new pods are led, and who else is moving.

The migrator looks through it; the board knows the migrations, the composition root whether our webhook is asked.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

from rescheduler.migration.observation import Observation, Part, Steered
from rescheduler.model.migration import Migration, Phase
from rescheduler.runtime.board import Board


class Observer(Protocol):
    """Who looks at the cluster."""

    async def look(self, migration: Migration, parts: frozenset[Part]) -> Observation: ...


@dataclass(frozen=True, slots=True)
class Circumstances:
    """An observer that adds what the runtime knows."""

    observer: Observer
    board: Board
    steered: Callable[[str], Steered]
    """How it is done in a namespace: the API server does not ask about all of them."""

    async def look(self, migration: Migration, parts: frozenset[Part]) -> Observation:
        """Look, and add what is known as of after it."""
        seen = await self.observer.look(migration, parts)
        return replace(seen, steered=self.steered(migration.namespace), rivals=self._rivals(migration))

    def _rivals(self, migration: Migration) -> tuple[Migration, ...]:
        controller = migration.progress.controller
        if controller is None:
            return ()
        mine = (migration.namespace, migration.name)
        found = (self.board.get(key) for key in sorted(self.board.of_owner(controller.uid)) if key != mine)
        return tuple(
            each
            for each in found
            if each is not None
            and each.progress.phase is Phase.IN_PROGRESS
            and each.progress.controller is not None
            and each.progress.controller.uid == controller.uid
        )
