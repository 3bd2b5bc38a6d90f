"""Cordons nodes under maintenance, and uncordons them afterwards.

An annotation marks our cordons. A cordon without it was made by others and is never removed. The cached row of a node
shows whether it is a candidate; the decision is made on the node as it is now.
"""

from __future__ import annotations

from collections.abc import Callable

import structlog

from rescheduler.decode.cache import ClusterCache
from rescheduler.kube.errors import ClusterError
from rescheduler.kube.objects import CommandSender
from rescheduler.kube.observer import MigrationObserver
from rescheduler.migration import commands
from rescheduler.migration.commands import Command
from rescheduler.migration.observation import is_terminating, labels_of
from rescheduler.model import labels
from rescheduler.model.json import Json, annotations_of
from rescheduler.model.objects import Node
from rescheduler.model.selector import Labels
from rescheduler.model.time import format_instant

_log = structlog.stdlib.get_logger(__name__)
_OVERTAKEN = frozenset({404, 409})


def is_candidate(row: Node, *, cordons: bool) -> bool:
    """Whether a node may need a change, by its row: cheap, because it runs for all nodes."""
    if row.maintenance:
        return cordons and not row.unschedulable and not row.deleting
    return row.cordoned


def cordon_command(node: Json, now: float, *, cordons: bool) -> Command | None:
    """The command that makes the cordon match the label; without `cordons` no cordon is added, but ours are removed."""
    if labels_of(node).get(labels.MAINTENANCE) != "true":
        return uncordon_command(node)
    if not cordons or _is_closed(node) or is_terminating(node):
        return None
    note = {labels.CORDONED: format_instant(now)}
    return _make_patch(node, note, {"unschedulable": True}, "cordon it: it is under maintenance")


def uncordon_command(node: Json) -> Command | None:
    """The command that removes our cordon; if the node was uncordoned already, only the annotation."""
    if labels.CORDONED not in annotations_of(node):
        return None
    spec = {"unschedulable": None} if _is_closed(node) else {}
    return _make_patch(node, {labels.CORDONED: None}, spec, "take our cordon down")


def _is_closed(node: Json) -> bool:
    return bool(node["spec"].get("unschedulable"))


def _make_patch(node: Json, notes: Json, spec: Json, why: str) -> Command:
    # Only as it was read: after a concurrent change, everything is decided again.
    changes: Json = {"metadata": {"annotations": notes, "resourceVersion": node["metadata"]["resourceVersion"]}}
    if spec:
        changes["spec"] = spec
    return commands.patch(node, changes, why)


class CordonController:
    """Reconciles the cordons of a cluster.

    `should_cordon` says by a node's labels whether a strategy empties it; other nodes are not cordoned. `tell` is
    called with each command that was done.
    """

    def __init__(
        self,
        cache: ClusterCache,
        observer: MigrationObserver,
        sender: CommandSender,
        *,
        should_cordon: Callable[[Labels], bool],
        tell: Callable[[Command], None] = lambda _: None,
    ) -> None:
        self._cache = cache
        self._observer = observer
        self._sender = sender
        self._should_cordon = should_cordon
        self._tell = tell

    async def reconcile(self, now: float) -> int:
        """Cordon and uncordon nodes as needed; return the number of changes."""
        rows = self._cache.rows("Node")
        names = [row.name for row in rows if is_candidate(row, cordons=self._should_cordon(row.labels))]
        return await self._each(
            names, lambda node: cordon_command(node, now, cordons=self._should_cordon(labels_of(node)))
        )

    async def remove_all(self) -> int:
        """Remove all our cordons, also from nodes that are still labelled; return their number."""
        names = [row.name for row in self._cache.rows("Node") if row.cordoned]
        return await self._each(names, uncordon_command)

    async def _each(self, names: list[str], decide: Callable[[Json], Command | None]) -> int:
        """Change the nodes one by one; an error with one node does not stop the others."""
        changed = 0
        for name in sorted(names):
            try:
                node = await self._observer.find("Node", "", name)
                command = decide(node) if node is not None else None
                refused = await self._sender.carry_out(command) if command is not None else None
            except ClusterError as error:
                _log.warning("cordon not reconciled, retrying", node=name, why=str(error))
                continue
            if command is not None and refused is None:
                changed += 1
                _log.info("cordon changed", node=name, change=command.why)
                self._tell(command)
            elif refused is not None and refused.code not in _OVERTAKEN:  # else the next run reads it again
                _log.warning("command refused", node=name, command=str(command), why=refused.message)
        return changed
