"""How far a spread constraint is from holding: the number that the strategy lowers with every move."""

from __future__ import annotations

from collections import deque

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from rescheduler.planning.columns import Columns
from rescheduler.planning.feasibility import Feasibility
from rescheduler.planning.predicates.support.spread import Constraint
from rescheduler.planning.whatif import WhatIf
from rescheduler.strategies.topology_spread import SpreadDeficit
from tests.support.builders import Row, cluster, deployment, node, spread

Counts = tuple[int, ...]
WEB = {"role": "web"}


def constraint_of(counts: Counts, skew: int, min_domains: int) -> Constraint:
    """A constraint over zones that have so many pods each; nodes and zones have the same numbers."""
    rule = [spread(skew, "zone", WEB, min_domains=min_domains)]
    rows: list[Row] = [node(f"n{number}", zone=f"z{number}") for number in range(len(counts))]
    on = [f"n{number}" for number, count in enumerate(counts) for _ in range(count)]
    columns = Columns(cluster(rows, deployment("web", on=on, labels=WEB, spread=rule)))
    family = Feasibility(WhatIf(columns)).spread.hard
    (found,) = family.of(columns.shape(0), *columns.groups[int(columns.pod_group[0])])
    return found


def holds(counts: Counts, skew: int, min_domains: int) -> bool:
    return max(counts) - (0 if len(counts) < min_domains else min(counts)) <= skew


def fewest(counts: Counts, skew: int, min_domains: int) -> int | None:
    """By trying all moves; None where nothing helps."""
    far = {counts: 0}
    waiting = deque([counts])
    while waiting:
        found = waiting.popleft()
        if holds(found, skew, min_domains):
            return far[found]
        for after in (moved(found, s, t) for s in range(len(found)) for t in range(len(found)) if found[s] and s != t):
            if after not in far:
                far[after] = far[found] + 1
                waiting.append(after)
    return None


def moved(counts: Counts, source: int, target: int) -> Counts:
    after = list(counts)
    after[source] -= 1
    after[target] += 1
    return tuple(after)


some_counts = st.lists(st.integers(0, 5), min_size=1, max_size=4).map(tuple).filter(any)
skews, domains = st.integers(1, 3), st.sampled_from((1, 1, 3))


@given(some_counts, skews, domains)
def test_it_knows_the_fewest_moves_and_what_each_move_changes(counts: Counts, skew: int, min_domains: int) -> None:
    wanted = fewest(counts, skew, min_domains)
    assume(wanted is not None)
    evening = SpreadDeficit(constraint_of(counts, skew, min_domains))
    assert evening.need == wanted
    places = evening.places
    for source, target in ((s, t) for s in range(len(counts)) for t in range(len(counts)) if counts[s] and s != t):
        change = evening.change[places[source], places[target]]
        assert evening.need + change == fewest(moved(counts, source, target), skew, min_domains)
        assert abs(change) <= 1


def test_domains_that_take_no_more_hold_the_others_down() -> None:
    """Nothing fits into the empty zone: then the fullest must come down to maxSkew."""
    constraint = constraint_of((5, 1, 1, 0), 2, 1)
    assert SpreadDeficit(constraint).need == 2
    assert SpreadDeficit(constraint, most=0).need == 3


def test_pods_that_stay_hold_the_others_up() -> None:
    """Three pods of the fullest zone stay: then no zone may have fewer than two."""
    constraint = constraint_of((4, 1, 1), 1, 1)
    assert SpreadDeficit(constraint).need == 2
    assert SpreadDeficit(constraint, least=2).need == 2
    assert SpreadDeficit(constraint, least=2).change.min() == -1


@given(some_counts, skews, domains, st.data())
def test_the_skew_after_a_move_is_known_without_making_it(
    counts: Counts, skew: int, min_domains: int, data: st.DataObject
) -> None:
    constraint = constraint_of(counts, skew, min_domains)
    source = data.draw(st.sampled_from([number for number, count in enumerate(counts) if count]))
    after = constraint.skew_after(source)
    for target in range(len(counts)):
        found = moved(counts, source, target)
        least = 0 if len(counts) < min_domains else min(found)
        assert after[target] == max(found) - least
    assert after.dtype == np.int32
