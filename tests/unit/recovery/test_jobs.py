"""Which pods of a Job may be deleted: the rules of the Job controller, seen from outside."""

from __future__ import annotations

from typing import Any

import pytest

from rescheduler.model.json import Json
from rescheduler.recovery.jobs import INDEX_FAILURES, TRACKING, count_failures, why_keep, why_stopped
from tests.unit.recovery.cases import container, crashing, ended, failed, pod, ready, stamp, with_notes, workload


def job(status: Json | None = None, **spec: Any) -> Json:
    made = workload("Job", "sum", parallelism=2, completions=4)
    made["spec"] |= spec
    made["status"] = status or {}
    return made


def ending(kind: str) -> Json:
    return {"conditions": [{"type": kind, "status": "True"}]}


def tracked(body: Json) -> Json:
    body["metadata"]["finalizers"] = [TRACKING]
    return body


def policy(action: str, codes: Json | None = None, conditions: list[Json] | None = None) -> Json:
    return {"action": action} | ({"onExitCodes": codes} if codes else {"onPodConditions": conditions or []})


def test_a_job_that_goes_on_makes_its_pod_again() -> None:
    assert why_keep(job(), crashing("sum-x"), 0) == ""


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (job(suspend=True), "suspended"),
        (job(ending("Complete")), "over"),
        (job(ending("Failed")), "over"),
        (job(ending("FailureTarget")), "over"),
        (job(ending("SuccessCriteriaMet")), "over"),
        (job(parallelism=0), "parallelism"),
        (job({"succeeded": 1}, completions=None), "succeeded"),
        (job(managedBy="example.com/queue"), "managed by example.com/queue"),
    ],
)
def test_a_job_that_makes_no_new_pods_keeps_those_it_has(body: Json, why: str) -> None:
    assert why in why_stopped(body)
    assert why_keep(body, crashing("sum-x"), 0) == why_stopped(body)


def test_a_job_that_is_being_deleted_makes_no_new_pods() -> None:
    body = job()
    body["metadata"]["deletionTimestamp"] = stamp(1)
    assert "being deleted" in why_stopped(body)


@pytest.mark.parametrize(("had", "limit", "may"), [(0, 0, False), (0, 1, True), (5, None, True), (6, None, False)])
def test_a_deletion_is_one_more_failure_to_the_job(had: int, limit: int | None, may: bool) -> None:
    given: Json = {} if limit is None else {"backoffLimit": limit}
    body = job({"failed": had}, **given)
    assert (why_keep(body, crashing("sum-x"), count_failures(body, [])) == "") is may


def test_failures_that_the_job_has_not_counted_yet_count() -> None:
    new, counted = tracked(failed("sum-a")), failed("sum-b")
    going = tracked(crashing("sum-c"))
    going["metadata"]["deletionTimestamp"] = stamp(1)
    status = {"failed": 1, "uncountedTerminatedPods": {"failed": ["uid-sum-d"]}}
    pods = [new, counted, going, tracked(failed("sum-d")), tracked(pod("sum-e", phase="Succeeded"))]
    assert count_failures(job(status), pods) == 4
    assert why_keep(job(status, backoffLimit=5), crashing("sum-x"), 4) == ""
    assert why_keep(job(status, backoffLimit=4), crashing("sum-x"), 4) == (
        "4 pods of its Job have failed, and its backoffLimit is 4"
    )


@pytest.mark.parametrize(("had", "may"), [("0", True), ("1", True), ("2", False), ("nonsense", True)])
def test_an_index_has_a_limit_of_its_own(had: str, may: bool) -> None:
    body = job({"failed": 50}, backoffLimitPerIndex=2, completionMode="Indexed")
    assert (why_keep(body, with_notes(crashing("sum-0-x"), {INDEX_FAILURES: had}), 0) == "") is may


def starting() -> Json:
    return pod("sum-x", phase="Pending", conditions=[ready("False")], containerStatuses=[])


def with_policy(*rules: Json, **more: Any) -> Json:
    return job(podFailurePolicy={"rules": list(rules)}, **more)


@pytest.mark.parametrize("action", ["FailJob", "FailIndex"])
@pytest.mark.parametrize("code", [137, 143])
def test_a_rule_against_being_killed_forbids_deletion(action: str, code: int) -> None:
    body = with_policy(policy(action, {"operator": "In", "values": [code]}))
    assert action in why_keep(body, starting(), 0)


def test_a_rule_about_other_codes_or_containers_does_not_forbid_it() -> None:
    rules = [
        policy("FailJob", {"operator": "In", "values": [42]}),
        policy("FailJob", {"containerName": "other", "operator": "In", "values": [137]}),
        policy("FailJob", {"operator": "NotIn", "values": [137, 143]}),
    ]
    assert why_keep(with_policy(*rules), starting(), 0) == ""


def test_a_code_that_is_there_already_is_what_the_rule_will_see() -> None:
    body = pod("sum-x", containerStatuses=[container(terminated=ended(code=42)), container("proxy", running={})])
    assert "FailJob" in why_keep(with_policy(policy("FailJob", {"operator": "In", "values": [42]})), body, 0)


def test_an_earlier_rule_that_surely_matches_comes_first() -> None:
    body = pod("sum-x", containerStatuses=[container(terminated=ended(code=42)), container("proxy", running={})])
    ignore = policy("Ignore", {"operator": "In", "values": [42]})
    fail = policy("FailJob", {"operator": "In", "values": [42, 137]})
    assert why_keep(with_policy(ignore, fail, backoffLimit=0), body, 0) == ""
    count = policy("Count", {"operator": "In", "values": [42]})
    assert "backoffLimit" in why_keep(with_policy(count, fail, backoffLimit=0), body, 0)
    perhaps = policy("Ignore", {"containerName": "proxy", "operator": "In", "values": [143]})
    assert "FailJob" in why_keep(with_policy(perhaps, fail), body, 0)


def test_a_rule_about_disruptions_may_be_met_when_a_node_is_lost() -> None:
    rule = [{"type": "DisruptionTarget", "status": "True"}]
    assert "FailJob" in why_keep(with_policy(policy("FailJob", conditions=rule)), starting(), 0)
    ignored = why_keep(with_policy(policy("Ignore", conditions=rule), backoffLimit=0), starting(), 0)
    assert "backoffLimit" in ignored  # a plain deletion is no disruption, so it counts
