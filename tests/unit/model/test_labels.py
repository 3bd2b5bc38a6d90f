"""Eviction costs: which mark counts, what is a number, what means never, and that a rank is in order and in 64 bits."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rescheduler.model import labels
from rescheduler.model.labels import LEAST, MOST, EvictionCost, eviction_cost, eviction_rank, invalid_costs

OWN, KOORDINATOR, DELETION = labels.EVICTION_COST, labels.KOORDINATOR_COST, labels.DELETION_COST
NEVER = str(MOST)

SAID: list[tuple[str, dict[str, str], EvictionCost]] = [
    ("nothing", {}, EvictionCost(0, "")),
    ("another mark", {labels.EVICT: "5"}, EvictionCost(0, "")),
    ("ours", {OWN: "5"}, EvictionCost(5, OWN)),
    ("koordinator's", {KOORDINATOR: "-5"}, EvictionCost(-5, KOORDINATOR)),
    ("Kubernetes'", {DELETION: "7"}, EvictionCost(7, DELETION)),
    ("ours before koordinator's", {KOORDINATOR: "1", OWN: "2"}, EvictionCost(2, OWN)),
    ("koordinator's before Kubernetes'", {DELETION: "1", KOORDINATOR: "2"}, EvictionCost(2, KOORDINATOR)),
    ("zero is said, too", {OWN: "0", KOORDINATOR: "9"}, EvictionCost(0, OWN)),
    ("the next where the first is no number", {OWN: "high", DELETION: "3"}, EvictionCost(3, DELETION)),
    (
        "what we lower it to in a handoff is not its owner's word",
        {DELETION: str(-MOST), labels.COST_BEFORE: "4"},
        EvictionCost(4, DELETION),
    ),
    ("and where he has given none, there is none", {DELETION: str(-MOST), labels.COST_BEFORE: ""}, EvictionCost(0, "")),
]


@pytest.mark.parametrize(("annotations", "cost"), [pytest.param(*row[1:], id=row[0]) for row in SAID])
def test_the_first_mark_that_is_a_number_tells_the_cost(annotations: dict[str, str], cost: EvictionCost) -> None:
    assert eviction_cost(annotations) == cost


@pytest.mark.parametrize("text", [str(LEAST), "-1", "0", "1", "1000", NEVER])
def test_whole_numbers_of_32_bits_are_costs(text: str) -> None:
    assert eviction_cost({OWN: text}).number == int(text)
    assert [*invalid_costs({OWN: text})] == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        " 1",
        "1 ",
        "+1",
        "01",
        "-0",
        "-01",
        "1.5",
        "1e3",
        "high",
        "true",
        "١",
        str(MOST + 1),
        str(LEAST - 1),
        "9" * 99,
    ],
)
def test_what_is_not_a_whole_number_of_32_bits_says_nothing_and_is_named(text: str) -> None:
    assert eviction_cost({KOORDINATOR: text}) == EvictionCost()
    assert [*invalid_costs({KOORDINATOR: text})] == [(KOORDINATOR, text)]


def test_the_highest_cost_means_never_but_as_deletion_cost_which_is_only_an_order() -> None:
    never = [mark for mark in (OWN, KOORDINATOR, DELETION) if eviction_cost({mark: NEVER}).never]
    assert never == [OWN, KOORDINATOR]
    assert not eviction_cost({OWN: str(MOST - 1)}).never


INTS = st.integers(LEAST, MOST)


@given(INTS, INTS, INTS, INTS)
def test_ranks_are_in_the_order_of_priorities_and_then_of_costs(one: int, cost: int, other: int, its: int) -> None:
    first, second = (max(one, -MOST), cost), (max(other, -MOST), its)  # below the lowest there is nothing
    left, right = (eviction_rank(priority, {OWN: str(number)}) for priority, number in (first, second))
    assert (left < right) == (first < second)
    assert (left == right) == (first == second)


@given(INTS, INTS)
@example(LEAST, LEAST)
@example(MOST, MOST)
def test_a_rank_has_64_bits(priority: int, cost: int) -> None:
    assert -(2**63) <= eviction_rank(priority, {OWN: str(cost)}) < 2**63
