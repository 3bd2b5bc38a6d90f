"""Any strategies together, on generated clusters: plan after plan they come to rest, and leave each other's work alone.

`tests.support.rolled` makes a case of each seed. Nothing but the plans changes the cluster, and nothing is remembered
of them: so no cool-down hides strategies that send a pod to and fro between them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from rescheduler.app.planning import make_strategies
from rescheduler.model.objects import Pod
from rescheduler.model.plan import Move, Plan
from rescheduler.model.policy import Policy, Utilization
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.cycle import make_plan
from rescheduler.strategies import discover
from tests.support.applied import apply_plan
from tests.support.examples import seeds
from tests.support.generated import shuffle
from tests.support.rolled import Case, roll_case
from tests.support.sample_settings import NARROW
from tests.support.steps import by_name, check_budgets, mover, walk
from tests.support.twin import World, refusals

RARE = (129, 141, 175)  # in these even the strategies that seldom have something to do move pods
SEEDS = sorted({*seeds(few=10, many=200), *RARE})
NEVER_RESTED = (328, 1601, 2399, 2637, 3102, 3665, 4103, 201293, 501994)
"""Seeds of which strategies once went on for ever."""
CYCLES = 20
WALKED = 2  # plans of each case that are walked beside the twin, which is slow


def plan_of(case: Case) -> Plan:
    return make_plan(case.snapshot, case.policy, make_strategies(case.policy))


def plans(case: Case) -> Iterator[tuple[Case, Plan]]:
    """Plan after plan, each with the case that it was made of; the last one has no moves."""
    for _ in range(CYCLES):
        plan = plan_of(case)
        yield case, plan
        if not plan.moves:
            return
        case = Case(apply_plan(case.snapshot, plan), case.policy)
    pytest.fail(f"after {CYCLES} plans there are still moves: {[(m.strategy, m.pod, m.target) for m in plan.moves]}")


@pytest.mark.parametrize("seed", [*SEEDS, *NEVER_RESTED])
def test_plan_after_plan_comes_to_rest_and_keeps_all_rules(seed: int) -> None:
    check(roll_case(seed))


@pytest.mark.parametrize("seed", SEEDS[::5])
def test_so_it_does_where_what_is_done_is_narrowed_down(seed: int) -> None:
    check(roll_case(seed, NARROW))


def check(begun: Case) -> None:
    for number, (case, plan) in enumerate(plans(begun)):
        check_budgets(case.snapshot, plan, case.policy.max_reschedule_pods, case.policy.limits)
        check_responsible(case, plan)
        check_emptied(case, plan)
        check_room(case, plan)
        if number < WALKED:
            walk(case.snapshot, plan)


@pytest.mark.parametrize("seed", SEEDS[::3])
def test_the_order_in_which_a_cluster_is_read_does_not_matter(seed: int) -> None:
    case = roll_case(seed)
    assert plan_of(case) == plan_of(Case(shuffle(case.snapshot, seed), case.policy))


def test_the_cases_are_worth_checking() -> None:
    """Were there no moves of every strategy, in pools and by use, the tests above would prove nothing."""
    cases = [roll_case(seed) for seed in (*SEEDS, *NEVER_RESTED)]
    moved = {move.strategy for case in cases for move in plan_of(case).moves}
    assert moved == {*discover()}
    assert {case.policy.utilization for case in cases} == {*Utilization}
    assert Counter(bool(case.policy.node_pools) for case in cases)[True] > len(cases) / 5


def check_responsible(case: Case, plan: Plan) -> None:
    """Pods leave the nodes that they are on, by strategies that are enabled there; members of groups go along."""
    labels = {node.name: node.labels for node in case.snapshot.nodes}
    for move, pod in movers(case.snapshot, plan):
        assert pod.node == move.source != move.target
        if not in_group(case.policy, pod) and move.source in labels:
            assert move.strategy in case.policy.strategies_for(labels[move.source]), move


def check_emptied(case: Case, plan: Plan) -> None:
    """Consolidation takes all pods off a node, or none; of others only such leave as belong to a group."""
    moved = {(move.namespace, move.pod) for move in plan.moves}
    staying = [pod for key, pod in by_name(case.snapshot).items() if key not in moved and not pod.finished]
    occupied = {pod.node for pod in staying if not is_part_of_node(pod)}
    for move, pod in movers(case.snapshot, plan, "Consolidation"):
        assert move.source not in occupied or in_group(case.policy, pod), move


def check_room(case: Case, plan: Plan) -> None:
    """MakeRoom moves pods only for one that waits, has no lower priority, and fits there afterwards."""
    after = World(apply_plan(case.snapshot, plan))
    waiting = [pod for pod in case.snapshot.pods if not pod.node and not pod.finished]
    for move, pod in movers(case.snapshot, plan, "MakeRoom"):
        sources = {each.source for each in plan.moves if each.proposal == move.proposal}
        assert any(
            waits.priority >= pod.priority and not all(refusals(after, waits, source) for source in sources)
            for waits in waiting
        ), move


def movers(snapshot: ClusterSnapshot, plan: Plan, strategy: str = "") -> Iterator[tuple[Move, Pod]]:
    """The moves, of a strategy if one is named, each with its pod."""
    pods = by_name(snapshot)
    return ((move, mover(pods, move)) for move in plan.moves if strategy in ("", move.strategy))


def in_group(policy: Policy, pod: Pod) -> bool:
    return any(pod.labels.get(label) for label in policy.pod_group_labels)


def is_part_of_node(pod: Pod) -> bool:
    """Whether it goes where its node goes, as an autoscaler sees it: of a DaemonSet, or static."""
    return pod.static or (pod.owner is not None and pod.owner.kind == "DaemonSet")
