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
    check_key,
    check_value,
    parse_selector,
    requirement,
    selector_of,
)

WEB = {"app": "web", "cores": "8", "empty": ""}


@pytest.mark.parametrize(
    ("text", "labels", "matches"),
    [
        ("", {}, True),
        ("", WEB, True),
        ("app=web", WEB, True),
        ("app==web", WEB, True),
        ("app=db", WEB, False),
        ("app=web", {}, False),
        ("app!=db", WEB, True),
        ("app!=web", WEB, False),
        ("app!=web", {}, True),
        ("app in (web,db)", WEB, True),
        ("app in (db)", WEB, False),
        ("app in (web)", {}, False),
        ("app notin (db)", WEB, True),
        ("app notin (web,db)", WEB, False),
        ("app notin (web)", {}, True),
        ("app", WEB, True),
        ("app", {}, False),
        ("!app", WEB, False),
        ("!app", {}, True),
        ("empty", WEB, True),
        ("empty=", WEB, True),
        ("app=", WEB, False),
        ("app=", {}, False),
        ("app!=", {}, True),
        ("empty in ()", WEB, True),
        ("empty in (a,)", WEB, True),
        ("empty in (,a)", WEB, True),
        ("empty in (a,,b)", WEB, True),
        ("empty in (a,b)", WEB, False),
        ("cores>7", WEB, True),
        ("cores>8", WEB, False),
        ("cores<9", WEB, True),
        ("cores<8", WEB, False),
        ("cores>7", {}, False),
        ("cores<9", {}, False),
        ("app>7", WEB, False),
        ("empty<7", WEB, False),
        ("cores>7", {"cores": "10"}, True),
        ("cores>7", {"cores": "+10"}, True),
        ("cores<7", {"cores": "-10"}, True),
        ("cores<7", {"cores": "7.5"}, False),
        ("cores<7", {"cores": " 5"}, False),
        ("cores<7", {"cores": "1_0"}, False),
        ("cores>7", {"cores": "9223372036854775807"}, True),
        ("cores>7", {"cores": "9223372036854775808"}, False),
        ("app=web,cores>7", WEB, True),
        ("app=web,cores>8", WEB, False),
        ("app=web,app!=web", WEB, False),
        ("app.kubernetes.io/name=web", {"app.kubernetes.io/name": "web"}, True),
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
        *(
            "a in",
            "a in b",
            "a in (b",
            "a in b)",
            "a in (b c)",
            "a in (b=c)",
            "a in ((b))",
            "a (b)",
            "a notin",
            "a ni (b)",
        ),
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
    both = first.and_also(requirement("tier", "In", ["front"]))
    assert str(both) == "app=web,tier=front"
    assert str(first) == "app=web"


def test_the_order_of_requirements_and_values_does_not_matter() -> None:
    one, two = requirement("a", "In", ["y", "x"]), requirement("b", "Exists")
    assert selector_of([one, two]) == selector_of([two, requirement("a", "In", ["x", "y"]), one])


KEYS = st.from_regex(r"\A([a-z0-9]{1,3}(\.[a-z]{1,3})?/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,5}[A-Za-z0-9])?\Z")
VALUES = st.from_regex(r"\A([A-Za-z0-9]([-A-Za-z0-9_.]{0,5}[A-Za-z0-9])?)?\Z")
NUMBERS = st.integers(0, 2**63 - 1).map(str)
REQUIREMENTS = st.one_of(
    st.builds(
        requirement, KEYS, st.sampled_from([Operator.IN, Operator.NOT_IN]), st.lists(VALUES, min_size=1, max_size=4)
    ),
    st.builds(requirement, KEYS, st.sampled_from([Operator.EXISTS, Operator.DOES_NOT_EXIST])),
    st.builds(
        requirement, KEYS, st.sampled_from([Operator.GT, Operator.LT]), st.lists(NUMBERS, min_size=1, max_size=1),
        node=st.just(True),
    ),
)  # fmt: skip


@given(st.lists(REQUIREMENTS, max_size=5).map(selector_of))
def test_a_selector_survives_its_text(selector: Selector) -> None:
    assert parse_selector(str(selector)) == selector


@given(REQUIREMENTS, st.dictionaries(KEYS, VALUES, max_size=4))
def test_an_operator_and_its_opposite_never_agree(asked: Requirement, labels: dict[str, str]) -> None:
    opposites = {
        Operator.IN: Operator.NOT_IN,
        Operator.NOT_IN: Operator.IN,
        Operator.EXISTS: Operator.DOES_NOT_EXIST,
        Operator.DOES_NOT_EXIST: Operator.EXISTS,
    }
    if asked.operator in opposites:
        other = Requirement(asked.key, opposites[asked.operator], asked.values)
        assert asked.matches(labels) is not other.matches(labels)


@given(st.text(max_size=20))
def test_any_text_is_a_selector_or_a_selector_error(text: str) -> None:
    try:
        found = parse_selector(text)
    except SelectorError:
        return
    assert parse_selector(str(found)) == found


@given(KEYS, VALUES)
def test_what_is_a_label_passes(key: str, value: str) -> None:
    check_key(key)
    check_value(key, value)
