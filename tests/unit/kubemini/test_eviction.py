"""Evictions: which budgets refuse which pods, what is charged, and what a refusal says."""

from __future__ import annotations

from typing import Any

import pytest

from kubemini.api import Api, Deletion
from kubemini.eviction import evict
from kubemini.kinds import BUDGET, POD
from kubemini.refusals import Json, Refusal
from tests.unit.kubemini.rule_cases import at, cluster, create, pod, refused, running


@pytest.fixture
async def api() -> Api:
    return await cluster()


def eviction(name: str = "a", **options: Any) -> Json:
    return {"metadata": {"name": name}} | ({"deleteOptions": options} if options else {})


async def budget(api: Api, name: str = "guard", *, allowed: int = 1, spec: Json | None = None, **status: Any) -> Json:
    """A budget for the pods of app `a` that its controller has looked at."""
    selecting = {"selector": {"matchLabels": {"app": "a"}}}
    await create(api, BUDGET, {"metadata": {"name": name}, "spec": selecting | (spec or {"minAvailable": 1})})
    counts = {"currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2, "observedGeneration": 1}
    known = counts | {"disruptionsAllowed": allowed} | status
    return await api.edit(at(BUDGET, name, "status"), lambda body: body | {"status": known})


def cause_of(refusal: Refusal) -> str:
    (cause,) = refusal.details["causes"]
    assert cause["reason"] == "DisruptionBudget"
    return str(cause["message"])


def is_going(api: Api, name: str = "a") -> bool:
    found = api.find(POD, ("default", name))
    return found is None or "deletionTimestamp" in found["metadata"]


async def test_a_pod_without_a_budget_is_marked_and_deleted(api: Api) -> None:
    await running(api)
    status = await evict(api, at(POD, "a"), eviction(gracePeriodSeconds=7))
    assert (status["status"], status["code"]) == ("Success", 201)
    going = api.get(at(POD, "a"))
    assert going["metadata"]["deletionGracePeriodSeconds"] == 7
    marks = [each for each in going["status"]["conditions"] if each["type"] == "DisruptionTarget"]
    assert [(each["status"], each["reason"]) for each in marks] == [("True", "EvictionByEvictionAPI")]


async def test_a_budget_is_charged_before_the_pod_goes(api: Api) -> None:
    await running(api)
    await budget(api)
    await evict(api, at(POD, "a"), eviction())
    status = api.get(at(BUDGET, "guard"))["status"]
    assert status["disruptionsAllowed"] == 0
    assert set(status["disruptedPods"]) == {"a"}
    (condition,) = status["conditions"]
    assert (condition["type"], condition["status"], condition["reason"]) == (
        "DisruptionAllowed",
        "False",
        "InsufficientPods",
    )
    assert is_going(api)


async def test_a_spent_budget_refuses(api: Api) -> None:
    await running(api)
    await budget(api, allowed=0, currentHealthy=1)
    refusal = await refused(evict(api, at(POD, "a"), eviction()))
    assert (refusal.code, refusal.reason) == (429, "TooManyRequests")
    assert refusal.message == "Cannot evict pod as it would violate the pod's disruption budget."
    assert cause_of(refusal) == "The disruption budget guard needs 1 healthy pods and has 1 currently"
    assert "retryAfterSeconds" not in refusal.details
    assert not is_going(api)


async def test_a_budget_that_failed_to_be_counted_says_so(api: Api) -> None:
    await running(api)
    condition = {"type": "DisruptionAllowed", "status": "False", "reason": "SyncFailed", "message": "no scale"}
    time = {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    await budget(api, allowed=0, conditions=[condition | time])
    refusal = await refused(evict(api, at(POD, "a"), eviction()))
    assert cause_of(refusal).endswith("does not allow evicting pods currently because it failed sync: no scale")


async def test_a_budget_that_nobody_has_looked_at_yet_refuses_for_a_while(api: Api) -> None:
    await running(api)
    await budget(api, observedGeneration=0)
    refusal = await refused(evict(api, at(POD, "a"), eviction()))
    assert (refusal.code, refusal.details["retryAfterSeconds"]) == (429, 10)
    assert cause_of(refusal) == "The disruption budget guard is still being processed by the server."


async def test_two_budgets_are_an_error(api: Api) -> None:
    await running(api)
    await budget(api)
    await budget(api, "other")
    refusal = await refused(evict(api, at(POD, "a"), eviction()))
    assert refusal.code == 500
    assert refusal.message.startswith("This pod has more than one PodDisruptionBudget")


async def test_a_budget_for_others_does_not_count(api: Api) -> None:
    await running(api)
    await budget(api, allowed=0, spec={"selector": {"matchLabels": {"app": "b"}}})
    await create(api, BUDGET, {"metadata": {"name": "nobody"}, "spec": {"minAvailable": 1}})  # selects nothing
    await evict(api, at(POD, "a"), eviction())
    assert is_going(api)


@pytest.mark.parametrize("phase", ["Pending", "Failed", "Succeeded"])
async def test_a_pod_that_does_no_work_goes_unasked(api: Api, phase: str) -> None:
    await create(api, POD, pod(nodeName="" if phase == "Pending" else "node-1"))
    await api.edit(at(POD, "a", "status"), lambda body: body | {"status": body["status"] | {"phase": phase}})
    await budget(api, allowed=0)
    await evict(api, at(POD, "a"), eviction())
    assert api.find(POD, ("default", "a")) is None


async def test_a_pod_that_is_going_goes_unasked(api: Api) -> None:
    await running(api)
    await budget(api, allowed=0)
    await api.delete(at(POD, "a"), Deletion(grace=30))
    await evict(api, at(POD, "a"), eviction(gracePeriodSeconds=0))
    assert api.find(POD, ("default", "a")) is None


async def test_an_unready_pod_goes_where_enough_others_are_healthy(api: Api) -> None:
    await running(api, ready=False)
    await budget(api, allowed=0, currentHealthy=1, desiredHealthy=1)
    await evict(api, at(POD, "a"), eviction())
    assert is_going(api)
    assert "disruptedPods" not in api.get(at(BUDGET, "guard"))["status"]


async def test_an_unready_pod_stays_where_too_few_are_healthy(api: Api) -> None:
    await running(api, ready=False)
    await budget(api, allowed=0, currentHealthy=0, desiredHealthy=1)
    assert (await refused(evict(api, at(POD, "a"), eviction()))).code == 429


async def test_an_unready_pod_always_goes_where_the_budget_allows_that(api: Api) -> None:
    await running(api, ready=False)
    spec = {"minAvailable": 1, "unhealthyPodEvictionPolicy": "AlwaysAllow"}
    await budget(api, allowed=0, currentHealthy=0, desiredHealthy=1, spec=spec)
    await evict(api, at(POD, "a"), eviction())
    assert is_going(api)


async def test_preconditions_are_kept(api: Api) -> None:
    made = await running(api)
    refusal = await refused(evict(api, at(POD, "a"), eviction(preconditions={"uid": "other"})))
    assert (refusal.code, "The object might have been deleted and then recreated" in refusal.message) == (409, True)
    refusal = await refused(evict(api, at(POD, "a"), eviction(preconditions={"resourceVersion": "1"})))
    assert (refusal.code, "The object might have been modified" in refusal.message) == (409, True)
    metadata = made["metadata"]
    wanted = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    await evict(api, at(POD, "a"), eviction(preconditions=wanted))
    assert is_going(api)


@pytest.mark.parametrize("how", ["request", "options"])
async def test_a_dry_run_asks_the_budget_and_changes_nothing(api: Api, how: str) -> None:
    await running(api)
    await budget(api)
    before = api.store.version
    if how == "request":
        await evict(api, at(POD, "a"), eviction(), dry_run=True)
    else:
        await evict(api, at(POD, "a"), eviction(dryRun=["All"]))
    assert api.store.version == before
    await api.edit(
        at(BUDGET, "guard", "status"), lambda body: body | {"status": body["status"] | {"disruptionsAllowed": 0}}
    )
    assert (await refused(evict(api, at(POD, "a"), eviction(), dry_run=True))).code == 429


async def test_what_is_no_eviction_of_this_pod_is_refused(api: Api) -> None:
    await running(api)
    assert (await refused(evict(api, at(POD, "a"), eviction("b")))).code == 400
    assert (await refused(evict(api, at(POD, "b"), eviction("b")))).code == 404
    assert (await refused(evict(api, at(POD, "a"), eviction(dryRun=["Some"])))).code == 400


async def test_pods_are_evicted_as_long_as_the_budget_lasts(api: Api) -> None:
    for number in range(4):
        await running(api, f"a{number}")
    await budget(api, allowed=2)
    for number in range(2):
        await evict(api, at(POD, f"a{number}"), eviction(f"a{number}"))
    assert (await refused(evict(api, at(POD, "a2"), eviction("a2")))).code == 429
    assert set(api.get(at(BUDGET, "guard"))["status"]["disruptedPods"]) == {"a0", "a1"}
