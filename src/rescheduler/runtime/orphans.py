"""Finds everything that is marked as ours and puts right what belongs to dead migrations, object by object.

The janitor and `cleanup` use it; they know which migrations are dead. The cache's rows tell where to look, so that no
object is listed for it; each is read anew before anything is done. What goes wrong with one is told, and the next one
is looked at.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Set
from dataclasses import dataclass
from typing import Protocol

import structlog

from rescheduler.decode.cache import ClusterCache
from rescheduler.kube.errors import ClusterError
from rescheduler.kube.migrations import InvalidMigrationError
from rescheduler.migration import rollback
from rescheduler.migration.commands import Command
from rescheduler.migration.observation import FailedCommand
from rescheduler.migration.steps.common import Do, Done, Wait
from rescheduler.model import labels
from rescheduler.model.json import Json, ObjectKey, annotations_of
from rescheduler.model.migration import Phase, PodMigration
from rescheduler.runtime.migration_cache import MigrationCache

_log = structlog.stdlib.get_logger(__name__)
_LOOKS = 20  # at one object in a row: controllers must see a restored template before its Deployment is resumed
# Deployments before what they own: what is on them is copied down, and they put their ReplicaSets right themselves.
WORKLOADS = ("Deployment", "ReplicaSet", "StatefulSet", "Job")
WATCHED = ("Pod", *WORKLOADS, "PodDisruptionBudget", "Node")
"""The kinds whose rows are needed."""


@dataclass(frozen=True, slots=True)
class MarkedObject:
    """An object that carries marks of running moves."""

    kind: str
    namespace: str
    name: str


Fate = Callable[[MarkedObject, str], Awaitable[Phase | None]]
"""How the migration of this name ended, as far as this object is concerned; None while it is not dead."""


class Observer(Protocol):
    """Who reads objects as they are now."""

    async def find(self, kind: str, namespace: str, name: str) -> Json | None: ...
    async def owned(self, kind: str, namespace: str, owner: Json | None) -> tuple[Json, ...]: ...


class Writer(Protocol):
    """Who acts."""

    async def carry_out(self, command: Command) -> FailedCommand | None: ...


class OrphanCleaner:
    """Puts right what dead migrations left; `tell` hears of each thing that was."""

    def __init__(
        self, cache: ClusterCache, observer: Observer, writer: Writer, tell: Callable[[Command], None] = lambda _: None
    ) -> None:
        self._cache = cache
        self._observer = observer
        self._writer = writer
        self._tell = tell

    async def clean(self, fate: Fate) -> int:
        """Put right whatever can be now; how many things were."""
        done = 0
        for marked in list(find_marked(self._cache)):
            try:
                done += await self._settle(marked, fate)
            except ClusterError as error:
                _log.warning("the next sweep tries again", object=_title(marked), why=str(error))
            except Exception:  # noqa: BLE001  an object that nobody foresaw must not keep all others as they are
                _log.exception("what a dead migration left could not be put right", object=_title(marked))
        return done

    async def preview(self, fate: Fate) -> tuple[list[Command], list[str]]:
        """The first thing that would be done about each object, and why nothing can be about others; nothing is."""
        todo: list[Command] = []
        stuck: list[str] = []
        for marked in list(find_marked(self._cache)):
            try:
                match await self._decided(marked, fate):
                    case Do(commands):
                        todo += commands
                    case Wait(reason):
                        stuck.append(f"{_title(marked)}: {reason}")
            except (ValueError, KeyError, TypeError) as error:
                stuck.append(f"{_title(marked)}: a mark on it makes no sense: {error!r}")
        return todo, stuck

    async def _settle(self, marked: MarkedObject, fate: Fate) -> int:
        done = 0
        for _ in range(_LOOKS):
            match await self._decided(marked, fate):
                case Done():
                    return done
                case Wait(_, seconds):
                    await asyncio.sleep(seconds)
                case Do(commands):
                    for command in commands:
                        refused = await self._writer.carry_out(command)
                        if refused is not None and refused.code != 409:
                            _log.warning("refused", command=str(command), code=refused.code, why=refused.message)
                            return done
                        if refused is not None:
                            break  # somebody has changed it meanwhile: looked at anew
                        _log.info("put right what a dead migration left", command=str(command))
                        self._tell(command)
                        done += 1
        _log.warning("still not put right; tried again by the next sweep", object=_title(marked))
        return done

    async def _decided(self, marked: MarkedObject, fate: Fate) -> Do | Wait | Done:
        """What the object needs, as it is now."""
        body = await self._observer.find(marked.kind, marked.namespace, marked.name)
        if body is None:
            return Done()
        fates = {name: await fate(marked, name) for name in sorted(rollback.names_on(body))}
        dead = {name: phase for name, phase in fates.items() if phase is not None}
        if not dead:
            return Done()
        if marked.kind == "Pod":
            status = "completed" if Phase.COMPLETED in dead.values() else "failed"
            todo = rollback.clean_pod(body, await self._original(body), status)
        elif marked.kind == "PodDisruptionBudget":
            todo = rollback.clean_budget(body)
        else:
            return rollback.clean_workload(body, await self._sets(body), dead.keys())
        return Do(tuple(todo)) if todo else Done()

    async def _original(self, pod: Json) -> Json | None:
        """The very pod that a copy was made from, if it is still there."""
        notes = annotations_of(pod)
        name = notes.get(labels.ORIGINAL_POD_NAME, "")
        original = await self._observer.find("Pod", pod["metadata"]["namespace"], name) if name else None
        is_it = original is not None and original["metadata"]["uid"] == notes.get(labels.ORIGINAL_POD)
        return original if is_it else None

    async def _sets(self, workload: Json) -> tuple[Json, ...]:
        """The ReplicaSets, each as it is now: a list may be older than what we have just restored."""
        if workload["kind"] != "Deployment":
            return (workload,) if workload["kind"] == "ReplicaSet" else ()
        namespace = workload["metadata"]["namespace"]
        names = [each["metadata"]["name"] for each in await self._observer.owned("ReplicaSet", namespace, workload)]
        sets = [await self._observer.find("ReplicaSet", namespace, name) for name in names]
        return tuple(each for each in sets if each is not None)


def find_marked(cache: ClusterCache) -> Iterator[MarkedObject]:
    """All that carries marks, as far as it is known: pods first, because a cheap original is in danger."""
    for row in cache.rows("Pod"):
        if not row.annotations and labels.MIGRATION_ID not in row.labels and labels.PLACEHOLDER not in row.labels:
            continue  # nearly all of 150,000
        if rollback.names_on_pod(row.labels, row.annotations):
            yield MarkedObject("Pod", row.namespace, row.name)
    for kind in WORKLOADS:
        for row in cache.rows(kind):
            if row.annotations and any(key in row.annotations for key in _ON_WORKLOADS):
                yield MarkedObject(kind, row.namespace, row.name)
    for row in cache.rows("PodDisruptionBudget"):
        if row.migration:
            yield MarkedObject("PodDisruptionBudget", row.namespace, row.name)


_ON_WORKLOADS = (labels.MIGRATION_ID, labels.PAUSED_BY, labels.AFFINITY_BEFORE)


def _title(marked: MarkedObject) -> str:
    return f"{marked.kind} {marked.namespace}/{marked.name}"


_EVERY = 60.0
_SETTLED = 10.0  # how long a migration must be over: until then its own last look at what came late is due
_LATE = 5.0  # after a deletion: what was on its way is done, and controllers have copied what they copy late

Needed = Callable[[float], Set[ObjectKey]]
"""Which finished migrations are still needed at a time: a rest depends on them, or nobody has looked at them yet."""


def nothing(_: float) -> Set[ObjectKey]:
    """Of nobody who remembers outcomes."""
    return frozenset()


class Journal(Protocol):
    """Where migrations are kept."""

    async def read(self, namespace: str, name: str) -> PodMigration | None: ...
    async def remove(self, migration: PodMigration) -> None: ...


@dataclass
class GarbageCollector:
    """Cleans up."""

    _board: MigrationCache
    _journal: Journal
    _sweep: Callable[[Fate], Awaitable[int]]
    _keep: Callable[[], float]
    """For how many seconds finished migrations stay."""
    _in_hand: Callable[[ObjectKey], bool]
    """Whether somebody works on a migration just now."""
    _now: Callable[[], float] = time.time
    _needed: Needed = nothing

    def __post_init__(self) -> None:
        self._active = {(each.namespace, each.name) for each in self._board.active()}
        self._deserted = asyncio.Event()
        self._board.listen(self._changed)

    async def run(self) -> None:
        """Clean up until cancelled."""
        while True:
            self._deserted.clear()
            await self.collect(self._now())
            try:
                async with asyncio.timeout(_EVERY):
                    await self._deserted.wait()
            except TimeoutError:
                continue
            await asyncio.sleep(_LATE)

    async def collect(self, now: float) -> int:
        """Forget what ended long ago and put right what was left; how many things were put right."""
        await self._forget(now)

        async def fate(marked: MarkedObject, name: str) -> Phase | None:
            return await self._fate(marked, name, now)

        done = await self._sweep(fate)
        if done:
            _log.info("cleaned up after dead migrations", things=done)
        return done

    async def _forget(self, now: float) -> None:
        needed, keep = self._needed(now), self._keep()
        for migration in self._board.all():
            finished = migration.status.completion_time
            if not migration.status.over or finished is None or now - finished < keep:
                continue
            if any(not each.status.over for each in self._board.members(migration)):
                continue  # they still count it
            if (migration.namespace, migration.name) in needed:
                continue
            try:
                await self._journal.remove(migration)
            except ClusterError as error:
                _log.warning("a finished migration could not be removed", migration=migration.full_name, why=str(error))

    async def _fate(self, marked: MarkedObject, name: str, now: float) -> Phase | None:
        """How a migration ended; None if it is not dead, or that is not sure."""
        if not name:  # only a mark is left: it is nobody's unless somebody moves this very pod
            keys = self._board.by_pod((marked.namespace, marked.name))
            moving = (self._board.get(key) for key in keys)
            return None if any(each and not each.status.over for each in moving) else Phase.FAILED
        key = (marked.namespace, name)
        known = self._board.get(key)
        if self._in_hand(key) or (known is not None and not known.status.over):
            return None
        try:
            migration = await self._journal.read(*key)
        except InvalidMigrationError as error:
            _log.warning("left alone", why=str(error))
            return None
        if migration is None:
            return Phase.FAILED
        ended = migration.status.completion_time or 0.0
        return migration.status.phase if migration.status.over and now - ended >= _SETTLED else None

    def _changed(self, key: ObjectKey, _ours: bool) -> None:  # noqa: FBT001  the board's listeners are called so
        """Notice migrations that go though they are not over."""
        migration = self._board.get(key)
        if migration is not None and not migration.status.over:
            self._active.add(key)
            return
        if migration is None and key in self._active:
            self._deserted.set()
        self._active.discard(key)
