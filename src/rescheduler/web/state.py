"""What the page shows: the parts of the controller, and what is remembered for the page only.

`SpreadHistory` keeps samples of the spread for days, `MigrationTracker` the steps of each migration. Both are in
memory, so another replica may have seen more, or less.
"""

from __future__ import annotations

from collections import deque
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
from rescheduler.runtime.usage_poller import UsagePoller
from rescheduler.web.node_stats import NodeFlag, NodeStatsTracker, UsageRefresher
from rescheduler.web.plans import PlanCache

EVERY = 5.0
"""Seconds between samples."""
_TIERS = ((240, EVERY), (240, 60.0), (240, 900.0))  # how many samples, and how many seconds apart
_MOST_STEPS = 100  # of one migration: three attempts of the longest method have fewer


@dataclass(frozen=True, slots=True)
class SpreadSample:
    """The spread at one time, and how many migrations had been completed."""

    time: float
    spread: ClusterLoad
    completed: int


class SpreadHistory:
    """Samples of 20 minutes, 4 hours and 2.5 days, further apart the older they are; 720 at most.

    A sample that falls out of one tier goes to the next if it is long enough after the last one there.
    """

    def __init__(self) -> None:
        self._tiers: list[deque[SpreadSample]] = [deque() for _ in _TIERS]

    def add(self, sample: SpreadSample) -> None:
        """Add a sample."""
        for tier, (most, apart) in zip(self._tiers, _TIERS, strict=True):
            if tier and 0 <= sample.time - tier[-1].time < apart * 0.9:  # timers are not that exact
                return
            tier.append(sample)
            if len(tier) <= most:
                return
            sample = tier.popleft()

    def all(self) -> Iterator[SpreadSample]:
        """Yield all samples, the oldest first."""
        for tier in reversed(self._tiers):
            yield from tier

    @property
    def last(self) -> SpreadSample | None:
        """The newest sample."""
        return self._tiers[0][-1] if self._tiers[0] else None


class StepStart(NamedTuple):
    """A step, and when it began."""

    step: str
    time: float


class MigrationTracker:
    """The steps that each migration was seen in, and the nodes that moves in progress touch.

    Steps follow each other within milliseconds, and a PodMigration shows only the current one, so they are kept here.
    """

    def __init__(self, migrations: MigrationCache, now: Callable[[], float], touch: Callable[[str], None]) -> None:
        self._migrations = migrations
        self._now = now
        self._touch = touch
        self._history: dict[ObjectKey, list[StepStart]] = {}
        self._phases: dict[ObjectKey, Phase] = {}
        self._routes: dict[ObjectKey, tuple[str, str]] = {}
        """Source and target of each move in progress."""
        self.completed = 0
        """The number of migrations seen completed, those that were cleaned up since included."""
        self.changed: dict[ObjectKey, None] = {}
        """Migrations that have changed or gone, in order; `Broadcaster` clears it."""
        for each in migrations.all():
            self._update((each.namespace, each.name))
        migrations.listen(lambda key, ours: self._update(key))

    def history(self, key: ObjectKey) -> tuple[StepStart, ...]:
        """Get the steps that a migration was seen in, the oldest first."""
        return tuple(self._history.get(key, ()))

    def flags(self) -> dict[str, int]:
        """Get the flags SOURCE and TARGET by node, of the moves in progress."""
        found: dict[str, int] = {}
        for route in self._routes.values():
            for name, flag in zip(route, (NodeFlag.SOURCE, NodeFlag.TARGET), strict=True):
                if name:
                    found[name] = found.get(name, 0) | flag.value
        return found

    def awaiting(self) -> list[PodMigration]:
        """List the migrations that need approval, the oldest first."""
        found = [each for each in self._migrations.active() if each.awaits_approval]
        return sorted(found, key=lambda each: (each.metadata.creation_timestamp or 0.0, each.namespace, each.name))

    def _update(self, key: ObjectKey) -> None:
        migration = self._migrations.get(key)
        self.changed[key] = None
        self._update_route(key, migration)
        if migration is None:
            self._history.pop(key, None)
            self._phases.pop(key, None)
            return
        phase = migration.status.phase
        if phase is Phase.COMPLETED and self._phases.get(key) is not phase:
            self.completed += 1
        self._phases[key] = phase
        self._add_step(key, migration)

    def _add_step(self, key: ObjectKey, migration: PodMigration) -> None:
        """Remember its step, unless that is the one remembered last."""
        progress = migration.status
        if not progress.step:
            return
        began = progress.step_time if progress.step_time is not None else self._now()
        newest, known = StepStart(progress.step, began), self._history.setdefault(key, [])
        if not known or known[-1] != newest:
            if known and known[-1].step == newest.step and progress.step_time is None:
                return  # without a time it counts as the same step
            known.append(newest)
            del known[:-_MOST_STEPS]

    def _update_route(self, key: ObjectKey, migration: PodMigration | None) -> None:
        before, now = self._routes.pop(key, None), None
        if migration is not None and migration.status.phase is Phase.IN_PROGRESS:
            now = self._routes[key] = (migration.status.source, migration.status.target)
        if before != now:
            for name in {*(before or ()), *(now or ())} - {""}:
                self._touch(name)


@dataclass(frozen=True, slots=True)
class ComponentHealth:
    """The health of one part: a watched kind, the leader election, a server."""

    name: str
    why: str = ""
    """Why it is failing; empty when it is not."""
    count: int | None = None
    lag: float | None = None
    """Seconds since its last sign of life."""


@dataclass(frozen=True, slots=True)
class PageState:
    """Everything that the page shows."""

    cluster: str
    """Describes the API server that this controller is connected to."""
    live_config: LiveConfig
    identity: str
    """Of this replica."""
    leading: Callable[[], bool]
    leader: Callable[[], str]
    cache: ClusterCache
    migrations: MigrationCache
    loads: NodeStatsTracker
    moves: MigrationTracker
    plans: PlanCache
    now: Callable[[], float]
    paused: Callable[[], PauseDetails | None]
    health: Callable[[], Sequence[ComponentHealth]]
    measuring: UsageRefresher
    usage: Callable[[], UsagePoller | None]
    """None without a source of usage."""
    local: bool = False
    """Whether actions from this machine need no token."""
    samples: SpreadHistory = field(default_factory=SpreadHistory)
