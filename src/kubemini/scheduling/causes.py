"""What happens in a cluster that may let in a pod that was refused, as far as its refusal tells.

The scheduler reads causes off the changes, the queue looks up whom they may help. kube-scheduler calls the same thing
queueing hints: without them every pod that ends would have every pod that waits looked at again.
"""

from __future__ import annotations

from enum import Enum, auto

from kubemini.scheduling.ledger import Changes, KnownPod, PodChange
from kubemini.scheduling.reasons import FIXED, STORAGE
from kubemini.scheduling.unschedulable import EXTENDER


class Cause(Enum):
    """What may let in a pod that was refused."""

    NODES = auto()
    """A node came or changed."""
    GONE = auto()
    """A pod went, or shrank, or a reservation was given up."""
    CAME = auto()
    """A pod was placed, or has other labels: company for some, and evenness."""
    VOLUMES = auto()
    NAMESPACES = auto()

    def cures(self, rules: frozenset[str]) -> bool:
        """Whether a pod that these rules refused should be looked at again."""
        if EXTENDER in rules or self is Cause.NODES:
            return True
        match self:
            case Cause.GONE:
                return not rules <= FIXED
            case Cause.CAME:
                return bool(rules & {"PodAffinity", "PodTopologySpread"})
            case Cause.VOLUMES:
                return bool(rules & STORAGE)
            case _:
                return bool(rules & {"PodAffinity", "PodAntiAffinity"})


def causes_of(changes: Changes) -> set[Cause]:
    """All that these changes may be good for."""
    causes = {cause for change in changes.pods for cause in _of_pod(change)}
    if changes.nodes:
        causes.add(Cause.NODES)
    if changes.storage:
        causes.add(Cause.VOLUMES)
    if changes.namespaces:
        causes.add(Cause.NAMESPACES)
    return causes


def _of_pod(change: PodChange) -> list[Cause]:
    _, before, after = change
    causes = []
    held = _held_room(before)
    if held and (held != _held_room(after) or _counts_less(before, after)):
        causes.append(Cause.GONE)
    was_there = before is not None and before.placed
    if after is not None and after.placed and (before is None or not was_there or _relabelled(before, after)):
        causes.append(Cause.CAME)
    return causes


def _held_room(known: KnownPod | None) -> str:
    """The node on which a pod holds room, or reserves it."""
    if known is None:
        return ""
    return known.row.node if known.placed else known.nominated if known.waiting else ""


def _counts_less(before: KnownPod | None, after: KnownPod | None) -> bool:
    """Whether a pod that stays where it is may count less: pods on their way out are not spread any more."""
    if before is None or after is None or not before.placed:
        return False
    return before.row.deleting != after.row.deleting or before.row.held != after.row.held


def _relabelled(before: KnownPod, after: KnownPod) -> bool:
    return before.row.labels is not after.row.labels
