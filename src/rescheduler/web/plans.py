"""Plans and explanations for the page, computed off the event loop.

`WorkLane` runs slow computations one at a time and drops those that no client waits for any more. `PlanCache` keeps the
newest plan, a planner for explanations, and the guards' context for the pods of a node.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rescheduler.model.json import ObjectKey
from rescheduler.model.objects import Pod
from rescheduler.model.plan import Plan
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.guards import first_objection
from rescheduler.planning.guards.base import GuardContext
from rescheduler.planning.planner import Planner
from rescheduler.web.responses import HttpError, JsonBody, encode_json

Found = TypeVar("Found")
StillWanted = Callable[[], bool]
"""Whether the client still waits for the answer."""
Objection = tuple[str, str]
"""A guard and its reason; both empty where no guard objects."""
_NONE: Objection = ("", "")
_MOST = 16  # computations that wait in one lane
_QUICK = 2.0  # seconds for which a planner is fresh at least
_TIMES = 5.0  # or so many times as long as it took: pages never take more than a sixth of a core
_KEPT = 60.0  # seconds for which an unused planner is kept
_REMEMBERED = 64  # explanations of one planner


def always() -> bool:
    """Never drop the work."""
    return True


class WorkLane:
    """Runs one computation at a time. Threads cannot be stopped, so work that has started always ends.

    Work whose client has gone is not started.
    """

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[object]] = set()

    async def run(self, work: Callable[[], Awaitable[Found]], wanted: StillWanted = always) -> Found:
        """Run the work when its turn comes."""
        if len(self._tasks) >= self._most:
            raise HttpError(503, "too many slow requests at once: try again", Retry_After="2")
        task = asyncio.create_task(self._in_turn(work, wanted))
        self._tasks.add(task)
        task.add_done_callback(self._over)
        return await asyncio.shield(task)

    async def end(self) -> None:
        """Start nothing more. A busy thread ends by itself."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _in_turn(self, work: Callable[[], Awaitable[Found]], wanted: StillWanted) -> Found:
        async with self._turn:
            if not wanted():
                raise HttpError(408, "the client has gone")
            return await work()

    def _over(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # the request has it; without a request it does not matter


@dataclass(frozen=True, slots=True)
class PlanningFunctions:
    """How to plan and explain; `app` provides it."""

    copied: Callable[[], Callable[[], ClusterSnapshot]]
    """Called on the loop; its result, called in a thread, makes the snapshot that the controller would use now."""
    plan: Callable[[ClusterSnapshot], tuple[Planner, Plan]]
    explain: Callable[[Planner, Plan, ObjectKey], dict[str, Any]]
    context: Callable[[ClusterSnapshot], GuardContext]
    """Makes what guards look things up in."""
    lacking: Callable[[], str]
    """Why planning is not possible yet; empty if it is."""


@dataclass(frozen=True, slots=True)
class TimedPlan:
    """A plan, when planning started, and how many seconds it took."""

    plan: Plan
    made: float
    seconds: float


@dataclass(slots=True)
class _CachedPlan:
    """A planner that has made its plan, and its explanations."""

    planner: Planner
    planned: TimedPlan
    at: float
    """By the monotonic clock."""
    asked: float
    explanations: dict[ObjectKey, JsonBody] = field(default_factory=dict)


@dataclass(slots=True)
class _CachedGuards:
    context: GuardContext
    at: float
    seconds: float


class PlanCache:
    """The newest plan, and explanations by a fresh planner."""

    def __init__(
        self,
        functions: Callable[[], PlanningFunctions],
        now: Callable[[], float],
        interval: Callable[[], float],
        leading: Callable[[], bool],
    ) -> None:
        self._functions = functions
        self._now = now
        self._interval = interval
        self._leading = leading
        self._plan_lane = WorkLane()
        self._guard_lane = WorkLane()  # a lane of its own, so that a node is shown at once even while a plan is made
        self._cached: _CachedPlan | None = None
        self._cached_guards: _CachedGuards | None = None
        self._epoch = 0
        """Grows with every change of the configuration; what was computed across one is computed again."""
        self.newest: TimedPlan | None = None

    def put(self, plan: Plan, at: float, seconds: float) -> None:
        """Take a plan of the leader's cycle, which started at this time (epoch)."""
        self.newest = TimedPlan(plan, at, seconds)

    @property
    def next(self) -> float | None:
        """When this replica plans again; None if it does not lead."""
        return self.newest.made + self._interval() if self.newest is not None and self._leading() else None

    async def get(self, wanted: StillWanted = always) -> TimedPlan | None:
        """Get the newest plan; one is made if it is too old. None while caches are not synced."""
        if not self._is_stale() or self._functions().lacking():
            return self.newest

        async def compute() -> None:
            if self._is_stale():  # another request may have planned meanwhile
                self.newest = (await self._plan_now()).planned

        await self._plan_lane.run(compute, wanted)
        return self.newest

    async def explain(self, key: ObjectKey, wanted: StillWanted = always) -> JsonBody:
        """Explain a pod by a planner of the newest state."""
        if why := self._functions().lacking():
            raise HttpError(503, f"caches are not synced yet ({why}): try again", Retry_After="2")

        async def compute() -> JsonBody:
            cached = self._cached
            if cached is None or not _is_fresh(cached.at, cached.planned.seconds):
                cached = await self._plan_now()
                if self._is_stale() or not self._leading():
                    self.newest = cached.planned
            cached.asked = time.monotonic()
            if key not in cached.explanations:
                found = await asyncio.to_thread(self._explain, cached, key)
                while len(cached.explanations) >= _REMEMBERED:
                    del cached.explanations[next(iter(cached.explanations))]
                cached.explanations[key] = found
            return cached.explanations[key]

        return await self._plan_lane.run(compute, wanted)

    async def objections(self, pods: Sequence[Pod], wanted: StillWanted = always) -> list[Objection]:
        """Find for each pod the first guard that objects to moving it."""

        async def compute() -> list[Objection]:
            guards = self._cached_guards
            if guards is None or not _is_fresh(guards.at, guards.seconds):
                return await self._build_guards(pods)
            return await asyncio.to_thread(_objections, guards.context, pods)

        return await self._guard_lane.run(compute, wanted)

    def drop_unused(self) -> None:
        """Drop planners that were not used lately; in a thread, because freeing them takes time."""
        now, gone = time.monotonic(), list[object]()
        if self._cached is not None and now - self._cached.asked > _KEPT:
            gone.append(self._cached)
            self._cached = None
        if self._cached_guards is not None and now - self._cached_guards.at > _KEPT:
            gone.append(self._cached_guards)
            self._cached_guards = None
        if gone:
            asyncio.get_running_loop().run_in_executor(None, gone.clear)

    def invalidate(self) -> None:
        """Drop everything computed before, because the configuration has changed."""
        self._epoch += 1
        self._cached = self._cached_guards = None
        if not self._leading():
            self.newest = None  # the next request makes another one

    async def end(self) -> None:
        """Plan nothing more."""
        await self._plan_lane.end()
        await self._guard_lane.end()
        self._cached = self._cached_guards = None

    def _is_stale(self) -> bool:
        """Whether a new plan is due. A leader's cycle brings its own, unless it has stopped."""
        if self.newest is None:
            return True
        lasts = max(self._interval() * (2.0 if self._leading() else 1.0), self.newest.seconds * _TIMES)
        return self._now() - self.newest.made > lasts

    async def _plan_now(self) -> _CachedPlan:
        gone, self._cached = [self._cached], None
        epoch, functions = self._epoch, self._functions()
        began, copied = self._now(), functions.copied()

        def plan() -> _CachedPlan:
            gone.clear()  # before the next one is made: two planners at once need too much memory
            started = time.monotonic()
            planner, plan = functions.plan(copied())
            ended = time.monotonic()
            return _CachedPlan(planner, TimedPlan(plan, began, ended - started), ended, ended)

        cached = await asyncio.to_thread(plan)
        if epoch != self._epoch:
            return await self._plan_now()
        self._cached = cached
        return cached

    def _explain(self, cached: _CachedPlan, key: ObjectKey) -> JsonBody:
        """In a thread."""
        if key not in cached.planner.columns.pod_index:
            namespace, pod = key
            why = "it is being replaced, or came or went a moment ago"
            raise HttpError(404, f"the planner has no pod {namespace}/{pod}: {why}; try again")
        return JsonBody(encode_json(self._functions().explain(cached.planner, cached.planned.plan, key)))

    async def _build_guards(self, pods: Sequence[Pod]) -> list[Objection]:
        epoch, functions = self._epoch, self._functions()
        copied = functions.copied()

        def guard() -> tuple[_CachedGuards, list[Objection]]:
            started = time.monotonic()
            context = functions.context(copied())
            found = _objections(context, pods)
            ended = time.monotonic()
            return _CachedGuards(context, ended, ended - started), found

        guards, found = await asyncio.to_thread(guard)
        if epoch != self._epoch:
            return await self._build_guards(pods)
        self._cached_guards = guards
        return found


def _is_fresh(at: float, seconds: float) -> bool:
    return time.monotonic() - at < max(_QUICK, seconds * _TIMES)


def _objections(context: GuardContext, pods: Sequence[Pod]) -> list[Objection]:
    return [first_objection(pod, context) or _NONE for pod in pods]
