"""What admission does to objects before their rules: priorities, accounts, tolerations, taints, classes, addresses."""

from __future__ import annotations

from typing import Any

import pytest

from kubemini.api import Api
from kubemini.errors import Json
from kubemini.kinds import CLAIM, NODE, POD, PRIORITY_CLASS, STORAGE_CLASS
from tests.unit.kubemini.rule_cases import ACCOUNT, CONTAINER, at, cluster, create, pod, refused

TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
LOST = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}


@pytest.fixture
async def api() -> Api:
    return await cluster(admission=True)


def named(name: str = "a", **fields: Any) -> Json:
    return {"metadata": {"name": name}, **fields}


async def test_a_pod_without_a_class_has_no_priority(api: Api) -> None:
    spec = (await create(api, POD, pod()))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"], "priorityClassName" in spec) == (
        0,
        "PreemptLowerPriority",
        False,
    )


async def test_a_class_gives_a_pod_its_priority(api: Api) -> None:
    await create(api, PRIORITY_CLASS, named("mine", value=7, preemptionPolicy="Never"))
    spec = (await create(api, POD, pod(priorityClassName="mine")))["spec"]
    assert (spec["priority"], spec["preemptionPolicy"]) == (7, "Never")


async def test_the_default_class_is_for_pods_that_name_none(api: Api) -> None:
    await create(api, PRIORITY_CLASS, named("usual", value=3, globalDefault=True))
    spec = (await create(api, POD, pod()))["spec"]
    assert (spec["priority"], spec["priorityClassName"]) == (3, "usual")


@pytest.mark.parametrize(
    ("spec", "why"),
    [
        ({"priorityClassName": "nope"}, "no PriorityClass with name nope was found"),
        ({"priority": 5}, "the integer value of priority (5) must not be provided in pod spec"),
        (
            {"serviceAccountName": "nope"},
            'error looking up service account default/nope: serviceaccount "nope" not found',
        ),
    ],
)
async def test_a_pod_that_wants_what_is_not_there_is_forbidden(api: Api, spec: Json, why: str) -> None:
    refusal = await refused(create(api, POD, pod(**spec)))
    assert (refusal.code, refusal.reason) == (403, "Forbidden")
    assert why in refusal.message


async def test_every_container_is_given_the_token_of_the_account(api: Api) -> None:
    spec = (await create(api, POD, pod(initContainers=[CONTAINER | {"name": "first"}])))["spec"]
    (volume,) = spec["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    mounts = [container["volumeMounts"] for container in (*spec["initContainers"], *spec["containers"])]
    assert mounts == [[{"name": volume["name"], "readOnly": True, "mountPath": TOKEN_PATH}]] * 2
    assert spec["serviceAccountName"] == spec["serviceAccount"] == "default"


@pytest.mark.parametrize("where", ["pod", "account"])
async def test_a_token_that_nobody_wants_is_not_mounted(api: Api, where: str) -> None:
    await create(api, ACCOUNT, named("quiet", automountServiceAccountToken=False))
    wanted = {"automountServiceAccountToken": False} if where == "pod" else {"serviceAccountName": "quiet"}
    assert "volumes" not in (await create(api, POD, pod(**wanted)))["spec"]


async def test_pods_tolerate_a_lost_node_for_five_minutes(api: Api) -> None:
    tolerations = (await create(api, POD, pod()))["spec"]["tolerations"]
    assert {each["key"] for each in tolerations} == LOST
    assert {(each["effect"], each["tolerationSeconds"]) for each in tolerations} == {("NoExecute", 300)}


@pytest.mark.parametrize(
    ("own", "added"),
    [
        ({"operator": "Exists"}, set()),
        ({"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}, {"unreachable"}),
        (
            {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoSchedule"},
            {"not-ready", "unreachable"},
        ),
    ],
)
async def test_what_a_pod_says_about_lost_nodes_itself_counts(api: Api, own: Json, added: set[str]) -> None:
    tolerations = (await create(api, POD, pod(tolerations=[own])))["spec"]["tolerations"]
    assert {each["key"].partition("/")[2] for each in tolerations if each != own} == added


async def test_nothing_is_scheduled_to_a_new_node_yet(api: Api) -> None:
    made = await create(api, NODE, named(spec={"taints": [{"key": "a", "effect": "NoSchedule"}]}))
    assert made["spec"]["taints"] == [
        {"key": "a", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
    ]
    again = await api.edit(at(NODE, "a"), lambda body: body | {"spec": {}})
    assert "taints" not in again["spec"]


async def test_a_claim_that_names_no_class_gets_the_default_one(api: Api) -> None:
    mark = {"storageclass.kubernetes.io/is-default-class": "true"}
    spec = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    await create(api, STORAGE_CLASS, named("slow", provisioner="x"))
    assert "storageClassName" not in (await create(api, CLAIM, named("a", spec=spec)))["spec"]
    await create(api, STORAGE_CLASS, {"metadata": {"name": "fast", "annotations": mark}, "provisioner": "x"})
    assert (await create(api, CLAIM, named("b", spec=spec)))["spec"]["storageClassName"] == "fast"
    assert (await create(api, CLAIM, named("c", spec=spec | {"storageClassName": ""})))["spec"][
        "storageClassName"
    ] == ""
