"""What is read of a Prometheus' answer, what is left out of it and said, and what is refused whole."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.model.quantity import MAX
from rescheduler.usage.prometheus import PrometheusQuery, error_text, parse_result
from rescheduler.usage.samples import QueryError
from tests.support.builders import NOW
from tests.unit.usage.prometheus_answers import answered, refused, vector_of

NODE_CPU = PrometheusQuery("nodeCpu", "…", "cpu", of_pods=False, unit=1000)
POD_MEMORY = PrometheusQuery("podMemory", "…", "memory", of_pods=True, unit=1)


@pytest.mark.parametrize(
    ("labels", "name"),
    [
        ({"node": "a"}, "a"),
        ({"node": "a", "instance": "10.0.0.7:9100"}, "a"),
        ({"instance": "a:9100"}, "a"),
        ({"instance": "a"}, "a"),
        ({"instance": "a.example.com:10250", "job": "kubelet"}, "a.example.com"),
        ({"instance": "[fd00::7]:9100"}, "fd00::7"),
        ({"instance": "fd00::7"}, "fd00::7"),
    ],
)
def test_a_node_is_known_by_its_label_node_or_else_by_instance(labels: dict[str, str], name: str) -> None:
    assert parse_result(NODE_CPU, vector_of((labels, "1.5"))).amounts == {("", name): (1500, NOW)}


def test_a_pod_is_known_by_namespace_and_pod() -> None:
    found = parse_result(POD_MEMORY, vector_of(({"namespace": "shop", "pod": "web", "node": "a"}, "1e6")))
    assert found.amounts == {("shop", "web"): (1_000_000, NOW)}
    assert found.warnings == ()


def test_amounts_are_rounded_up_and_bounded() -> None:
    found = parse_result(NODE_CPU, vector_of(({"node": "a"}, "0.0001"), ({"node": "b"}, "1e300")))
    assert {name: amount for (_, name), (amount, _) in found.amounts.items()} == {"a": 1, "b": MAX}


@pytest.mark.parametrize("text", ["NaN", "+Inf", "-Inf", "-0.5", "many", "", "1e999"])
def test_a_value_that_is_no_amount_is_left_out_and_said(text: str) -> None:
    found = parse_result(NODE_CPU, vector_of(({"node": "a"}, text), ({"node": "b"}, "2")))
    assert list(found.amounts) == [("", "b")]
    said = "usage: the answer to nodeCpu has 1 values that are no amounts, which are ignored: "
    assert found.warnings == (f"{said}a ({text})",)


def test_a_series_without_a_name_is_left_out_and_said() -> None:
    found = parse_result(POD_MEMORY, vector_of(({"pod": "web"}, "1"), ({"namespace": "shop"}, "1"), ({}, "1")))
    assert found.amounts == {}
    why = "without the labels namespace and pod, which are ignored"
    assert found.warnings == (
        f"usage: the answer to podMemory has 3 series {why}: {{pod=web}}, {{namespace=shop}}, {{}}",
    )


def test_of_several_series_for_one_name_the_largest_counts() -> None:
    found = parse_result(NODE_CPU, vector_of(({"node": "a"}, "2"), ({"node": "a"}, "3"), ({"node": "a"}, "1")))
    assert found.amounts == {("", "a"): (3000, NOW)}
    assert found.warnings == (
        "usage: the answer to nodeCpu has several series for 1 names, of which the largest counts: a",
    )


def test_a_series_that_is_none_costs_only_itself() -> None:
    good = {"metric": {"node": "a"}, "value": [NOW, "1"]}
    broken = [good, {"metric": {"node": 7}, "value": [NOW, "1"]}, 7, {"metric": {"node": "b"}}]
    found = parse_result(NODE_CPU, answered("vector", broken))
    assert list(found.amounts) == [("", "a")]
    assert "has 3 values that are no amounts" in found.warnings[0]


@pytest.mark.parametrize("kind", ["matrix", "scalar", "string"])
def test_an_answer_that_is_no_vector_is_refused(kind: str) -> None:
    with pytest.raises(QueryError, match=f"queries.nodeCpu gives a {kind}, not an instant vector"):
        parse_result(NODE_CPU, answered(kind, [NOW, "1"]))


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"status":"success","data":{"resultType":"vector"}}'])
def test_what_is_no_answer_of_a_prometheus_is_refused(body: bytes) -> None:
    with pytest.raises(QueryError, match=r"does not come from a Prometheus|refuses"):
        parse_result(NODE_CPU, body)


def test_an_error_is_told_in_its_own_words() -> None:
    with pytest.raises(QueryError, match=r"refuses usage\.prometheus\.queries\.nodeCpu: parse error"):
        parse_result(NODE_CPU, refused("parse error"))
    assert error_text(refused("parse error")) == "parse error"
    assert error_text(b"<html>") == ""


def test_the_text_of_others_is_cut() -> None:
    assert len(error_text(refused("x" * 10_000))) == 200


@given(st.binary(max_size=200))
def test_no_bytes_at_all_are_more_than_an_answer_error(body: bytes) -> None:
    for mangled in (body, vector_of(({"node": "a"}, "1"))[: len(body)] + body):
        try:
            parse_result(NODE_CPU, mangled)
        except QueryError:
            continue


@given(st.lists(st.tuples(st.dictionaries(st.sampled_from(["node", "instance", "x"]), st.text()), st.text())))
def test_any_labels_and_values_can_be_read(series: list[tuple[dict[str, str], str]]) -> None:
    found = parse_result(NODE_CPU, vector_of(*series))
    assert all(0 <= amount <= MAX for amount, _ in found.amounts.values())
