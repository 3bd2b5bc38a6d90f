"""Selectors, as Kubernetes parses and matches them: labels.Parse and labels.Requirement are the reference."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.model.selector import (
    EVERYTHING,
    Operator,
    Requirement,
    Selector,
    SelectorError,
    parse_selector,
    requirement,
    selector_of,
)

WEB = {"app": "web", "cores": "8", "empty": ""}


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("", {}, True),
        ("app==web", WEB, True),
        ("app!=web", {}, True),
        ("app notin (web)", {}, True),
        ("!app", WEB, False),
        ("empty", WEB, True),
        ("app=", {}, False),
        ("empty in ()", WEB, True),
        ("empty in (a,,b)", WEB, True),
        ("app>7", WEB, False),
        ("empty<7", WEB, False),
        ("cores>7", {"cores": "+10"}, True),
        ("cores<7", {"cores": "-10"}, True),
        ("cores<7", {"cores": " 5"}, False),
        ("cores<7", {"cores": "1_0"}, False),
        ("cores>7", {"cores": "9223372036854775808"}, False),
        ("app=web,cores>8", WEB, False),
        ("in in (in,notin)", {"in": "notin"}, True),
        ("notin notin (in)", {"notin": "in"}, False),
        ("a=in", {"a": "in"}, True),
    ],
)
def test_a_selector_matches_as_in_kubernetes(text: str, labels: dict[str, str], matches: bool) -> None:
    assert parse_selector(text).matches(labels) is matches


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("app=web", "app=web"),
        ("app == web", "app=web"),
        ("  app in ( web )  ", "app=web"),
        ("app notin (web)", "app!=web"),
        ("app in (web,db,web)", "app in (db,web)"),
        ("b,a", "a,b"),
        ("a,a", "a"),
        ("! a", "!a"),
        ("a\tin\n(x,y)", "a in (x,y)"),
        ("z>1,a<2", "a<2,z>1"),
        ("a=", "a="),
    ],
)
def test_equal_selectors_have_one_text_and_are_equal(text: str, canonical: str) -> None:
    assert str(parse_selector(text)) == canonical
    assert parse_selector(text) == parse_selector(canonical)
    assert hash(parse_selector(text)) == hash(parse_selector(canonical))


@pytest.mark.parametrize(
    "text",
    [
        *(",", "a,", ",a", "a,,b", "a b", "a=b c", "a=b=c", "a=(b)", "=", "=b", "!", "!a=b", "!!a", "a!b", "a=!b"),
        *("a in", "a in b", "a in (b", "a in b)", "a in (b c)", "a in ((b))", "a (b)", "a ni (b)"),
        *("a>", "a>b", "a>1.5", "a<", "a>=1", "a<>1", "a>1,", "a>9223372036854775808", "a => b", "a === b"),
        *("-a", "a-", "a/b/c", "/a", "a/", "UPPER.case/a", "a_b/c", "ä=b", "a=ä", "a=-b", "a=b-", "a=b/c", "a=b:c"),
        *("a" * 64, "a=" + "b" * 64, "a." * 127 + "aa/b"),
    ],
)
def test_what_kubernetes_refuses_is_refused(text: str) -> None:
    with pytest.raises(SelectorError):
        parse_selector(text)


@pytest.mark.parametrize("text", ["a" * 63, "a=" + "b" * 63, "a.b-c/D_e.f-9=X_y.z-0", "a" * 253 + "/b", "9=9"])
def test_the_longest_and_oddest_labels_are_accepted(text: str) -> None:
    assert str(parse_selector(text)) == text


def test_a_refusal_tells_the_text_and_what_was_expected() -> None:
    with pytest.raises(SelectorError, match=r"'a in \(b': expected ',', found 'the end'"):
        parse_selector("a in (b")
    with pytest.raises(SelectorError, match="'ni' is not an operator"):
        parse_selector("a ni (b)")


@pytest.mark.parametrize(
    ("operator", "values", "node", "words"),
    [
        ("In", [], False, "at least one value"),
        ("NotIn", None, False, "at least one value"),
        ("Exists", ["x"], False, "takes no values"),
        ("DoesNotExist", ["x"], True, "takes no values"),
        ("Gt", ["1"], False, "not one of In, NotIn, Exists, DoesNotExist"),
        ("Gt", ["1", "2"], True, "exactly one value"),
        ("Lt", ["1", "2"], True, "exactly one value"),
        ("Lt", [], True, "exactly one value"),
        ("Equals", ["1"], True, "not one of In, NotIn, Exists, DoesNotExist, Gt, Lt"),
        ("in", ["1"], False, "not one of"),
        ("In", ["no/slash"], False, "not a label value"),
    ],
)
def test_a_requirement_that_kubernetes_refuses_is_refused(
    operator: str, values: list[str] | None, node: bool, words: str
) -> None:
    with pytest.raises(SelectorError, match=words):
        requirement("key", operator, values, node=node)


def test_a_requirement_of_a_node_may_compare_numbers() -> None:
    assert requirement("cores", "Gt", ["4"], node=True).matches({"cores": "5"})
    assert not requirement("cores", "Lt", ["4"], node=True).matches({"cores": "5"})


@pytest.mark.parametrize("bound", ["x", "", "1.5", "9" * 5000])
def test_a_bound_that_is_no_integer_matches_nothing_as_in_the_scheduler(bound: str) -> None:
    assert not requirement("cores", "Gt", [bound], node=True).matches({"cores": "5"})
    with pytest.raises(SelectorError):
        parse_selector(f"cores>{bound}")


def test_nothing_asked_matches_everything() -> None:
    assert EVERYTHING == Selector() == parse_selector("") == parse_selector(" ") == selector_of([])
    assert EVERYTHING.matches({})
    assert EVERYTHING.matches(WEB)


def test_a_narrowed_selector_asks_for_more_and_leaves_the_first_as_it_was() -> None:
    first = parse_selector("app=web")
    both = selector_of((*first.requirements, requirement("tier", "In", ["front"])))
    assert str(both) == "app=web,tier=front"
    assert str(first) == "app=web"


def test_the_order_of_requirements_and_values_does_not_matter() -> None:
    one, two = requirement("a", "In", ["y", "x"]), requirement("b", "Exists")
    assert selector_of([one, two]) == selector_of([two, requirement("a", "In", ["x", "y"]), one])


KEYS = st.sampled_from(["app", "cores", "in", "notin", "app.kubernetes.io/name", "A_b.c-9"])
NUMBERS = st.sampled_from(["0", "7", "8", "10", str(2**63 - 1)])
VALUES = st.sampled_from(["", "web", "in", "X_y.z-0", "7.5"]) | NUMBERS
OPERATORS = {
    Operator.IN: st.lists(VALUES, min_size=1, max_size=4),
    Operator.NOT_IN: st.lists(VALUES, min_size=1, max_size=4),
    Operator.EXISTS: st.just([]),
    Operator.DOES_NOT_EXIST: st.just([]),
    Operator.GT: NUMBERS.map(lambda number: [number]),
    Operator.LT: NUMBERS.map(lambda number: [number]),
}
REQUIREMENTS = st.one_of(
    *(st.builds(requirement, KEYS, st.just(each), values, node=st.just(True)) for each, values in OPERATORS.items())
)


def meets(asked: Requirement, labels: dict[str, str]) -> bool:
    """Whether labels meet one requirement, said once more in the plainest way."""
    value = labels.get(asked.key)
    if asked.operator in (Operator.GT, Operator.LT):
        if value is None or not value.isdigit():
            return False
        bound = int(asked.values[0])
        return int(value) > bound if asked.operator is Operator.GT else int(value) < bound
    if asked.operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST):
        return (value is not None) == (asked.operator is Operator.EXISTS)
    return (value in asked.values) == (asked.operator is Operator.IN)


@given(st.lists(REQUIREMENTS, max_size=3), st.dictionaries(KEYS, VALUES, max_size=4))
def test_a_selector_survives_its_text_and_matches_what_meets_all_of_it(
    asked: list[Requirement], labels: dict[str, str]
) -> None:
    selector = selector_of(asked)
    assert parse_selector(str(selector)) == selector
    assert selector.matches(labels) == all(meets(each, labels) for each in asked)


@given(st.text(max_size=20))
def test_any_text_is_a_selector_or_a_selector_error(text: str) -> None:
    try:
        found = parse_selector(text)
    except SelectorError:
        return
    assert parse_selector(str(found)) == found
