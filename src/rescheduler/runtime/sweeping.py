"""Finds everything that is marked as ours and puts right what belongs to dead migrations, object by object.

The janitor and `cleanup` use it; they know which migrations are dead. The cache's rows tell where to look, so that no
object is listed for it; each is read anew before anything is done. What goes wrong with one is told, and the next one
is looked at.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

import structlog

from rescheduler.decode.cache import Cache
from rescheduler.kube.errors import ClusterError
from rescheduler.migration import orphans
from rescheduler.migration.commands import Command, Json
from rescheduler.migration.observation import Refused, notes_of
from rescheduler.migration.steps import Do, Done, Wait
from rescheduler.model import marks
from rescheduler.model.migration import Phase

_log = structlog.stdlib.get_logger(__name__)
_LOOKS = 20  # at one object in a row: controllers must see a restored template before its Deployment is resumed
# Deployments before what they own: what is on them is copied down, and they put their ReplicaSets right themselves.
WORKLOADS = ("Deployment", "ReplicaSet", "StatefulSet", "Job")
WATCHED = ("Pod", *WORKLOADS, "PodDisruptionBudget", "Node")
"""The kinds whose rows are needed."""


@dataclass(frozen=True, slots=True)
class Marked:
    """An object that carries marks of running moves."""

    kind: str
    namespace: str
    name: str


Fate = Callable[[Marked, str], Awaitable[Phase | None]]
"""How the migration of this name ended, as far as this object is concerned; None while it is not dead."""


class Observer(Protocol):
    """Who reads objects as they are now."""

    async def find(self, kind: str, namespace: str, name: str) -> Json | None: ...
    async def owned(self, kind: str, namespace: str, owner: Json | None) -> tuple[Json, ...]: ...


class Writer(Protocol):
    """Who acts."""

    async def carry_out(self, command: Command) -> Refused | None: ...


class Sweeper:
    """Puts right what dead migrations left; `tell` hears of each thing that was."""

    def __init__(
        self, cache: Cache, observer: Observer, writer: Writer, tell: Callable[[Command], None] = lambda _: None
    ) -> None:
        self._cache = cache
        self._observer = observer
        self._writer = writer
        self._tell = tell

    async def sweep(self, fate: Fate) -> int:
        """Put right whatever can be now; how many things were."""
        done = 0
        for marked in list(found(self._cache)):
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
        for marked in list(found(self._cache)):
            try:
                match await self._decided(marked, fate):
                    case Do(commands):
                        todo += commands
                    case Wait(reason):
                        stuck.append(f"{_title(marked)}: {reason}")
            except (ValueError, KeyError, TypeError) as error:
                stuck.append(f"{_title(marked)}: a mark on it makes no sense: {error!r}")
        return todo, stuck

    async def _settle(self, marked: Marked, fate: Fate) -> int:
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

    async def _decided(self, marked: Marked, fate: Fate) -> Do | Wait | Done:
        """What the object needs, as it is now."""
        body = await self._observer.find(marked.kind, marked.namespace, marked.name)
        if body is None:
            return Done()
        fates = {name: await fate(marked, name) for name in sorted(orphans.names_on(body))}
        dead = {name: phase for name, phase in fates.items() if phase is not None}
        if not dead:
            return Done()
        if marked.kind == "Pod":
            status = "completed" if Phase.COMPLETED in dead.values() else "failed"
            todo = orphans.of_pod(body, await self._original(body), status)
        elif marked.kind == "PodDisruptionBudget":
            todo = orphans.of_budget(body)
        else:
            return orphans.of_workload(body, await self._sets(body), dead.keys())
        return Do(tuple(todo)) if todo else Done()

    async def _original(self, pod: Json) -> Json | None:
        """The very pod that a copy was made from, if it is still there."""
        notes = notes_of(pod)
        name = notes.get(marks.ORIGINAL_POD_NAME, "")
        original = await self._observer.find("Pod", pod["metadata"]["namespace"], name) if name else None
        is_it = original is not None and original["metadata"]["uid"] == notes.get(marks.ORIGINAL_POD)
        return original if is_it else None

    async def _sets(self, workload: Json) -> tuple[Json, ...]:
        """The ReplicaSets, each as it is now: a list may be older than what we have just restored."""
        if workload["kind"] != "Deployment":
            return (workload,) if workload["kind"] == "ReplicaSet" else ()
        namespace = workload["metadata"]["namespace"]
        names = [each["metadata"]["name"] for each in await self._observer.owned("ReplicaSet", namespace, workload)]
        sets = [await self._observer.find("ReplicaSet", namespace, name) for name in names]
        return tuple(each for each in sets if each is not None)


def found(cache: Cache) -> Iterator[Marked]:
    """All that carries marks, as far as it is known: pods first, because a cheap original is in danger."""
    for row in cache.rows("Pod"):
        if not row.annotations and marks.MIGRATION_ID not in row.labels and marks.PLACEHOLDER not in row.labels:
            continue  # nearly all of 150,000
        if orphans.names_on_pod(row.labels, row.annotations):
            yield Marked("Pod", row.namespace, row.name)
    for kind in WORKLOADS:
        for row in cache.rows(kind):
            if row.annotations and any(key in row.annotations for key in _ON_WORKLOADS):
                yield Marked(kind, row.namespace, row.name)
    for row in cache.rows("PodDisruptionBudget"):
        if row.migration:
            yield Marked("PodDisruptionBudget", row.namespace, row.name)


_ON_WORKLOADS = (marks.MIGRATION_ID, marks.PAUSED_BY, marks.AFFINITY_BEFORE)


def _title(marked: Marked) -> str:
    return f"{marked.kind} {marked.namespace}/{marked.name}"
