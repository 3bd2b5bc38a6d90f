"""Nodes that a pod avoids: nothing that it asked for is lost, and saying it twice says no more."""

from __future__ import annotations

import copy

from hypothesis import given
from hypothesis import strategies as st

from rescheduler.model.json import Json
from rescheduler.model.selector import Requirement
from rescheduler.model.shape import NodeTerm
from rescheduler.recovery.avoidance import allow_nodes, avoid_nodes, avoided_nodes

REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
ZONE = {"key": "zone", "operator": "In", "values": ["a"]}
DISK = {"key": "disk", "operator": "Exists"}
NAMES = ("n1", "n2", "n3", "n4")


def affinity(*terms: Json) -> Json:
    return {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": list(terms)}}}


def terms(body: Json) -> list[Json]:
    found: list[Json] = body["nodeAffinity"][REQUIRED]["nodeSelectorTerms"]
    return found


def refusal(name: str) -> Json:
    return {"key": "metadata.name", "operator": "NotIn", "values": [name]}


def matched(body: Json | None, name: str, labels: dict[str, str]) -> bool:
    """Whether a node is meant, by the rules that planning shares with kube-scheduler."""
    required = ((body or {}).get("nodeAffinity") or {}).get(REQUIRED)
    if not required:
        return True
    return any(
        NodeTerm(
            tuple(_requirement(each) for each in term.get("matchExpressions") or ()),
            tuple(_requirement(each) for each in term.get("matchFields") or ()),
        ).matches(labels, name)
        for term in required["nodeSelectorTerms"]
    )


def _requirement(body: Json) -> Requirement:
    return Requirement(body["key"], body["operator"], tuple(body.get("values") or ()))


requirements = st.sampled_from([ZONE, DISK, {"key": "disk", "operator": "DoesNotExist"}])
fields = st.sampled_from([refusal("n1"), refusal("n4"), {"key": "metadata.name", "operator": "In", "values": ["n2"]}])
some_terms = st.fixed_dictionaries(
    {}, optional={"matchExpressions": st.lists(requirements, max_size=2), "matchFields": st.lists(fields, max_size=2)}
)
preferred = {
    "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 5, "preference": {"matchExpressions": [ZONE]}}]
}
affinities = st.one_of(
    st.none(),
    st.just({"podAntiAffinity": {REQUIRED: []}, "nodeAffinity": preferred}),
    st.lists(some_terms, min_size=1, max_size=3).map(lambda found: affinity(*found)),
)
some_nodes = st.lists(st.sampled_from(NAMES), max_size=4)


def test_a_pod_that_asked_for_nothing_avoids_each_node_by_its_name() -> None:
    assert avoid_nodes(None, ["n2", "n1"]) == affinity({"matchFields": [refusal("n1"), refusal("n2")]})


def test_every_term_refuses_the_node_because_any_of_them_may_hold() -> None:
    found = avoid_nodes(affinity({"matchExpressions": [ZONE]}, {"matchExpressions": [DISK]}), ["n1"])
    assert [term["matchFields"] for term in terms(found)] == [[refusal("n1")], [refusal("n1")]]
    assert [term["matchExpressions"] for term in terms(found)] == [[ZONE], [DISK]]


def test_a_term_that_matches_nothing_does_not_come_to_match_nearly_everything() -> None:
    assert terms(avoid_nodes(affinity({}, {"matchExpressions": [ZONE]}), ["n1"]))[0] == {}
    assert not matched(avoid_nodes(affinity({"matchFields": []}), ["n1"]), "n2", {})


def test_preferences_and_pod_affinity_survive() -> None:
    given_affinity = {"podAntiAffinity": {"x": 1}, "nodeAffinity": dict(preferred)}
    found = avoid_nodes(given_affinity, ["n1"])
    assert found["podAntiAffinity"] == {"x": 1}
    assert found["nodeAffinity"].items() >= preferred.items()


def test_what_was_added_can_be_taken_out_without_a_trace() -> None:
    assert allow_nodes(avoid_nodes(None, ["n1", "n2"]), ["n1", "n2"]) == {}
    asked = affinity({"matchExpressions": [ZONE]})
    assert allow_nodes(avoid_nodes(asked, ["n1"]), ["n1"]) == asked
    assert avoided_nodes(allow_nodes(avoid_nodes(asked, ["n1", "n2"]), ["n1"])) == {"n2"}


def test_only_nodes_that_every_term_refuses_are_avoided() -> None:
    assert avoided_nodes(affinity({"matchFields": [refusal("n1")]}, {"matchFields": [refusal("n2")]})) == frozenset()
    assert avoided_nodes(affinity({}, {"matchFields": [refusal("n2")]})) == {"n2"}


@given(affinities, some_nodes)
def test_avoiding_twice_is_avoiding_once_and_the_given_stays_as_it_was(asked: Json | None, nodes: list[str]) -> None:
    before = copy.deepcopy(asked)
    once = avoid_nodes(asked, nodes)
    assert avoid_nodes(once, nodes) == once
    assert asked == before


@given(affinities, some_nodes)
def test_every_term_stays_with_all_its_requirements(asked: Json | None, nodes: list[str]) -> None:
    found = avoid_nodes(asked, nodes)
    if asked is None or REQUIRED not in (asked.get("nodeAffinity") or {}):
        return
    assert len(terms(found)) == len(terms(asked))
    for now, before in zip(terms(found), terms(asked), strict=True):
        assert now.get("matchExpressions") == before.get("matchExpressions")
        assert (now.get("matchFields") or [])[: len(before.get("matchFields") or [])] == (
            before.get("matchFields") or []
        )


@given(
    affinities, some_nodes, st.sampled_from(NAMES), st.sampled_from([{}, {"zone": "a"}, {"zone": "a", "disk": "ssd"}])
)
def test_a_node_suits_if_it_did_before_and_is_not_avoided(
    asked: Json | None, nodes: list[str], name: str, labels: dict[str, str]
) -> None:
    assert matched(avoid_nodes(asked, nodes), name, labels) == (matched(asked, name, labels) and name not in nodes)


@given(affinities, some_nodes)
def test_taking_out_what_was_not_refused_before_gives_the_same_nodes_again(
    asked: Json | None, nodes: list[str]
) -> None:
    said = {each["values"][0] for term in _terms_of(asked) for each in term.get("matchFields") or ()}
    mine = set(nodes) - said
    back = allow_nodes(avoid_nodes(asked, mine), mine)
    for name in NAMES:
        assert matched(back, name, {"zone": "a"}) == matched(asked, name, {"zone": "a"})


def _terms_of(asked: Json | None) -> list[Json]:
    return terms(asked) if asked is not None and REQUIRED in (asked.get("nodeAffinity") or {}) else []
