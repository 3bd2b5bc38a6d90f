"""The recovery controller reads, decides, records and acts, in this order; no error ends it.

What is decided is played by a script, because `tests/unit/recovery` tests the deciding; time is virtual.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import cast

import pytest

from rescheduler.decode.cache import ClusterCache
from rescheduler.kube.errors import ApiError
from rescheduler.kube.events import EventRecorder
from rescheduler.kube.objects import CommandSender
from rescheduler.kube.record_owner import OwnedObjects, RecordOwnerKey, RecordOwners
from rescheduler.migration.commands import Command, Verb
from rescheduler.migration.events import ObjectEvent, Subject
from rescheduler.migration.observation import FailedCommand
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.policy import Policy
from rescheduler.recovery.decision import RecoveryDecision, WorkloadState
from rescheduler.recovery.settings import RecoverySettings
from rescheduler.runtime import recovery_controller
from rescheduler.runtime.recovery_controller import RecoveryController
from tests.support.informers import informers
from tests.support.live import live
from tests.support.pod_migrations import replace
from tests.support.virtual_time import clock
from tests.unit.runtime.failing_world import ASKS, RECORD, SPACE, beside, body, crashing, pod, told
from tests.unit.runtime.migrations import NOW

WEB = body("Deployment", "web", ASKS)
WEB_SET = body("ReplicaSet", "web-1", ASKS, WEB)
ILL = crashing("web-1-a", WEB_SET)
WEB_KEY: RecordOwnerKey = ("Deployment", SPACE, "web")
CONFLICT = FailedCommand(409, "Conflict", "it has changed")
NEWS = ObjectEvent(Subject("Deployment", SPACE, "web"), Subject("Pod", SPACE, "web-1-a"), "Why", "Recover", "so", "1")
QUIET = RecoveryDecision()


@dataclass
class Stage:
    """A cluster that shows what it is told to, and takes note of all that is done to it."""

    decisions: defaultdict[str, list[RecoveryDecision]] = field(default_factory=lambda: defaultdict(list))
    """By the holder's name; when there are no more, nothing is to be done."""
    answers: defaultdict[str, list[FailedCommand | ApiError | None]] = field(default_factory=lambda: defaultdict(list))
    """By verb and name, how the API server answers; then it agrees."""
    looks: list[tuple[float, str]] = field(default_factory=list)
    done: list[str] = field(default_factory=list)
    commands: list[Command] = field(default_factory=list)
    told: list[str] = field(default_factory=list)
    counted: list[str] = field(default_factory=list)
    cache: ClusterCache = field(default_factory=lambda: ClusterCache("test"))
    shown: dict[RecordOwnerKey, OwnedObjects | RecordOwnerKey | None] = field(default_factory=dict)
    slowness: float = 0.0
    settings: RecoverySettings = field(default_factory=RecoverySettings)

    def __post_init__(self) -> None:
        self.shown[WEB_KEY] = OwnedObjects(WEB, (WEB_SET,), (ILL,))
        policy = Policy(excluded_namespaces=("away",))
        self.steered_from = 0.0
        self.recovery = RecoveryController(
            cast("RecordOwners", self),
            informers(cache=self.cache, now=lambda: NOW + clock()),
            live(policy=lambda: policy, recovery=lambda: self.settings),
            cast("CommandSender", self),
            cast("EventRecorder", self),
            lambda: clock() >= self.steered_from,
        )
        self.recovery.count_outcome = self.counted.append

    async def look(self, key: RecordOwnerKey) -> OwnedObjects | RecordOwnerKey | None:
        self.looks.append((clock(), key[2]))
        await asyncio.sleep(self.slowness)
        return self.shown.get(key)

    async def find(self, kind: str, namespace: str, name: str) -> Json | None:
        found = self.shown.get((kind, namespace, name))
        return found.holder if isinstance(found, OwnedObjects) else None

    async def carry_out(self, command: Command) -> FailedCommand | None:
        deed = f"{command.verb} {command.name}"
        self.done.append(deed)
        self.commands.append(command)
        answer = self.answers[deed].pop(0) if self.answers[deed] else None
        if isinstance(answer, ApiError):
            raise answer
        return answer

    async def record(self, news: Iterable[ObjectEvent]) -> None:
        self.told += [each.reason for each in news]

    def decide(self, case: WorkloadState) -> RecoveryDecision:
        script = self.decisions[case.workload["metadata"]["name"]]
        return script.pop(0) if script else QUIET


