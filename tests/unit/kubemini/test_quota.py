"""Quotas: what counts, what is too much, and that the sums stay right as objects come and go."""

from __future__ import annotations

from typing import Any

import pytest

from kubemini.api import Api, Deletion, Target
from kubemini.kinds import CLAIM, DEPLOYMENT, NAMESPACE, POD, QUOTA, SERVICE
from kubemini.quota import QuotaController
from kubemini.refusals import Json, Refusal
from kubemini.store import Change
from tests.unit.kubemini.rule_cases import ACCOUNT, CONTAINER, SPACE, at, cluster, create, pod, refused


@pytest.fixture
async def api() -> Api:
    return await cluster(admission=True)


async def quota(api: Api, name: str = "q", **fields: Any) -> None:
    await create(api, QUOTA, {"metadata": {"name": name}, "spec": fields})


def asking(name: str, cpu: str = "1", **spec: Any) -> Json:
    resources = {"requests": {"cpu": cpu}}
    return pod(name, containers=[CONTAINER | {"resources": resources}], **spec)


async def used(controller: QuotaController, api: Api, name: str = "q") -> Json:
    """What the quota's status says after its controller has looked at it."""
    await controller.reconcile((SPACE, name))
    status = api.get(at(QUOTA, name))["status"]
    assert status["hard"] == api.get(at(QUOTA, name))["spec"]["hard"]
    found: Json = status["used"]
    return found


async def test_one_pod_too_many_is_forbidden(api: Api) -> None:
    await quota(api, hard={"pods": "2"})
    await create(api, POD, pod("a"))
    await create(api, POD, pod("b"))
    refusal = await refused(create(api, POD, pod("c")))
    assert (refusal.code, refusal.reason) == (403, "Forbidden")
    assert refusal.message == (
        'pods "c" is forbidden: exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2'
    )


async def test_room_comes_back_when_a_pod_goes_or_ends(api: Api) -> None:
    await quota(api, hard={"pods": "1"})
    await create(api, POD, pod("a"))
    await api.delete(at(POD, "a"))
    await create(api, POD, pod("b"))
    await api.edit(at(POD, "b", "status"), lambda body: body | {"status": body["status"] | {"phase": "Succeeded"}})
    await create(api, POD, pod("c"))


async def test_only_what_is_exceeded_is_named(api: Api) -> None:
    await quota(api, hard={"pods": "9", "requests.cpu": "1500m"})
    await create(api, POD, asking("a"))
    refusal = await refused(create(api, POD, asking("b")))
    assert refusal.message.endswith(
        "exceeded quota: q, requested: requests.cpu=1, used: requests.cpu=1, limited: requests.cpu=1500m"
    )


async def test_a_quota_on_cpu_wants_every_container_to_ask_for_some(api: Api) -> None:
    await quota(api, hard={"limits.cpu": "5", "requests.cpu": "5"})
    refusal = await refused(create(api, POD, asking("a")))
    assert refusal.message.endswith("failed quota: q: must specify limits.cpu for: main")


async def test_objects_that_were_there_before_the_quota_count(api: Api) -> None:
    await create(api, POD, pod("a"))
    await quota(api, hard={"pods": "1"})
    assert (await refused(create(api, POD, pod("b")))).code == 403


async def test_a_changed_quota_counts_afresh(api: Api) -> None:
    await quota(api, hard={"pods": "1"})
    await create(api, POD, pod("a"))
    await api.edit(at(QUOTA, "q"), lambda body: body | {"spec": {"hard": {"pods": "2"}}})
    await create(api, POD, pod("b"))
    assert (await refused(create(api, POD, pod("c")))).code == 403


async def test_a_quota_that_is_gone_forbids_nothing(api: Api) -> None:
    await quota(api, hard={"pods": "0"})
    await api.delete(at(QUOTA, "q"))
    await create(api, POD, pod("a"))


async def test_other_namespaces_are_not_concerned(api: Api) -> None:
    await quota(api, hard={"pods": "0"})
    await api.create(Target(NAMESPACE), {"metadata": {"name": "other"}})
    await api.create(Target(ACCOUNT, "other"), {"metadata": {"name": "default"}})
    await api.create(Target(POD, "other"), pod("a"))


async def test_a_dry_run_is_refused_too_and_uses_nothing(api: Api) -> None:
    await quota(api, hard={"pods": "1"})
    await api.create(at(POD), pod("a"), dry_run=True)
    await create(api, POD, pod("b"))
    assert (await refused(api.create(at(POD), pod("c"), dry_run=True))).code == 403


