"""The patch for a new pod: all that is wanted, nothing lost, and none the second time."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubemini.patches import apply_json_patch
from rescheduler.admission.webhook import patch_for
from rescheduler.migration.steps.evict import prefers
from rescheduler.model import labels
from rescheduler.model.advice import ExpectedMove, PlacementAdvice
from rescheduler.model.json import Json
from rescheduler.recovery.avoidance import avoided_nodes
from tests.unit.admission.worlds import NOW, at, pod_json

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
EXPECTED = ExpectedMove("m", "one", "two", "LoadBalancing", "original-uid", "web-abc-1")
GATED = ExpectedMove("m", "one", "two", "LoadBalancing", "original-uid", "web-abc-1", gate=True)
MARKED = {
    labels.MIGRATION_ID: "m",
    labels.MIGRATION_STATUS: "in-progress",
    labels.MIGRATED_FROM: "one",
    labels.MIGRATION_REASON: "LoadBalancing",
}
TOLD = {
    labels.MIGRATION_TIME: at(NOW),
    labels.ORIGINAL_POD: "original-uid",
    labels.ORIGINAL_POD_NAME: "web-abc-1",
}
PREFERENCES = [
    {
        "weight": 100,
        "preference": {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": ["two"]}]},
    },
    {
        "weight": 50,
        "preference": {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": ["one"]}]},
    },
]


def patched(pod: Json, advice: PlacementAdvice, now: float = NOW) -> Json:
    """The pod with its patch, which the second time is none."""
    before = copy.deepcopy(pod)
    patch = patch_for(pod, advice, now)
    assert pod == before, "the pod itself is left alone"
    after: Json = apply_json_patch(patch, copy.deepcopy(pod))
    assert patch_for(after, advice, now + 7) == []
    return after


def test_an_expected_pod_gets_both_preferences_and_our_marks() -> None:
    after = patched(pod_json(), PlacementAdvice(EXPECTED))
    assert after["spec"]["affinity"] == {"nodeAffinity": {PREFERRED: PREFERENCES}}
    assert after["metadata"]["labels"] == MARKED
    assert after["metadata"]["annotations"] == TOLD
    assert "schedulingGates" not in after["spec"]
    assert prefers(after, "two")


def test_the_lifecycle_finds_on_it_what_it_would_have_put_itself() -> None:
    after = patched(pod_json(labels={"app": "web"}), PlacementAdvice(EXPECTED))
    assert after["metadata"]["labels"] == {"app": "web", **MARKED}


def test_a_pod_whose_like_failed_is_kept_off_these_nodes_and_gets_no_marks() -> None:
    after = patched(pod_json(), PlacementAdvice(avoid={"one": "why", "two": "why"}))
    assert avoided_nodes(after["spec"]["affinity"]) == {"one", "two"}
    assert set(after["metadata"]) == set(pod_json()["metadata"])


def test_nothing_to_say_is_no_patch() -> None:
    assert patch_for(pod_json(), PlacementAdvice(), NOW) == []


@pytest.mark.parametrize("empty", [{}, {"labels": None, "annotations": None}, {"labels": {}, "annotations": {}}])
def test_sections_that_are_missing_or_null_or_empty_are_made(empty: Json) -> None:
    after = patched(pod_json(**empty), PlacementAdvice(EXPECTED))
    assert after["metadata"]["labels"] == MARKED
    assert after["metadata"]["annotations"] == TOLD


@pytest.mark.parametrize(
    "affinity",
    [None, {}, {"nodeAffinity": None}, {"nodeAffinity": {PREFERRED: None, REQUIRED: None}}, {"podAffinity": {}}],
)
def test_an_affinity_may_be_missing_at_each_of_its_levels(affinity: Json | None) -> None:
    after = patched(pod_json(spec={"affinity": affinity}), PlacementAdvice(EXPECTED, {"three": "why"}))
    assert after["spec"]["affinity"]["nodeAffinity"][PREFERRED] == PREFERENCES
    assert avoided_nodes(after["spec"]["affinity"]) == {"three"}


def test_what_a_pod_prefers_and_requires_by_itself_stays_and_comes_first() -> None:
    zone = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    disk = {"matchExpressions": [{"key": "disk", "operator": "Exists"}]}
    own = {
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [zone, disk]},
            PREFERRED: [{"weight": 1, "preference": zone}],
        },
        "podAntiAffinity": {PREFERRED: []},
    }
    own = json.loads(json.dumps(own))  # nothing is shared in what comes over the wire
    after = patched(pod_json(spec={"affinity": own}), PlacementAdvice(EXPECTED, {"three": "why"}))["spec"]["affinity"]
    assert after["podAntiAffinity"] == {PREFERRED: []}
    assert after["nodeAffinity"][PREFERRED] == [{"weight": 1, "preference": zone}, *PREFERENCES]
    refused = {"matchFields": [{"key": "metadata.name", "operator": "NotIn", "values": ["three"]}]}
    assert after["nodeAffinity"][REQUIRED]["nodeSelectorTerms"] == [zone | refused, disk | refused]


def test_a_preference_that_is_there_already_is_not_put_twice() -> None:
    own = {"nodeAffinity": {PREFERRED: [PREFERENCES[1]]}}
    after = patched(pod_json(spec={"affinity": own}), PlacementAdvice(EXPECTED))
    assert after["spec"]["affinity"]["nodeAffinity"][PREFERRED] == [PREFERENCES[1], PREFERENCES[0]]


def test_the_time_of_the_first_review_stays() -> None:
    after = patched(pod_json(annotations={labels.MIGRATION_TIME: "2020-01-01T00:00:00Z"}), PlacementAdvice(EXPECTED))
    assert after["metadata"]["annotations"][labels.MIGRATION_TIME] == "2020-01-01T00:00:00Z"


def test_a_pod_that_is_to_be_held_back_gets_a_gate_beside_those_it_has() -> None:
    after = patched(pod_json(), PlacementAdvice(GATED))
    assert after["spec"]["schedulingGates"] == [{"name": labels.NOMINATE_GATE}]
    assert after["metadata"]["annotations"] == {**TOLD, labels.GATED: "m"}
    others = patched(pod_json(spec={"schedulingGates": [{"name": "example.com/other"}]}), PlacementAdvice(GATED))
    assert others["spec"]["schedulingGates"] == [{"name": "example.com/other"}, {"name": labels.NOMINATE_GATE}]


def test_a_pod_that_is_bound_already_gets_neither_gate_nor_affinity() -> None:
    after = patched(pod_json(spec={"nodeName": "one"}), PlacementAdvice(GATED, {"one": "why"}))
    assert after["spec"] == pod_json(spec={"nodeName": "one"})["spec"]
    assert after["metadata"]["annotations"] == TOLD


def test_values_that_no_label_may_have_are_cut_or_left_out() -> None:
    long = "ip-10-0-0-1." + "x" * 50 + ".compute.internal"
    odd = ExpectedMove("m" * 64, long, "two", "not a strategy", "u", "p")
    after = patched(pod_json(), PlacementAdvice(odd))
    assert after["metadata"]["labels"] == {labels.MIGRATION_STATUS: "in-progress", labels.MIGRATED_FROM: long[:62]}


def test_a_probe_is_answered_and_gets_nothing_else() -> None:
    pod = pod_json(labels={labels.PROBE: "token-1"}, annotations=None)
    after = patched(pod, PlacementAdvice(GATED, {"one": "why"}))
    assert after["metadata"].pop("annotations") == {labels.ANSWER: "token-1"}
    assert after["spec"] == pod["spec"]


def test_a_null_parent_is_replaced_as_a_whole_and_keys_are_escaped() -> None:
    patch = patch_for(pod_json(annotations=None, labels={"a": "b"}), PlacementAdvice(EXPECTED), NOW)
    paths = [each["path"] for each in patch]
    assert "/metadata/annotations" in paths
    assert "/metadata/labels/scheduler.alpha.kubernetes.io~1migration-id" in paths
    assert {each["op"] for each in patch} == {"add"}


# Any pod: odd keys, sections that are missing, null or full, and affinities with several terms.

NAMES = st.text(alphabet="ab/~01.-", min_size=1, max_size=12)
TEXTS = st.text(max_size=5)
KEYS = st.one_of(NAMES, st.sampled_from([labels.MIGRATION_ID, labels.MIGRATION_TIME, labels.GATED, "~1", "~01", "/"]))
SECTION = st.one_of(st.none(), st.dictionaries(KEYS, TEXTS, max_size=4))
NODES = st.sampled_from(["one", "two", "three"])
REQUIREMENT = st.builds(
    lambda key, operator, values: {"key": key, "operator": operator, "values": values},
    st.sampled_from(["kubernetes.io/hostname", "zone"]),
    st.sampled_from(["In", "NotIn"]),
    st.lists(NODES, min_size=1, max_size=2),
)
FIELD = st.builds(
    lambda operator, node: {"key": "metadata.name", "operator": operator, "values": [node]},
    st.sampled_from(["In", "NotIn"]),
    NODES,
)


def optional(**members: st.SearchStrategy[Any]) -> st.SearchStrategy[Json]:
    """An object each of whose members may be missing or null."""
    return st.fixed_dictionaries({}, optional={name: st.none() | each for name, each in members.items()})


TERM = optional(matchExpressions=st.lists(REQUIREMENT, min_size=1, max_size=2), matchFields=st.lists(FIELD, max_size=2))
TERMS = st.lists(TERM, min_size=1, max_size=3)
WEIGHTED = st.builds(lambda weight, term: {"weight": weight, "preference": term}, st.integers(1, 100), TERM)
WISHES = st.lists(st.one_of(WEIGHTED, st.sampled_from(PREFERENCES)), max_size=3)
AFFINITY = optional(
    nodeAffinity=optional(
        **{REQUIRED: TERMS.map(lambda terms: {"nodeSelectorTerms": terms}), PREFERRED: WISHES},
    ),
    podAffinity=st.just({REQUIRED: [{"topologyKey": "zone"}]}),
)
GATES = st.lists(st.sampled_from(["example.com/a", labels.NOMINATE_GATE]), max_size=2, unique=True).map(
    lambda names: [{"name": name} for name in names]
)
PODS = st.builds(
    lambda own, annotations, spec: pod_json(labels=own, annotations=annotations, spec=spec),
    SECTION,
    SECTION,
    optional(affinity=AFFINITY, schedulingGates=GATES, nodeName=NODES),
)
ADVICE = st.builds(
    PlacementAdvice,
    st.one_of(st.none(), st.sampled_from([EXPECTED, GATED])),
    st.dictionaries(NODES, st.just("why"), max_size=2),
)


@given(pod=PODS, advice=ADVICE)
def test_whatever_is_on_a_pod_survives_and_the_second_review_finds_nothing_to_do(
    pod: Json, advice: PlacementAdvice
) -> None:
    after = patched(pod, advice)
    expected = advice.expected
    ours = {**MARKED, **TOLD, labels.GATED: ""}
    for section in ("labels", "annotations"):
        for key, value in (pod["metadata"].get(section) or {}).items():
            assert key in ours or after["metadata"][section][key] == value
    if expected is not None:
        assert after["metadata"]["labels"].items() >= MARKED.items()
        assert after["metadata"]["annotations"].keys() >= TOLD.keys()
    assert _rest(after) == _rest(pod)
    spec, own = after["spec"], pod["spec"]
    if own.get("nodeName"):
        assert spec == own
        return
    gates = [each["name"] for each in spec.get("schedulingGates") or ()]
    before = [each["name"] for each in own.get("schedulingGates") or ()]
    new = (
        [labels.NOMINATE_GATE] if expected is not None and expected.gate and labels.NOMINATE_GATE not in before else []
    )
    assert gates == before + new
    wishes, had = _wishes(spec), _wishes(own)
    assert wishes[: len(had)] == had
    missing = [each for each in PREFERENCES if each not in had] if expected is not None else []
    assert wishes[len(had) :] == missing
    _requires_no_less(own, spec, set(advice.avoid))


def _rest(pod: Json) -> Json:
    """What a patch has no business with."""
    metadata = {key: value for key, value in pod["metadata"].items() if key not in ("labels", "annotations")}
    spec = {key: value for key, value in pod["spec"].items() if key not in ("affinity", "schedulingGates")}
    others = {key: value for key, value in (pod["spec"].get("affinity") or {}).items() if key != "nodeAffinity"}
    return {"metadata": metadata, "spec": spec, "affinity": {key: value for key, value in others.items() if value}}


def _wishes(spec: Json) -> list[Json]:
    return ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(PREFERRED) or []


def _terms(spec: Json) -> list[Json] | None:
    required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(REQUIRED)
    return required["nodeSelectorTerms"] if required else None


def _requires_no_less(own: Json, spec: Json, avoided: set[str]) -> None:
    """As the scheduler reads it: a node passes now if it passed before and is none of those to avoid."""
    worlds: list[Json] = [
        {"kubernetes.io/hostname": name, "zone": zone} for name in ("one", "two", "three") for zone in ("one", "two")
    ]
    for node in worlds:
        name = node["kubernetes.io/hostname"]
        assert _passes(_terms(spec), name, node) == (_passes(_terms(own), name, node) and name not in avoided)


def _passes(terms: list[Json] | None, name: str, node: Json) -> bool:
    if terms is None:
        return True
    return any(_holds(term, name, node) for term in terms)


def _holds(term: Json, name: str, node: Json) -> bool:
    found: list[tuple[Json, Callable[[str], Any]]] = [
        *((each, node.get) for each in term.get("matchExpressions") or ()),
        *((each, lambda _key: name) for each in term.get("matchFields") or ()),
    ]
    return bool(found) and all(
        (value(each["key"]) in each["values"]) == (each["operator"] == "In") for each, value in found
    )
