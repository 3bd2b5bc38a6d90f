"""What admission adds to objects: tokens of accounts, tolerations, taints, storage classes."""

from __future__ import annotations

from typing import Any

import pytest

from kubemini.admission import AdmissionChain
from kubemini.api import Api, Target
from kubemini.errors import Json
from kubemini.kinds import CLAIM, NAMESPACE, NODE, POD, STORAGE_CLASS, Kind
from kubemini.store import Store

ACCOUNT = Kind("", "v1", "ServiceAccount", "serviceaccounts")
CONTAINER: Json = {"name": "main", "image": "hollow:1"}

TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
LOST = {"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"}


@pytest.fixture
async def api() -> Api:
    store = Store()
    api = Api(store, admission=AdmissionChain(store))
    await api.create(Target(NAMESPACE), {"metadata": {"name": "default"}})
    await api.create(at(ACCOUNT), {"metadata": {"name": "default"}})
    return api


def at(kind: Kind, name: str = "") -> Target:
    return Target(kind, "default" if kind.namespaced else "", name)


def pod(**spec: Any) -> Json:
    return {"metadata": {"name": "a", "labels": {"app": "a"}}, "spec": {"containers": [dict(CONTAINER)]} | spec}


async def create(api: Api, kind: Kind, body: Json) -> Json:
    return await api.create(at(kind), body)


def named(name: str = "a", **fields: Any) -> Json:
    return {"metadata": {"name": name}, **fields}


async def test_every_container_is_given_the_token_of_the_account(api: Api) -> None:
    spec = (await create(api, POD, pod(initContainers=[CONTAINER | {"name": "first"}])))["spec"]
    (volume,) = spec["volumes"]
    assert volume["name"].startswith("kube-api-access-")
    mounts = [container["volumeMounts"] for container in (*spec["initContainers"], *spec["containers"])]
    assert mounts == [[{"name": volume["name"], "readOnly": True, "mountPath": TOKEN_PATH}]] * 2
    assert spec["serviceAccountName"] == spec["serviceAccount"] == "default"


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
