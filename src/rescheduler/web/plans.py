"""Plans and explanations for the page, computed off the event loop.

`WorkLane` runs slow computations one at a time and drops those that no client waits for any more. `PlanCache` keeps the
newest plan, a planner for explanations, and the guards' context for the pods of a node.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from rescheduler.config.live import LiveConfig
from rescheduler.model.json import ObjectKey
from rescheduler.model.objects import Pod
from rescheduler.model.plan import Plan
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.explain import Explanation, explanation_document
from rescheduler.planning.guards import first_objection
from rescheduler.planning.guards.base import GuardContext
from rescheduler.planning.planner import Planner
from rescheduler.runtime.informers import Informers
from rescheduler.runtime.planning_loop import capture_settled
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
    """Runs one computation at a time; those whose client has gone meanwhile are not started.

    A thread cannot be stopped, but requests are not cancelled while the server runs, so nothing begins beside it.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._requests = 0

    async def run(self, work: Callable[[], Awaitable[Found]], wanted: StillWanted = always) -> Found:
        """Run the work when its turn comes."""
        if self._requests >= _MOST:
            raise HttpError(503, "too many slow requests at once: try again", Retry_After="2")
        self._requests += 1
        try:
            async with self._turn:
                if not wanted():
                    raise HttpError(408, "the client has gone")
                return await work()
        finally:
            self._requests -= 1


@dataclass(frozen=True, slots=True)
class TimedPlan:
    """A plan, when planning started, and how many seconds it took."""

    plan: Plan
    made: float
    seconds: float


@dataclass(slots=True, eq=False)
class _Cached(Generic[Found]):
    """What was made of the cluster's state at one time; `at` and `used` are of the monotonic clock."""

    value: Found
    began: float
    """By the API server's clock."""
    seconds: float
    at: float
    used: float

    def is_fresh(self) -> bool:
        return time.monotonic() - self.at < max(_QUICK, self.seconds * _TIMES)


