"""The plan as a file: the contract's fields in the contract's order, there and back, and errors with their path."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from rescheduler.cli.output import format_document
from rescheduler.model.plan import (
    ClusterLoad,
    HeldBack,
    LoadDistribution,
    Method,
    Move,
    NodeLoad,
    Plan,
    PlanFormatError,
    Rejection,
    decode_plan,
    plan_document,
)
from rescheduler.model.policy import Utilization

_BEFORE = ClusterLoad(LoadDistribution(90.5, 1.0, 45.25, 30.0), LoadDistribution(4.0, 1.0, 2.5, 1.5), 1, ())
_AFTER = ClusterLoad(LoadDistribution(50.0, 40.0, 45.0, 5.0), LoadDistribution(3.0, 2.0, 2.5, 0.5), 0, ())
_PLAN = Plan(
    moves=(
        Move(
            "shop",
            "api-0",
            "a",
            "b",
            "LoadBalancing",
            "a is “hot”: 重",
            Method.HANDOFF,
            "u1",
            "Deployment/api",
            7,
            0,
            12.5,
        ),
    ),
    rejections=(Rejection("default", "dns", "Job", "why", "LoadBalancing", "a"),),
    before=_BEFORE,
    after=_AFTER,
    warnings=("one",),
    held_back=(HeldBack("Job", 2, "allow.jobs"),),
)


def _document(**changes: Any) -> dict[str, Any]:
    return {**plan_document(_PLAN), **changes}


def _with_move(**changes: Any) -> dict[str, Any]:
    document = _document()
    document["moves"] = [{**document["moves"][0], **changes}]
    return document


def test_the_document_is_the_contract() -> None:
    assert _document() == {
        "apiVersion": "rescheduler.io/v1alpha1",
        "kind": "Plan",
        "moves": [
            {
                "namespace": "shop",
                "pod": "api-0",
                "from": "a",
                "to": "b",
                "strategy": "LoadBalancing",
                "reason": "a is “hot”: 重",
                "method": "handoff",
                "uid": "u1",
                "workload": "Deployment/api",
                "priority": 7,
                "proposal": 0,
                "gain": 12.5,
            }
        ],
        "rejections": [
            {
                "namespace": "default",
                "pod": "dns",
                "guard": "Job",
                "reason": "why",
                "strategy": "LoadBalancing",
                "node": "a",
            }
        ],
        "before": {
            "cpu": {"max": 90.5, "min": 1.0, "mean": 45.25, "stddev": 30.0},
            "memory": {"max": 4.0, "min": 1.0, "mean": 2.5, "stddev": 1.5},
            "hotNodes": 1,
            "others": {},
            "hotNodesByPool": {},
        },
        "after": {
            "cpu": {"max": 50.0, "min": 40.0, "mean": 45.0, "stddev": 5.0},
            "memory": {"max": 3.0, "min": 2.0, "mean": 2.5, "stddev": 0.5},
            "hotNodes": 0,
            "others": {},
            "hotNodesByPool": {},
        },
        "warnings": ["one"],
        "utilization": "requests",
        "heldBack": [{"guard": "Job", "pods": 2, "changedBy": "allow.jobs"}],
    }
    first = ["apiVersion", "kind", "moves", "rejections", "before", "after", "warnings"]
    assert [*_document()] == [*first, "utilization", "heldBack"]


@pytest.mark.parametrize("form", ["json", "yaml"])
def test_a_plan_comes_back_as_it_was_written(form: str) -> None:
    text = format_document(plan_document(_PLAN), form)
    assert text.endswith("\n")
    assert not text.endswith("\n\n")
    assert decode_plan(text.encode()) == _PLAN


def test_texts_that_look_like_something_else_stay_texts_in_yaml() -> None:
    odd = ["2026-11-15", "1e3", "yes", "null", "0x10", "a\nb", "x\u0085y", " lead", "k: v", "重"]
    for text in odd:
        assert yaml.safe_load(format_document({"a": text}, "yaml")) == {"a": text}


def test_how_single_nodes_stand_is_not_in_the_document() -> None:
    with_loads = Plan((), (), ClusterLoad(_BEFORE.cpu, _BEFORE.memory, 1, (NodeLoad("a", 1, 2, 3),)), _AFTER)
    assert "loads" not in plan_document(with_loads)["before"]


def test_other_resources_pools_and_what_use_is_reckoned_by_are_read_back() -> None:
    rich = ClusterLoad(
        _BEFORE.cpu, _BEFORE.memory, 2, (), {"pods": _AFTER.cpu, "example.com/gpu": _AFTER.memory}, {"gpu": 1}
    )
    plan = Plan((), (), rich, _AFTER, utilization=Utilization.MAX)
    document = plan_document(plan)
    assert document["utilization"] == "max"
    assert document["before"]["others"]["pods"] == {"max": 50.0, "min": 40.0, "mean": 45.0, "stddev": 5.0}
    assert document["before"]["hotNodesByPool"] == {"gpu": 1}
    assert decode_plan(json.dumps(document).encode()) == plan


def test_what_older_writers_lack_and_newer_ones_add_is_no_error() -> None:
    document = _with_move(soon="more")
    for extra in ("uid", "workload", "priority", "proposal", "gain"):
        del document["moves"][0][extra]
    for extra in ("warnings", "utilization", "heldBack"):
        del document[extra]
    for extra in ("others", "hotNodesByPool"):
        del document["before"][extra]
    plan = decode_plan(json.dumps({**document, "extra": 1}).encode())
    assert (plan.moves[0].uid, plan.moves[0].priority, plan.warnings, plan.held_back) == ("", 0, (), ())
    assert plan.moves[0].gain is None


@pytest.mark.parametrize("odd", [".nan", ".inf", "-.inf"])
def test_a_gain_that_is_no_number_is_refused(odd: str) -> None:
    text = yaml.safe_dump(_with_move(gain="here")).replace("gain: here", f"gain: {odd}")
    with pytest.raises(PlanFormatError, match=r"moves\[0\].gain: .* is not a number of percentage points"):
        decode_plan(text.encode())


@pytest.mark.parametrize(
    ("document", "error"),
    [
        (_with_move(pod=5), "moves[0].pod: expected str, got int"),
        (_with_move(method="teleport"), "moves[0].method: invalid enum value 'teleport'"),
        (_with_move(to=""), "moves[0].to: is empty"),
        (_with_move(gain="much"), "moves[0].gain: expected float | null, got str"),
        (_with_move(to="a"), "moves[0].to: a is where the pod is already"),
        (_document(moves=_document()["moves"] * 2), "moves[1].pod: moves[0] moves shop/api-0 already"),
        (_document(moves=None), "moves: expected array, got null"),
        (_document(rejections=[{}]), "rejections[0]: object missing required field namespace"),
        (_document(before={"cpu": {}}), "before.cpu: object missing required field max"),
        (_document(kind="List"), "kind: 'List' is not Plan"),
        ({"kind": "Plan"}, "apiVersion: missing; expected rescheduler.io/v1alpha1"),
        ([], "expected an object of kind Plan, found a list"),
        ("hello", "expected an object of kind Plan, found a text"),
    ],
)
def test_what_is_wrong_with_a_plan_is_said_with_its_path(document: Any, error: str) -> None:
    for text in (json.dumps(document), yaml.safe_dump(document)):
        if isinstance(document, str) and text.startswith('"'):
            continue
        with pytest.raises(PlanFormatError) as caught:
            decode_plan(text.encode())
        assert str(caught.value).startswith(error)


@pytest.mark.parametrize(
    "text", [b"", b"  \n", b"{", b"a: [", b"\xff\xfe", b"{" * 100_000, b"a: " + b"[" * 300_000, b"--- \x00"]
)
def test_what_is_no_document_at_all_is_an_error_too(text: bytes) -> None:
    with pytest.raises(PlanFormatError):
        decode_plan(text)
