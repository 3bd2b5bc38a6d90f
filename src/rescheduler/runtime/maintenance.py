"""Keeps nodes cordoned that are labelled for maintenance, and takes our cordons down when the label goes.

A loop of the leader calls `keep` at short intervals and after node events; `cleanup` calls `release`. The cache only
tells which nodes to look at: each is read anew before anything is done, so calling it again does no harm.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import structlog

from rescheduler.decode.cache import Cache
from rescheduler.kube.errors import ClusterError
from rescheduler.migration import cordons
from rescheduler.migration.commands import Command, Json
from rescheduler.migration.observation import Refused, labels_of
from rescheduler.model.selector import Labels

_log = structlog.stdlib.get_logger(__name__)
_OVERTAKEN = frozenset({404, 409})


class Finder(Protocol):
    """Who reads single objects, as they are now."""

    async def find(self, kind: str, namespace: str, name: str) -> Json | None: ...


class Writer(Protocol):
    """Who acts."""

    async def carry_out(self, command: Command) -> Refused | None: ...


class Cordons:
    """The cordons of one cluster. Unless `cordons` says so of a node's labels none is put up: nobody would empty it.

    `tell` hears of each that was changed.
    """

    def __init__(
        self,
        cache: Cache,
        finder: Finder,
        writer: Writer,
        *,
        cordons: Callable[[Labels], bool],
        tell: Callable[[Command], None] = lambda _: None,
    ) -> None:
        self._cache = cache
        self._finder = finder
        self._writer = writer
        self._cordons = cordons
        self._tell = tell

    async def keep(self, now: float) -> int:
        """Put up and take down what is to be; how many were changed."""
        rows = self._cache.rows("Node")
        names = [row.name for row in rows if cordons.is_candidate(row, cordons=self._cordons(row.labels))]
        return await self._each(names, lambda node: cordons.kept(node, now, cordons=self._cordons(labels_of(node))))

    async def release(self) -> int:
        """Take all of ours down, also where the label still is; how many there were."""
        names = [row.name for row in self._cache.rows("Node") if row.cordoned]
        return await self._each(names, cordons.released)

    async def _each(self, names: list[str], decide: Callable[[Json], Command | None]) -> int:
        """Decide on the live nodes, one by one; a node that cannot be changed now does not hold up the others."""
        changed = 0
        for name in sorted(names):
            try:
                changed += await self._one(name, decide)
            except ClusterError as error:
                _log.warning("the cordon of a node could not be looked after; tried again", node=name, why=str(error))
        return changed

    async def _one(self, name: str, decide: Callable[[Json], Command | None]) -> bool:
        node = await self._finder.find("Node", "", name)
        command = decide(node) if node is not None else None
        if command is None:
            return False
        refused = await self._writer.carry_out(command)
        if refused is None:
            _log.info(command.why, node=name)
            self._tell(command)
        elif refused.code not in _OVERTAKEN:  # somebody was faster: looked at again by the next call
            _log.warning("the cordon of a node was refused", node=name, command=str(command), why=refused.message)
        return refused is None
