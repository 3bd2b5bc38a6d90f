"""Once a limit is in the way, nothing more is searched for that it would refuse: plans of large clusters stay quick."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from rescheduler.planning.api import Proposal, ProposalResult
from rescheduler.planning.planner import Planner
from rescheduler.planning.whatif import WhatIf
from tests.support.builders import away, cluster, deployment, node, pod
from tests.support.planning import planned, rejected

ZONES = [node(f"{zone}{n}", cpu=4, zone=zone) for zone in "abc" for n in range(2)]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often the planner had to decide, and how often something was tried out."""
    found: Counter[str] = Counter()
    decide, trial = Planner.decide, WhatIf.trial

    def deciding(planner: Planner, strategy: str, proposal: Proposal) -> ProposalResult:
        found["decided"] += 1
        return decide(planner, strategy, proposal)

    def trying(whatif: WhatIf) -> Any:
        found["tried"] += 1
        return trial(whatif)

    monkeypatch.setattr(Planner, "decide", deciding)
    monkeypatch.setattr(WhatIf, "trial", trying)
    return found


@pytest.mark.parametrize("groups", [1, 20])
def test_a_group_that_takes_more_moves_than_are_left_is_told_of_and_not_rehearsed(
    asked: Counter[str], groups: int
) -> None:
    apart = [
        pod(f"g{group}-{at}", on=at, cpu="10m", labels={"job": f"g{group}"})
        for group in range(groups)
        for at in ("a0", "b0", "c0")
    ]
    plan = planned(cluster(ZONES, apart), "Topology", settings={"Topology": {"groupLabel": "job"}}, max_moves=1)
    assert plan.moves == ()
    assert rejected(plan) == {f"g{group}-b0": "MaxReschedulePods" for group in range(groups)}
    assert asked == {"decided": groups}


def test_when_the_plan_is_nearly_full_no_room_is_sought_that_takes_more_moves_than_are_left(
    asked: Counter[str],
) -> None:
    busy = [node(name, cpu=10) for name in "ab"]
    small = [pod(f"{at}{n}", on=at, cpu=2) for at in "ab" for n in range(4)]
    free = [node(f"free{n}", cpu=4) for n in range(2)]
    pending = [pod(f"big{n}", cpu=f"{5000 + n}m") for n in range(9)]
    plan = planned(cluster(busy, small, free, pending), "MakeRoom", cpu=100, memory=100, max_moves=3)
    assert len(plan.moves) == 2
    assert [*rejected(plan).values()] == ["MaxReschedulePods"]
    assert asked["decided"] == 2  # those that take two moves as well are not sought once one was refused


def test_when_a_workload_has_moved_as_often_as_it_may_all_its_other_pods_are_told_so() -> None:
    web = deployment("web", on=["a0"] * 40, cpu="10m", anti_affinity=[away({"app": "web"})])
    plan = planned(cluster(ZONES, web), "PodAntiAffinity", per_workload=1)
    assert len(plan.moves) == 1
    assert [*rejected(plan).values()] == ["WorkloadLimit"] * 39
