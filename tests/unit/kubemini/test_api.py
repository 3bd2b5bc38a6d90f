"""What the embedded API does with writes of any kind: identity, versions, preconditions, finalizers, admission."""

from typing import Any

import pytest

from kubemini.api import Api, Deletion, Target
from kubemini.errors import Json, StatusError
from kubemini.kinds import BUDGET, DEPLOYMENT, LEASE, NAMESPACE, Kind

CONFIG_MAP = Kind("", "v1", "ConfigMap", "configmaps")


def named(name: str, kind: Kind = CONFIG_MAP, subresource: str = "") -> Target:
    return Target(kind, "default", name, subresource)


def config_map(name: str = "", **fields: Any) -> Json:
    return {"metadata": {"name": name} if name else {}, **fields}


@pytest.fixture
async def api() -> Api:
    api = Api()
    await api.create(Target(NAMESPACE, name="default"), {"metadata": {"name": "default"}})
    return api


async def refusal(awaitable: Any) -> tuple[int, str]:
    with pytest.raises(StatusError) as refused:
        await awaitable
    return refused.value.code, refused.value.reason


async def test_a_new_object_gets_its_identity_from_the_server(api: Api) -> None:
    made = await api.create(named(""), config_map("a", data={"x": "y"}))
    assert (made["apiVersion"], made["kind"]) == ("v1", "ConfigMap")
    assert made["metadata"]["namespace"] == "default"
    assert made["metadata"]["uid"]
    assert made["metadata"]["creationTimestamp"]
    assert made == api.get(named("a"))


async def test_a_generated_name_is_made_from_the_prefix(api: Api) -> None:
    bodies = [{"metadata": {"generateName": "web-"}} for _ in range(20)]
    names = {(await api.create(named(""), body))["metadata"]["name"] for body in bodies}
    assert len(names) == 20
    assert all(name.startswith("web-") and len(name) == 9 for name in names)


async def test_a_name_that_is_taken_is_refused(api: Api) -> None:
    await api.create(named(""), config_map("a"))
    assert await refusal(api.create(named(""), config_map("a"))) == (409, "AlreadyExists")


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (config_map(), 422),
        (config_map("Not_A_Name"), 422),
        (config_map("a", kind="Secret"), 400),
        (config_map("a", apiVersion="v2"), 400),
        ({"metadata": {"name": "a", "namespace": "elsewhere"}}, 400),
        ({"metadata": {"name": "a", "resourceVersion": "5"}}, 400),
        ({"metadata": {"name": "a", "labels": {"-": 1}}}, 400),
        ({"metadata": {"name": "a", "ownerReferences": [{"name": "x"}]}}, 422),
        ({"metadata": "a"}, 400),
    ],
    ids=["no name", "bad name", "other kind", "other version", "other namespace", "with a version", "bad label",
         "half an owner", "no metadata"],
)  # fmt: skip
async def test_what_cannot_be_an_object_is_refused_and_not_kept(api: Api, body: Json, code: int) -> None:
    assert (await refusal(api.create(named(""), body)))[0] == code
    assert api.store.entries(CONFIG_MAP) == []


async def test_nothing_is_made_in_a_namespace_that_is_not_there_or_is_going(api: Api) -> None:
    assert await refusal(api.create(Target(CONFIG_MAP, "nowhere"), config_map("a"))) == (404, "NotFound")
    await api.create(Target(NAMESPACE, name="going"), {"metadata": {"name": "going", "finalizers": ["x.io/y"]}})
    await api.delete(Target(NAMESPACE, name="going"))
    assert await refusal(api.create(Target(CONFIG_MAP, "going"), config_map("a"))) == (403, "Forbidden")


async def test_a_replacement_must_be_of_the_newest_version_if_it_names_one(api: Api) -> None:
    old = await api.create(named(""), config_map("a"))
    await api.replace(named("a"), config_map("a", data={"n": "1"}))
    stale = {**old, "data": {"n": "2"}}
    assert await refusal(api.replace(named("a"), stale)) == (409, "Conflict")
    assert api.get(named("a"))["data"] == {"n": "1"}


async def test_some_kinds_are_replaced_only_by_version(api: Api) -> None:
    await api.create(named("", LEASE), {"metadata": {"name": "a"}})
    unversioned = {"metadata": {"name": "a"}, "spec": {"holderIdentity": "me"}}
    assert await refusal(api.replace(named("a", LEASE), unversioned)) == (422, "Invalid")
    known = api.get(named("a", LEASE)) | {"spec": {"holderIdentity": "me"}}
    assert (await api.replace(named("a", LEASE), known))["spec"] == {"holderIdentity": "me"}


async def test_an_edit_that_changes_nothing_writes_nothing(api: Api) -> None:
    before = await api.create(named(""), config_map("a"))
    version = api.store.version
    assert await api.edit(named("a"), lambda body: body) == before
    assert api.store.version == version