class PlanCache:
    """The newest plan, and explanations by a fresh planner."""

    def __init__(
        self,
        informers: Informers,
        live: LiveConfig,
        plan: Callable[[ClusterSnapshot, Policy], tuple[Planner, Plan]],
        explain: Callable[[Planner, Plan, ObjectKey], Explanation],
        leading: Callable[[], bool],
    ) -> None:
        self._informers = informers
        self._live = live
        self._make_plan = plan
        self._make_explanation = explain
        self._leading = leading
        self._plan_lane = WorkLane()
        self._guard_lane = WorkLane()  # a lane of its own, so that a node is shown at once even while a plan is made
        self._planner: _Cached[tuple[Planner, Plan]] | None = None
        self._explanations: dict[ObjectKey, JsonBody] = {}
        """Made by this planner."""
        self._guards: _Cached[GuardContext] | None = None
        self._epoch = 0
        """Grows with every change of the configuration; what was computed across one is computed again."""
        self.newest: TimedPlan | None = None

    def put(self, plan: Plan, at: float, seconds: float) -> None:
        """Take a plan of the leader's cycle, which started at this time (epoch)."""
        self.newest = TimedPlan(plan, at, seconds)

    @property
    def next(self) -> float | None:
        """When this replica plans again; None if it does not lead."""
        return self.newest.made + self._interval if self.newest is not None and self._leading() else None

    async def get(self, wanted: StillWanted = always) -> TimedPlan | None:
        """Get the newest plan; one is made if it is too old. None while caches are not synced."""
        if not self._is_stale() or self._informers.unsynced():
            return self.newest

        async def compute() -> None:
            if self._is_stale():  # another request may have planned meanwhile
                self.newest = _timed_plan(await self._plan_now())

        await self._plan_lane.run(compute, wanted)
        return self.newest

    async def explain(self, key: ObjectKey, wanted: StillWanted = always) -> JsonBody:
        """Explain a pod by a planner of the newest state."""
        if why := self._informers.unsynced():
            raise HttpError(503, f"caches are not synced yet ({why}): try again", Retry_After="2")

        async def compute() -> JsonBody:
            cached = self._planner
            if cached is None or not cached.is_fresh():
                cached = await self._plan_now()
                if self._is_stale() or not self._leading():
                    self.newest = _timed_plan(cached)
            cached.used = time.monotonic()
            known = self._explanations
            if key not in known:
                found = await asyncio.to_thread(self._explain, *cached.value, key)
                while len(known) >= _REMEMBERED:
                    del known[next(iter(known))]
                known[key] = found
            return known[key]

        return await self._plan_lane.run(compute, wanted)

    async def objections(self, pods: Sequence[Pod], wanted: StillWanted = always) -> list[Objection]:
        """Find for each pod the first guard that objects to moving it."""

        async def compute() -> list[Objection]:
            guards = self._guards
            if guards is None or not guards.is_fresh():
                guards = self._guards = await self._make(lambda policy, capture: GuardContext(policy, capture()))
            return await asyncio.to_thread(_objections, guards.value, pods)

        return await self._guard_lane.run(compute, wanted)

    def drop_unused(self) -> None:
        """Drop planners that were not used lately; in a thread, because freeing them takes time."""
        now, gone = time.monotonic(), list[object]()
        if self._planner is not None and now - self._planner.used > _KEPT:
            gone += [self._planner, self._explanations]
            self._planner, self._explanations = None, {}
        if self._guards is not None and now - self._guards.used > _KEPT:
            gone.append(self._guards)
            self._guards = None
        if gone:
            asyncio.get_running_loop().run_in_executor(None, gone.clear)

    def invalidate(self) -> None:
        """Drop everything computed before, because the configuration has changed."""
        self._epoch += 1
        self._planner = self._guards = None
        if not self._leading():
            self.newest = None  # the next request makes another one

    @property
    def _interval(self) -> float:
        return self._live.config.fields.rescheduling_interval

    def _is_stale(self) -> bool:
        """Whether a new plan is due. A leader's cycle brings its own, unless it has stopped."""
        if self.newest is None:
            return True
        lasts = max(
            self._interval * (2.0 if self._leading() else 1.0),
            self.newest.seconds * _TIMES,
        )
        return self._informers.now() - self.newest.made > lasts

    async def _plan_now(self) -> _Cached[tuple[Planner, Plan]]:
        gone, self._planner, self._explanations = [self._planner, self._explanations], None, {}

        def plan(policy: Policy, capture: Callable[[], ClusterSnapshot]) -> tuple[Planner, Plan]:
            gone.clear()  # before the next one is made: two planners at once need too much memory
            return self._make_plan(capture(), policy)

        self._planner = await self._make(plan)
        return self._planner

    async def _make(self, make: Callable[[Policy, Callable[[], ClusterSnapshot]], Found]) -> _Cached[Found]:
        """Make something of the newest state, in a thread; again, if the configuration changes meanwhile."""
        while True:
            epoch, policy, informers = self._epoch, self._live.policy(), self._informers
            began, started = informers.now(), time.monotonic()
            capture = capture_settled(informers.capture, informers.migrations, policy.cool_down)()
            value = await asyncio.to_thread(make, policy, capture)
            ended = time.monotonic()
            if epoch == self._epoch:
                return _Cached(value, began, ended - started, ended, ended)

    def _explain(self, planner: Planner, plan: Plan, key: ObjectKey) -> JsonBody:
        """In a thread."""
        if key not in planner.columns.pod_index:
            namespace, pod = key
            why = "it is being replaced, or came or went a moment ago"
            raise HttpError(404, f"the planner has no pod {namespace}/{pod}: {why}; try again")
        return JsonBody(encode_json(explanation_document(self._make_explanation(planner, plan, key))))


def _timed_plan(cached: _Cached[tuple[Planner, Plan]]) -> TimedPlan:
    return TimedPlan(cached.value[1], cached.began, cached.seconds)


def _objections(context: GuardContext, pods: Sequence[Pod]) -> list[Objection]:
    return [first_objection(pod, context) or _NONE for pod in pods]