@pytest.fixture
def stage(monkeypatch: pytest.MonkeyPatch) -> Stage:
    made = Stage()
    monkeypatch.setattr(recovery_controller, "decide", made.decide)
    return made


def recovers(stage: Stage, story: Callable[[], Awaitable[None]], *known: Json) -> None:
    told(stage.cache, *(known or (WEB, WEB_SET, ILL)))
    beside(stage.recovery.run, story)


async def a_minute() -> None:
    await asyncio.sleep(60)


def test_nothing_is_looked_at_while_new_pods_would_be_kept_off_no_node(stage: Stage) -> None:
    stage.steered_from = 30.0
    recovers(stage, a_minute)
    assert min(at for at, _ in stage.looks) >= 30.0


def down() -> ApiError:
    return ApiError(503, "ServiceUnavailable", "not now", "/api")


def test_the_record_comes_before_the_creation_and_that_before_the_deletion(stage: Stage) -> None:
    copy = body("Pod", "copy")
    stray = body("ReplicaSet", "web-0", RECORD, WEB)
    stage.decisions["web"] = [RecoveryDecision("text", (NEWS,), ("rescheduled",), (stray,), copy, (ILL,))]
    recovers(stage, a_minute)
    assert stage.done == ["patch web", "create copy", "patch web-0", "delete web-1-a"]
    record, _, unnoted, deletion = stage.commands
    metadata = {"uid": "web-uid", "resourceVersion": "1", "annotations": {labels.FAILURES: "text"}}
    assert record.body == {"metadata": metadata}
    assert unnoted.body == {"metadata": {"uid": "web-0-uid", "annotations": {labels.FAILURES: None}}}
    assert deletion.body["preconditions"] == {"uid": "web-1-a-uid", "resourceVersion": "1"}  # type: ignore[call-overload]
    assert (stage.told, stage.counted) == (["Why"], ["rescheduled"])


def test_a_record_that_is_cleared_is_taken_off(stage: Stage) -> None:
    stage.decisions["web"] = [RecoveryDecision("")]
    recovers(stage, a_minute)
    assert stage.commands[0].body["metadata"]["annotations"] == {labels.FAILURES: None}  # type: ignore[call-overload]


def test_a_record_that_somebody_else_overtook_is_decided_anew(stage: Stage) -> None:
    first, second = (
        RecoveryDecision("one", (NEWS,), ("rescheduled",), deletions=(ILL,)),
        RecoveryDecision("two", deletions=(ILL,)),
    )
    stage.decisions["web"] = [first, first, second]
    stage.answers["patch web"] = [CONFLICT, CONFLICT]
    recovers(stage, a_minute)
    assert stage.done == ["patch web"] * 3 + ["delete web-1-a"]
    assert [stage.told, stage.counted] == [[], []], "what was not recorded did not happen"


def test_a_record_that_is_overtaken_again_and_again_is_written_in_the_end(stage: Stage) -> None:
    stage.decisions["web"] = [RecoveryDecision("one", deletions=(ILL,))] * 14
    stage.answers["patch web"] = [CONFLICT] * 13
    recovers(stage, a_minute)
    assert stage.done == ["patch web"] * 14 + ["delete web-1-a"]


def test_the_record_of_a_single_pod_makes_another_version_of_it_so_it_is_seen_again_before_it_goes(
    stage: Stage,
) -> None:
    single, newer = crashing("single", notes=ASKS), crashing("single", notes=ASKS | RECORD)
    newer["metadata"]["resourceVersion"] = "2"
    key: RecordOwnerKey = ("Pod", SPACE, "single")
    stage.shown[key] = OwnedObjects(newer, (), (newer,))
    copy = body("Pod", "copy")
    stage.decisions["single"] = [
        RecoveryDecision("text", (NEWS,), ("rescheduled",), creation=copy, deletions=(single,)),
        RecoveryDecision(creation=copy, deletions=(newer,)),
    ]
    recovers(stage, a_minute, single)
    assert stage.done == ["patch single", "create copy", "delete single"]
    assert stage.commands[-1].body["preconditions"]["resourceVersion"] == "2"  # type: ignore[call-overload]
    assert stage.counted == ["rescheduled"]


