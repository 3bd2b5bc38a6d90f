"""Finds objects that carry our labels and annotations, and cleans up what belongs to dead migrations.

The garbage collector and `cleanup` use it; they say which migrations are dead. The cache shows where to look, so no
object is listed for it. Each object is read again before it is changed. An error with one object is logged, and does
not stop the others.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Set
from typing import NamedTuple

import structlog

from rescheduler.config.live import LiveConfig
from rescheduler.decode.cache import ClusterCache
from rescheduler.kube.errors import ClusterError
from rescheduler.kube.migrations import InvalidMigrationError
from rescheduler.kube.objects import CommandSender
from rescheduler.kube.observer import MigrationObserver
from rescheduler.migration import rollback
from rescheduler.migration.commands import Command
from rescheduler.migration.steps.common import Do, Done, Wait, do_all
from rescheduler.model import labels
from rescheduler.model.json import Json, ObjectKey, annotations_of
from rescheduler.model.migration import Phase
from rescheduler.runtime.migration_cache import MigrationStore
from rescheduler.runtime.reconciler import PeriodicTask

_log = structlog.stdlib.get_logger(__name__)
_LOOKS = 20  # at one object in a row: controllers must see a restored template before its Deployment is resumed
# Deployments before their ReplicaSets: their controller copies annotations down.
WORKLOADS = ("Deployment", "ReplicaSet", "StatefulSet", "Job")
WATCHED = ("Pod", *WORKLOADS, "PodDisruptionBudget", "Node")
"""The kinds whose rows are needed."""


class MarkedObject(NamedTuple):
    """An object that carries labels or annotations of a migration under way."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


FindEnd = Callable[[MarkedObject, str], Awaitable[Phase | None]]
"""Returns how the migration of this name ended, as far as this object is concerned; None while it may be alive."""


class OrphanCleaner:
    """Cleans up after dead migrations; `tell` is called with each command that was done."""

    def __init__(
        self,
        cache: ClusterCache,
        observer: MigrationObserver,
        sender: CommandSender,
        tell: Callable[[Command], None] = lambda _: None,
    ) -> None:
        self._cache = cache
        self._observer = observer
        self._sender = sender
        self._tell = tell

    async def clean(self, find_end: FindEnd) -> int:
        """Clean up whatever can be now; return the number of changes."""
        done = 0
        for marked in list(find_marked(self._cache)):
            try:
                done += await self._clean_one(marked, find_end)
            except ClusterError as error:
                _log.warning("orphan not cleaned up, retrying", object=str(marked), why=str(error))
            except Exception:  # noqa: BLE001  one bad object must not stop the cleanup of the others
                _log.exception("internal error or malformed object", object=str(marked))
        return done

    async def preview(self, find_end: FindEnd) -> tuple[list[Command], list[str]]:
        """Return the first command for each object, and why nothing can be done about others; change nothing."""
        todo: list[Command] = []
        stuck: list[str] = []
        for marked in list(find_marked(self._cache)):
            try:
                match await self._decide(marked, find_end):
                    case Do(commands):
                        todo += commands
                    case Wait(reason):
                        stuck.append(f"{marked}: {reason}")
            except (ValueError, KeyError, TypeError) as error:
                stuck.append(f"{marked}: a label or annotation on it is malformed: {error!r}")
        return todo, stuck

    async def _clean_one(self, marked: MarkedObject, find_end: FindEnd) -> int:
        done = 0
        for _ in range(_LOOKS):
            match await self._decide(marked, find_end):
                case Done():
                    return done
                case Wait(_, seconds):
                    await asyncio.sleep(seconds)
                case Do(commands):
                    for command in commands:
                        refused = await self._sender.carry_out(command)
                        if refused is not None and refused.code != 409:
                            _log.warning(
                                "command refused", command=str(command), code=refused.code, why=refused.message
                            )
                            return done
                        if refused is not None:
                            break  # changed meanwhile: read it again
                        _log.info("orphan cleaned up", command=str(command))
                        self._tell(command)
                        done += 1
        _log.warning("orphan not cleaned up, retrying", object=str(marked))
        return done

    async def _decide(self, marked: MarkedObject, find_end: FindEnd) -> Do | Wait | Done:
        """Decide what the object needs, as it is now."""
        body = await self._observer.find(*marked)
        if body is None:
            return Done()
        ends = {name: await find_end(marked, name) for name in sorted(rollback.names_on(body))}
        dead = {name: phase for name, phase in ends.items() if phase is not None}
        if not dead:
            return Done()
        if marked.kind == "Pod":
            status = "completed" if Phase.COMPLETED in dead.values() else "failed"
            todo = rollback.clean_pod(body, await self._original(body), status)
        elif marked.kind == "PodDisruptionBudget":
            todo = rollback.clean_budget(body)
        else:
            return rollback.clean_workload(body, await self._sets(body), dead.keys())
        return do_all(todo)

    async def _original(self, pod: Json) -> Json | None:
        """The pod that a copy was made from, if it still exists."""
        notes = annotations_of(pod)
        name = notes.get(labels.ORIGINAL_POD_NAME, "")
        original = await self._observer.find("Pod", pod["metadata"]["namespace"], name) if name else None
        is_it = original is not None and original["metadata"]["uid"] == notes.get(labels.ORIGINAL_POD)
        return original if is_it else None

    async def _sets(self, workload: Json) -> tuple[Json, ...]:
        """The ReplicaSets, each read by name: a list may be older than what was just restored."""
        if workload["kind"] != "Deployment":
            return (workload,) if workload["kind"] == "ReplicaSet" else ()
        namespace = workload["metadata"]["namespace"]
        names = [each["metadata"]["name"] for each in await self._observer.owned("ReplicaSet", namespace, workload)]
        sets = [await self._observer.find("ReplicaSet", namespace, name) for name in names]
        return tuple(each for each in sets if each is not None)


