"""Whoever may make a pod may write anything on it: that must not slow others down, tell secrets, or keep pods away."""

from __future__ import annotations

import base64
import json

from msgspec import Raw

from rescheduler.admission import advisor
from rescheduler.admission.webhook import PodMutator, patch_for
from rescheduler.model import labels
from rescheduler.model.advice import PlacementAdvice
from rescheduler.model.objects import Owner
from tests.unit.admission.worlds import NOW, WEB, World, new_pod, pod_json, record, reference, review

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def test_rules_without_end_are_left_to_the_scheduler() -> None:
    world = World(*(f"node-{number}" for number in range(1000)))
    nowhere = [{"key": "nowhere", "operator": "In", "values": [str(number)]} for number in range(1000)]
    terms = {"nodeSelectorTerms": [{"matchExpressions": [each]} for each in nowhere]}
    spec = {"affinity": {"nodeAffinity": {REQUIRED: terms}}}
    known = world.placement_advisor()
    assert known.leaves_any(["node-0"], Raw(json.dumps(pod_json(spec=spec)).encode())), "it was not judged to the end"
    few = {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms["nodeSelectorTerms"][:3]}}}}
    assert not known.leaves_any(["node-0"], Raw(json.dumps(pod_json(spec=few)).encode()))


def test_a_record_that_is_too_long_to_be_one_is_neither_read_nor_kept() -> None:
    before = advisor._parse_cached.cache_info().currsize
    long = {labels.FAILURES: record("one")[labels.FAILURES] + " " * 2**18}
    assert not World().placement_advisor().advise(new_pod(None, "solo", annotations=long)).avoid
    assert advisor._parse_cached.cache_info().currsize == before


def test_a_record_that_is_nested_without_end_is_no_record() -> None:
    deep = {labels.FAILURES: "[" * 100_000}
    assert not World().placement_advisor().advise(new_pod(None, "solo", annotations=deep)).avoid


def test_what_is_no_node_is_not_avoided_because_the_api_server_would_refuse_the_pod() -> None:
    known = World().placement_advisor()
    for name in ("a b", "", "gone"):
        assert not known.advise(new_pod(None, "solo", annotations=record(name))).avoid
    body = review(pod_json(None, name="solo", annotations=record("a b", "one")))
    answer = json.loads(PodMutator(known, tuple, lambda: NOW).review(body))
    assert "a b" not in json.dumps(answer)


def test_a_pod_in_another_namespace_is_nobodys_replacement_and_nobodys_failure() -> None:
    world = World()
    world.deployment({labels.SCHEDULING_RETRIES: "3"})
    world.migration()
    stranger = {"name": "x", "namespace": "other", "ownerReferences": [reference(WEB)]}
    world.put("Pod", stranger, spec={"nodeName": "three"}, status={"phase": "Failed", "reason": "Evicted"})
    known = world.placement_advisor()
    advice = known.advise(new_pod())
    assert advice.expected is not None
    assert not advice.avoid
    elsewhere = new_pod(Owner(WEB.kind, WEB.name, WEB.uid))
    assert known.advise(type(elsewhere)("other", owner=elsewhere.owner)).expected is None


def test_preferences_go_by_the_label_of_a_node_which_need_not_be_its_name() -> None:
    world = World()
    world.node("two", labels={"kubernetes.io/hostname": "two.example.com"})
    world.migration()
    body = review(pod_json(WEB))
    answer = json.loads(PodMutator(world.placement_advisor(), tuple, lambda: NOW).review(body))
    patch = base64.b64decode(answer["response"]["patch"]).decode()
    assert '"two.example.com"' in patch
    assert '"one"' in patch, "of which no label is known"


def test_what_we_add_to_a_pod_stays_small() -> None:
    nodes = [f"node-{number}" for number in range(300)]
    terms = [{"matchExpressions": [{"key": "a", "operator": "Exists"}]} for _ in range(300)]
    pod = pod_json(spec={"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": terms}}}})
    few, many = (
        PlacementAdvice(avoid=dict.fromkeys(nodes[:3], "why")),
        PlacementAdvice(avoid=dict.fromkeys(nodes, "why")),
    )
    assert patch_for(pod, few, NOW)
    assert not patch_for(pod, many, NOW)