def test_where_nothing_takes_its_place_a_pod_is_not_deleted(stage: Stage) -> None:
    stage.decisions["web"] = [RecoveryDecision(creation=body("Pod", "copy"), deletions=(ILL,))] * 2
    stage.answers["create copy"] = [FailedCommand(403, "Forbidden", "exceeded quota")]
    recovers(stage, a_minute)
    assert stage.done == ["create copy", "create copy", "delete web-1-a"]


def test_a_pod_that_has_changed_meanwhile_is_looked_at_again_at_once(stage: Stage) -> None:
    stage.decisions["web"] = [
        RecoveryDecision("text", (NEWS,), deletions=(ILL, pod("web-1-b")), requeue_after=300.0),
        RecoveryDecision(deletions=(ILL,), requeue_after=20.0),
    ]
    stage.answers["delete web-1-a"] = [CONFLICT]
    recovers(stage, a_minute)
    assert stage.done == ["patch web", "delete web-1-a", "delete web-1-b", "delete web-1-a"]
    assert stage.looks == [(0.0, "web"), (0.0, "web"), (20.0, "web")]


def test_a_pod_that_changes_all_the_time_is_deleted_in_the_end(stage: Stage) -> None:
    stage.decisions["web"] = [RecoveryDecision(deletions=(ILL,))] * 12
    stage.answers["delete web-1-a"] = [CONFLICT] * 11
    recovers(stage, a_minute)
    assert stage.done == ["delete web-1-a"] * 12


def test_it_is_looked_at_again_when_the_decision_says_so(stage: Stage) -> None:
    stage.decisions["web"] = [RecoveryDecision(requeue_after=30.0), RecoveryDecision(requeue_after=5.0)]
    recovers(stage, a_minute)
    assert stage.looks == [(0.0, "web"), (30.0, "web"), (35.0, "web")]


def test_events_in_a_row_are_answered_a_few_times_a_second(stage: Stage) -> None:
    async def story() -> None:
        for _ in range(100):
            told(stage.cache, ILL)
            await asyncio.sleep(0.01)
        await asyncio.sleep(60)

    recovers(stage, story)
    assert [moment for moment, _ in stage.looks] == pytest.approx([0.0, 1.0, 1.2, 1.4, 1.6, 1.8, 2.0])


def test_a_look_that_takes_long_is_not_taken_often(stage: Stage) -> None:
    stage.slowness = 3.0

    async def story() -> None:
        for _ in range(100):
            told(stage.cache, ILL)
            await asyncio.sleep(1)

    recovers(stage, story)
    assert [moment for moment, _ in stage.looks] == [0.0, 33.0, 66.0, 99.0]


def test_two_workers_never_work_on_one_workload(stage: Stage) -> None:
    stage.slowness = 10.0

    async def story() -> None:
        for _ in range(9):
            told(stage.cache, ILL)
            await asyncio.sleep(1)
        assert len(stage.looks) == 1

    recovers(stage, story)


def test_an_error_ends_nothing_but_the_attempt(stage: Stage) -> None:
    other = body("StatefulSet", "db", ASKS)
    stage.shown["StatefulSet", SPACE, "db"] = OwnedObjects(other, (other,), ())
    stage.decisions["web"] = [RecoveryDecision("text", deletions=(ILL,))] * 3
    stage.answers["patch web"] = [down(), FailedCommand(422, "Invalid", "too long")]
    recovers(stage, a_minute, WEB, WEB_SET, ILL, other, crashing("db-0", other))
    assert stage.done == ["patch web"] * 3 + ["delete web-1-a"]
    assert (0.0, "db") in stage.looks


