"""Jobs and recovery: a Job ends after its last pod has, so it is the Job itself that must be heard of."""

from __future__ import annotations

from tests.unit.runtime.failing_world import ASKS, RECORD, body
from tests.unit.runtime.test_failure_detector import Stage, looking

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
