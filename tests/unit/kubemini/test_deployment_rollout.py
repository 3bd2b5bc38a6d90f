"""The arithmetic of rollouts: what maxSurge and maxUnavailable allow, and how scaling keeps the proportions."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some

from kubemini.controllers.deployment_rollout import (
    Goal,
    Resize,
    Share,
    first_size,
    goal_of,
    is_scaling,
    recreate_step,
    rolling_step,
    scaling_step,
    share_of,
)


def goal(replicas: int, surge: int = 0, unavailable: int = 0, *, rolling: bool = True, actual: int = 0) -> Goal:
    return Goal(replicas, rolling, surge, unavailable, paused=False, actual=actual)


def share(name: str, replicas: int, available: int | None = None, created: str = "", **noted: Any) -> Share:
    ready = replicas if available is None else available
    return Share(name, created or name, replicas, replicas, ready, **noted)


@pytest.mark.parametrize(
    ("replicas", "surge", "unavailable", "numbers"),
    [
        (3, "25%", "25%", (1, 0)),
        (10, "25%", "25%", (3, 2)),
        (10, "30%", "0%", (3, 0)),
        (10, 3, 2, (3, 2)),
        (2, 0, "1%", (0, 1)),  # both round to nothing, so one may be missing
        (4, 0, 9, (0, 4)),  # no more than there are
        (0, "25%", "25%", (0, 0)),
        (1, "100%", "100%", (1, 1)),
    ],
)
def test_percentages_are_rounded_up_for_surge_and_down_for_unavailable(
    replicas: int, surge: int | str, unavailable: int | str, numbers: tuple[int, int]
) -> None:
    rolling = {"maxSurge": surge, "maxUnavailable": unavailable}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    found = goal_of({"spec": {"replicas": replicas, "strategy": strategy}})
    assert (found.max_surge, found.max_unavailable) == numbers


def test_a_deployment_that_recreates_has_neither_surge_nor_unavailable_pods() -> None:
    found = goal_of({"spec": {"replicas": 3, "strategy": {"type": "Recreate"}}})
    assert (found.rolling, found.limit, found.min_available) == (False, 3, 3)


def test_a_new_replica_set_begins_with_what_the_surge_allows() -> None:
    assert first_size(goal(10, surge=3), [share("old", 10)]) == 3
    assert first_size(goal(10, surge=3), [share("old", 13)]) == 0
    assert first_size(goal(10, surge=3), []) == 10
    assert first_size(goal(10, rolling=False), []) == 10


def test_unavailable_old_pods_go_before_available_ones() -> None:
    olds = [share("a", 5, available=5), share("b", 5, available=2)]
    steps = rolling_step(goal(10, surge=2, unavailable=3), share("new", 2, available=0), olds)
    assert steps == [Resize("b", 2)]  # 7 stay available: not one of them may go


def test_pods_of_the_new_replica_set_that_are_not_available_hold_up_the_old_ones() -> None:
    assert rolling_step(goal(10, surge=3), share("new", 3, available=0), [share("old", 10)]) == []
    assert rolling_step(goal(10, surge=3), share("new", 3, available=1), [share("old", 10)]) == [Resize("old", 9)]


def test_the_oldest_replica_set_is_scaled_down_first() -> None:
    olds = [share("younger", 3, created="2"), share("older", 2, created="1")]
    steps = rolling_step(goal(5, surge=3), share("new", 3), olds)
    assert steps == [Resize("older", 0), Resize("younger", 2)]


def test_nothing_is_scaled_down_by_numbers_that_are_out_of_date() -> None:
    old = share("old", 2, available=3)  # its pods are not deleted yet
    assert rolling_step(goal(3, surge=1), share("new", 2, available=2), [old]) == []


def test_a_new_replica_set_that_is_too_large_is_scaled_down() -> None:
    assert rolling_step(goal(3, surge=1), share("new", 5), []) == [Resize("new", 3)]


def test_recreating_scales_all_old_ones_to_nothing() -> None:
    assert recreate_step([share("a", 3), share("b", 0), share("c", 1)]) == [Resize("a", 0), Resize("c", 0)]


def test_scaling_is_told_from_rolling_out_by_what_the_active_ones_remember() -> None:
    assert is_scaling(goal(5), [share("a", 3, desired=3)])
    assert not is_scaling(goal(3), [share("a", 3, desired=3)])
    assert not is_scaling(goal(5), [share("a", 0, desired=3), share("b", 1)])


def test_scaling_in_the_middle_of_a_rollout_keeps_the_proportions() -> None:
    """The example of the documentation: 10 replicas, maxSurge 3, maxUnavailable 2, 8 old and 5 new, scaled to 15."""
    noted: dict[str, Any] = {"desired": 10, "limit": 13}
    old, new = share("old", 8, created="1", **noted), share("new", 5, available=0, created="2", **noted)
    steps = scaling_step(goal(15, surge=3, unavailable=2, actual=13), new, [old])
    assert steps == [Resize("old", 11, noted=True), Resize("new", 7, noted=True)]


def test_what_does_not_divide_goes_to_the_largest_and_of_equals_to_the_newer() -> None:
    noted: dict[str, Any] = {"desired": 4, "limit": 4}
    old, new = share("old", 2, created="1", **noted), share("new", 2, created="2", available=0, **noted)
    up = scaling_step(goal(5), new, [old])
    assert up == [Resize("new", 3, noted=True), Resize("old", 2, noted=True)]
    down = scaling_step(goal(3), new, [old])
    assert down == [Resize("old", 1, noted=True), Resize("new", 2, noted=True)]


def test_the_only_active_one_or_else_the_newest_is_scaled() -> None:
    assert scaling_step(goal(5), share("new", 0), [share("old", 3)]) == [Resize("old", 5)]
    assert scaling_step(goal(5), share("new", 0), [share("old", 0)]) == [Resize("new", 5)]
    assert scaling_step(goal(5), None, [share("a", 0), share("b", 0)]) == [Resize("b", 5)]
    assert scaling_step(goal(5), None, []) == []
    assert scaling_step(goal(5), share("new", 5), []) == []


def test_old_ones_go_when_the_new_one_is_saturated() -> None:
    new = share("new", 5, desired=5)
    assert scaling_step(goal(5), new, [share("old", 2)]) == [Resize("old", 0)]


def test_scaling_to_nothing_scales_all_to_nothing() -> None:
    noted: dict[str, Any] = {"desired": 4, "limit": 5}
    steps = scaling_step(goal(0), share("new", 2, available=0, **noted), [share("old", 2, **noted)])
    assert {(step.name, step.replicas) for step in steps} == {("new", 0), ("old", 0)}


def test_annotations_that_are_no_numbers_are_not_believed() -> None:
    annotations = {"deployment.kubernetes.io/desired-replicas": "-1", "deployment.kubernetes.io/max-replicas": "x"}
    found = share_of({"metadata": {"name": "a", "annotations": annotations}, "spec": {"replicas": 1}})
    assert (found.desired, found.limit) == (None, None)


@given(
    replicas=some.integers(0, 12),
    surge=some.integers(0, 5),
    unavailable=some.integers(0, 5),
    olds=some.lists(some.tuples(some.integers(0, 12), some.integers(0, 12)), max_size=3),
    new=some.tuples(some.integers(0, 12), some.integers(0, 12)),
)
def test_no_step_goes_beyond_the_limit_or_gives_up_what_must_stay_available(
    replicas: int, surge: int, unavailable: int, olds: list[tuple[int, int]], new: tuple[int, int]
) -> None:
    wanted = goal(replicas, surge, min(unavailable, replicas) if surge else max(min(unavailable, replicas), 1))
    shares = [share(f"old{i}", size, min(ready, size)) for i, (size, ready) in enumerate(olds)]
    newest = share("new", new[0], min(new[1], new[0]))
    steps = rolling_step(wanted, newest, shares)
    sizes = {each.name: each.replicas for each in (*shares, newest)}
    before = sum(sizes.values())
    for step in steps:
        sizes[step.name] = step.replicas
    available = sum(min(sizes[each.name], each.available) for each in (*shares, newest))
    had = sum(each.available for each in (*shares, newest))
    assert sum(sizes.values()) <= max(wanted.limit, before)
    assert not steps or sizes["new"] <= replicas
    if newest.replicas <= replicas:
        assert available >= min(had, wanted.min_available)


@given(
    sizes=some.lists(some.integers(1, 30), min_size=2, max_size=5),
    before=some.integers(1, 40),
    after=some.integers(0, 60),
    surge=some.integers(0, 10),
)
def test_scaling_in_proportion_uses_exactly_what_the_limit_allows(
    sizes: list[int], before: int, after: int, surge: int
) -> None:
    noted: dict[str, Any] = {"desired": max(before, sum(sizes)), "limit": max(before, sum(sizes)) + surge}
    shares = [share(f"rs{number}", size, available=0, **noted) for number, size in enumerate(sizes)]
    wanted = goal(after, surge=surge if after else 0, actual=sum(sizes))
    steps = scaling_step(wanted, shares[-1], shares[:-1])
    assert all(step.replicas >= 0 for step in steps)
    assert sum(step.replicas for step in steps) == (wanted.limit if after else 0)
