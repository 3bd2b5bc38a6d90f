"""How a pod gets its node."""

from __future__ import annotations

from typing import Any

import pytest

from kubemini.api import Api, Deletion, Target
from kubemini.binding import bind
from kubemini.kinds import NODE, POD
from kubemini.refusals import Json
from tests.unit.kubemini.rule_cases import at, cluster, create, pod, refused

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
    status = await bind(api, at(POD, "a"), binding(annotations={"x": "y"}))
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
    assert (metadata["annotations"], metadata["generation"]) == ({"x": "y"}, 1)


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
    assert (await refused(bind(api, at(POD, "b"), binding()))).code == 400
    assert (await refused(bind(api, at(POD, "b"), binding("b")))).code == 404


async def test_a_binding_to_nothing_is_an_error(api: Api) -> None:
    await create(api, POD, pod())
    refusal = await refused(bind(api, at(POD, "a"), binding() | {"target": {"kind": "Node"}}))
    assert (refusal.code, refusal.message) == (500, "target.name: Required value")


async def test_a_dry_run_binds_nothing(api: Api) -> None:
    await create(api, POD, pod())
    await bind(api, at(POD, "a"), binding(), dry_run=True)
    assert "nodeName" not in api.get(at(POD, "a"))["spec"]
