"""Lists of the embedded API server: selectors, pages of one state, and the versions that they are read at."""

from __future__ import annotations

import base64

import pytest

from kubemini.api import Target
from kubemini.kinds import EVENT, NAMESPACE, NODE, POD, Kinds
from kubemini.refusals import Refusal
from kubemini.server.pages import States, start_of, token_for
from kubemini.server.selection import selection
from kubemini.store import HISTORY, Store
from tests.unit.kubemini.served import CONFIG_MAP, MAPS, PODS, Client, pod, served


def garbled(text: str) -> str:
    return base64.urlsafe_b64encode(text.encode()).decode()


async def some(client: Client, count: int) -> None:
    for number in range(count):
        await client.make(f"map-{number}", metadata={"labels": {"even": str(number % 2 == 0).lower()}})


async def test_an_empty_list_is_a_list() -> None:
    async with served() as client:
        answer = (await client.get("/api/v1/namespaces/nowhere/pods")).json
        assert answer["kind"] == "PodList"
        assert answer["items"] == []
        assert answer["metadata"] == {"resourceVersion": str(client.api.store.version)}


async def test_items_of_built_in_kinds_do_not_repeat_what_they_are() -> None:
    async with served() as client:
        await client.make("a", data={"x": "y"})
        await client.send("PUT", f"{MAPS}/a", {"data": {"x": "z"}, "metadata": {"name": "a"}, "kind": "ConfigMap"})
        (item,) = (await client.get(MAPS)).json["items"]
        assert list(item) == ["data", "metadata"] or list(item) == ["metadata", "data"]
        assert item["data"] == {"x": "z"}


async def test_pages_show_the_state_of_the_first_one() -> None:
    async with served() as client:
        await some(client, 5)
        first = (await client.get(f"{MAPS}?limit=2")).json
        assert first["metadata"]["remainingItemCount"] == 3
        await client.drop("map-2")
        await client.change("map-3", data={"new": "yes"})
        await client.make("map-2a")
        names, page = [each["metadata"]["name"] for each in first["items"]], first
        versions = {first["metadata"]["resourceVersion"]}
        while token := page["metadata"].get("continue"):
            page = (await client.get(f"{MAPS}?limit=2&continue={token}")).json
            names += [each["metadata"]["name"] for each in page["items"]]
            versions.add(page["metadata"]["resourceVersion"])
            assert not any("data" in each for each in page["items"])
        assert names == [f"map-{number}" for number in range(5)]
        assert len(versions) == 1


async def test_the_last_page_takes_the_rest_when_no_limit_is_named() -> None:
    async with served() as client:
        await some(client, 5)
        first = (await client.get(f"{MAPS}?limit=2")).json
        rest = await client.get(f"{MAPS}?continue={first['metadata']['continue']}")
        assert rest.names == ["map-2", "map-3", "map-4"]
        assert "continue" not in rest.json["metadata"]


async def test_pages_of_all_namespaces_go_on_in_the_next_one() -> None:
    async with served() as client:
        await client.api.create(Target(NAMESPACE), {"metadata": {"name": "other"}})
        await some(client, 2)
        await client.api.create(Target(CONFIG_MAP, "other"), {"metadata": {"name": "a"}})
        first = (await client.get("/api/v1/configmaps?limit=2")).json
        rest = await client.get(f"/api/v1/configmaps?limit=2&continue={first['metadata']['continue']}")
        assert rest.names == ["a"]


async def test_pages_of_a_selection_do_not_count_what_remains() -> None:
    async with served() as client:
        await some(client, 5)
        first = await client.get(f"{MAPS}?limit=2&labelSelector=even%3Dtrue")
        assert first.names == ["map-0", "map-2"]
        assert "remainingItemCount" not in first.json["metadata"]
        token = first.json["metadata"]["continue"]
        rest = await client.get(f"{MAPS}?limit=2&labelSelector=even%3Dtrue&continue={token}")
        assert rest.names == ["map-4"]
        assert "continue" not in rest.json["metadata"]


async def test_a_page_whose_state_is_forgotten_is_gone_and_offers_the_newest_one() -> None:
    async with served() as client:
        await some(client, 4)
        token = token_for(client.api.store.version, ("default", "map-1"))
        await client.drop("map-2")
        client.api.store.forget(CONFIG_MAP)
        answer = await client.get(f"{MAPS}?limit=2&continue={token}")
        assert (answer.status, answer.json["reason"]) == (410, "Expired")
        assert "too old to display a consistent list result" in answer.message
        rest = await client.get(f"{MAPS}?limit=2&continue={answer.json['metadata']['continue']}")
        assert rest.names == ["map-3"]


