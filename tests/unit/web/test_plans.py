"""Plans and explanations for those who look: one at a time, shared, and not for those who have gone."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, cast

import pytest

from rescheduler.app.planning import explain_in_plan, load_configuration
from rescheduler.config.live import LiveConfig
from rescheduler.model.plan import Plan
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.explain import Explanation
from rescheduler.planning.planner import Planner
from rescheduler.runtime.informers import Informers
from rescheduler.runtime.migration_cache import MigrationCache
from rescheduler.web import plans as module
from rescheduler.web.plans import PlanCache, WorkLane
from rescheduler.web.responses import HttpError
from tests.support.builders import cluster, node, pod
from tests.support.showing import Clock


class SlowPlanner:
    """Plans as the product does, counts how often, and can be made to wait."""

    def __init__(self, *, leading: bool = False) -> None:
        self.clock = Clock()
        self.planned = 0
        self.explained: list[tuple[str, str]] = []
        self.at_once = 0
        self.most_at_once = 0
        self.begun = threading.Event()
        self.go_on = threading.Event()
        self.go_on.set()
        self.snapshot = cluster(node("a"), node("b"), *(pod(f"p{n}", on="a") for n in range(4)))
        informers = SimpleNamespace(
            now=self.clock, unsynced=lambda: "", capture=lambda: lambda: self.snapshot, migrations=MigrationCache()
        )
        live = LiveConfig(load_configuration(None, {}), self.clock.now)
        self.plans = PlanCache(cast("Informers", informers), live, self._plan, self._explain, lambda: leading)

    def _busy(self, work: Callable[[], Any]) -> Any:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.begun.set()
        assert self.go_on.wait(60)
        time.sleep(0.001)  # so that others could come between
        found = work()
        self.at_once -= 1
        return found

    def _plan(self, snapshot: ClusterSnapshot, policy: Policy) -> tuple[Planner, Plan]:
        def plan() -> tuple[Planner, Plan]:
            self.planned += 1
            planner = Planner(snapshot, policy)
            return planner, planner.plan([])

        found: tuple[Planner, Plan] = self._busy(plan)
        return found

    def _explain(self, planner: Planner, plan: Plan, key: tuple[str, str]) -> Explanation:
        self.explained.append(key)
        found: Explanation = self._busy(lambda: explain_in_plan(planner, plan, key))
        return found


async def test_those_who_ask_at_the_same_time_share_one_plan() -> None:
    planner = SlowPlanner()
    found = await asyncio.gather(*(planner.plans.get() for _ in range(8)))
    assert planner.planned == 1
    assert all(each is found[0] for each in found)


async def test_who_does_not_lead_plans_at_most_once_an_interval() -> None:
    planner = SlowPlanner()
    await planner.plans.get()
    planner.clock.now += 29
    await planner.plans.get()
    assert planner.planned == 1
    planner.clock.now += 2
    await planner.plans.get()
    assert planner.planned == 2


async def test_a_leaders_plan_is_his_cycles() -> None:
    planner = SlowPlanner(leading=True)
    made = Planner(planner.snapshot, Policy()).plan([])
    planner.plans.put(made, planner.clock.now, 0.1)
    planner.clock.now += 45
    newest = await planner.plans.get()
    assert newest is not None
    assert newest.plan is made
    assert (planner.planned, planner.plans.next) == (0, newest.made + 30)
    await planner.plans.explain(("default", "p1"))
    assert planner.plans.newest is newest, "what is planned for an explanation is not what the cycle has planned"


async def test_many_explanations_are_made_one_at_a_time_with_one_planner(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_QUICK", 3600.0)  # however long the machine takes for them
    planner = SlowPlanner()
    keys = [("default", f"p{number % 4}") for number in range(12)]
    found = await asyncio.gather(*(planner.plans.explain(key) for key in keys))
    assert [b'"%s"' % key[1].encode() in body.plain for key, body in zip(keys, found, strict=True)] == [True] * 12
    assert (planner.planned, planner.most_at_once, len(planner.explained)) == (1, 1, 4)


async def test_what_is_planned_for_an_explanation_grows_old(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_QUICK", 0.0)
    monkeypatch.setattr(module, "_TIMES", 0.0)
    planner = SlowPlanner()
    await planner.plans.explain(("default", "p1"))
    await planner.plans.explain(("default", "p1"))
    assert planner.planned == 2


async def test_a_pod_that_the_planner_does_not_know_is_refused() -> None:
    planner = SlowPlanner()
    with pytest.raises(HttpError) as refused:
        await planner.plans.explain(("default", "nobody"))
    assert refused.value.status == 404


async def test_nothing_is_begun_for_those_who_have_gone() -> None:
    planner = SlowPlanner()
    planner.go_on.clear()
    first = asyncio.create_task(planner.plans.explain(("default", "p1")))
    await asyncio.sleep(0)
    gone = asyncio.create_task(planner.plans.explain(("default", "p2"), lambda: False))
    await asyncio.sleep(0)
    third = asyncio.create_task(planner.plans.explain(("default", "p3")))
    await asyncio.sleep(0)
    planner.go_on.set()
    with pytest.raises(HttpError):
        await gone
    await asyncio.gather(first, third)
    assert (planner.explained, planner.most_at_once) == ([("default", "p1"), ("default", "p3")], 1)


async def test_too_many_who_wait_are_told_to_come_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_MOST", 2)
    lane, go_on = WorkLane(), asyncio.Event()

    async def work() -> None:
        await go_on.wait()

    waiting = [asyncio.create_task(lane.run(work)) for _ in range(2)]
    await asyncio.sleep(0)
    with pytest.raises(HttpError) as refused:
        await lane.run(work)
    assert (refused.value.status, refused.value.headers) == (503, {"Retry-After": "2"})
    go_on.set()
    await asyncio.gather(*waiting)


async def test_a_planner_that_nobody_asks_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_QUICK", 3600.0)
    planner = SlowPlanner()
    await planner.plans.explain(("default", "p1"))
    planner.plans.drop_unused()
    await planner.plans.explain(("default", "p1"))
    assert planner.planned == 1
    monkeypatch.setattr(module, "_KEPT", -1.0)
    planner.plans.drop_unused()
    await planner.plans.explain(("default", "p1"))
    assert planner.planned == 2
