"""How the demo's cluster looks at any moment: each node's use, what moves, and what has moved.

It hears of every change of the embedded store and reads it with the product's own reader, so that what it shows is
what planning reckons with; each change costs what has changed, whatever the size of the cluster.
"""

from __future__ import annotations

import statistics
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from kubemini.kinds import NODE, POD
from kubemini.store import Change, Store
from rescheduler.cluster.cache import Cache
from rescheduler.cluster.journal_format import JournalError, decoded
from rescheduler.model.migration import Migration, Phase
from rescheduler.model.objects import Node, Pod
from rescheduler.model.plan import NodeLoad, Picture, Spreading
from rescheduler.model.policy import Thresholds

_MIGRATIONS = "podmigrations.rescheduler.io"
_SHOWN_DONE = 5
_NOTHING = Spreading(0.0, 0.0, 0.0, 0.0)


@dataclass(slots=True)
class _Use:
    """What pods hold on a node."""

    cpu: int = 0
    memory: int = 0
    pods: int = 0


class Scenery:
    """Follows one store, until `close`."""

    def __init__(self, store: Store, thresholds: Thresholds) -> None:
        self.thresholds = thresholds
        self.before: Picture | None = None
        """How things stood when the controller began."""
        self.migrations: dict[tuple[str, str], Migration] = {}
        self.completed: set[str] = set()
        """The migrations that ever were: by UID, because those that are long over are deleted."""
        self.failed: set[str] = set()
        self.lately: deque[Migration] = deque(maxlen=_SHOWN_DONE)
        """Those that were over last, the newest last."""
        self._cache = Cache("the demo")
        self._held: dict[tuple[str, str], tuple[str, int, int]] = {}
        self._uses: dict[str, _Use] = {}
        self.close: Callable[[], None] = store.subscribe(self._heard)

    def nodes(self) -> list[Node]:
        """All nodes, in the order in which people count them."""
        return sorted(self._cache.rows("Node"), key=lambda node: natural(node.name))

    def node(self, name: str) -> Node | None:
        """One node."""
        found: Node | None = self._cache.row("Node", name)
        return found

    def pods(self) -> list[Pod]:
        """All pods."""
        return self._cache.rows("Pod")

    def pods_on(self, node: str) -> list[Pod]:
        """Those on a node that have not ended."""
        return [pod for pod in self.pods() if pod.node == node and not pod.finished]

    def active(self) -> list[Migration]:
        """The migrations that are not over, those under way first."""
        found = [each for each in self.migrations.values() if not each.progress.over]
        return sorted(found, key=lambda each: (each.progress.phase is Phase.PENDING, each.created or 0.0, each.name))

    def picture(self) -> Picture:
        """How the nodes stand now."""
        loads = tuple(self._load(node) for node in self.nodes())
        return Picture(
            cpu=_spreading([load.cpu for load in loads]),
            memory=_spreading([load.memory for load in loads]),
            hot_nodes=sum(bool(load.over) for load in loads),
            loads=loads,
        )

    def gap(self) -> float:
        """Points between the most and the least used of the nodes that take pods; the wider of CPU and memory."""
        loads = [self._load(node) for node in self.nodes() if node.ready and not node.unschedulable]
        found = ([load.cpu for load in loads], [load.memory for load in loads])
        return max((max(each) - min(each) for each in found if each), default=0.0)

    def _load(self, node: Node) -> NodeLoad:
        use, room = self._uses.get(node.name, _Use()), dict(node.allocatable)
        cpu = use.cpu * 100.0 / max(room.get("cpu", 0), 1)
        memory = use.memory * 100.0 / max(room.get("memory", 0), 1)
        limits = (("cpu", cpu, self.thresholds.cpu), ("memory", memory, self.thresholds.memory))
        over = tuple(name for name, share, limit in limits if share > limit)
        return NodeLoad(node.name, round(cpu, 2), round(memory, 2), use.pods, over)

    def _heard(self, change: Change) -> None:
        if change.kind.resource == POD.resource:
            self._take("Pod", change)
            self._reckon(change.entry.key)
        elif change.kind.resource == NODE.resource:
            self._take("Node", change)
        elif change.kind.stored_as == _MIGRATIONS:
            self._moved(change)

    def _take(self, kind: str, change: Change) -> None:
        if change.type == "DELETED":
            self._cache.drop(kind, change.entry.key if kind == "Pod" else change.entry.key[1])
        else:
            self._cache.put(kind, change.entry.raw)

    def _reckon(self, key: tuple[str, str]) -> None:
        """Take a pod out of its node's use, and into it as it is now."""
        for sign, held in ((-1, self._held.pop(key, None)), (1, self._holds(key))):
            if held is None:
                continue
            node, cpu, memory = held
            use = self._uses.setdefault(node, _Use())
            use.cpu, use.memory, use.pods = use.cpu + sign * cpu, use.memory + sign * memory, use.pods + sign
            if sign > 0:
                self._held[key] = held

    def _holds(self, key: tuple[str, str]) -> tuple[str, int, int] | None:
        pod: Pod | None = self._cache.row("Pod", key)
        if pod is None or not pod.node or pod.finished:
            return None
        held = dict(pod.held)
        return pod.node, held.get("cpu", 0), held.get("memory", 0)

    def _moved(self, change: Change) -> None:
        key = change.entry.key
        if change.type == "DELETED":
            self.migrations.pop(key, None)
            return
        try:
            migration = decoded(change.entry.object())
        except JournalError:  # somebody's own, that makes no sense; the controller tells of it
            return
        known = self.migrations.get(key)
        self.migrations[key] = migration
        if migration.progress.over and (known is None or not known.progress.over):
            done = migration.progress.phase is Phase.COMPLETED
            (self.completed if done else self.failed).add(migration.uid)
            self.lately.append(migration)


def natural(name: str) -> tuple[str, int]:
    """`node-10` comes after `node-9`."""
    stem, _, number = name.rpartition("-")
    return (stem, int(number)) if number.isdecimal() else (name, -1)


def _spreading(percent: Iterable[float]) -> Spreading:
    numbers = list(percent)
    if not numbers:
        return _NOTHING
    found = (max(numbers), min(numbers), statistics.fmean(numbers), statistics.pstdev(numbers))
    return Spreading(*(round(number, 2) for number in found))
