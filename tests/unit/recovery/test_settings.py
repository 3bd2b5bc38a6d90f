"""The annotation that asks for recovery: whose counts, and what is wrong with it."""

from __future__ import annotations

import pytest

from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.recovery.settings import RetriesError, RetryBudget, count_desired, find_retries, total_retries
from tests.unit.recovery.cases import pod, replica_set, with_notes, workload


def asking(body: Json, text: str, key: str = labels.SCHEDULING_RETRIES) -> Json:
    return with_notes(body, {key: text})


def test_the_nearest_annotation_counts() -> None:
    stateful = workload("StatefulSet", retries="3")
    assert find_retries(pod("web-0", owner=stateful), stateful, stateful) == RetryBudget(3)
    assert find_retries(asking(pod("web-0", owner=stateful), "5"), stateful, stateful) == RetryBudget(5)
    cron = workload("CronJob", retries="2")
    assert find_retries(pod("x"), workload("Job", retries="4"), cron) == RetryBudget(4)
    assert find_retries(pod("x"), workload("Job", retries=None), cron) == RetryBudget(2)


def test_nobody_who_does_not_ask_has_retries() -> None:
    assert find_retries(pod("x"), None, workload("Deployment", retries=None)) is None


def test_what_a_deployments_controller_copied_does_not_count() -> None:
    deployment = workload("Deployment", retries=None)
    copied = asking(replica_set(deployment), "3")
    assert find_retries(pod("x", owner=copied), copied, deployment) is None
    assert find_retries(pod("x", owner=copied), copied, copied) == RetryBudget(3)


def test_the_misspelling_is_accepted_with_a_warning_that_says_what_to_write() -> None:
    found = find_retries(pod("x"), None, asking(workload("Deployment", retries=None), "4", labels.MISSPELT_RETRIES))
    assert found is not None
    assert found.per_pod == 4
    assert found.warning == (
        "Deployment shop/web: annotation scheduling-retires is read as scheduling-retries; "
        'write scheduling-retries: "4"'
    )


def test_of_both_spellings_the_right_one_counts() -> None:
    body = asking(workload("Deployment", retries="1"), "9", labels.MISSPELT_RETRIES)
    assert find_retries(pod("x"), None, body) == RetryBudget(1)


@pytest.mark.parametrize("text", ["", "-1", "2.5", "1001", "٣", "1_0"])
def test_what_is_no_number_names_the_object_the_annotation_and_the_cure(text: str) -> None:
    with pytest.raises(RetriesError) as error:
        find_retries(pod("x"), None, workload("Deployment", retries=text))
    said = str(error.value)
    assert said.startswith("Deployment shop/web: annotation scheduling-retries: ")
    assert "is not a whole number from 0 to 1000, so its failed pods are left as they are; write for example" in said


@pytest.mark.parametrize(("text", "number"), [("0", 0), ("1000", 1000), (" 7 ", 7), ("007", 7)])
def test_whole_numbers_count(text: str, number: int) -> None:
    assert find_retries(pod("x"), None, workload("Job", retries=text)) == RetryBudget(number)


@pytest.mark.parametrize(
    ("holder", "expected"),
    [
        (workload("Deployment", replicas=4), 12),
        (workload("Deployment"), 3),
        (workload("Deployment", replicas=0), 3),
        (workload("ReplicaSet", replicas=2), 6),
        (workload("StatefulSet", replicas=4), 3),
        (workload("DaemonSet"), 3),
        (workload("Job", parallelism=5), 15),
        (workload("CronJob", jobTemplate={"spec": {"parallelism": 2}}), 6),
        (workload("CronJob"), 3),
        (pod("x"), 3),
    ],
)
def test_what_all_pods_of_a_workload_have_together(holder: Json, expected: int) -> None:
    assert total_retries(3, holder) == expected


def test_a_job_wants_no_more_pods_than_it_misses() -> None:
    job = workload("Job", parallelism=4, completions=6)
    job["status"] = {"succeeded": 4}
    assert count_desired(job) == 2
    assert count_desired(workload("Job", parallelism=4)) == 4
