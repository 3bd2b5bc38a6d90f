"""Pods that have failed as a whole are remembered until they are decided about, and never counted twice."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, cast

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.decode.cache import ClusterCache
from rescheduler.kube.events import EventRecorder
from rescheduler.kube.objects import CommandSender
from rescheduler.kube.record_owner import OwnedObjects, RecordOwnerKey, RecordOwners
from rescheduler.migration.commands import Command
from rescheduler.migration.observation import FailedCommand
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.objects import Pod
from rescheduler.recovery.record import parse_record
from rescheduler.recovery.settings import RecoverySettings
from rescheduler.runtime.failure_detector import VanishedPods
from rescheduler.runtime.recovery_controller import RecoveryController
from tests.support.examples import examples
from tests.support.informers import informers
from tests.support.live import live
from tests.support.virtual_time import clock
from tests.unit.runtime.failing_world import ASKS, SPACE, beside, body, crashing, pod, told
from tests.unit.runtime.migrations import NOW

DB_KEY: RecordOwnerKey = ("StatefulSet", SPACE, "db")
READY = {"type": "Ready", "status": "True"}
SPEC = {"replicas": 2, "template": {"spec": {}}}


def fallen_pod(name: str, of: Json | None, number: int = 1, **more: Any) -> Json:
    """The so-and-so-many-th pod of a name, when its kubelet has turned it away."""
    made = pod(name, of, **({"phase": "Failed", "reason": "OutOfcpu", "conditions": []} | more))
    made["metadata"]["uid"] = f"{name}-{number}"
    return made


def row(seen: Json) -> Pod:
    cache = ClusterCache("test")
    told(cache, seen)
    found: Pod = cache.row("Pod", (SPACE, seen["metadata"]["name"]))
    return found


def uids(vanished: VanishedPods, owner: str = "db-uid") -> list[str]:
    return [pod_gone.pod.uid for pod_gone in vanished.of({owner})]


DB = body("StatefulSet", "db", ASKS, spec=SPEC)


def test_only_pods_of_controllers_that_failed_as_a_whole_on_a_node_are_remembered() -> None:
    vanished = VanishedPods(lambda: NOW)
    leaving = fallen_pod("db-1", DB)
    leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    for each in (crashing("db-0", DB), leaving, fallen_pod("single", None), fallen_pod("db-2", DB, node="")):
        vanished.observe(row(each))
    assert len(vanished) == 0
    vanished.observe(row(fallen_pod("db-3", DB)))
    assert (uids(vanished), uids(vanished, "other")) == (["db-3-1"], [])


def test_what_is_said_twice_is_no_younger_and_what_is_settled_is_never_remembered_again() -> None:
    moments = iter((NOW, NOW, NOW + 60))
    vanished = VanishedPods(lambda: next(moments))
    seen = row(fallen_pod("db-0", DB))
    vanished.observe(seen)
    vanished.observe(seen)
    assert [each.seen for each in vanished.of({"db-uid"})] == [NOW]
    vanished.settle(["db-0-1", "db-1-1"])
    vanished.observe(seen)
    vanished.observe(row(fallen_pod("db-1", DB)))
    assert len(vanished) == 0


def test_what_nobody_looks_at_is_forgotten_in_the_end() -> None:
    moment = [NOW]
    vanished = VanishedPods(lambda: moment[0])
    vanished.observe(row(fallen_pod("db-0", DB)))
    moment[0] += 601
    vanished.observe(row(fallen_pod("db-0", DB, 2)))
    assert uids(vanished) == ["db-0-2"]


def test_it_has_an_upper_bound() -> None:
    vanished = VanishedPods(lambda: NOW)
    kept = row(fallen_pod("db-0", DB))
    for number in range(10_500):
        vanished.observe(msgspec.structs.replace(kept, uid=f"u{number}"))
    assert len(vanished) == 10_000
    vanished.settle(f"u{number}" for number in range(30_000))
    assert (len(vanished), len(vanished._settled)) == (0, 10_000)


class Stage:
    """A StatefulSet whose controller deletes what has failed before anybody can read it."""

    def __init__(self, settings: RecoverySettings) -> None:
        self.cache = ClusterCache("test")
        self.holder = body("StatefulSet", "db", ASKS, spec=SPEC)
        self.pods: tuple[Json, ...] = ()
        self.deleted: list[str] = []
        self.counted: list[str] = []
        self.conflicts = 0
        self.looks = 0
        self.recovery = RecoveryController(
            cast("RecordOwners", self),
            informers(cache=self.cache, now=lambda: NOW + clock()),
            live(recovery=lambda: settings),
            cast("CommandSender", self),
            cast("EventRecorder", self),
        )
        self.recovery.count_outcome = self.counted.append
        told(self.cache, self.holder, *(body("Node", name, status={"conditions": [READY]}) for name in ("one", "two")))

    async def look(self, key: RecordOwnerKey) -> OwnedObjects | RecordOwnerKey | None:
        assert key == DB_KEY
        self.looks += 1
        return OwnedObjects(self.holder, (self.holder,), self.pods)

    async def find(self, kind: str, namespace: str, name: str) -> Json | None:
        return self.holder if (kind, namespace, name) == DB_KEY else None

    async def carry_out(self, command: Command) -> FailedCommand | None:
        if command.kind == "Pod":
            self.deleted.append(command.name)
            return None
        if self.conflicts:
            self.conflicts -= 1
            return FailedCommand(409, "Conflict", "it has changed")
        text = command.body["metadata"]["annotations"][labels.FAILURES]  # type: ignore[call-overload]
        self.holder = body("StatefulSet", "db", ASKS | ({labels.FAILURES: text} if text else {}), spec=SPEC)
        told(self.cache, self.holder)
        return None

    async def record(self, news: object) -> None:
        pass

    def falls(self, name: str, number: int = 1) -> None:
        """A pod fails, and is gone; the watch tells of both."""
        told(self.cache, fallen_pod(name, self.holder, number))
        self.cache.drop("Pod", (SPACE, name))

    @property
    def counts(self) -> dict[str, int]:
        found = parse_record(self.holder["metadata"]["annotations"].get(labels.FAILURES, ""))
        return {name: entry.count for name, entry in found.items()}


def test_a_pod_that_was_gone_before_it_could_be_read_is_counted_once() -> None:
    stage = Stage(RecoverySettings())

    async def story() -> None:
        stage.falls("db-0")
        await asyncio.sleep(3)
        assert stage.counts == {}, "it is too early"
        await asyncio.sleep(60)
        assert (stage.counts, stage.counted, stage.deleted) == ({"db-0": 1}, ["rescheduled"], [])
        told(stage.cache, fallen_pod("db-0", stage.holder))  # by a watch that is behind
        await asyncio.sleep(60)
        assert (stage.counts, stage.counted) == ({"db-0": 1}, ["rescheduled"])
        assert "pending" not in stage.holder["metadata"]["annotations"][labels.FAILURES]

    beside(stage.recovery.run, story)


def test_each_pod_of_one_name_counts_for_itself_and_only_within_the_budget() -> None:
    stage = Stage(RecoverySettings(delay=0.0))

    async def story() -> None:
        for number in range(5):
            stage.falls("db-0", number)
            await asyncio.sleep(1)
        stage.falls("db-1")
        await asyncio.sleep(60)
        assert (stage.counts, sorted(stage.counted)) == ({"db-0": 2, "db-1": 1}, ["exhausted", *["rescheduled"] * 3])
        stage.holder["metadata"]["annotations"][labels.SCHEDULING_RETRIES] = "9"
        told(stage.cache, stage.holder)
        await asyncio.sleep(60)
        assert stage.counts["db-0"] == 2, "what was beyond the budget is not counted afterwards"

    beside(stage.recovery.run, story)


def test_a_pod_that_was_read_and_counted_is_not_counted_again_when_it_is_gone() -> None:
    stage = Stage(RecoverySettings(delay=0.0))

    async def story() -> None:
        there = fallen_pod("db-0", stage.holder)
        stage.pods = (there,)
        told(stage.cache, there)
        await asyncio.sleep(10)
        assert (stage.counts, set(stage.deleted)) == ({"db-0": 1}, {"db-0"})
        stage.pods = ()
        stage.cache.drop("Pod", (SPACE, "db-0"))
        await asyncio.sleep(60)
        assert (stage.counts, stage.counted) == ({"db-0": 1}, ["rescheduled"])

    beside(stage.recovery.run, story)


def test_a_failed_pod_that_is_leaving_when_it_is_read_is_counted_once() -> None:
    stage = Stage(RecoverySettings(delay=0.0))

    async def story() -> None:
        there = fallen_pod("db-0", stage.holder)
        leaving = fallen_pod("db-0", stage.holder)
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        stage.pods = (leaving,)
        told(stage.cache, there, leaving)
        await asyncio.sleep(10)
        stage.pods = ()
        stage.cache.drop("Pod", (SPACE, "db-0"))
        await asyncio.sleep(60)
        assert (stage.counts, stage.counted, stage.deleted) == ({"db-0": 1}, ["rescheduled"], [])

    beside(stage.recovery.run, story)


def test_a_record_that_could_not_be_written_forgets_nothing() -> None:
    stage = Stage(RecoverySettings(delay=0.0))
    stage.conflicts = 13

    async def story() -> None:
        stage.falls("db-0")
        await asyncio.sleep(300)
        assert (stage.conflicts, stage.counts, stage.counted) == (0, {"db-0": 1}, ["rescheduled"])

    beside(stage.recovery.run, story)


def test_a_hundred_and_fifty_that_vanish_at_once_are_all_counted() -> None:
    stage = Stage(RecoverySettings(delay=0.0))

    async def story() -> None:
        for number in range(150):
            stage.falls(f"db-{number}")
        await asyncio.sleep(300)
        assert stage.counts == {f"db-{number}": 1 for number in range(150)}
        assert stage.counted == ["rescheduled"] * 150

    beside(stage.recovery.run, story)


def test_nothing_is_remembered_for_workloads_that_do_not_ask_nor_when_others_lead() -> None:
    stage = Stage(RecoverySettings(delay=0.0))
    vanished = stage.recovery._detector.vanished
    quiet = body("StatefulSet", "quiet")

    async def story() -> None:
        told(stage.cache, quiet, fallen_pod("quiet-0", quiet), fallen_pod("db-0", stage.holder))
        assert [pod_gone.pod.uid for pod_gone in vanished.of({"quiet-uid", "db-uid"})] == ["db-0-1"]

    beside(stage.recovery.run, story)
    told(stage.cache, fallen_pod("db-1", stage.holder))
    assert len(vanished) == 0


def test_pods_that_had_failed_before_it_led_are_not_remembered_because_nobody_knows_since_when() -> None:
    stage = Stage(RecoverySettings(delay=0.0))
    told(stage.cache, fallen_pod("db-0", stage.holder))

    async def story() -> None:
        stage.cache.drop("Pod", (SPACE, "db-0"))
        await asyncio.sleep(60)
        assert stage.looks > 0
        assert stage.counts == {}

    beside(stage.recovery.run, story)


class Laggard(Stage):
    """The same, with pods that are there, and a watch that tells of them when it likes, in order."""

    def __init__(self) -> None:
        super().__init__(RecoverySettings(delay=1.0))
        self.holder["metadata"]["annotations"][labels.SCHEDULING_RETRIES] = "1000"
        told(self.cache, self.holder)
        self.live: dict[str, Json] = {}
        self.untold: deque[Callable[[], None]] = deque()
        self.fell: Counter[str] = Counter()

    async def look(self, key: RecordOwnerKey) -> OwnedObjects | RecordOwnerKey | None:
        self.pods = tuple(self.live.values())
        return await super().look(key)

    async def carry_out(self, command: Command) -> FailedCommand | None:
        if command.kind != "Pod":
            return await super().carry_out(command)
        found = self.live.get(command.name)
        seen = command.body["preconditions"]  # type: ignore[call-overload]
        if found is None or any(found["metadata"][key] != value for key, value in seen.items()):
            return FailedCommand(409, "Conflict", "it is another")
        self.goes(command.name)
        return None

    def step(self, what: str, name: str) -> None:
        """One thing happens, if it can."""
        if what == "told" and self.untold:
            self.untold.popleft()()
        elif what == "fails" and name not in self.live:
            self.fell[name] += 1
            self.live[name] = fallen_pod(name, self.holder, self.fell[name])
            self.untold.append(lambda seen=self.live[name]: told(self.cache, seen))  # type: ignore[misc]
        elif what == "leaves" and name in self.live:
            metadata = self.live[name]["metadata"]
            more = {"deletionTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "2"}
            self.live[name] = self.live[name] | {"metadata": metadata | more}
            self.untold.append(lambda seen=self.live[name]: told(self.cache, seen))  # type: ignore[misc]
        elif what == "goes" and name in self.live:
            self.goes(name)

    def goes(self, name: str) -> None:
        del self.live[name]
        self.untold.append(lambda: self.cache.drop("Pod", (SPACE, name)))


STEPS = st.tuples(
    st.sampled_from(["told", "told", "fails", "fails", "leaves", "goes"]),
    st.sampled_from(["db-0", "db-1"]),
    st.sampled_from([0.0, 0.0, 0.1, 0.3, 2.0]),
)


@settings(max_examples=examples(few=15, many=150))
@given(st.lists(STEPS, max_size=40))
def test_whatever_comes_first_every_pod_that_failed_is_counted_once(steps: list[tuple[str, str, float]]) -> None:
    """It may be read, be leaving or be gone before the watch tells of it, or after."""
    stage = Laggard()

    def holds() -> None:
        assert all(count <= stage.fell[name] for name, count in stage.counts.items())

    async def story() -> None:
        for what, name, pause in steps:
            stage.step(what, name)
            await asyncio.sleep(pause)
            holds()
        while stage.untold or stage.live:
            for name in ("db-0", "db-1"):
                stage.step("goes", name)
            stage.step("told", "")
            await asyncio.sleep(0.1)
            holds()
        await asyncio.sleep(60)
        assert stage.counts == dict(stage.fell)
        assert stage.counted == ["rescheduled"] * stage.fell.total()

    beside(stage.recovery.run, story)