def test_a_page_is_kept_for_a_while_and_then_put_together_from_the_history() -> None:
    now = 0.0
    store = Store()
    states = States(store, lambda: now)
    for number in range(3):
        store.create(CONFIG_MAP, {"metadata": {"name": f"m{number}", "namespace": "n", "uid": str(number)}})
    kept, version = store.entries(CONFIG_MAP, "n"), store.version
    states.keep(CONFIG_MAP, "n", kept)
    store.delete(CONFIG_MAP, kept[1].object(), kept[1].version)
    store.replace(CONFIG_MAP, kept[2].object() | {"data": {}}, kept[2].version)
    store.create(CONFIG_MAP, {"metadata": {"name": "a", "namespace": "n", "uid": "4"}})
    assert states.at(CONFIG_MAP, "n", version) is kept
    now = 301.0
    assert states.at(CONFIG_MAP, "n", version) == kept
    assert states.at(CONFIG_MAP, "n", version) is not kept
    assert states.at(CONFIG_MAP, "other", version) == []
    store.forget(CONFIG_MAP)
    with pytest.raises(Refusal) as refused:
        states.at(CONFIG_MAP, "n", version)
    assert refused.value.code == 410


def test_only_so_many_states_are_kept() -> None:
    store = Store()
    states = States(store, lambda: 0.0)
    first, first_version = store.entries(CONFIG_MAP), store.version
    states.keep(CONFIG_MAP, "", first)
    for number in range(HISTORY + 40):
        store.create(CONFIG_MAP, {"metadata": {"name": f"m{number}", "namespace": "n", "uid": str(number)}})
        if number % 300 == 0:
            states.keep(CONFIG_MAP, "", store.entries(CONFIG_MAP))
    with pytest.raises(Refusal):
        states.at(CONFIG_MAP, "", first_version)


def test_a_token_says_where_it_goes_on() -> None:
    start = start_of(token_for(7, ("default", "a")))
    assert start.version == 7
    assert ("default", "a") < start.key < ("default", "a!")


@pytest.mark.parametrize(
    "token",
    [
        "garbage",
        "!",
        garbled("{}"),
        garbled('{"v":"other","rv":3,"start":"a/b"}'),
        garbled('{"v":"meta.k8s.io/v1","rv":3,"start":""}'),
        garbled('{"v":"meta.k8s.io/v1","rv":"x","start":"a"}'),
    ],
)
async def test_a_token_that_is_none_of_ours_is_refused(token: str) -> None:
    async with served() as client:
        answer = await client.get(f"{MAPS}?continue={token}")
        assert answer.status == 400
        assert "continue key is not valid" in answer.message


async def test_a_list_can_be_read_at_an_earlier_version() -> None:
    async with served() as client:
        made = await client.make("a", data={"x": "1"})
        await client.make("b")
        await client.change("a", data={"x": "2"})
        version = made["metadata"]["resourceVersion"]
        for query in (f"resourceVersion={version}&resourceVersionMatch=Exact", f"resourceVersion={version}&limit=5"):
            answer = await client.get(f"{MAPS}?{query}")
            assert answer.names == ["a"]
            assert answer.json["items"][0]["data"] == {"x": "1"}
            assert answer.json["metadata"]["resourceVersion"] == version
        for query in (
            f"resourceVersion={version}",
            f"resourceVersion={version}&resourceVersionMatch=NotOlderThan&limit=5",
        ):
            assert (await client.get(f"{MAPS}?{query}")).names == ["a", "b"]


async def test_any_version_is_a_whole_list_whatever_the_limit() -> None:
    async with served() as client:
        await some(client, 3)
        answer = await client.get(f"{MAPS}?resourceVersion=0&limit=1")
        assert len(answer.names) == 3


async def test_a_version_that_is_not_reached_yet_times_out() -> None:
    async with served() as client:
        await client.make("a")
        for path in (f"{MAPS}?resourceVersion=999", f"{MAPS}/a?resourceVersion=999"):
            answer = await client.get(path)
            assert (answer.status, answer.json["reason"]) == (504, "Timeout")
            assert "Too large resource version: 999, current: " in answer.message
            assert answer.json["details"]["causes"][0]["reason"] == "ResourceVersionTooLarge"
            assert answer.headers["Retry-After"] == "1"


