"""Which workloads recovery looks at, and when: only where it is enabled, and only if there is a cause.

A Job ends after its last pod has, so a change of the Job itself is a cause.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from rescheduler.decode.cache import ClusterCache
from rescheduler.kube.record_owner import RecordOwnerKey
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.recovery.settings import RecoverySettings
from rescheduler.runtime.failure_detector import FailureDetector
from tests.support.live import live
from tests.support.virtual_time import clock
from tests.unit.runtime.failing_world import ASKS, RECORD, SPACE, beside, body, crashing, node, pod, starting, told
from tests.unit.runtime.migrations import NOW

WEB = body("Deployment", "web", ASKS)
WEB_SET = body("ReplicaSet", "web-1", ASKS, WEB)
QUIET = body("Deployment", "quiet")
QUIET_SET = body("ReplicaSet", "quiet-1", of=QUIET)


class Stage:
    """A cache, and who is suspected when."""

    def __init__(self) -> None:
        self.cache = ClusterCache("test")
        self.suspected: list[tuple[float, RecordOwnerKey]] = []
        self.settings = RecoverySettings(start_timeout=600, node_not_ready=60)
        self.failing = FailureDetector(
            self.cache, live(recovery=lambda: self.settings), lambda: NOW + clock(), self._suspect
        )

    def _suspect(self, key: RecordOwnerKey) -> None:
        self.suspected.append((clock(), key))

    def tell(self, *bodies: Json) -> None:
        told(self.cache, *bodies)

    def names(self) -> list[str]:
        """Who was suspected since the last time."""
        found = [f"{kind} {name}" for _, (kind, _, name) in self.suspected]
        self.suspected.clear()
        return found


def looking(story: Callable[[Stage], Awaitable[None]], *known: Json) -> Stage:
    """The story is told to one that knows these from the beginning."""
    stage = Stage()
    stage.tell(*known)
    beside(stage.failing.run, lambda: story(stage))
    return stage


def test_nobody_is_told_of_before_it_leads() -> None:
    stage = Stage()
    stage.tell(WEB, WEB_SET, crashing("web-1-a", WEB_SET))
    assert stage.names() == []


def test_in_the_beginning_all_that_fails_already_is_looked_at() -> None:
    async def story(stage: Stage) -> None:
        assert sorted(set(stage.names())) == ["Deployment recorded", "Deployment web", "Pod single"]

    recorded = body("Deployment", "recorded", RECORD)
    single = crashing("single", notes=ASKS)
    ill = [crashing("web-1-a", WEB_SET), crashing("quiet-1-a", QUIET_SET), single]
    looking(story, WEB, WEB_SET, QUIET, QUIET_SET, recorded, *ill, pod("well", notes=ASKS))


def test_a_pod_that_begins_to_fail_has_its_deployment_looked_at() -> None:
    async def story(stage: Stage) -> None:
        assert stage.names() == []
        stage.tell(crashing("web-1-a", WEB_SET), crashing("quiet-1-a", QUIET_SET))
        assert stage.names() == ["Deployment web"]

    looking(story, WEB, WEB_SET, QUIET, QUIET_SET, pod("web-1-a", WEB_SET), pod("quiet-1-a", QUIET_SET))


def test_a_pod_that_is_being_deleted_is_no_cause() -> None:
    async def story(stage: Stage) -> None:
        leaving = crashing("web-1-a", WEB_SET)
        leaving["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        stage.tell(leaving)
        assert stage.names() == []

    looking(story, WEB, WEB_SET)


def test_when_a_pod_that_failed_is_gone_its_holder_is_looked_at_once_more() -> None:
    async def story(stage: Stage) -> None:
        stage.tell(crashing("web-1-a", WEB_SET), pod("web-1-b", WEB_SET))
        stage.names()
        for name in ("web-1-a", "web-1-b", "web-1-a"):
            stage.cache.drop("Pod", (SPACE, name))
        assert stage.names() == ["Deployment web"]
        assert stage.failing._suspected == {}

    looking(story, WEB, WEB_SET)


def test_a_pod_that_is_well_again_is_no_cause_when_it_goes() -> None:
    async def story(stage: Stage) -> None:
        stage.tell(crashing("web-1-a", WEB_SET), pod("web-1-a", WEB_SET))
        stage.names()
        stage.cache.drop("Pod", (SPACE, "web-1-a"))
        assert stage.names() == []

    looking(story, WEB, WEB_SET)


def test_the_annotation_of_the_pod_or_of_its_controller_is_enough() -> None:
    async def story(stage: Stage) -> None:
        stage.tell(crashing("quiet-1-a", QUIET_SET, ASKS))
        stage.tell(crashing("db-0", body("StatefulSet", "db")))
        stage.tell(crashing("misspelt", notes={labels.MISSPELT_RETRIES: "1"}))
        stage.tell(crashing("custom-a", body("Rollout", "custom"), ASKS))
        assert stage.names() == ["Deployment quiet", "StatefulSet db", "Pod misspelt"]

    looking(story, QUIET, QUIET_SET, body("StatefulSet", "db", ASKS))


def test_what_a_deployment_left_on_its_replica_set_asks_for_nothing() -> None:
    async def story(stage: Stage) -> None:
        stage.tell(crashing("web-1-a", WEB_SET))
        assert stage.names() == []

    looking(story, body("Deployment", "web"), WEB_SET)


def test_a_cron_job_keeps_the_record_only_if_it_asks_for_it_itself() -> None:
    async def story(stage: Stage) -> None:
        stage.tell(crashing("nightly-1-a", nightly_job), crashing("hourly-1-a", hourly_job))
        assert stage.names() == ["CronJob nightly", "Job hourly-1"]

    nightly, hourly = body("CronJob", "nightly", ASKS), body("CronJob", "hourly")
    nightly_job, hourly_job = body("Job", "nightly-1", of=nightly), body("Job", "hourly-1", ASKS, hourly)
    looking(story, nightly, nightly_job, hourly, hourly_job)


def test_a_pod_whose_controller_is_not_known_yet_is_not_forgotten() -> None:
    async def story(stage: Stage) -> None:
        stage.tell(crashing("web-1-a", WEB_SET))
        assert stage.names() == []
        stage.tell(WEB_SET)
        assert stage.names() == ["Deployment web"]

    looking(story, WEB)


def test_every_change_of_a_pod_matters_where_there_is_a_record() -> None:
    async def story(stage: Stage) -> None:
        stage.names()
        stage.tell(pod("web-1-a", WEB_SET), pod("single", notes=ASKS | RECORD), pod("quiet-1-a", QUIET_SET))
        assert stage.names() == ["Deployment web", "Pod single"]

    looking(story, body("Deployment", "web", ASKS | RECORD), WEB_SET, QUIET, QUIET_SET)


def test_a_record_that_comes_changes_or_goes_is_looked_at_and_other_changes_are_not() -> None:
    async def story(stage: Stage) -> None:
        for notes in (ASKS | RECORD, ASKS | RECORD, ASKS | {labels.FAILURES: '{"count":2}'}, ASKS):
            stage.tell(body("Deployment", "web", notes))
        assert stage.names() == ["Deployment web"] * 3
        stage.tell(body("Deployment", "web", ASKS, metadata_generation=7))
        assert stage.names() == []

    looking(story, WEB)


def test_a_number_that_is_changed_is_looked_at_if_there_is_a_record() -> None:
    async def story(stage: Stage) -> None:
        stage.names()
        stage.tell(body("Deployment", "web", {labels.SCHEDULING_RETRIES: "9"} | RECORD))
        assert stage.names() == ["Deployment web"]

    looking(story, body("Deployment", "web", ASKS | RECORD))


def test_a_copy_of_a_record_that_comes_after_the_record_is_gone_is_looked_at() -> None:
    async def story(stage: Stage) -> None:
        stage.names()
        stage.tell(body("ReplicaSet", "web-1", ASKS | RECORD, WEB))
        assert stage.names() == []
        stage.tell(WEB)
        assert stage.names() == ["Deployment web"]
        stage.tell(body("ReplicaSet", "web-1", ASKS | RECORD, WEB))
        assert stage.names() == ["Deployment web"]

    looking(story, body("Deployment", "web", ASKS | RECORD))


def test_workloads_that_begin_to_ask_have_their_pods_gone_through_once() -> None:
    async def story(stage: Stage) -> None:
        assert stage.names() == []
        quiet, db = body("Deployment", "quiet", ASKS), body("StatefulSet", "db", ASKS)
        stage.tell(quiet, db)
        assert stage.names() == []
        await asyncio.sleep(1)
        assert sorted(stage.names()) == ["Deployment quiet", "StatefulSet db"]
        await asyncio.sleep(600)
        assert stage.names() == []

    db = body("StatefulSet", "db")
    looking(story, QUIET, QUIET_SET, db, crashing("quiet-1-a", QUIET_SET), crashing("db-0", db), crashing("other"))


def test_a_pod_that_does_not_start_is_looked_at_when_its_time_is_up() -> None:
    async def story(stage: Stage) -> None:
        stage.tell(starting("web-1-a", WEB_SET), starting("web-1-b", WEB_SET), starting("quiet-1-a", QUIET_SET))
        await asyncio.sleep(300)
        stage.tell(pod("web-1-b", WEB_SET))
        stage.tell(starting("web-1-a", WEB_SET))  # something else of it has changed
        await asyncio.sleep(1000)
        assert stage.suspected == [(600.0, ("Deployment", SPACE, "web"))]

    looking(story, WEB, WEB_SET, QUIET, QUIET_SET)


def test_a_pod_that_is_gone_before_its_time_is_up_is_not_looked_at() -> None:
    async def story(stage: Stage) -> None:
        stage.tell(starting("web-1-a", WEB_SET))
        stage.cache.drop("Pod", (SPACE, "web-1-a"))
        await asyncio.sleep(1000)
        assert stage.suspected == []

    looking(story, WEB, WEB_SET)


def test_a_node_that_stays_away_has_the_workloads_of_its_pods_looked_at() -> None:
    async def story(stage: Stage) -> None:
        stage.tell(node("one"), node("two"), pod("web-1-a", WEB_SET), pod("db-0", db), pod("quiet-1-a", QUIET_SET))
        stage.tell(node("one", ready=False), node("two", ready=False))
        await asyncio.sleep(30)
        stage.tell(node("two"))
        stage.tell(pod("web-1-a", WEB_SET))
        assert stage.names() == []
        await asyncio.sleep(31)
        assert sorted(stage.names()) == ["Deployment web", "StatefulSet db"]
        stage.tell(pod("web-1-b", WEB_SET))
        assert stage.names() == ["Deployment web"]
        stage.tell(node("one"), pod("web-1-b", WEB_SET))
        await asyncio.sleep(600)
        assert stage.names() == []

    db = body("StatefulSet", "db", ASKS)
    looking(story, WEB, WEB_SET, QUIET, QUIET_SET, db)


def test_pods_of_a_node_that_is_gone_are_looked_at_if_nobody_has_cleared_them_away() -> None:
    async def story(stage: Stage) -> None:
        stage.tell(node("one"), pod("web-1-a", WEB_SET))
        stage.cache.drop("Node", "one")
        await asyncio.sleep(59)
        assert stage.names() == []
        await asyncio.sleep(2)
        assert stage.names() == ["Deployment web"]
        assert stage.failing._lost == set()

    looking(story, WEB, WEB_SET)


def test_a_hundred_nodes_that_are_lost_together_are_gone_through_together() -> None:
    class Counting(ClusterCache):
        rows_read = 0

        def rows(self, kind: str) -> list[object]:
            self.rows_read += kind == "Pod"
            return super().rows(kind)

    stage = Stage()
    cache = Counting("test")
    stage.cache = cache
    stage.failing = FailureDetector(
        cache, live(recovery=lambda: RecoverySettings(node_not_ready=60)), lambda: NOW + clock(), stage._suspect
    )
    names = [f"n{number}" for number in range(100)]
    told(cache, WEB, WEB_SET, *(pod(f"web-{name}", WEB_SET, node=name) for name in names))

    async def story() -> None:
        told(cache, *(node(name, ready=False) for name in names))
        await asyncio.sleep(120)
        assert stage.names() == ["Deployment web"] * 100
        assert cache.rows_read == 2

    beside(stage.failing.run, story)


def test_no_timer_is_left_behind() -> None:
    async def story(stage: Stage) -> None:
        stage.tell(starting("web-1-a", WEB_SET), node("one", ready=False))

    stage = looking(story, WEB, WEB_SET)
    assert stage.failing._timers == {}


def test_other_settings_are_gone_by_from_then_on() -> None:
    async def story(stage: Stage) -> None:
        stage.settings = RecoverySettings(start_timeout=100, node_not_ready=60)
        stage.failing.restart()
        await asyncio.sleep(50)
        assert stage.names() == []
        await asyncio.sleep(60)
        assert stage.names() == ["Deployment web"], "it has had its 100 seconds, where 600 were allowed before"

    looking(story, WEB, WEB_SET, starting("web-1-a", WEB_SET))


def test_while_recovery_is_switched_off_nobody_is_looked_at_and_then_everybody() -> None:
    async def story(stage: Stage) -> None:
        stage.settings = RecoverySettings(enabled=False)
        stage.failing.restart()
        await asyncio.sleep(5)
        stage.names()
        stage.tell(crashing("web-1-a", WEB_SET))
        await asyncio.sleep(5)
        assert stage.names() == []
        stage.settings = RecoverySettings()
        stage.failing.restart()
        await asyncio.sleep(5)
        assert stage.names() == ["Deployment web"]

    looking(story, WEB, WEB_SET, pod("web-1-a", WEB_SET))


def test_a_node_that_was_lost_by_a_shorter_time_counts_by_the_new_one() -> None:
    async def story(stage: Stage) -> None:
        stage.tell(node("one", ready=False))
        await asyncio.sleep(70)
        assert stage.names() == ["Deployment web"]
        stage.settings = RecoverySettings(node_not_ready=3600)
        stage.failing.restart()
        await asyncio.sleep(5)
        stage.names()
        stage.tell(pod("web-1-b", WEB_SET))
        assert stage.names() == []

    looking(story, WEB, WEB_SET, pod("web-1-a", WEB_SET))


NIGHTLY = body("CronJob", "nightly", ASKS | RECORD)
RUN = body("Job", "nightly-1", of=NIGHTLY)
WORK = body("Job", "work", ASKS | RECORD)


def test_a_job_with_a_record_is_looked_at_whenever_it_changes() -> None:
    async def story(stage: Stage) -> None:
        stage.names()
        stage.tell(WORK, body("Job", "other", ASKS))
        assert stage.names() == ["Job work"]

    looking(story, WORK)


def test_a_job_of_a_cron_job_with_a_record_has_the_cron_job_looked_at() -> None:
    async def story(stage: Stage) -> None:
        stage.names()
        stage.tell(RUN)
        assert stage.names() == ["CronJob nightly"]

    looking(story, NIGHTLY, RUN)
