"""What takes longer than the event loop may wait: done in turn, one piece at a time, for whoever still wants it.

Planning and explaining run in threads, which nobody can stop. So a request only waits for its piece of work, which has
a task of its own: if the client goes away, what has not begun is never begun, and what has begun ends by itself before
the next one does. However many ask, one thread is busy, and a bounded number waits.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

from rescheduler.model.objects import Pod
from rescheduler.model.plan import Plan
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.guards import first_objection
from rescheduler.planning.guards.base import GuardContext
from rescheduler.planning.planner import Planner
from rescheduler.web.responses import HttpError, JsonBody, encode_json

Found = TypeVar("Found")
StillWanted = Callable[[], bool]
"""Whether somebody still waits for it."""
_MOST = 16


def always() -> bool:
    """Wanted, whoever has gone."""
    return True


class WorkLane:
    """One lane of work."""

    def __init__(self, most: int = _MOST) -> None:
        self._most = most
        self._turn = asyncio.Lock()
        self._tasks: set[asyncio.Task[object]] = set()

    async def run(self, work: Callable[[], Awaitable[Found]], wanted: StillWanted = always) -> Found:
        """Do it when its turn comes, and give what it found."""
        if len(self._tasks) >= self._most:
            raise HttpError(503, "too many ask at once for what takes time: try again", Retry_After="2")
        task = asyncio.create_task(self._in_turn(work, wanted))
        self._tasks.add(task)
        task.add_done_callback(self._over)
        return await asyncio.shield(task)

    async def end(self) -> None:
        """Begin nothing more. A thread that is busy ends by itself."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _in_turn(self, work: Callable[[], Awaitable[Found]], wanted: StillWanted) -> Found:
        async with self._turn:
            if not wanted():
                raise HttpError(408, "nobody waits for it any more")
            return await work()

    def _over(self, task: asyncio.Task[object]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # whoever waits for it has it; if nobody does, it is no error


PodKey = tuple[str, str]
Objection = tuple[str, str]
"""A guard and its reason; both empty where nothing objects."""
_NONE: Objection = ("", "")
_QUICK = 2.0  # seconds for which what was thought is fresh, however quickly it was
_TIMES = 5.0  # or so many times as long as it took: those who look never take more than a sixth of a core
_KEPT = 60.0  # seconds for which a planner is kept that nobody asks
_REMEMBERED = 64  # explanations of one planner


@dataclass(frozen=True, slots=True)
class PlanningFunctions:
    """How `app` plans and explains."""

    copied: Callable[[], Callable[[], ClusterSnapshot]]
    """Called on the loop; what it gives makes, in a thread, the snapshot that the controller would plan on now."""
    plan: Callable[[ClusterSnapshot], tuple[Planner, Plan]]
    explain: Callable[[Planner, Plan, PodKey], dict[str, Any]]
    context: Callable[[ClusterSnapshot], GuardContext]
    """What guards look things up in."""
    lacking: Callable[[], str]
    """Why nothing can be planned yet."""


@dataclass(frozen=True, slots=True)
class TimedPlan:
    """A plan, when it was begun, and how many seconds it took."""

    plan: Plan
    made: float
    seconds: float


@dataclass(slots=True)
class _CachedPlan:
    """A planner that has planned."""

    planner: Planner
    planned: TimedPlan
    at: float
    """By the monotonic clock."""
    asked: float
    said: dict[PodKey, JsonBody] = field(default_factory=dict)


@dataclass(slots=True)
class _CachedGuards:
    context: GuardContext
    at: float
    seconds: float


class PlanCache:
    """What has been planned last, and who thinks on."""

    def __init__(
        self,
        mind: Callable[[], PlanningFunctions],
        now: Callable[[], float],
        interval: Callable[[], float],
        leading: Callable[[], bool],
    ) -> None:
        self._mind = mind
        self._now = now
        self._interval = interval
        self._leading = leading
        self._planning = WorkLane()
        self._guards = WorkLane()  # a lane of its own: a node is shown at once, even while somebody plans
        self._thought: _CachedPlan | None = None
        self._guarding: _CachedGuards | None = None
        self._epoch = 0
        """Grows when the operator wants something else; what was thought across that is thought again."""
        self.newest: TimedPlan | None = None

    def put(self, plan: Plan, at: float, seconds: float) -> None:
        """Take the plan that the leader's cycle has begun at this time (epoch)."""
        self.newest = TimedPlan(plan, at, seconds)

    @property
    def next(self) -> float | None:
        """When the leader plans again; None where nobody here does so by himself."""
        return self.newest.made + self._interval() if self.newest is not None and self._leading() else None

    async def get(self, wanted: StillWanted = always) -> TimedPlan | None:
        """The newest plan; one is made if it is too old. None while the cluster is not known yet."""
        if not self._is_stale() or self._mind().lacking():
            return self.newest

        async def think() -> None:
            if self._is_stale():  # not if somebody else has asked meanwhile
                self.newest = (await self._think()).planned

        await self._planning.run(think, wanted)
        return self.newest

    async def explain(self, key: PodKey, wanted: StillWanted = always) -> JsonBody:
        """What there is to say about a pod, by a planner of the newest state."""
        if why := self._mind().lacking():
            raise HttpError(503, f"the cluster is not known yet ({why}): try again", Retry_After="2")

        async def think() -> JsonBody:
            thought = self._thought
            if thought is None or not _is_fresh(thought.at, thought.planned.seconds):
                thought = await self._think()
                if self._is_stale() or not self._leading():
                    self.newest = thought.planned
            thought.asked = time.monotonic()
            if key not in thought.said:
                found = await asyncio.to_thread(self._explain, thought, key)
                while len(thought.said) >= _REMEMBERED:
                    del thought.said[next(iter(thought.said))]
                thought.said[key] = found
            return thought.said[key]

        return await self._planning.run(think, wanted)

    async def objections(self, pods: Sequence[Pod], wanted: StillWanted = always) -> list[Objection]:
        """For each pod, the first guard that objects to moving it."""

        async def think() -> list[Objection]:
            guarding = self._guarding
            if guarding is None or not _is_fresh(guarding.at, guarding.seconds):
                return await self._guard_anew(pods)
            return await asyncio.to_thread(_objections, guarding.context, pods)

        return await self._guards.run(think, wanted)

    def drop_unused(self) -> None:
        """Let go of what nobody has asked for lately; in a thread, because even that takes its time."""
        now, gone = time.monotonic(), list[object]()
        if self._thought is not None and now - self._thought.asked > _KEPT:
            gone.append(self._thought)
            self._thought = None
        if self._guarding is not None and now - self._guarding.at > _KEPT:
            gone.append(self._guarding)
            self._guarding = None
        if gone:
            asyncio.get_running_loop().run_in_executor(None, gone.clear)

    def invalidate(self) -> None:
        """Explain nothing by what was thought before: the operator wants something else by now."""
        self._epoch += 1
        self._thought = self._guarding = None
        if not self._leading():
            self.newest = None  # nobody here makes another one before somebody looks

    async def end(self) -> None:
        """Plan nothing more."""
        await self._planning.end()
        await self._guards.end()
        self._thought = self._guarding = None

    def _is_stale(self) -> bool:
        """Whether a new plan is due: a leader's own comes by itself, unless nothing is planned any more."""
        if self.newest is None:
            return True
        lasts = max(self._interval() * (2.0 if self._leading() else 1.0), self.newest.seconds * _TIMES)
        return self._now() - self.newest.made > lasts

    async def _think(self) -> _CachedPlan:
        gone, self._thought = [self._thought], None
        epoch, mind = self._epoch, self._mind()
        began, copied = self._now(), mind.copied()

        def plan() -> _CachedPlan:
            gone.clear()  # before the next one is made: two at once would be too much
            started = time.monotonic()
            planner, plan = mind.plan(copied())
            ended = time.monotonic()
            return _CachedPlan(planner, TimedPlan(plan, began, ended - started), ended, ended)

        thought = await asyncio.to_thread(plan)
        if epoch != self._epoch:
            return await self._think()
        self._thought = thought
        return thought

    def _explain(self, thought: _CachedPlan, key: PodKey) -> JsonBody:
        """In a thread."""
        if key not in thought.planner.columns.pod_index:
            namespace, pod = key
            why = "it is being replaced, or came or went a moment ago"
            raise HttpError(404, f"the planner has no pod {namespace}/{pod}: {why}; try again")
        return JsonBody(encode_json(self._mind().explain(thought.planner, thought.planned.plan, key)))

    async def _guard_anew(self, pods: Sequence[Pod]) -> list[Objection]:
        epoch, mind = self._epoch, self._mind()
        copied = mind.copied()

        def guard() -> tuple[_CachedGuards, list[Objection]]:
            started = time.monotonic()
            context = mind.context(copied())
            found = _objections(context, pods)
            ended = time.monotonic()
            return _CachedGuards(context, ended, ended - started), found

        guarding, found = await asyncio.to_thread(guard)
        if epoch != self._epoch:
            return await self._guard_anew(pods)
        self._guarding = guarding
        return found


def _is_fresh(at: float, seconds: float) -> bool:
    return time.monotonic() - at < max(_QUICK, seconds * _TIMES)


def _objections(context: GuardContext, pods: Sequence[Pod]) -> list[Objection]:
    return [first_objection(pod, context) or _NONE for pod in pods]