def find_marked(cache: ClusterCache) -> Iterator[MarkedObject]:
    """Find all marked objects in the cache; pods first, because an original with a low deletion cost is at risk."""
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


_EVERY = 60.0
_SETTLED = 10.0  # seconds that a migration must be over: until then its executor still looks at it
_LATE = 5.0  # seconds after a deletion: by then requests are done, and controllers have made their late copies


class GarbageCollector:
    """Removes finished migrations after a while, and cleans up after dead ones."""

    def __init__(
        self,
        store: MigrationStore,
        cleaner: OrphanCleaner,
        live: LiveConfig,
        is_busy: Callable[[ObjectKey], bool],
        needed: Callable[[float], Set[ObjectKey]],
        now: Callable[[], float] = time.time,
    ) -> None:
        """`is_busy` says whether a worker has a migration; `needed` which finished ones must be kept at a time."""
        self._migrations = store.migrations
        self._client = store.client
        self._cleaner = cleaner
        self._live = live
        self._is_busy = is_busy
        self._needed = needed
        self._active = {each.key for each in store.migrations.active()}
        self.task = PeriodicTask("garbage collection", _EVERY, lambda: self.collect(now()))
        store.migrations.listen(self._changed)

    async def collect(self, now: float) -> int:
        """Remove old migrations and clean up orphans; return the number of changes."""
        await self._remove_old(now)
        done = await self._cleaner.clean(lambda marked, name: self._find_end(marked, name, now))
        if done:
            _log.info("orphans cleaned up", changes=done)
        return done

    async def _remove_old(self, now: float) -> None:
        needed, keep = self._needed(now), self._live.config.fields.migration.keep_finished
        for migration in self._migrations.all():
            finished = migration.status.completion_time
            if not migration.status.over or finished is None or now - finished < keep:
                continue
            if any(not each.status.over for each in self._migrations.members(migration)):
                continue  # the members still count it
            if migration.key in needed:
                continue
            try:
                await self._client.remove(migration)
            except ClusterError as error:
                _log.warning("finished migration not removed, retrying", migration=migration.full_name, why=str(error))

    async def _find_end(self, marked: MarkedObject, name: str, now: float) -> Phase | None:
        """How a migration ended; None if it is alive, or that is unknown."""
        if not name:  # only an annotation is left: an orphan, unless a migration moves this pod
            keys = self._migrations.by_pod((marked.namespace, marked.name))
            moving = (self._migrations.get(key) for key in keys)
            return None if any(each and not each.status.over for each in moving) else Phase.FAILED
        key = (marked.namespace, name)
        known = self._migrations.get(key)
        if self._is_busy(key) or (known is not None and not known.status.over):
            return None
        try:
            migration = await self._client.read(*key)
        except InvalidMigrationError as error:
            _log.warning("malformed migration ignored", why=str(error))
            return None
        if migration is None:
            return Phase.FAILED
        ended = migration.status.completion_time or 0.0
        return migration.status.phase if migration.status.over and now - ended >= _SETTLED else None

    def _changed(self, key: ObjectKey, _ours: bool) -> None:  # noqa: FBT001  a listener of the cache
        """Notice migrations that are deleted before they are over."""
        migration = self._migrations.get(key)
        if migration is not None and not migration.status.over:
            self._active.add(key)
            return
        if migration is None and key in self._active:
            asyncio.get_running_loop().call_later(_LATE, self.task.wake.set)
        self._active.discard(key)
