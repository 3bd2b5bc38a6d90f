"""Cordons of nodes under maintenance: which of them are to be put up or taken down, and only ours.

`runtime.maintenance` asks for each node that its row makes a candidate, and gives the node as it is now. A note on the
node tells that the cordon is ours; a cordon without it is somebody else's, whatever the node's labels say.
"""

from __future__ import annotations

from rescheduler.migration import commands
from rescheduler.migration.commands import Command, Json
from rescheduler.migration.observation import is_leaving, labels_of, notes_of
from rescheduler.model import marks
from rescheduler.model.instant import format_instant
from rescheduler.model.objects import Node


def is_candidate(row: Node, *, cordons: bool) -> bool:
    """Whether something may be to do about a node, as far as its row tells: cheap, for all nodes every second."""
    if row.maintenance:
        return cordons and not row.unschedulable and not row.deleting
    return row.cordoned


def kept(node: Json, now: float, *, cordons: bool) -> Command | None:
    """What keeps the node as its label wants it; without `cordons` nothing is put up, but ours are still taken down."""
    if labels_of(node).get(marks.MAINTENANCE) != "true":
        return released(node)
    if not cordons or _is_closed(node) or is_leaving(node):
        return None
    note = {marks.CORDONED: format_instant(now)}
    return _changed(node, note, {"unschedulable": True}, "cordon it: it is under maintenance")


def released(node: Json) -> Command | None:
    """What takes our cordon down; where somebody has done so already, only the note goes."""
    if marks.CORDONED not in notes_of(node):
        return None
    spec = {"unschedulable": None} if _is_closed(node) else {}
    return _changed(node, {marks.CORDONED: None}, spec, "take our cordon down")


def _is_closed(node: Json) -> bool:
    return bool(node["spec"].get("unschedulable"))


def _changed(node: Json, notes: Json, spec: Json, why: str) -> Command:
    # Only as it was seen: if somebody cordons or labels it meanwhile, all is decided anew.
    changes: Json = {"metadata": {"annotations": notes, "resourceVersion": node["metadata"]["resourceVersion"]}}
    if spec:
        changes["spec"] = spec
    return commands.patch(node, changes, why)