async def test_identity_cannot_be_edited(api: Api) -> None:
    before = await api.create(named(""), config_map("a"))

    def rename(body: Json) -> Json:
        body["metadata"]["name"] = "b"
        return body

    def another(body: Json) -> Json:
        body["metadata"]["uid"] = "another"
        return body

    def antedate(body: Json) -> Json:
        body["metadata"] |= {"creationTimestamp": "2000-01-01T00:00:00Z", "labels": {"x": "y"}}
        return body

    assert (await refusal(api.edit(named("a"), rename)))[0] == 400
    assert await refusal(api.edit(named("a"), another)) == (422, "Invalid")
    assert (await refusal(api.edit(named("a"), lambda body: body | {"metadata": None})))[0] == 400
    assert (await refusal(api.edit(named("a"), lambda body: body | {"kind": "Other"})))[0] == 400
    edited = await api.edit(named("a"), antedate)
    assert edited["metadata"]["creationTimestamp"] == before["metadata"]["creationTimestamp"]


async def test_a_dry_run_answers_as_if_and_keeps_nothing(api: Api) -> None:
    version = api.store.version
    made = await api.create(named(""), config_map("a"), dry_run=True)
    assert made["metadata"]["uid"]
    assert api.find(CONFIG_MAP, ("default", "a")) is None
    await api.create(named(""), config_map("b"))
    edited = await api.replace(named("b"), config_map("b", data={"x": "y"}), dry_run=True)
    assert edited["data"] == {"x": "y"}
    await api.delete(named("b"), Deletion(dry_run=True))
    assert api.store.version == version + 1


async def test_status_is_written_through_its_subresource_only(api: Api) -> None:
    budget = {"metadata": {"name": "a"}, "spec": {"minAvailable": 1}, "status": {"currentHealthy": 9}}
    made = await api.create(named("", BUDGET), budget)
    assert made.get("status", {}).get("currentHealthy") != 9

    def both(body: Json) -> Json:
        return body | {"spec": {"minAvailable": 2}, "status": body.get("status", {}) | {"currentHealthy": 7}}

    through_status = await api.edit(named("a", BUDGET, "status"), both)
    assert (through_status["spec"]["minAvailable"], through_status["status"]["currentHealthy"]) == (1, 7)
    assert through_status["metadata"]["generation"] == 1
    through_main = await api.edit(named("a", BUDGET), lambda body: both(body) | {"status": {}})
    assert (through_main["spec"]["minAvailable"], through_main["status"]["currentHealthy"]) == (2, 7)
    assert through_main["metadata"]["generation"] == 2


async def test_a_deletion_must_meet_its_preconditions(api: Api) -> None:
    made = await api.create(named(""), config_map("a"))
    assert await refusal(api.delete(named("a"), Deletion(uid="another"))) == (409, "Conflict")
    assert await refusal(api.delete(named("a"), Deletion(version="1"))) == (409, "Conflict")
    metadata = made["metadata"]
    await api.delete(named("a"), Deletion(uid=metadata["uid"], version=metadata["resourceVersion"]))
    assert await refusal(api.delete(named("a"))) == (404, "NotFound")


async def test_finalizers_hold_an_object_until_the_last_is_gone(api: Api) -> None:
    await api.create(named(""), {"metadata": {"name": "a", "finalizers": ["x.io/one", "x.io/two"]}})
    deleting = await api.delete(named("a"))
    assert deleting["metadata"]["deletionTimestamp"]
    again = await api.delete(named("a"))
    assert again["metadata"]["resourceVersion"] == deleting["metadata"]["resourceVersion"]

    def drop(body: Json) -> Json:
        body["metadata"]["finalizers"].pop()
        return body

    assert (await api.edit(named("a"), drop))["metadata"]["finalizers"] == ["x.io/one"]
    await api.edit(named("a"), drop)
    assert api.find(CONFIG_MAP, ("default", "a")) is None


@pytest.mark.parametrize(("propagation", "finalizer"), [("Foreground", "foregroundDeletion"), ("Orphan", "orphan")])
async def test_the_garbage_collector_is_asked_by_finalizer(api: Api, propagation: str, finalizer: str) -> None:
    await api.create(named(""), config_map("a"))
    deleting = await api.delete(named("a"), Deletion(propagation=propagation))
    assert deleting["metadata"]["finalizers"] == [finalizer]


async def test_a_new_generation_is_a_new_spec(api: Api) -> None:
    labels = {"app": "a"}
    container = {"name": "main", "image": "hollow:1"}
    spec = {
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
    }
    await api.create(named("", DEPLOYMENT), {"metadata": {"name": "a"}, "spec": spec})

    def scale(body: Json) -> Json:
        body["spec"]["replicas"] = 5
        return body

    def label(body: Json) -> Json:
        body["metadata"]["labels"] = {"x": "y"}
        return body

    assert (await api.edit(named("a", DEPLOYMENT), label))["metadata"]["generation"] == 1
    assert (await api.edit(named("a", DEPLOYMENT), scale))["metadata"]["generation"] == 2