async def test_any_kind_of_object_can_be_counted(api: Api) -> None:
    await quota(api, hard={"count/deployments.apps": "0", "services": "1", "services.nodeports": "0"})
    labels = {"app": "a"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [CONTAINER]}}
    body = {"metadata": {"name": "a"}, "spec": {"selector": {"matchLabels": labels}, "template": template}}
    assert "count/deployments.apps=1" in (await refused(create(api, DEPLOYMENT, body))).message
    await create(api, SERVICE, {"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}})
    wanted: Json = {"type": "NodePort", "ports": [{"port": 80}]}
    refusal = await refused(create(api, SERVICE, {"metadata": {"name": "b"}, "spec": wanted}))
    assert "requested: services=1,services.nodeports=1" in refusal.message


async def test_a_claim_counts_by_its_size_and_class(api: Api) -> None:
    of_class = "fast.storageclass.storage.k8s.io/requests.storage"
    await quota(api, hard={"requests.storage": "5Gi", of_class: "1Gi"})
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "3Gi"}}}
    await create(api, CLAIM, {"metadata": {"name": "a"}, "spec": spec})
    refusal = await refused(create(api, CLAIM, {"metadata": {"name": "b"}, "spec": spec}))
    assert "used: requests.storage=3Gi" in refusal.message
    fast = spec | {"storageClassName": "fast", "resources": {"requests": {"storage": "2Gi"}}}
    refusal = await refused(create(api, CLAIM, {"metadata": {"name": "c"}, "spec": fast}))
    assert f"requested: {of_class}=2Gi" in refusal.message


@pytest.mark.parametrize(
    ("scope", "counted"),
    [
        ({"scopes": ["BestEffort"]}, {"plain"}),
        ({"scopes": ["NotBestEffort"]}, {"asks", "ends", "critical"}),
        ({"scopes": ["Terminating"]}, {"ends"}),
        ({"scopes": ["NotTerminating"]}, {"plain", "asks", "critical"}),
        (
            {"scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "Exists"}]}},
            {"critical"},
        ),
        (
            {
                "scopeSelector": {
                    "matchExpressions": [{"scopeName": "PriorityClass", "operator": "NotIn", "values": ["other"]}]
                }
            },
            {"plain", "asks", "ends", "critical"},
        ),
    ],
)
async def test_a_scope_says_which_pods_count(api: Api, scope: Json, counted: set[str]) -> None:
    await quota(api, hard={"pods": "0"}, **scope)
    pods = {
        "plain": pod("plain"),
        "asks": asking("asks"),
        "ends": asking("ends", activeDeadlineSeconds=5),
        "critical": asking("critical", priorityClassName="system-node-critical"),
    }
    forbidden = {name for name, body in pods.items() if await _is_refused(api, body)}
    assert forbidden == counted


async def _is_refused(api: Api, body: Json) -> bool:
    try:
        await create(api, POD, body)
    except Refusal as refusal:
        return "exceeded quota" in refusal.message
    return False


async def test_the_status_says_what_is_used_as_objects_come_and_go(api: Api) -> None:
    controller = QuotaController(api)
    await quota(api, hard={"pods": "9", "requests.cpu": "4", "count/pods": "9"})
    assert await used(controller, api) == {"pods": "0", "requests.cpu": "0", "count/pods": "0"}
    await create(api, POD, asking("a", "250m"))
    await create(api, POD, asking("b"))
    assert await used(controller, api) == {"pods": "2", "requests.cpu": "1250m", "count/pods": "2"}
    await api.edit(at(POD, "b", "status"), lambda body: body | {"status": body["status"] | {"phase": "Failed"}})
    assert await used(controller, api) == {"pods": "1", "requests.cpu": "250m", "count/pods": "2"}
    await api.delete(at(POD, "a"), Deletion(grace=0))
    assert await used(controller, api) == {"pods": "0", "requests.cpu": "0", "count/pods": "1"}


async def test_a_change_concerns_every_quota_of_its_namespace(api: Api) -> None:
    controller = QuotaController(api)
    await quota(api, hard={"pods": "9"})
    await quota(api, "r", hard={"pods": "9"})
    changes: list[Change] = []
    api.store.subscribe(changes.append, POD)
    await create(api, POD, pod())
    assert [set(controller.concerned(change)) for change in changes] == [{(SPACE, "q"), (SPACE, "r")}]
    assert await controller.reconcile((SPACE, "gone")) is None


async def test_init_containers_count_as_much_as_they_need_at_once(api: Api) -> None:
    controller = QuotaController(api)
    await quota(api, hard={"requests.cpu": "99"})

    def container(name: str, cpu: str, **fields: Any) -> Json:
        return CONTAINER | {"name": name, "resources": {"requests": {"cpu": cpu}}} | fields

    body = pod(
        containers=[container("main", "1"), container("other", "1")],
        initContainers=[container("side", "500m", restartPolicy="Always"), container("first", "4")],
    )
    await create(api, POD, body)
    assert await used(controller, api) == {"requests.cpu": "4500m"}
