"""Whatever may bring a migration on makes the controller work on it; one that fails stops no other.

A script plays the executor, and says how each look at a migration ends; time is virtual.
"""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, cast

import pytest

from rescheduler.decode.cache import Changed, ClusterCache
from rescheduler.kube.errors import ApiError
from rescheduler.migration.steps.common import STUCK
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import PodMigration
from rescheduler.model.objects import Owner, Workload
from rescheduler.runtime.executor import ControllerObserver, MigrationExecutor
from rescheduler.runtime.migration_cache import MigrationCache
from rescheduler.runtime.migration_controller import WORKERS, MigrationController
from rescheduler.runtime.starting.gate import StartGate
from tests.support.builders import pod
from tests.support.pod_migrations import migration_spec, replace
from tests.support.virtual_time import clock, in_virtual_time
from tests.unit.runtime.migrations import NOW, WEB, WEB_SET, over, pending, under_way

Look = float | Exception | Callable[[], Awaitable[float | None]] | None
OLD = "1"
IN_LINE = "it waits its turn: 1 under way (migration.concurrency.total)"


@dataclass
class Stage:
    """A controller with a scripted executor, a start gate that knows what waits, and a cluster of rows."""

    script: defaultdict[str, list[Look]] = field(default_factory=lambda: defaultdict(list))
    waiting: set[str] = field(default_factory=set)
    rows: dict[tuple[str, Any], Any] = field(default_factory=dict)
    migrations: MigrationCache = field(default_factory=MigrationCache)
    looks: list[tuple[float, str]] = field(default_factory=list)
    busy: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.told: list[Changed] = []
        self.controller = MigrationController(
            cast("MigrationExecutor", self),
            cast("StartGate", self),
            self.migrations,
            cast("ClusterCache", self),
            cast("ControllerObserver", self),
            lambda: NOW,
        )

    async def execute(self, key: ObjectKey, _now: object, _members: object) -> float | None:
        self.looks.append((clock(), key[1]))
        self.busy[key[1]] += 1
        assert self.busy[key[1]] == 1, "two work on one migration"
        try:
            look = self.script[key[1]].pop(0) if self.script[key[1]] else None
            if isinstance(look, Exception):
                raise look
            return await look() if callable(look) else look
        finally:
            self.busy[key[1]] -= 1

    def still_waits(self, migration: PodMigration, _now: float) -> bool:
        return migration.name in self.waiting

    @contextmanager
    def reserve(self, migration: PodMigration) -> Iterator[None]:
        assert (
            migration.name not in self.waiting
            or self.row("Pod", (migration.namespace, migration.spec.pod.name)) is None
        )
        yield

    def listen(self, listener: Changed) -> None:
        self.told.append(listener)

    def is_old(self, pod: ObjectKey, version: str) -> bool:
        return version == OLD

    def row(self, kind: str, key: Any) -> Any:
        return self.rows.get((kind, key))

    def has_pods_of(self, *migrations: PodMigration) -> None:
        """The watch has told of the pods that these are about."""
        for each in migrations:
            self.rows["Pod", (each.namespace, each.spec.pod.name)] = pod(
                each.spec.pod.name, "one", namespace=each.namespace
            )

    def changes(self, kind: str, key: Any, row: Any = None, version: str = "9") -> None:
        """The watch tells of an object."""
        self.rows[kind, key] = row
        for listener in self.told:
            listener(kind, key, version)

    def looked_at(self, since: float = 0.0) -> list[str]:
        return [name for moment, name in self.looks if moment >= since]


def told(test: Callable[[Stage], Awaitable[None]], *known: PodMigration) -> Stage:
    """Run the controller beside a story, on a cache that has these migrations."""
    stage = Stage()

    async def story() -> None:
        for each in known:
            stage.migrations.put(each)
        running = asyncio.ensure_future(stage.controller.run())
        try:
            await asyncio.sleep(1)
            await test(stage)
            assert not running.done()
        finally:
            running.cancel()
            await asyncio.wait([running])

    in_virtual_time(story)()
    return stage


async def a_while() -> float | None:
    await asyncio.sleep(10)
    return None


