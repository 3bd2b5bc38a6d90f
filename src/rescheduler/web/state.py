"""The migrations as the page shows them: the steps that each has been seen to take, and which nodes they touch.

It listens to the board. Steps follow each other within milliseconds, and an object tells only the one it is in, so what
was seen here is kept for as long as the migration itself is; another replica may have seen more, or less.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from rescheduler.config.live import LiveConfig
from rescheduler.decode.cache import ClusterCache
from rescheduler.kube.pause_state import PauseDetails
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import Phase, PodMigration
from rescheduler.model.plan import ClusterLoad
from rescheduler.runtime.migration_cache import MigrationCache
from rescheduler.web.node_stats import NodeFlag, NodeStatsTracker, UsageRefresher
from rescheduler.web.plans import PlanCache

EVERY = 5.0
"""Seconds between samples."""


_TIERS = ((240, EVERY), (240, 60.0), (240, 900.0))  # how many, and how far apart in seconds


@dataclass(frozen=True, slots=True)
class SpreadSample:
    """The spread at one time, and how many migrations had been completed."""

    time: float
    spread: ClusterLoad
    completed: int


class SpreadHistory:
    """All that are kept: 720 at most, of 20 minutes, 4 hours and 2.5 days."""

    def __init__(self) -> None:
        self._tiers: list[deque[SpreadSample]] = [deque() for _ in _TIERS]

    def add(self, sample: SpreadSample) -> None:
        """Keep one more."""
        for tier, (most, apart) in zip(self._tiers, _TIERS, strict=True):
            if tier and 0 <= sample.time - tier[-1].time < apart * 0.9:  # timers are not that exact
                return
            tier.append(sample)
            if len(tier) <= most:
                return
            sample = tier.popleft()

    def all(self) -> Iterator[SpreadSample]:
        """The oldest first."""
        for tier in reversed(self._tiers):
            yield from tier

    @property
    def last(self) -> SpreadSample | None:
        """The newest."""
        return self._tiers[0][-1] if self._tiers[0] else None


_SOURCE, _TARGET = NodeFlag.SOURCE.value, NodeFlag.TARGET.value
_MOST_STEPS = 100  # of one migration: three attempts of the longest method have fewer


class StepStart(NamedTuple):
    """A step, and when it began."""

    step: str
    time: float


class _Route(NamedTuple):
    source: str
    target: str


_NOWHERE = _Route("", "")


class MigrationTracker:
    """What is remembered of every migration on the board."""

    def __init__(self, board: MigrationCache, now: Callable[[], float], touch: Callable[[str], None]) -> None:
        self._board = board
        self._now = now
        self._touch = touch
        self._history: dict[ObjectKey, list[StepStart]] = {}
        self._phases: dict[ObjectKey, Phase] = {}
        self._ways: dict[ObjectKey, _Route] = {}
        self._sources: Counter[str] = Counter()
        self._targets: Counter[str] = Counter()
        self.completed = 0
        """How many have been seen completed, those that were cleaned up since included."""
        self.changed: dict[ObjectKey, None] = {}
        """Those that have changed or gone, in order; whoever tells others of them clears it."""
        for each in board.all():
            self._hear((each.namespace, each.name), ours=False)
        board.listen(lambda key, ours: self._hear(key, ours=ours))

    def history(self, key: ObjectKey) -> tuple[StepStart, ...]:
        """The steps that a migration was seen in, oldest first."""
        return tuple(self._history.get(key, ()))

    def flags_of(self, node: str) -> int:
        """Whether a move that is under way leaves or reaches this node, as bits of its state."""
        return (_SOURCE if node in self._sources else 0) + (_TARGET if node in self._targets else 0)

    def nodes(self) -> set[str]:
        """The nodes that moves under way leave or reach."""
        return {*self._sources, *self._targets}

    def awaiting(self) -> list[PodMigration]:
        """Those that wait until somebody approves of them, oldest first."""
        found = [each for each in self._board.active() if each.awaits_approval]
        return sorted(found, key=lambda each: (each.created or 0.0, each.namespace, each.name))

    def _hear(self, key: ObjectKey, *, ours: bool) -> None:
        migration = self._board.get(key)
        self.changed[key] = None
        self._go(key, _way(migration))
        if migration is None:
            self._history.pop(key, None)
            self._phases.pop(key, None)
            return
        phase = migration.progress.phase
        if phase is Phase.COMPLETED and self._phases.get(key) is not phase:
            self.completed += 1
        self._phases[key] = phase
        self._note(key, migration)

    def _note(self, key: ObjectKey, migration: PodMigration) -> None:
        """Keep the step that it is in, unless it is the one that was kept last."""
        progress = migration.progress
        if not progress.step:
            return
        began = progress.step_started if progress.step_started is not None else self._now()
        passed, known = StepStart(progress.step, began), self._history.setdefault(key, [])
        if not known or known[-1] != passed:
            if known and known[-1].step == passed.step and progress.step_started is None:
                return  # nobody tells when it began: it is the same one
            known.append(passed)
            del known[:-_MOST_STEPS]

    def _go(self, key: ObjectKey, way: _Route) -> None:
        before = self._ways.pop(key, _NOWHERE)
        if way != _NOWHERE:
            self._ways[key] = way
        if before == way:
            return
        for counter, old, new in (
            (self._sources, before.source, way.source),
            (self._targets, before.target, way.target),
        ):
            counter[old] -= 1
            counter[new] += 1
            for name in {old, new}:
                if counter[name] <= 0 or not name:
                    del counter[name]
                if name:
                    self._touch(name)


def _way(migration: PodMigration | None) -> _Route:
    if migration is None or migration.progress.phase is not Phase.IN_PROGRESS:
        return _NOWHERE
    return _Route(migration.progress.source, migration.progress.target)


@dataclass(frozen=True, slots=True)
class ComponentHealth:
    """How one part is: a kind that is watched, the leader, a server of ours."""

    name: str
    why: str = ""
    """Why it is not fine; empty when it is."""
    count: int | None = None
    lag: float | None = None
    """Seconds since its last sign of life."""


@dataclass(frozen=True, slots=True)
class UsageStatus:
    """How it stands with what is measured."""

    last: float | None = None
    """When it was measured last; None where it never was."""
    failure: str = ""
    """Why it is not measured now; empty when it is."""


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """Who we are among the replicas."""

    identity: str
    leading: Callable[[], bool]
    leader: Callable[[], str]


@dataclass(frozen=True, slots=True)
class PageState:
    """What there is to show."""

    cluster: str
    """Where we are connected to, in words."""
    live_config: LiveConfig
    replica: ReplicaInfo
    cache: ClusterCache
    board: MigrationCache
    loads: NodeStatsTracker
    moves: MigrationTracker
    plans: PlanCache
    now: Callable[[], float]
    paused: Callable[[], PauseDetails | None]
    health: Callable[[], Sequence[ComponentHealth]]
    measuring: UsageRefresher
    usage: Callable[[], UsageStatus]
    local: bool = False
    """Whether this server takes actions from this machine without a token."""
    samples: SpreadHistory = field(default_factory=SpreadHistory)
