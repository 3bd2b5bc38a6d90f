"""What nodes have room for, as their kubelets see it: a pod that was bound where it does not fit is turned away.

The scheduler sees to it that this hardly ever happens; it does for pods that were bound by hand, and when two bind at
a time. `kubelet` asks for each new pod, and says when one has ended. Pods of every importance are treated alike: real
kubelets would end others to admit a critical one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import ceil

from kubemini.pods import total_requests
from kubemini.refusals import Json
from rescheduler.model.quantity import amount

Amounts = Mapping[str, int]
"""CPU in thousandths, everything else in whole units."""

_FIRST = ("pods", "cpu", "memory", "ephemeral-storage")


@dataclass(frozen=True, slots=True)
class Shortage:
    """What a node has too little of."""

    resource: str
    requested: int
    used: int
    capacity: int

    @property
    def reason(self) -> str:
        """`OutOfcpu`, as the pod's status says it."""
        return f"OutOf{self.resource}"

    def __str__(self) -> str:
        return (
            f"Node didn't have enough resource: {self.resource}, "
            f"requested: {self.requested}, used: {self.used}, capacity: {self.capacity}"
        )


@dataclass(slots=True)
class _Room:
    used: dict[str, int] = field(default_factory=dict)
    held: dict[str, Amounts] = field(default_factory=dict)
    """What each pod that was admitted asked for, by its uid."""


class Rooms:
    """The room that is taken on all nodes."""

    def __init__(self) -> None:
        self._rooms: dict[str, _Room] = {}

    def holds(self, node: str, uid: str) -> bool:
        """Whether a pod was admitted to a node."""
        room = self._rooms.get(node)
        return room is not None and uid in room.held

    def shortage(self, node: str, allocatable: Amounts, asked: Amounts) -> Shortage | None:
        """What is missing for one more pod. Extended resources that the node does not know are not its business."""
        used = self._rooms.get(node, _Room()).used
        for name in (*_FIRST, *sorted(set(asked) - set(_FIRST))):
            wanted = asked.get(name, 0)
            if wanted and (name in _FIRST or name in allocatable):
                capacity = allocatable.get(name, 0)
                if used.get(name, 0) + wanted > capacity:
                    return Shortage(name, wanted, used.get(name, 0), capacity)
        return None

    def take(self, node: str, uid: str, asked: Amounts) -> None:
        """A pod has been admitted."""
        room = self._rooms.setdefault(node, _Room())
        room.held[uid] = asked
        for name, number in asked.items():
            room.used[name] = room.used.get(name, 0) + number

    def leave(self, node: str, uid: str) -> None:
        """A pod has ended, or is gone."""
        room = self._rooms.get(node)
        if room is None or uid not in room.held:
            return
        for name, number in room.held.pop(uid).items():
            room.used[name] -= number
        if not room.held:
            del self._rooms[node]


def asked_by(pod: Json) -> Amounts:
    """What a pod asks for, with the place that it takes itself."""
    totals = total_requests(pod["spec"])
    return {"pods": 1} | {name: ceil(value * (1000 if name == "cpu" else 1)) for name, value in totals.items() if value}


def allocatable_of(node: Json) -> Amounts:
    """What a node has for pods."""
    resources = node.get("status", {}).get("allocatable", {})
    return {name: amount(name, quantity) for name, quantity in resources.items()}
