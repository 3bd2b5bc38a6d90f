"""How objects are read: as Kubernetes' own types read JSON."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kubemini.kinds import CORE_EVENT, DEPLOYMENT, EVENT, LEASE, POD, Kind
from kubemini.refusals import Json, Refusal
from kubemini.rules.forms import WrongType, forms_of
from kubemini.rules.quantities import amount, canonical, canonical_milli
from kubemini.rules.typed import form_of, read, read_as
from rescheduler.model.quantity import QuantityError

_TABLE = """
Inner = a! b:int32;
Outer = text count:int32 flag:bool wanted:*int32 inner:Inner maybe:*Inner many:[Inner] named:{Inner} size:*Quantity
  amounts:{Quantity} shown!:[string] port:IntOrString at:Time data:bytes anything:any;
"""
OUTER = forms_of(_TABLE)["Outer"]
EMPTY: Json = {"inner": {"a": ""}, "shown": None, "port": 0, "at": None}


def outer(**fields: Any) -> Json:
    found: Json = OUTER.read(dict(fields))
    return found


def test_what_is_optional_and_zero_is_left_out_and_what_is_always_shown_is_there() -> None:
    assert outer() == EMPTY
    assert outer(text="", count=0, flag=False, many=[], named={}) == EMPTY


def test_a_pointer_is_kept_even_when_it_points_to_zero() -> None:
    assert outer(wanted=0, maybe={}) == EMPTY | {"wanted": 0, "maybe": {"a": ""}}


def test_unknown_fields_and_nulls_go() -> None:
    assert outer(nonsense=1, text=None, inner={"a": "x", "c": 1}) == EMPTY | {"inner": {"a": "x"}}


def test_a_null_in_a_list_or_a_map_is_an_empty_one() -> None:
    assert outer(many=[None], named={"x": None}) == EMPTY | {"many": [{"a": ""}], "named": {"x": {"a": ""}}}


def test_quantities_and_times_are_written_in_one_way() -> None:
    read_in = outer(size="1024Mi", amounts={"cpu": "1000m", "memory": 5}, at="2026-01-02T05:04:05+02:00")
    assert (read_in["size"], read_in["amounts"]) == ("1Gi", {"cpu": "1", "memory": "5"})
    assert read_in["at"] == "2026-01-02T03:04:05Z"


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"text": 5}, "text"),
        ({"flag": "true"}, "flag"),
        ({"count": "5"}, "count"),
        ({"count": 1.5}, "count"),
        ({"count": True}, "count"),
        ({"count": 2**31}, "count"),
        ({"inner": []}, "inner"),
        ({"many": {}}, "many"),
        ({"many": [{"a": 5}]}, "many[0].a"),
        ({"named": {"x": {"b": "y"}}}, "named.x.b"),
        ({"named": []}, "named"),
        ({"size": "much"}, "size"),
        ({"size": True}, "size"),
        ({"port": 1.5}, "port"),
        ({"at": "yesterday"}, "at"),
        ({"at": "2026-02-30T00:00:00Z"}, "at"),
        ({"data": "!"}, "data"),
        ({"shown": [1]}, "shown[0]"),
    ],
)
def test_a_value_of_a_wrong_type_is_refused_with_the_path_to_it(fields: Json, path: str) -> None:
    with pytest.raises(WrongType) as wrong:
        outer(**fields)
    assert str(wrong.value).startswith(f"{path}: ")


def test_fields_that_a_type_does_not_have_are_named_for_those_who_ask() -> None:
    body = {"nonsense": 1, "inner": {"c": 1}, "many": [{}, {"d": 1}], "named": {"x": {"e": 1}}, "anything": {"f": 1}}
    assert OUTER.unknown(body) == ["nonsense", "inner.c", "many[1].d", "named.x.e"]


def test_an_object_of_a_wrong_type_is_a_bad_request() -> None:
    with pytest.raises(Refusal) as refused:
        read(POD, {"spec": {"containers": "x"}})
    assert (refused.value.code, refused.value.reason) == (400, "BadRequest")
    assert refused.value.message.startswith('Pod in version "v1" cannot be handled as a Pod: json: spec.containers: ')


def test_what_is_only_sent_is_read_too() -> None:
    assert read_as("Scale", {"spec": {}})["status"] == {"replicas": 0}
    with pytest.raises(Refusal, match="cannot be handled as a Eviction"):
        read_as("Eviction", {"deleteOptions": 5})


def test_both_sorts_of_events_have_a_form_of_their_own_and_custom_kinds_none() -> None:
    core, new = form_of(CORE_EVENT), form_of(EVENT)
    assert core is not None
    assert new is not None
    assert "involvedObject" in core.readers
    assert "regarding" in new.readers
    assert form_of(Kind("example.com", "v1", "Pod", "pods", custom=True)) is None


def test_a_lease_has_microseconds() -> None:
    body: Json = {"spec": {"renewTime": "2026-01-02T03:04:05.678901Z"}}
    read(LEASE, body)
    assert body["spec"]["renewTime"] == "2026-01-02T03:04:05.678901Z"
    with pytest.raises(Refusal):
        read(LEASE, {"spec": {"renewTime": "2026-01-02T03:04:05Z"}})


def test_reading_twice_changes_nothing() -> None:
    body: Json = {"metadata": {"name": "a"}, "spec": {"template": {"spec": {"containers": [{"name": "b"}]}}}}
    read(DEPLOYMENT, body)
    once = copy.deepcopy(body)
    read(DEPLOYMENT, body)
    assert body == once


@pytest.mark.parametrize(
    ("written", "kept"),
    [
        ("1000m", "1"), ("0.5", "500m"), ("1.5Gi", "1536Mi"), ("1024", "1024"), ("1000000", "1M"), ("1025Ki", "1025Ki"),
        ("0.5Ki", "512"), ("1e3", "1e3"), ("12E6", "12e6"), ("0", "0"), ("0Mi", "0"), (2, "2"), (1.5, "1500m"),
        ("-1", "-1"), ("-1024Mi", "-1Gi"), ("1E", "1E"), ("5k", "5k"), ("1.25Ki", "1280"),
    ],
)  # fmt: skip
def test_a_quantity_is_written_in_its_canonical_form(written: str | int | float, kept: str) -> None:
    assert canonical(written) == kept
    assert canonical(kept) == kept
    assert amount(kept) == amount(written)


def test_resource_lists_know_nothing_finer_than_thousandths() -> None:
    assert (canonical("0.0001"), canonical_milli("0.0001")) == ("100u", "1m")


def test_what_is_no_quantity_has_no_canonical_form() -> None:
    with pytest.raises(QuantityError):
        canonical("much")
