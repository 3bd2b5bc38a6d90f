"""Cordons of nodes under maintenance: which of them are to be put up or taken down, and only ours.

`runtime.maintenance` asks for each node that its row makes a candidate, and gives the node as it is now. A note on the
node tells that the cordon is ours; a cordon without it is somebody else's, whatever the node's labels say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

import structlog

from rescheduler.decode.cache import ClusterCache
from rescheduler.kube.errors import ClusterError
from rescheduler.migration import commands
from rescheduler.migration.commands import Command
from rescheduler.migration.observation import FailedCommand, is_terminating, labels_of
from rescheduler.model import labels
from rescheduler.model.json import Json, annotations_of
from rescheduler.model.objects import Node
from rescheduler.model.selector import Labels
from rescheduler.model.time import format_instant


def is_candidate(row: Node, *, cordons: bool) -> bool:
    """Whether something may be to do about a node, as far as its row tells: cheap, for all nodes every second."""
    if row.maintenance:
        return cordons and not row.unschedulable and not row.deleting
    return row.cordoned


def cordon_command(node: Json, now: float, *, cordons: bool) -> Command | None:
    """What keeps the node as its label wants it; without `cordons` nothing is put up, but ours are still taken down."""
    if labels_of(node).get(labels.MAINTENANCE) != "true":
        return uncordon_command(node)
    if not cordons or _is_closed(node) or is_terminating(node):
        return None
    note = {labels.CORDONED: format_instant(now)}
    return _changed(node, note, {"unschedulable": True}, "cordon it: it is under maintenance")


def uncordon_command(node: Json) -> Command | None:
    """What takes our cordon down; where somebody has done so already, only the note goes."""
    if labels.CORDONED not in annotations_of(node):
        return None
    spec = {"unschedulable": None} if _is_closed(node) else {}
    return _changed(node, {labels.CORDONED: None}, spec, "take our cordon down")


def _is_closed(node: Json) -> bool:
    return bool(node["spec"].get("unschedulable"))


def _changed(node: Json, notes: Json, spec: Json, why: str) -> Command:
    # Only as it was seen: if somebody cordons or labels it meanwhile, all is decided anew.
    changes: Json = {"metadata": {"annotations": notes, "resourceVersion": node["metadata"]["resourceVersion"]}}
    if spec:
        changes["spec"] = spec
    return commands.patch(node, changes, why)


_log = structlog.stdlib.get_logger(__name__)
_OVERTAKEN = frozenset({404, 409})


class Finder(Protocol):
    """Who reads single objects, as they are now."""

    async def find(self, kind: str, namespace: str, name: str) -> Json | None: ...


class Writer(Protocol):
    """Who acts."""

    async def carry_out(self, command: Command) -> FailedCommand | None: ...


class CordonController:
    """The cordons of one cluster. Unless `cordoned` says so of a node's labels none is put up: nobody would empty it.

    `tell` hears of each that was changed.
    """

    def __init__(
        self,
        cache: ClusterCache,
        finder: Finder,
        writer: Writer,
        *,
        cordoned: Callable[[Labels], bool],
        tell: Callable[[Command], None] = lambda _: None,
    ) -> None:
        self._cache = cache
        self._finder = finder
        self._writer = writer
        self._cordons = cordoned
        self._tell = tell

    async def reconcile(self, now: float) -> int:
        """Put up and take down what is to be; how many were changed."""
        rows = self._cache.rows("Node")
        names = [row.name for row in rows if is_candidate(row, cordons=self._cordons(row.labels))]
        return await self._each(names, lambda node: cordon_command(node, now, cordons=self._cordons(labels_of(node))))

    async def remove_all(self) -> int:
        """Take all of ours down, also where the label still is; how many there were."""
        names = [row.name for row in self._cache.rows("Node") if row.cordoned]
        return await self._each(names, uncordon_command)

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
