"""Evictions: what the contract tests, which run on both clusters, cannot provoke."""

from __future__ import annotations

from typing import Any

import pytest

from kubemini.api import Api
from kubemini.eviction import evict
from kubemini.kinds import BUDGET, POD
from kubemini.refusals import Json, Refusal
from tests.unit.kubemini.rule_cases import at, cluster, create, refused, running


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


async def test_a_budget_that_nobody_has_looked_at_yet_refuses_for_a_while(api: Api) -> None:
    await running(api)
    await budget(api, observedGeneration=0)
    refusal = await refused(evict(api, at(POD, "a"), eviction()))
    assert (refusal.code, refusal.details["retryAfterSeconds"]) == (429, 10)
    assert cause_of(refusal) == "The disruption budget guard is still being processed by the server."


async def test_a_budget_for_others_does_not_count(api: Api) -> None:
    await running(api)
    await budget(api, allowed=0, spec={"selector": {"matchLabels": {"app": "b"}}})
    await create(api, BUDGET, {"metadata": {"name": "nobody"}, "spec": {"minAvailable": 1}})  # selects nothing
    await evict(api, at(POD, "a"), eviction())
    assert is_going(api)


async def test_preconditions_are_kept(api: Api) -> None:
    made = await running(api)
    for wrong in ({"uid": "other"}, {"resourceVersion": "1"}):
        refusal = await refused(evict(api, at(POD, "a"), eviction(preconditions=wrong)))
        assert (refusal.code, refusal.reason) == (409, "Conflict")
    metadata = made["metadata"]
    wanted = {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]}
    await evict(api, at(POD, "a"), eviction(preconditions=wanted))
    assert is_going(api)


async def test_what_is_no_eviction_of_this_pod_is_refused(api: Api) -> None:
    await running(api)
    assert (await refused(evict(api, at(POD, "a"), eviction("b")))).code == 400
    assert (await refused(evict(api, at(POD, "b"), eviction("b")))).code == 404
    assert (await refused(evict(api, at(POD, "a"), eviction(dryRun=["Some"])))).code == 400