async def test_a_version_that_is_forgotten_is_gone() -> None:
    async with served() as client:
        made = await client.make("a")
        await client.make("b")
        client.api.store.forget(CONFIG_MAP)
        version = made["metadata"]["resourceVersion"]
        answer = await client.get(f"{MAPS}?resourceVersion={version}&resourceVersionMatch=Exact")
        assert (answer.status, answer.message) == (410, "The resourceVersion for the provided list is too old.")


@pytest.mark.parametrize(
    ("query", "code", "said"),
    [
        ("limit=x", 400, 'strconv.ParseInt: parsing "x": invalid syntax'),
        ("resourceVersion=x", 400, 'resourceVersion: Invalid value: "x"'),
        ("resourceVersion=-1", 400, 'resourceVersion: Invalid value: "-1"'),
        ("resourceVersionMatch=Exact", 422, "is forbidden unless resourceVersion is provided"),
        ("resourceVersion=0&resourceVersionMatch=Exact", 422, 'is forbidden for resourceVersion "0"'),
        ("resourceVersion=3&resourceVersionMatch=Foo", 422, 'Unsupported value: "Foo": supported values: "Exact"'),
        ("sendInitialEvents=true", 422, "sendInitialEvents is forbidden for list"),
        ("resourceVersion=5&continue=abc", 400, "specifying resource version is not allowed when using continue"),
        ("labelSelector=a%20b", 400, "unable to parse requirement"),
        ("fieldSelector=foo", 400, "invalid selector: 'foo'; can't understand 'foo'"),
        ("fieldSelector=foo%3D1", 400, '"foo" is not a known field selector: only "metadata.name"'),
    ],
)
async def test_options_that_make_no_sense_are_refused(query: str, code: int, said: str) -> None:
    async with served() as client:
        answer = await client.get(f"{MAPS}?{query}")
        assert answer.status == code
        assert said in answer.message


async def test_lists_are_selected_by_labels_and_fields() -> None:
    async with served() as client:
        for name, node in (("a", "one"), ("b", "two"), ("c", "")):
            spec = {"nodeName": node} if node else {}
            await client.post(PODS, pod(name, metadata={"labels": {"name": name}}, spec=spec))
        for query, names in {
            "labelSelector=name%20in%20(a,c)": ["a", "c"],
            "labelSelector=!name": [],
            "fieldSelector=spec.nodeName%3Dtwo": ["b"],
            "fieldSelector=spec.nodeName%3D": ["c"],
            "fieldSelector=spec.nodeName!%3Dtwo,metadata.name!%3Dc": ["a"],
            "fieldSelector=metadata.name%3D%3Db": ["b"],
            "fieldSelector=metadata.name%3Db&labelSelector=name%3Da": [],
            "fieldSelector=metadata.namespace%3Ddefault": ["a", "b", "c"],
            "fieldSelector=spec.hostNetwork%3Dfalse": ["a", "b", "c"],
        }.items():
            assert (await client.get(f"{PODS}?{query}")).names == names, query


@pytest.mark.parametrize(
    ("plural", "field", "said"),
    [
        ("pods", "foo", "field label not supported: foo"),
        ("nodes", "metadata.namespace", "field label not supported: metadata.namespace"),
        ("services", "foo", "field label not supported: foo"),
        ("serviceaccounts", "foo", '"foo" is not a known field selector: only "metadata.name", "metadata.namespace"'),
    ],
)
def test_each_kind_refuses_unknown_fields_in_its_own_words(plural: str, field: str, said: str) -> None:
    kind = Kinds().at("", "v1", plural)
    assert kind is not None
    with pytest.raises(Refusal) as refused:
        selection(kind, "", "", f"{field}=x")
    assert refused.value.message == said


def test_events_of_the_newer_api_are_selected_by_their_own_names() -> None:
    chosen = selection(EVENT, "", "", "regarding.kind=Pod,reportingController=x,metadata.name=y")
    assert [term.path for term in chosen.fields] == ["involvedObject.kind", "reportingComponent", "metadata.name"]
    with pytest.raises(Refusal):
        selection(EVENT, "", "", "involvedObject.kind=Pod")


def test_a_selection_by_name_looks_at_one_object_only() -> None:
    store = Store()
    entry = store.create(NODE, {"metadata": {"name": "a", "uid": "1"}})
    assert selection(NODE, "", "", "metadata.name=a").of(store) == [entry]
    assert selection(NODE, "", "", "metadata.name=b").of(store) == []
    assert selection(POD, "", "x=y", "").of(store) == []


async def test_a_long_list_is_whole() -> None:
    async with served() as client:
        for number in range(1200):
            await client.make(f"map-{number:04}")
        answer = await client.get(MAPS)
        assert answer.names == [f"map-{number:04}" for number in range(1200)]
