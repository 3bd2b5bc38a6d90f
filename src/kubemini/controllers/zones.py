"""How fast pods may be driven off nodes that are lost, zone by zone.

A node that is not ready is one thing; a whole zone of them looks more like a broken network, and driving all pods off
would make it worse. So, as in Kubernetes: one node of a zone every ten seconds; where more than half of a zone is lost,
hardly any or none; and when all nodes of all zones are lost, nobody is driven off at all. `node_lifecycle` asks before
it taints a node with NoExecute.
"""

from __future__ import annotations

from dataclasses import dataclass

Zone = tuple[str, str]
"""Region and zone."""

_SECONDS_BETWEEN = 10.0
_SECONDS_BETWEEN_IN_LARGE_BROKEN_ZONE = 100.0
_LARGE = 50
_BROKEN_SHARE = 0.55


@dataclass(frozen=True, slots=True)
class _Seen:
    zone: Zone
    ready: bool


class Zones:
    """The nodes of all zones, and how many of them are ready."""

    def __init__(self) -> None:
        self._nodes: dict[str, _Seen] = {}
        self._members: dict[Zone, set[str]] = {}
        self._lost: dict[Zone, int] = {}
        self._next: dict[Zone, float] = {}

    @property
    def all_lost(self) -> bool:
        """Whether there are nodes, and none of them is ready in any zone."""
        return bool(self._members) and all(self._lost[zone] == len(nodes) for zone, nodes in self._members.items())

    def note(self, node: str, zone: Zone, *, ready: bool | None) -> set[str]:
        """How a node is now (None: gone); the answer is which nodes another pace holds for from now on."""
        pace_before, all_lost_before = self._pace(zone), self.all_lost
        self._forget(node)
        if ready is not None:
            self._nodes[node] = _Seen(zone, ready)
            self._members.setdefault(zone, set()).add(node)
            self._lost[zone] = self._lost.get(zone, 0) + (not ready)
        if self.all_lost != all_lost_before:
            return set(self._nodes)
        return set(self._members.get(zone, ())) if self._pace(zone) != pace_before else set()

    def wait(self, zone: Zone, now: float) -> float | None:
        """In how many seconds a node of this zone may be tainted: 0 is now, None for as long as it stays like this."""
        pace = self._pace(zone)
        return None if pace is None else max(self._next.get(zone, now) - now, 0.0)

    def take(self, zone: Zone, now: float) -> None:
        """A node of this zone is tainted now: the next one has to wait."""
        self._next[zone] = now + (self._pace(zone) or 0.0)

    def _pace(self, zone: Zone) -> float | None:
        """The seconds between two nodes of a zone; None where none may be tainted."""
        size, lost = len(self._members.get(zone, ())), self._lost.get(zone, 0)
        if self.all_lost:
            return None
        if lost == size or lost <= 2 or lost / size < _BROKEN_SHARE:
            return _SECONDS_BETWEEN
        return _SECONDS_BETWEEN_IN_LARGE_BROKEN_ZONE if size > _LARGE else None

    def _forget(self, node: str) -> None:
        seen = self._nodes.pop(node, None)
        if seen is None:
            return
        self._members[seen.zone].discard(node)
        self._lost[seen.zone] -= not seen.ready
        if not self._members[seen.zone]:
            for known in (self._members, self._lost, self._next):
                known.pop(seen.zone, None)
