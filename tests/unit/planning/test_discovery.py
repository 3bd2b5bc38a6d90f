"""Guards and predicates are found by themselves, and each has what its documentation, the page and reports need."""

from __future__ import annotations

from collections import Counter

import pytest

from rescheduler.planning import guards, predicates
from rescheduler.planning.guards.base import Guard
from rescheduler.planning.predicates.base import Predicate
from rescheduler.planning.refusals import NodeRefusal, PlanGuard

RULES: list[Guard | type[Predicate]] = [*guards.discover().values(), *predicates.discover()]


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.name)
def test_every_rule_is_documented_in_one_sentence_and_has_a_caption(rule: Guard | type[Predicate]) -> None:
    assert rule.__doc__
    assert rule.__doc__.endswith(".")
    assert 0 < len(rule.caption) < 40


def test_names_of_refusals_are_unique() -> None:
    of_pods = [*guards.discover(), *PlanGuard]
    of_nodes = [*(each.name for each in predicates.discover()), *NodeRefusal]
    assert [name for names in (of_pods, of_nodes) for name, count in Counter(names).items() if count > 1] == []


def test_rules_are_reported_in_an_order_that_does_not_depend_on_names() -> None:
    for orders in ([each.order for each in guards.discover().values()], [each.order for each in predicates.discover()]):
        assert orders == sorted(set(orders))


def test_rules_that_look_at_nodes_only_are_reported_before_those_about_room_and_other_pods() -> None:
    node_only = [each.node_only for each in predicates.discover()]
    assert node_only == sorted(node_only, reverse=True)
