"""What holds for workloads and disruption budgets: what is filled in, what is refused, and what must not change."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kubemini.api import Api
from kubemini.kinds import BUDGET, DAEMON_SET, DEPLOYMENT, JOB, REPLICA_SET, STATEFUL_SET, Kind
from kubemini.refusals import Json
from tests.unit.kubemini.rule_cases import CONTAINER, at, cluster, create, fields_of, refused

LABELS = {"app": "a"}


@pytest.fixture
async def api() -> Api:
    return await cluster()


def workload(**spec: Any) -> Json:
    template = {"metadata": {"labels": LABELS}, "spec": {"containers": [CONTAINER]}}
    body = {"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": LABELS}, "template": template} | spec}
    return copy.deepcopy(body)


def job(**spec: Any) -> Json:
    template = {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}
    return copy.deepcopy({"metadata": {"name": "a"}, "spec": {"template": template} | spec})


def with_spec(**fields: Any) -> Any:
    return lambda body: body | {"spec": body["spec"] | fields}


def with_status(**fields: Any) -> Any:
    return lambda body: body | {"status": body["status"] | fields}


async def test_a_deployment_is_filled_in(api: Api) -> None:
    made = await create(api, DEPLOYMENT, workload())
    spec = made["spec"]
    assert (spec["replicas"], spec["revisionHistoryLimit"], spec["progressDeadlineSeconds"]) == (1, 10, 600)
    assert spec["strategy"] == {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}}
    assert spec["template"]["spec"]["restartPolicy"] == "Always"
    assert "enableServiceLinks" not in spec["template"]["spec"]  # pods alone have it
    assert made["status"] == {}


@pytest.mark.parametrize("kind", [DEPLOYMENT, REPLICA_SET, STATEFUL_SET, DAEMON_SET], ids=lambda kind: str(kind.name))
async def test_a_selector_must_match_the_template_and_must_not_change(api: Api, kind: Kind) -> None:
    other = {"matchLabels": {"app": "b"}}
    refusal = await refused(create(api, kind, workload(selector=other)))
    assert fields_of(refusal) == ["spec.template.metadata.labels"]
    await create(api, kind, workload())
    refusal = await refused(api.edit(at(kind, "a"), with_spec(selector={"matchLabels": LABELS | {"b": "c"}})))
    assert "spec.selector" in fields_of(refusal)


async def test_a_template_is_held_to_the_rules_of_pods(api: Api) -> None:
    body = workload()
    body["spec"]["template"]["spec"]["containers"][0]["name"] = "A"
    assert fields_of(await refused(create(api, DEPLOYMENT, body))) == ["spec.template.spec.containers[0].name"]


async def test_a_rollout_that_can_not_move_is_refused(api: Api) -> None:
    stuck = {"rollingUpdate": {"maxSurge": 0, "maxUnavailable": 0}}
    refusal = await refused(create(api, DEPLOYMENT, workload(strategy=stuck)))
    assert fields_of(refusal) == ["spec.strategy.rollingUpdate.maxUnavailable"]


async def test_a_change_of_the_spec_is_a_new_generation_and_one_of_the_status_is_none(api: Api) -> None:
    await create(api, DEPLOYMENT, workload())
    assert (await api.edit(at(DEPLOYMENT, "a"), with_spec(replicas=3)))["metadata"]["generation"] == 2
    made = await api.edit(at(DEPLOYMENT, "a", "status"), with_status(replicas=3))
    assert (made["metadata"]["generation"], made["status"]) == (2, {"replicas": 3})


async def test_no_more_can_be_ready_than_there_are(api: Api) -> None:
    await create(api, DEPLOYMENT, workload())
    refusal = await refused(api.edit(at(DEPLOYMENT, "a", "status"), with_status(replicas=1, readyReplicas=2)))
    assert fields_of(refusal) == ["status.readyReplicas"]


@pytest.mark.parametrize(
    ("key", "value"), [("serviceName", "other"), ("podManagementPolicy", "Parallel"), ("volumeClaimTemplates", [])]
)
async def test_much_of_a_stateful_set_is_fixed(api: Api, key: str, value: Any) -> None:
    claim = {
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }
    await create(api, STATEFUL_SET, workload(serviceName="a", volumeClaimTemplates=[claim]))
    assert f"spec.{key}" in fields_of(await refused(api.edit(at(STATEFUL_SET, "a"), with_spec(**{key: value}))))


async def test_a_daemon_sets_templates_are_counted(api: Api) -> None:
    mark = "deprecated.daemonset.template.generation"
    made = await create(api, DAEMON_SET, workload())
    assert made["metadata"]["annotations"][mark] == "1"
    template = copy.deepcopy(made["spec"]["template"])
    template["spec"]["containers"][0]["image"] = "other:2"
    made = await api.edit(at(DAEMON_SET, "a"), with_spec(template=template))
    assert made["metadata"]["annotations"][mark] == "2"
    made = await api.edit(at(DAEMON_SET, "a"), with_spec(minReadySeconds=5))
    assert made["metadata"]["annotations"][mark] == "2"


async def test_a_job_is_given_a_selector_of_its_own(api: Api) -> None:
    made = await create(api, JOB, job())
    uid = made["metadata"]["uid"]
    assert made["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": uid}}
    labels = made["spec"]["template"]["metadata"]["labels"]
    assert (labels["job-name"], labels["batch.kubernetes.io/job-name"], labels["controller-uid"]) == ("a", "a", uid)
    assert made["metadata"]["labels"] == labels
    assert (made["spec"]["completions"], made["spec"]["parallelism"], made["spec"]["backoffLimit"]) == (1, 1, 6)


async def test_a_job_must_say_how_its_pods_restart(api: Api) -> None:
    body = job()
    del body["spec"]["template"]["spec"]["restartPolicy"]
    assert fields_of(await refused(create(api, JOB, body))) == ["spec.template.spec.restartPolicy"]


async def test_where_the_pods_of_a_job_go_can_be_said_as_long_as_it_waits(api: Api) -> None:
    def placed(body: Json) -> Json:
        body["spec"]["template"]["spec"]["nodeSelector"] = {"zone": "a"}
        return body

    await create(api, JOB, job(suspend=True))
    await api.edit(at(JOB, "a"), placed)
    await create(api, JOB, job() | {"metadata": {"name": "b"}})
    assert fields_of(await refused(api.edit(at(JOB, "b"), placed))) == ["spec.template"]


async def test_a_finished_job_stays_finished(api: Api) -> None:
    await create(api, JOB, job())
    times = {"startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:00:01Z"}
    done = [{"type": sort, "status": "True"} for sort in ("SuccessCriteriaMet", "Complete")]
    await api.edit(at(JOB, "a", "status"), with_status(conditions=done, succeeded=1, **times))
    refusal = await refused(api.edit(at(JOB, "a", "status"), lambda body: body | {"status": {}}))
    assert {"status.conditions", "status.succeeded"} <= set(fields_of(refusal))


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({"minAvailable": 1, "maxUnavailable": 1}, ["spec"]),
        ({"minAvailable": "150%"}, ["spec.minAvailable"]),
        ({"maxUnavailable": "half"}, ["spec.maxUnavailable"]),
        ({"maxUnavailable": -1}, ["spec.maxUnavailable"]),
        ({"unhealthyPodEvictionPolicy": "Ask"}, ["spec.unhealthyPodEvictionPolicy"]),
        (
            {"selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
            ["spec.selector.matchExpressions[0].values"],
        ),
    ],
)
async def test_a_budget_that_makes_no_sense_is_refused(api: Api, spec: Json, fields: list[str]) -> None:
    assert fields_of(await refused(create(api, BUDGET, {"metadata": {"name": "a"}, "spec": spec}))) == fields


async def test_a_new_budget_allows_nothing_yet(api: Api) -> None:
    made = await create(api, BUDGET, {"metadata": {"name": "a"}, "spec": {"minAvailable": "50%"}})
    assert made["status"] == {"currentHealthy": 0, "desiredHealthy": 0, "disruptionsAllowed": 0, "expectedPods": 0}
