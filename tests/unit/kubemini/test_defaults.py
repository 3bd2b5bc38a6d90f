"""What the API server fills in, keeps and refuses of built-in kinds."""

from __future__ import annotations

from typing import Any

import pytest

from kubemini.api import Api, Deletion
from kubemini.conditions import set_condition
from kubemini.errors import Json
from kubemini.kinds import DAEMON_SET, DEPLOYMENT, JOB, POD, STATEFUL_SET, Kind
from tests.unit.kubemini.rule_cases import CONTAINER, at, cluster, create, fields_of, pod, refused, running


@pytest.fixture
async def api() -> Api:
    return await cluster()


def workload(name: str = "a", **spec: Any) -> Json:
    template = {"metadata": {"labels": {"app": "a"}}, "spec": {"containers": [dict(CONTAINER)]}}
    return {
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": {"app": "a"}}, "template": template} | spec,
    }


async def test_a_pod_gets_its_defaults_and_is_pending(api: Api) -> None:
    made = await create(api, POD, pod(nodeSelector=None, tolerations=[], containers=[CONTAINER | {"image": "x"}]))
    spec = made["spec"]
    assert (spec["restartPolicy"], spec["terminationGracePeriodSeconds"]) == ("Always", 30)
    assert not {"nodeSelector", "tolerations"} & set(spec)
    assert made["status"] == {"phase": "Pending"}


async def test_a_limit_is_a_request_too_and_amounts_are_text(api: Api) -> None:
    limited = CONTAINER | {"resources": {"limits": {"cpu": 1}}}
    spec = (await create(api, POD, pod(containers=[limited])))["spec"]
    assert spec["containers"][0]["resources"] == {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}


async def test_an_amount_that_is_no_quantity_is_a_bad_request(api: Api) -> None:
    wrong = CONTAINER | {"resources": {"requests": {"cpu": "much"}}}
    assert (await refused(create(api, POD, pod(containers=[wrong])))).code == 400


@pytest.mark.parametrize("spec", [{"containers": 5}, {"containers": [5]}, {"volumes": "x"}])
async def test_a_field_of_the_wrong_type_is_a_bad_request(api: Api, spec: Json) -> None:
    assert (await refused(create(api, POD, pod(**spec)))).code == 400


async def test_workloads_get_replicas_and_a_strategy(api: Api) -> None:
    assert (await create(api, DEPLOYMENT, workload()))["spec"]["strategy"]["rollingUpdate"]["maxSurge"] == "25%"
    made = await create(api, STATEFUL_SET, workload())
    assert (made["spec"]["replicas"], made["spec"]["podManagementPolicy"]) == (1, "OrderedReady")
    assert (await create(api, DAEMON_SET, workload()))["status"]["numberReady"] == 0


async def test_a_job_gets_a_selector_of_its_own(api: Api) -> None:
    template = {"spec": {"containers": [dict(CONTAINER)], "restartPolicy": "Never"}}
    made = await create(api, JOB, {"metadata": {"name": "a"}, "spec": {"template": template}})
    label = "batch.kubernetes.io/controller-uid"
    assert made["spec"]["selector"] == {"matchLabels": {label: made["metadata"]["uid"]}}
    assert made["spec"]["template"]["metadata"]["labels"][label] == made["metadata"]["uid"]
    assert (made["spec"]["completions"], made["spec"]["parallelism"], made["spec"]["backoffLimit"]) == (1, 1, 6)


@pytest.mark.parametrize(
    ("kind", "body", "field"),
    [
        (POD, pod(containers=[]), "spec.containers"),
        (DEPLOYMENT, workload(replicas=-1), "spec.replicas"),
        (DEPLOYMENT, workload(selector={"matchLabels": {"app": "b"}}), "spec.template.metadata.labels"),
        (STATEFUL_SET, workload("a.b"), "metadata.name"),
        (DAEMON_SET, workload(selector={}), "spec.selector"),
    ],
)
async def test_what_would_break_the_cluster_is_refused(api: Api, kind: Kind, body: Json, field: str) -> None:
    assert fields_of(await refused(create(api, kind, body))) == [field]


async def test_of_a_pods_spec_only_images_and_further_tolerations_change(api: Api) -> None:
    await running(api, tolerations=[{"key": "a", "operator": "Exists"}])

    async def change(**spec: Any) -> Json:
        return await api.edit(at(POD, "a"), lambda body: body | {"spec": body["spec"] | spec})

    assert (await change(containers=[CONTAINER | {"image": "hollow:2"}]))["metadata"]["generation"] == 2
    forbidden: list[Json] = [{"nodeSelector": {"a": "b"}}, {"schedulingGates": [{"name": "late"}]}, {"tolerations": []}]
    for wrong in forbidden:
        assert (await refused(change(**wrong))).code == 422


async def test_a_gated_pod_may_be_told_where_it_belongs(api: Api) -> None:
    await create(api, POD, pod(schedulingGates=[{"name": "x.io/wait"}]))
    steered = {"nodeSelector": {"a": "b"}, "schedulingGates": []}
    changed = await api.edit(at(POD, "a"), lambda body: body | {"spec": body["spec"] | steered})
    assert changed["spec"]["nodeSelector"] == {"a": "b"}
    assert "schedulingGates" not in changed["spec"]


@pytest.mark.parametrize(("asked", "given"), [(None, 30), (5, 5)])
async def test_a_running_pod_has_time_to_end(api: Api, asked: int | None, given: int) -> None:
    await running(api)
    assert (await api.delete(at(POD, "a"), Deletion(grace=asked)))["metadata"]["deletionGracePeriodSeconds"] == given


async def test_a_pod_without_a_node_goes_at_once(api: Api) -> None:
    await create(api, POD, pod())
    await api.delete(at(POD, "a"))
    assert api.find(POD, ("default", "a")) is None


def test_a_condition_keeps_its_time_while_its_status_stays() -> None:
    status: Json = {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "then"}]}
    assert set_condition(status, {"type": "Ready", "status": "True", "reason": "Fine"})
    assert status["conditions"][0]["lastTransitionTime"] == "then"
    assert not set_condition(status, {"type": "Ready", "status": "True", "reason": "Fine"})
    assert set_condition(status, {"type": "Ready", "status": "False"})
    assert status["conditions"][0]["lastTransitionTime"] != "then"
