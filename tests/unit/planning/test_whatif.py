"""What would be, without pods that are only expected: as if they had never been laid in, and all is back afterwards."""

from __future__ import annotations

import numpy as np
import pytest

from rescheduler.planning.columns import Columns
from rescheduler.planning.feasibility import Feasibility
from rescheduler.planning.whatif import WhatIf
from tests.support.examples import seeds
from tests.support.generated import random_cluster, with_waiting_pods

Seen = list[list[list[int]]]


def counted(feasibility: Feasibility) -> Seen:
    """How many pods are counted in each domain, by each constraint that counts a pod."""
    pods = range(len(feasibility.whatif.at))
    return [[each.counts.counts.tolist() for each in feasibility.spread.hard.counting(pod)] for pod in pods]


@pytest.mark.parametrize("known", [True, False], ids=["counts-that-were-there", "counts-that-are-begun-meanwhile"])
@pytest.mark.parametrize("seed", seeds(few=5, many=20))
def test_without_expected_pods_all_is_as_if_they_had_not_been_laid_in(seed: int, known: bool) -> None:
    snapshot = with_waiting_pods(random_cluster(seed, 6, 30), seed)
    columns = Columns(snapshot)
    bare, filled = Feasibility(WhatIf(columns)), Feasibility(WhatIf(columns))
    nowhere = np.flatnonzero(columns.pod_at < 0).tolist()
    arrivals = [(pod, number % len(snapshot.nodes)) for number, pod in enumerate(nowhere)]
    for pod, node in arrivals:
        filled.whatif.place(pod, node)
    filled.whatif.expect(arrivals)
    with_them = counted(filled) if known else None
    with filled.whatif.without_expected():
        assert counted(filled) == counted(bare)
    if with_them is None:
        fresh = Feasibility(WhatIf(columns))
        for pod, node in arrivals:
            fresh.whatif.place(pod, node)
        with_them = counted(fresh)
    assert counted(filled) == with_them
    assert filled.whatif.at[nowhere].tolist() == [node for _, node in arrivals]