def test_at_first_everything_that_is_not_over_is_looked_at() -> None:
    recent, old = over("recent", completion_time=NOW), over("old", completion_time=NOW - 100)
    migrations = MigrationCache()
    for each in (pending("a"), under_way("b"), recent, old, over("undated", completion_time=None)):
        migrations.put(each)
    stage = Stage(migrations=migrations)

    async def story() -> None:
        running = asyncio.ensure_future(stage.controller.run())
        await asyncio.sleep(1)
        running.cancel()
        await asyncio.wait([running])
        assert sorted(stage.looked_at()) == ["a", "b", "recent"]

    in_virtual_time(story)()


def test_a_migration_is_looked_at_again_when_it_asked_to_be() -> None:
    async def story(stage: Stage) -> None:
        stage.script["m"] = [30.0, 5.0, None]
        stage.migrations.put(pending("m"))
        await asyncio.sleep(600)
        assert stage.looks == [(1.0, "m"), (31.0, "m"), (36.0, "m")]

    told(story)


@pytest.mark.parametrize(
    "error", [ApiError(500, "InternalError", "etcd is slow", "/x"), KeyError("metadata")], ids=["the server", "a bug"]
)
def test_an_error_ends_nothing_but_its_own_attempt_which_is_repeated_ever_more_slowly(error: Exception) -> None:
    async def story(stage: Stage) -> None:
        stage.script["bad"] = [error] * 6
        stage.migrations.put(pending("bad"))
        stage.migrations.put(pending("good"))
        await asyncio.sleep(600)
        assert stage.looked_at().count("good") == 1
        moments = [moment for moment, name in stage.looks if name == "bad"]
        assert len(moments) == 7
        pauses = [later - earlier for earlier, later in pairwise(moments)]
        assert all(0.25 * 2**n <= pause <= 0.5 * 2**n for n, pause in enumerate(pauses))

    told(story)


def test_one_that_hangs_keeps_no_other_waiting() -> None:
    async def story(stage: Stage) -> None:
        stage.script["slow"] = [a_while]
        stage.migrations.put(pending("slow"))
        for number in range(5 * WORKERS):
            stage.migrations.put(pending(f"m{number}"))
        await asyncio.sleep(1)
        assert len(stage.looked_at()) == 5 * WORKERS + 1

    told(story)


def test_our_own_writes_are_no_reason_to_look_again_and_others_are() -> None:
    async def story(stage: Stage) -> None:
        stage.migrations.put(under_way("m", version="2"), ours=True)
        await asyncio.sleep(1)
        assert stage.looked_at(1.0) == []
        stage.migrations.put(under_way("m", version="3"))
        await asyncio.sleep(1)
        assert stage.looked_at(1.0) == ["m"]

    told(story, pending("m"))


def test_whatever_changes_with_a_member_wakes_the_others_of_its_proposal() -> None:
    together = migration_spec("a", proposal="p", members=2)
    first, second = under_way("first", order=together), under_way("second", order=replace(together, pod="b"))

    async def story(stage: Stage) -> None:
        stage.migrations.put(replace(first, version="2"), ours=True)
        await asyncio.sleep(1)
        assert stage.looked_at(1.0) == ["second"]

    told(story, first, second, under_way("stranger"))


def test_changes_of_its_pods_and_of_its_workload_bring_a_migration_on() -> None:
    moving = under_way("m", "web-a", controller=WEB_SET, workload=WEB)
    sibling = pod("web-b", "one", namespace="shop", owner=Owner("ReplicaSet", WEB_SET.name, WEB_SET.uid))

    async def story(stage: Stage) -> None:
        changes: list[tuple[str, Any, Any]] = [
            ("Pod", ("shop", "web-a"), None),
            ("Pod", ("shop", "web-b"), sibling),
            ("Deployment", ("Deployment", "shop", "web"), Workload("Deployment", "shop", "web", WEB.uid)),
            ("ReplicaSet", ("ReplicaSet", "shop", "web-1"), Workload("ReplicaSet", "shop", "web-1", WEB_SET.uid)),
        ]
        for count, change in enumerate(changes, start=1):
            stage.changes(*change)
            await asyncio.sleep(1)
            assert stage.looked_at(1.0) == ["m"] * count

    told(story, moving, under_way("stranger"))


def test_what_has_nothing_to_do_with_a_migration_does_not_wake_it() -> None:
    async def story(stage: Stage) -> None:
        stage.changes("Pod", ("bank", "web-a"), pod("web-a", "one", namespace="bank"))
        stage.changes("Node", "one")
        stage.changes("Deployment", ("Deployment", "shop", "gone"))
        await asyncio.sleep(1)
        assert stage.looked_at(1.0) == []

    told(story, under_way("m", "web-a", controller=WEB_SET, workload=WEB))