def test_an_object_that_makes_no_sense_ends_nothing_but_the_attempt(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    nonsense = {"metadata": {"uid": "u", "annotations": {}}, "spec": {}}
    key: RecordOwnerKey = ("StatefulSet", SPACE, "db")
    db = body("StatefulSet", "db", ASKS)
    stage.shown[key] = OwnedObjects(db, (db,), (nonsense,))
    stage.decisions["web"] = [RecoveryDecision(deletions=(ILL,))]
    recovers(stage, a_minute, db, crashing("db-0", db), WEB, WEB_SET, ILL)
    assert stage.done == ["delete web-1-a"]
    assert len([name for _, name in stage.looks if name == "db"]) > 3, "it is tried again, ever more slowly"


def test_what_never_works_is_still_tried_every_minute(stage: Stage) -> None:
    stage.decisions["web"] = [RecoveryDecision("text")] * 1000
    stage.answers["patch web"] = [FailedCommand(403, "Forbidden", "no")] * 1000

    async def story() -> None:
        await asyncio.sleep(3000)
        before = len(stage.done)
        await asyncio.sleep(500)
        assert 7 <= len(stage.done) - before <= 17

    recovers(stage, story)


def test_pods_that_go_on_crashing_are_no_reason_to_try_sooner(stage: Stage) -> None:
    stage.decisions["web"] = [RecoveryDecision("text")] * 1000
    stage.answers["patch web"] = [FailedCommand(403, "Forbidden", "no")] * 1000

    async def story() -> None:
        for _ in range(600):
            told(stage.cache, ILL)
            await asyncio.sleep(0.1)

    recovers(stage, story)
    assert len(stage.done) <= 9, "0.25, 0.5, 1, 2, 4, 8, 16, 32 seconds at least"


def test_who_keeps_the_record_instead_is_looked_at_instead(stage: Stage) -> None:
    job = body("Job", "nightly-1", ASKS)
    stage.shown["Job", SPACE, "nightly-1"] = ("CronJob", SPACE, "nightly")
    cron = body("CronJob", "nightly", ASKS)
    stage.shown["CronJob", SPACE, "nightly"] = OwnedObjects(cron, (job,), ())
    recovers(stage, a_minute, job, crashing("nightly-1-a", job))
    assert [name for _, name in stage.looks] == ["nightly-1", "nightly"]


def test_excluded_namespaces_are_not_even_looked_at(stage: Stage) -> None:
    away = crashing("away", notes=ASKS)
    away["metadata"]["namespace"] = "away"
    recovers(stage, a_minute, away)
    assert stage.looks == []


def test_a_holder_that_is_gone_is_forgotten(stage: Stage) -> None:
    stage.shown.clear()
    recovers(stage, a_minute)
    assert stage.looks == [(0.0, "web")]


def test_people_are_told_beside_the_work_and_the_rest_in_the_end(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    async def slow(news: Iterable[ObjectEvent]) -> None:
        await asyncio.sleep(3600)

    monkeypatch.setattr(stage, "record", slow)
    stage.decisions["web"] = [RecoveryDecision("text", (NEWS,), deletions=(ILL,))]
    recovers(stage, a_minute)
    assert stage.done == ["patch web", "delete web-1-a"]
    monkeypatch.undo()
    asyncio.run(stage.recovery.flush())
    assert stage.told == ["Why"]


def test_what_is_said_at_every_look_is_told_once(stage: Stage) -> None:
    other = replace(NEWS, occasion="2")
    stage.decisions["web"] = [RecoveryDecision(events=(NEWS,), requeue_after=1.0)] * 3 + [
        RecoveryDecision(events=(NEWS, other))
    ]
    recovers(stage, a_minute)
    assert stage.told == ["Why", "Why"]


def test_deletions_are_no_evictions(stage: Stage) -> None:
    """A failing pod may stand in the way of its own disruption budget for ever."""
    stage.decisions["web"] = [RecoveryDecision(deletions=(ILL,))]
    recovers(stage, a_minute)
    assert [each.verb for each in stage.commands] == [Verb.DELETE]
