"""Bindings and evictions of pods: what the contract tests, which run on both clusters, cannot provoke."""

from __future__ import annotations

from typing import Any

import pytest

from kubemini.api import Api, Deletion, Target
from kubemini.binding import bind
from kubemini.errors import Json, StatusError
from kubemini.eviction import evict
from kubemini.kinds import BUDGET, NODE, POD
from tests.unit.kubemini.rule_cases import at, cluster, create, pod, refused, running

WHERE = {"topology.kubernetes.io/zone": "a", "topology.kubernetes.io/region": "r", "other": "x"}


@pytest.fixture
async def api() -> Api:
    api = await cluster()
    await api.create(Target(NODE), {"metadata": {"name": "node-1", "labels": WHERE}})
    return api


def binding(name: str = "a", node: str = "node-1", **metadata: Any) -> Json:
    return {"metadata": {"name": name} | metadata, "target": {"kind": "Node", "name": node}}


async def test_a_bound_pod_has_a_node_a_condition_and_a_place(api: Api) -> None:
    await create(api, POD, pod())
    status = await bind(api, at(POD, "a"), binding())
    assert (status["status"], status["code"]) == ("Success", 201)
    bound = api.get(at(POD, "a"))
    assert bound["spec"]["nodeName"] == "node-1"
    assert [(each["type"], each["status"]) for each in bound["status"]["conditions"]] == [("PodScheduled", "True")]
    metadata = bound["metadata"]
    assert metadata["labels"] == {
        "app": "a",
        "topology.kubernetes.io/zone": "a",
        "topology.kubernetes.io/region": "r",
    }
    assert metadata["generation"] == 1


async def test_a_nomination_ends_with_the_binding(api: Api) -> None:
    await create(api, POD, pod())
    nominated = {"nominatedNodeName": "node-1"}
    await api.edit(at(POD, "a", "status"), lambda body: body | {"status": body["status"] | nominated})
    await bind(api, at(POD, "a"), binding())
    assert "nominatedNodeName" not in api.get(at(POD, "a"))["status"]


async def test_a_pod_is_bound_once(api: Api) -> None:
    await create(api, POD, pod(nodeName="node-1"))
    refusal = await refused(bind(api, at(POD, "a"), binding()))
    assert (refusal.code, refusal.reason) == (409, "Conflict")
    assert 'pod a is already assigned to node "node-1"' in refusal.message


async def test_a_gated_pod_is_not_bound(api: Api) -> None:
    await create(api, POD, pod(schedulingGates=[{"name": "a"}]))
    refusal = await refused(bind(api, at(POD, "a"), binding()))
    assert "pod a has non-empty .spec.schedulingGates" in refusal.message


async def test_a_pod_that_goes_is_not_bound(api: Api) -> None:
    body = pod()
    body["metadata"]["finalizers"] = ["example.com/held"]
    await create(api, POD, body)
    await api.delete(at(POD, "a"), Deletion())
    refusal = await refused(bind(api, at(POD, "a"), binding()))
    assert "is being deleted, cannot be assigned to a host" in refusal.message


async def test_another_pod_of_the_same_name_is_not_meant(api: Api) -> None:
    await create(api, POD, pod())
    assert (await refused(bind(api, at(POD, "a"), binding(uid="other")))).reason == "Conflict"
    assert (await refused(bind(api, at(POD, "b"), binding("b")))).code == 404


async def budget(api: Api, name: str = "guard", *, allowed: int = 1, spec: Json | None = None, **status: Any) -> Json:
    """A budget for the pods of app `a` that its controller has looked at."""
    selecting = {"selector": {"matchLabels": {"app": "a"}}}
    await create(api, BUDGET, {"metadata": {"name": name}, "spec": selecting | (spec or {"minAvailable": 1})})
    counts = {"currentHealthy": 2, "desiredHealthy": 1, "expectedPods": 2, "observedGeneration": 1}
    known = counts | {"disruptionsAllowed": allowed} | status
    return await api.edit(at(BUDGET, name, "status"), lambda body: body | {"status": known})


def cause_of(refusal: StatusError) -> str:
    (cause,) = refusal.details["causes"]
    assert cause["reason"] == "DisruptionBudget"
    return str(cause["message"])


def is_going(api: Api, name: str = "a") -> bool:
    found = api.find(POD, ("default", name))
    return found is None or "deletionTimestamp" in found["metadata"]


async def test_a_budget_is_charged_before_the_pod_goes(api: Api) -> None:
    await running(api)
    await budget(api)
    await evict(api, at(POD, "a"), Deletion())
    status = api.get(at(BUDGET, "guard"))["status"]
    assert status["disruptionsAllowed"] == 0
    assert set(status["disruptedPods"]) == {"a"}
    assert is_going(api)


async def test_a_budget_that_nobody_has_looked_at_yet_refuses_for_a_while(api: Api) -> None:
    await running(api)
    await budget(api, observedGeneration=0)
    refusal = await refused(evict(api, at(POD, "a"), Deletion()))
    assert (refusal.code, refusal.details["retryAfterSeconds"]) == (429, 10)
    assert cause_of(refusal) == "The disruption budget guard is still being processed by the server."