def test_whoever_waits_in_line_costs_no_look_until_it_may_go() -> None:
    async def story(stage: Stage) -> None:
        stage.waiting = {"m"}
        stage.has_pods_of(pending("m"))
        stage.migrations.put(pending("m", message=IN_LINE))
        await asyncio.sleep(60)
        assert stage.looked_at() == []
        stage.waiting = set()
        await asyncio.sleep(5)
        assert stage.looked_at() == ["m"]

    told(story)


def test_whoever_waits_in_line_is_looked_at_when_its_pod_is_gone() -> None:
    async def story(stage: Stage) -> None:
        stage.waiting = {"m"}
        stage.has_pods_of(pending("m"))
        stage.migrations.put(pending("m", message=IN_LINE))
        await asyncio.sleep(1)
        stage.changes("Pod", ("shop", "pod-m"), None)
        await asyncio.sleep(1)
        assert stage.looked_at() == ["m"]

    told(story)


@pytest.mark.parametrize("ends", ["over", "stuck", "deleted"])
def test_when_one_ends_those_in_line_are_called_the_longest_waiting_first(ends: str) -> None:
    async def story(stage: Stage) -> None:
        stage.waiting = {"late", "early", "never"}
        for name, created in (("late", 30.0), ("early", 20.0), ("never", 10.0)):
            stage.has_pods_of(pending(name))
            stage.migrations.put(replace(pending(name, message=IN_LINE), created=created))
        await asyncio.sleep(0.5)
        stage.waiting = {"never"}
        if ends == "over":
            stage.migrations.put(over("first", version="2"), ours=True)
        elif ends == "stuck":
            stage.migrations.put(under_way("first", version="2", message=STUCK), ours=True)
        else:
            stage.migrations.drop(("shop", "first"))
        await asyncio.sleep(0.5)
        assert stage.looked_at(1.0) == ["early", "late"]

    told(story, under_way("first"))


def test_moves_of_one_controller_take_turns_and_others_go_beside_them() -> None:
    both = [under_way(name, controller=WEB_SET) for name in ("one", "two")]
    other = under_way("other", controller=replace(WEB_SET, uid="another"))
    stage = Stage()

    async def story() -> None:
        for each in (*both, other):
            stage.migrations.put(each)
            stage.script[each.name] = [a_while]
        running = asyncio.ensure_future(stage.controller.run())
        await asyncio.sleep(30)
        running.cancel()
        await asyncio.wait([running])
        assert sorted(stage.looks) == [(0.0, "one"), (0.0, "other"), (10.0, "two")]

    in_virtual_time(story)()


def test_those_that_have_not_begun_need_no_turn() -> None:
    async def story(stage: Stage) -> None:
        for name in ("one", "two"):
            stage.script[name] = [a_while]
            stage.migrations.put(pending(name, controller=WEB_SET))
        await asyncio.sleep(1)
        assert sorted(stage.looked_at()) == ["one", "two"]

    told(story)


def test_a_worker_in_hand_is_known() -> None:
    async def story(stage: Stage) -> None:
        stage.script["m"] = [a_while]
        stage.migrations.put(pending("m"))
        await asyncio.sleep(1)
        assert stage.controller.is_busy(("shop", "m"))
        assert not stage.controller.is_busy(("shop", "other"))
        await asyncio.sleep(10)
        assert not stage.controller.is_busy(("shop", "m"))

    told(story)


def test_parking_waits_until_no_move_is_in_a_delicate_step() -> None:
    async def story(stage: Stage) -> None:
        async def restored() -> float | None:
            await asyncio.sleep(7)
            stage.migrations.put(under_way("m", version="2", step="AwaitRebuiltReady"), ours=True)
            return 1.0

        stage.script["m"] = [restored]
        stage.changes("Pod", ("shop", "pod-m"))
        started = clock()
        await stage.controller.drain(20.0)
        assert clock() - started == 7
        before = len(stage.looks)
        await asyncio.sleep(60)
        assert len(stage.looks) == before, "a drained controller works on nothing"

    told(story, under_way("m", step="AwaitRebuilt"))


def test_parking_waits_no_longer_than_it_may() -> None:
    async def story(stage: Stage) -> None:
        started = clock()
        await stage.controller.drain(20.0)
        assert clock() - started == 20

    told(story, under_way("m", step="Evict"))


