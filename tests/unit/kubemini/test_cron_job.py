"""CronJobs of the embedded cluster: when Jobs are made, what hinders them, what is kept of them, and what is told."""

from __future__ import annotations

import asyncio
from typing import Any

from kubemini import clock
from kubemini.controllers.cron_job import CronJobController
from kubemini.controllers.cron_plan import SCHEDULED_FOR
from kubemini.kinds import CRON_JOB, JOB
from kubemini.refusals import Json
from tests.unit.kubemini.controllers_at_work import IMAGE, Cluster, at_work, names, reference

EIGHT = 29_912_160
"""The morning when the tests' clock starts, in minutes since 1970."""
MINUTE, HOUR = 60.0, 3600.0


async def cron_job(cluster: Cluster, schedule: str = "*/10 * * * *", **spec: Any) -> Json:
    pod = {"spec": {"containers": [{"name": "main", "image": IMAGE}], "restartPolicy": "Never"}}
    template = {"metadata": {"labels": {"of": "tick"}, "annotations": {"a": "b"}}, "spec": {"template": pod}}
    made = await cluster.make(CRON_JOB, "tick", {"spec": {"schedule": schedule, "jobTemplate": template} | spec})
    await cluster.settled()
    return made


async def passes(cluster: Cluster, seconds: float) -> None:
    await asyncio.sleep(seconds)
    await cluster.settled()


async def ends(cluster: Cluster, name: str, how: str = "Complete") -> None:
    """A Job runs to its end."""
    now = clock.stamp(clock.now())
    target = {"Complete": "SuccessCriteriaMet", "Failed": "FailureTarget"}[how]
    conditions = [{"type": each, "status": "True", "lastTransitionTime": now} for each in (target, how)]
    status: Json = {"startTime": now, "conditions": conditions}
    if how == "Complete":
        status |= {"completionTime": now, "succeeded": 1}
    await cluster.says(JOB, name, **status)
    await cluster.settled()


def jobs(cluster: Cluster) -> list[str]:
    return sorted(names(cluster.all(JOB)))


def minutes(cluster: Cluster) -> list[int]:
    """Which times Jobs are for, in minutes after eight."""
    return [int(name.rpartition("-")[2]) - EIGHT for name in jobs(cluster)]


def status(cluster: Cluster) -> Json:
    found: Json = cluster.get(CRON_JOB, "tick")["status"]
    return found


@at_work(CronJobController)
async def test_a_job_is_made_when_its_time_comes(cluster: Cluster) -> None:
    made = await cron_job(cluster)
    await passes(cluster, 9 * MINUTE)
    assert (jobs(cluster), status(cluster)) == ([], {})
    await passes(cluster, 2 * MINUTE)
    (job,) = cluster.all(JOB)
    metadata = job["metadata"]
    assert metadata["name"] == f"tick-{EIGHT + 10}"
    assert metadata["labels"]["of"] == "tick"
    assert metadata["annotations"] == {"a": "b", SCHEDULED_FOR: "2026-11-15T08:10:00Z"}
    (owner,) = metadata["ownerReferences"]
    assert (owner["uid"], owner["controller"]) == (made["metadata"]["uid"], True)
    assert status(cluster)["lastScheduleTime"] == "2026-11-15T08:10:00Z"
    (active,) = status(cluster)["active"]
    assert (active["kind"], active["name"], active["uid"]) == ("Job", metadata["name"], metadata["uid"])
    assert cluster.events("tick") == ["SuccessfulCreate"]


@at_work(CronJobController)
async def test_it_goes_on_time_after_time(cluster: Cluster) -> None:
    await cron_job(cluster)
    await passes(cluster, 35 * MINUTE)
    assert minutes(cluster) == [10, 20, 30]
    assert len(status(cluster)["active"]) == 3


@at_work(CronJobController)
async def test_the_annotation_tells_the_time_of_its_time_zone(cluster: Cluster) -> None:
    await cron_job(cluster, "0 10 * * *", timeZone="Europe/Berlin")
    await passes(cluster, 61 * MINUTE)
    (job,) = cluster.all(JOB)
    assert job["metadata"]["annotations"][SCHEDULED_FOR] == "2026-11-15T10:00:00+01:00"
    assert status(cluster)["lastScheduleTime"] == "2026-11-15T09:00:00Z"


@at_work(CronJobController)
async def test_a_job_that_ends_is_active_no_longer_and_its_success_is_told(cluster: Cluster) -> None:
    await cron_job(cluster)
    await passes(cluster, 11 * MINUTE)
    await ends(cluster, jobs(cluster)[0])
    assert "active" not in status(cluster)
    assert status(cluster)["lastSuccessfulTime"] == clock.stamp(clock.now())
    assert cluster.events("tick") == ["SuccessfulCreate", "SawCompletedJob"]


@at_work(CronJobController)
async def test_a_job_that_fails_is_no_success(cluster: Cluster) -> None:
    await cron_job(cluster)
    await passes(cluster, 11 * MINUTE)
    await ends(cluster, jobs(cluster)[0], "Failed")
    assert "active" not in status(cluster)
    assert "lastSuccessfulTime" not in status(cluster)


@at_work(CronJobController)
async def test_forbid_waits_for_the_job_before(cluster: Cluster) -> None:
    await cron_job(cluster, concurrencyPolicy="Forbid")
    await passes(cluster, 25 * MINUTE)
    assert minutes(cluster) == [10]
    assert "JobAlreadyActive" in cluster.events("tick")
    await ends(cluster, jobs(cluster)[0])
    assert minutes(cluster) == [10, 20]  # its time has come and gone, but there is no deadline


