"""The extender's answers: nodes where pods failed are refused, the target scores highest, and nothing is lost."""

from __future__ import annotations

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs

from rescheduler.admission.advisor import PlacementAdvisor
from rescheduler.admission.extender import Extender
from rescheduler.admission.server import RequestError
from rescheduler.model import labels
from rescheduler.model.advice import NewPod, PlacementAdvice
from rescheduler.model.json import Json
from rescheduler.model.migration import ObjectReference
from rescheduler.recovery.settings import RecoverySettings
from tests.unit.admission.test_webhook import JUNK
from tests.unit.admission.worlds import NOW, World, at, pod_json, record

WHY = f"node(s) where pods of Deployment web failed (CrashLoopBackOff at {at(NOW - 60)})"


class Case:
    """An extender, what it was asked last, and what it told."""

    def __init__(self, world: World | None = None) -> None:
        self.told: list[tuple[str, str]] = []
        self.extender = Extender((world or failing("one")).placement_advisor(), self._tell, lambda: ("kube-system",))

    def _tell(self, new_pod: NewPod, reason: str) -> None:
        self.told.append((new_pod.name, reason))

    def filter(self, *nodes: str, pod: Json | None = None) -> Json:
        result: Json = json.loads(self.extender.filter(by_name(*nodes, pod=pod)))
        return result

    def scores(self, *nodes: str, pod: Json | None = None) -> dict[str, int]:
        answer = json.loads(self.extender.prioritize(by_name(*nodes, pod=pod)))
        assert all(set(each) == {"Host", "Score"} for each in answer)
        assert [each["Host"] for each in answer] == list(nodes)
        return {each["Host"]: each["Score"] for each in answer}


def failing(*nodes: str) -> World:
    """A cluster in which the Deployment's pods failed on these nodes."""
    world = World()
    world.deployment(record(*nodes))
    return world


def placed(**more: Any) -> Json:
    """The pod that is to be placed: it is there already, and has its name."""
    return pod_json(**({"name": "web-abc-2", "uid": "rebuilt-uid"} | more))


def by_name(*nodes: str, pod: Json | None = None) -> bytes:
    return json.dumps({"Pod": pod or placed(), "Nodes": None, "NodeNames": nodes}).encode()


def whole(*nodes: str) -> bytes:
    items = [{"metadata": {"name": name, "labels": {"a/b": name}}, "status": {"n": 1.50}} for name in nodes]
    listed = {"metadata": {"resourceVersion": ""}, "items": items}
    return json.dumps({"Pod": placed(), "Nodes": listed, "NodeNames": None}).encode()


def test_a_node_where_pods_failed_is_refused_for_good_with_a_reason() -> None:
    assert Case().filter("two", "one", "three") == {
        "Nodes": None,
        "NodeNames": ["two", "three"],
        "FailedNodes": {},
        "FailedAndUnresolvableNodes": {"one": WHY},
        "Error": "",
    }


def test_whole_nodes_come_back_as_they_came() -> None:
    asked = json.loads(whole("three", "one", "two"))["Nodes"]
    result = json.loads(Case().extender.filter(whole("three", "one", "two")))
    assert result["NodeNames"] is None
    assert result["Nodes"] == {"metadata": {"resourceVersion": ""}, "items": [asked["items"][0], asked["items"][2]]}
    assert result["FailedAndUnresolvableNodes"] == {"one": WHY}


def test_with_nothing_to_say_every_node_passes_and_all_score_the_same() -> None:
    case = Case(World())
    assert case.filter("one", "two")["NodeNames"] == ["one", "two"]
    assert case.scores("one", "two") == {"one": 5, "two": 5}
    assert json.loads(case.extender.filter(whole("one")))["Nodes"]["items"][0]["metadata"]["name"] == "one"


def test_if_it_could_go_to_no_other_node_none_is_refused_and_it_is_told() -> None:
    world = failing("one", "two")
    world.node("three", labels={"disk": "slow"})
    world.node("one", labels={"disk": "fast"})
    world.node("two", labels={"disk": "fast"})
    case = Case(world)
    result = case.filter("one", "two", pod=placed(spec={"nodeSelector": {"disk": "fast"}}))
    assert result["NodeNames"] == ["one", "two"]
    assert result["FailedAndUnresolvableNodes"] == {}
    ((name, reason),) = case.told
    assert name == "web-abc-2"
    assert "(one, two): none of them is refused" in reason


def test_if_only_room_is_missing_elsewhere_it_waits_with_the_reason_in_its_events() -> None:
    case = Case()
    assert case.filter("one")["FailedAndUnresolvableNodes"] == {"one": WHY}
    assert case.filter("one")["NodeNames"] == []
    assert json.loads(case.extender.filter(whole("one")))["Nodes"]["items"] == []
    assert case.told == []


def test_if_pods_failed_on_every_node_of_the_cluster_none_is_refused() -> None:
    case = Case(failing("one", "two", "three"))
    assert case.filter("one", "two")["NodeNames"] == ["one", "two"]