def test_parking_lets_a_request_that_is_on_its_way_end() -> None:
    async def story(stage: Stage) -> None:
        stage.script["m"] = [a_while]
        stage.changes("Pod", ("shop", "pod-m"))
        await asyncio.sleep(8)
        started = clock()
        await stage.controller.drain(20.0)
        assert clock() - started == 2

    told(story, under_way("m", step="Land"))


def test_parking_does_not_wait_for_a_worker_that_hangs() -> None:
    async def hang() -> float | None:
        await asyncio.sleep(3000)
        return None

    async def story(stage: Stage) -> None:
        stage.script["m"] = [hang]
        stage.changes("Pod", ("shop", "pod-m"))
        await asyncio.sleep(1)
        started = clock()
        await stage.controller.drain(20.0)
        assert clock() - started == 5

    told(story, under_way("m", step="Land"))


def test_parking_with_nothing_to_do_takes_no_time() -> None:
    async def story(stage: Stage) -> None:
        started = clock()
        await stage.controller.drain(20.0)
        assert clock() == started

    told(story, under_way("m", step="Land"), over("done"))


def test_what_is_under_way_is_tried_for_ever_what_is_pending_until_something_changes() -> None:
    stage = Stage()
    outage = ApiError(None, "Unreachable", "nobody is there", "/")
    begun, waiting = under_way("m", "web-a"), pending("p", "web-b")
    stage.script["m"] = [outage] * 100
    stage.script["p"] = [outage] * 100
    stage.has_pods_of(begun, waiting)

    async def story() -> None:
        for each in (begun, waiting):
            stage.migrations.put(each)
        running = asyncio.ensure_future(stage.controller.run())
        await asyncio.sleep(1800)
        running.cancel()
        await asyncio.wait([running])

    in_virtual_time(story)()
    assert set(stage.looked_at(since=1600.0)) == {"m"}


def test_what_a_look_has_seen_already_is_no_reason_to_look_again() -> None:
    moving = under_way("m", "web-a")

    async def story(stage: Stage) -> None:
        stage.looks.clear()
        stage.changes("Pod", ("shop", "web-a"), version=OLD)
        await asyncio.sleep(1)
        assert stage.looked_at() == []
        stage.changes("Pod", ("shop", "web-a"))
        await asyncio.sleep(1)
        assert stage.looked_at() == ["m"]

    told(story, moving)


def test_what_waits_for_its_copy_alone_does_not_heed_its_workload() -> None:
    landing = under_way("m", "web-a")
    landing = replace(landing, status=replace(landing.status, step="Land", controller=WEB_SET))

    async def story(stage: Stage) -> None:
        stage.looks.clear()
        stage.changes(
            "ReplicaSet", ("ReplicaSet", "shop", WEB_SET.name), Workload("ReplicaSet", "shop", "w", WEB_SET.uid)
        )
        await asyncio.sleep(1)
        assert stage.looked_at() == []

    told(story, landing)


def test_a_rollout_wakes_what_waits_for_its_copy_alone() -> None:
    landing = under_way("m", "web-a", step="Land", controller=WEB_SET, workload=WEB)
    rolling = Workload("Deployment", "shop", "web", WEB.uid, changing="is being rolled out or scaled")

    async def story(stage: Stage) -> None:
        stage.looks.clear()
        stage.changes("Deployment", ("Deployment", "shop", "web"), rolling)
        await asyncio.sleep(1)
        assert stage.looked_at() == ["m"]

    told(story, landing)


def test_who_waits_for_a_turn_is_looked_at_as_soon_as_it_may_be_free() -> None:
    """The one that has it has recorded its new pod: nothing else tells of that."""
    waits = under_way("waits", controller=WEB_SET, workload=WEB, step="TakeTurn")
    busy = under_way("busy", controller=WEB_SET, workload=WEB, step="AwaitRebuilt")
    elsewhere = under_way("elsewhere", controller=WEB_SET, workload=WEB, step="AwaitReady")

    async def story(stage: Stage) -> None:
        since = clock()
        stage.migrations.put(replace(busy, version="2", status=replace(busy.status, step="Restore")), ours=True)
        await asyncio.sleep(1)
        assert stage.looked_at(since) == ["waits"]

    told(story, waits, busy, elsewhere)
