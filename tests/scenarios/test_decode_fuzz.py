"""Dumps with damage at random places: an error that names the file, or warnings; never another exception."""

from __future__ import annotations

import copy
import gzip
import json
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.decode.dump import DumpError
from rescheduler.model.snapshot import ClusterSnapshot
from tests.support import dumps
from tests.support.dumps import Object
from tests.support.examples import examples
from tests.support.planning import planned, read_bytes

RICH_POD = dumps.pod(
    "rich",
    "a",
    priorityClassName="high",
    nodeSelector={"disk": "ssd"},
    tolerations=[{"key": "k", "operator": "Exists", "effect": "NoSchedule"}],
    affinity={
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {
                "nodeSelectorTerms": [{"matchExpressions": [{"key": "cores", "operator": "Gt", "values": ["4"]}]}]
            },
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 1,
                    "preference": {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]},
                }
            ],
        },
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}, "namespaceSelector": {}}
            ]
        },
    },
    topologySpreadConstraints=[
        {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule", "matchLabelKeys": ["app"]}
    ],
    initContainers=[{"name": "s", "restartPolicy": "Always", "ports": [{"hostPort": 80}]}],
    overhead={"cpu": "10m"},
    volumes=[{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}, {"name": "w", "emptyDir": {}}],
)
META = {"resourceVersion": "7", "annotations": {"scheduler.alpha.kubernetes.io/migration-time": dumps.BORN}}
OBJECTS: list[Object] = [
    *dumps.hot_cluster(),
    RICH_POD,
    dumps.pdb("web", 1),
    {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {"team": "x"}}},
    {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "c", **META},
        "spec": {"volumeName": "v"},
    },
    {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "v", **META},
        "spec": {
            "csi": {"driver": "d", "volumeHandle": "h"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": []}]}},
        },
    },
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": "fast"},
        "provisioner": "d",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["z"]}]}],
    },
    {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": "a"},
        "spec": {"drivers": [{"name": "d", "allocatable": {"count": 3}}]},
    },
    {"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "high"}, "value": 1000},
    {
        "apiVersion": "metrics.k8s.io/v1beta1",
        "kind": "PodMetrics",
        "metadata": {"name": "rich", "namespace": "default"},
        "timestamp": dumps.NOW,
        "containers": [{"name": "main", "usage": {"cpu": "1n"}}],
    },
]
WHOLE = dumps.dump(OBJECTS)
DROPPED = object()
JUNK = st.sampled_from(
    [
        DROPPED,
        None,
        True,
        -1,
        0,
        7,
        2**63,
        1e300,
        0.5,
        "",
        "junk",
        "-1",
        "\x00",
        [],
        [None],
        [1],
        {},
        {"a": None},
        {"": 7},
    ]
)


def places(thing: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [at] if at else []
    steps = thing.items() if isinstance(thing, dict) else enumerate(thing) if isinstance(thing, list) else ()
    for key, value in steps:
        found += places(value, (*at, key))
    return found


PLACES = places(WHOLE)


def damaged(place: tuple[Any, ...], junk: object, thing: Any) -> None:
    """Put junk at a place, if the place is still there."""
    for step in place[:-1]:
        try:
            thing = thing[step]
        except (KeyError, IndexError, TypeError):
            return
    if isinstance(thing, dict) and place[-1] in thing:
        if junk is DROPPED:
            del thing[place[-1]]
        else:
            thing[place[-1]] = junk
    elif isinstance(thing, list) and isinstance(place[-1], int) and place[-1] < len(thing):
        thing[place[-1]] = None if junk is DROPPED else junk


def survived(content: bytes) -> ClusterSnapshot | None:
    """The snapshot, planned too; None when the file was refused in the proper way."""
    refusal = ""
    try:
        snapshot = read_bytes(content)
        planned(snapshot)
    except DumpError as error:
        refusal = str(error)
    assert not refusal or refusal.startswith("f.json: ")
    return None if refusal else snapshot


def test_the_healthy_dump_has_nothing_to_warn_of() -> None:
    found = survived(json.dumps(WHOLE).encode())
    assert found is not None
    assert found.warnings == ()
    assert len(found.pods) == 9


@given(st.lists(st.tuples(st.sampled_from(PLACES), JUNK), min_size=1, max_size=4), st.booleans())
@settings(max_examples=examples(few=50, many=500))
def test_junk_anywhere_is_a_warning_or_a_proper_refusal(damage: list[tuple[Any, object]], as_yaml: bool) -> None:
    thing = copy.deepcopy(WHOLE)
    for place, junk in damage:
        damaged(place, junk, thing)
    survived(yaml.safe_dump(thing).encode() if as_yaml else json.dumps(thing).encode())


@given(st.sampled_from([place for place in PLACES if place[0] == "items" and len(place) > 2]), JUNK)
@settings(max_examples=examples(few=30, many=300))
def test_damage_in_one_object_leaves_the_others_readable(place: tuple[Any, ...], junk: object) -> None:
    thing = copy.deepcopy(WHOLE)
    damaged(place, junk, thing)
    found = survived(json.dumps(thing).encode())
    assert found is not None
    names = {pod.name for pod in found.pods} | {node.name for node in found.nodes}
    hit = OBJECTS[place[1]]["metadata"]["name"]
    assert {thing["metadata"]["name"] for thing in OBJECTS if thing["kind"] in ("Node", "Pod")} <= names | {hit}


RAW = json.dumps(WHOLE).encode()
TEXTS = {"json": RAW, "yaml": yaml.safe_dump_all(OBJECTS[:6]).encode(), "gzip": gzip.compress(RAW)}


@pytest.mark.parametrize("form", [*TEXTS])
@given(st.data())
@settings(max_examples=examples(few=15, many=150))
def test_a_cut_at_any_byte_is_survived(form: str, data: st.DataObject) -> None:
    whole = TEXTS[form]
    cut = data.draw(st.integers(0, len(whole) - 1))
    refused = survived(whole[:cut]) is None
    assert refused or form == "yaml"


@pytest.mark.parametrize("form", [*TEXTS])
@given(st.data())
@settings(max_examples=examples(few=30, many=300))
def test_other_bytes_at_any_place_are_survived(form: str, data: st.DataObject) -> None:
    content = bytearray(TEXTS[form])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 4))] = data.draw(
            st.one_of(
                st.binary(max_size=3), st.sampled_from([b'"', b"\\", b"{", b"]", b",", b"\\u", b"\xff", b"-", b": "])
            )
        )
    survived(bytes(content))


@given(st.binary(max_size=60))
@settings(max_examples=examples(few=30, many=300))
def test_any_bytes_at_all_are_survived(content: bytes) -> None:
    survived(content)