def test_pods_of_excluded_namespaces_are_none_of_our_business() -> None:
    world = World()
    solo = pod_json(None, namespace="kube-system", annotations=record("one"))
    case = Case(world)
    assert case.filter("one", "two", pod=solo)["NodeNames"] == ["one", "two"]
    elsewhere = pod_json(None, annotations=record("one"))
    assert case.filter("one", "two", pod=elsewhere)["NodeNames"] == ["two"]


def test_the_target_scores_highest_and_the_source_lowest() -> None:
    world = World()
    world.migration(step="Restore", replacement=ObjectReference("Pod", "web-abc-2", "rebuilt-uid"))
    assert Case(world).scores("one", "two", "three") == {"one": 0, "two": 10, "three": 5}


def test_the_webhook_s_mark_is_as_good_as_the_record_of_the_migration() -> None:
    world = World()
    world.migration()
    marked = placed(labels={labels.MIGRATION_ID: "m"})
    assert Case(world).scores("two", "three", pod=marked) == {"two": 10, "three": 5}


def test_a_target_where_pods_failed_is_no_target() -> None:
    world = failing("two")
    world.migration()
    case = Case(world)
    assert case.filter("one", "two", "three")["NodeNames"] == ["one", "three"]
    assert case.scores("one", "two", "three") == {"one": 0, "two": 0, "three": 5}


def test_keys_may_be_written_in_small_letters() -> None:
    asked = json.loads(by_name("one", "two"))
    for lower in (str.lower, lambda key: key[0].lower() + key[1:]):
        body = json.dumps({lower(key): value for key, value in asked.items()}).encode()
        assert json.loads(Case().extender.filter(body))["NodeNames"] == ["two"]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "no ExtenderArgs"),
        (b"[]", "no ExtenderArgs"),
        (b"[" * 100_000, "no ExtenderArgs"),
        (b'{"Pod": null, "NodeNames": ["one"]}', "without Pod"),
        (b'{"Pod": 5, "NodeNames": ["one"]}', "Pod: "),
        (b'{"Pod": {"metadata": {}, "spec": {}}}', "neither NodeNames nor Nodes"),
        (b'{"Pod": {"metadata": {}, "spec": {}}, "NodeNames": []}', "empty list"),
        (b'{"Pod": {"metadata": {}, "spec": {}}, "NodeNames": [1]}', "NodeNames: "),
        (b'{"Pod": {"metadata": {}, "spec": {}}, "Nodes": {"items": [{}]}}', "Nodes.items[0]: "),
    ],
)
def test_what_are_no_arguments_is_refused_with_the_reason(body: bytes, why: str) -> None:
    for ask in (Case().extender.filter, Case().extender.prioritize):
        with pytest.raises(RequestError) as caught:
            ask(body)
        assert caught.value.status == 400
        assert why in caught.value.message


def test_a_fault_of_ours_is_logged_and_the_pod_is_placed_all_the_same() -> None:
    class Broken(PlacementAdvisor):
        def advise(self, new_pod: NewPod) -> PlacementAdvice:
            raise RuntimeError(f"no idea about {new_pod.name}")

    world = World()
    case = Case()
    case.extender = Extender(
        Broken(world.cache, world.migrations, RecoverySettings, lambda: NOW, gate=False), case._tell
    )
    with capture_logs() as logs:
        assert case.filter("one", "two")["NodeNames"] == ["one", "two"]
        assert case.scores("one", "two") == {"one": 5, "two": 5}
    assert [each["log_level"] for each in logs] == ["error", "error"]


NODES = st.lists(st.sampled_from([f"node-{number}" for number in range(6)]), min_size=1, unique=True)


@given(NODES, st.sets(st.sampled_from([f"node-{number}" for number in range(6)])), st.booleans())
def test_every_node_either_passes_or_is_refused_and_the_order_stays(
    nodes: list[str], failed: set[str], names_only: bool
) -> None:
    world = World(*(f"node-{number}" for number in range(6)))
    world.deployment(record(*sorted(failed)))
    body = by_name(*nodes) if names_only else whole(*nodes)
    result = json.loads(Case(world).extender.filter(body))
    passed = result["NodeNames"] if names_only else [each["metadata"]["name"] for each in result["Nodes"]["items"]]
    refused = result["FailedAndUnresolvableNodes"]
    assert [name for name in nodes if name not in refused] == passed
    assert sorted([*passed, *refused]) == sorted(nodes)
    assert set(refused) == (set(nodes) & failed if len(failed) < 6 else set())


@given(st.binary(max_size=200))
def test_garbage_is_refused_and_nothing_else(body: bytes) -> None:
    for ask in (Case().extender.filter, Case().extender.prioritize):
        with pytest.raises(RequestError):
            ask(body)


@given(st.sampled_from(["Pod", "Nodes", "NodeNames"]), JUNK)
def test_arguments_with_junk_in_them_are_answered_or_refused(field: str, junk: Any) -> None:
    asked = json.loads(by_name("one", "two")) | {field: junk}
    for ask in (Case().extender.filter, Case().extender.prioritize):
        with contextlib.suppress(RequestError):
            json.loads(ask(json.dumps(asked).encode()))