@at_work(CronJobController)
async def test_forbid_with_a_deadline_lets_the_time_go_by(cluster: Cluster) -> None:
    await cron_job(cluster, concurrencyPolicy="Forbid", startingDeadlineSeconds=60)
    await passes(cluster, 25 * MINUTE)
    await ends(cluster, jobs(cluster)[0])
    assert minutes(cluster) == [10]
    await passes(cluster, 10 * MINUTE)
    assert minutes(cluster) == [10, 30]


@at_work(CronJobController)
async def test_replace_takes_the_job_before_away(cluster: Cluster) -> None:
    await cron_job(cluster, concurrencyPolicy="Replace")
    await passes(cluster, 25 * MINUTE)
    assert minutes(cluster) == [20]
    assert len(status(cluster)["active"]) == 1
    assert "SuccessfulDelete" in cluster.events("tick")


@at_work(CronJobController)
async def test_a_suspended_one_rests_and_makes_up_for_one_time_when_it_goes_on(cluster: Cluster) -> None:
    await cron_job(cluster, suspend=True)
    await passes(cluster, 35 * MINUTE)
    assert jobs(cluster) == []
    await cluster.edit(CRON_JOB, "tick", lambda body: body["spec"].update(suspend=False))
    await cluster.settled()
    assert minutes(cluster) == [30]


@at_work(CronJobController)
async def test_a_suspended_one_with_a_deadline_makes_up_for_nothing_that_is_too_old(cluster: Cluster) -> None:
    await cron_job(cluster, suspend=True, startingDeadlineSeconds=30)
    await passes(cluster, 35 * MINUTE)
    await cluster.edit(CRON_JOB, "tick", lambda body: body["spec"].update(suspend=False))
    await passes(cluster, MINUTE)
    assert jobs(cluster) == []
    await passes(cluster, 5 * MINUTE)
    assert minutes(cluster) == [40]


@at_work(CronJobController)
async def test_a_new_schedule_counts_from_its_next_time_on(cluster: Cluster) -> None:
    await cron_job(cluster, "@daily")
    await passes(cluster, 35 * MINUTE)
    await cluster.edit(CRON_JOB, "tick", lambda body: body["spec"].update(schedule="*/10 * * * *"))
    await cluster.settled()
    assert jobs(cluster) == []
    await passes(cluster, 6 * MINUTE)
    assert minutes(cluster) == [40]


@at_work(CronJobController)
async def test_many_missed_times_are_one_job_and_a_warning(cluster: Cluster) -> None:
    await cron_job(cluster, "* * * * *", suspend=True)
    await passes(cluster, 5 * HOUR + 30)
    await cluster.edit(CRON_JOB, "tick", lambda body: body["spec"].update(suspend=False))
    await cluster.settled()
    assert minutes(cluster) == [300]
    assert "TooManyMissedTimes" in cluster.events("tick")


@at_work(CronJobController)
async def test_the_oldest_of_those_that_have_ended_go(cluster: Cluster) -> None:
    await cron_job(cluster, successfulJobsHistoryLimit=2, failedJobsHistoryLimit=0)
    for _ in range(4):
        await passes(cluster, 10 * MINUTE + 1)
        await ends(cluster, jobs(cluster)[-1])
    assert minutes(cluster) == [30, 40]
    await passes(cluster, 10 * MINUTE)
    await ends(cluster, jobs(cluster)[-1], "Failed")
    assert minutes(cluster) == [30, 40]


@at_work(CronJobController)
async def test_a_job_that_somebody_made_for_it_is_noticed_and_counts_as_a_success(cluster: Cluster) -> None:
    made = await cron_job(cluster, "@daily")
    pod = {"spec": {"containers": [{"name": "main", "image": IMAGE}], "restartPolicy": "Never"}}
    body = {"metadata": {"ownerReferences": [reference(made)]}, "spec": {"template": pod}}
    await cluster.make(JOB, "by-hand", body)
    await cluster.settled()
    assert "active" not in status(cluster)
    assert set(cluster.events("tick")) == {"UnexpectedJob"}
    await ends(cluster, "by-hand")
    assert "lastSuccessfulTime" in status(cluster)


@at_work(CronJobController)
async def test_a_job_that_is_taken_away_is_active_no_longer(cluster: Cluster) -> None:
    await cron_job(cluster)
    await passes(cluster, 11 * MINUTE)
    await cluster.delete(JOB, jobs(cluster)[0])
    await cluster.settled()
    assert "active" not in status(cluster)
    assert cluster.events("tick") == ["SuccessfulCreate", "MissingJob"]
    await passes(cluster, 10 * MINUTE)
    assert minutes(cluster) == [20]


@at_work(CronJobController)
async def test_a_job_by_its_name_that_is_somebody_elses_is_left_alone(cluster: Cluster) -> None:
    pod = {"spec": {"containers": [{"name": "main", "image": IMAGE}], "restartPolicy": "Never"}}
    await cluster.make(JOB, f"tick-{EIGHT + 10}", {"spec": {"template": pod}})
    await cron_job(cluster)
    await passes(cluster, 11 * MINUTE)
    assert status(cluster) == {}
    await passes(cluster, 10 * MINUTE)
    assert minutes(cluster) == [10, 20]


@at_work(CronJobController)
async def test_times_that_never_come_are_told_once(cluster: Cluster) -> None:
    await cron_job(cluster, "0 0 31 2 *")
    await passes(cluster, 5 * HOUR)
    assert cluster.events("tick") == ["InvalidSchedule"]
