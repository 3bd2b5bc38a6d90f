"""Assessment: verdicts, what is looked at in the cluster, and that a plan that is carried out comes true."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.model.migration import MoveOutcome, ObjectReference, OutcomeVerdict, PodMigration
from rescheduler.model.plan import Plan
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.outcomes import assess_outcomes, verdict_of
from tests.support.builders import NOW, cluster, node, pod, statefulset
from tests.support.generated import clusters
from tests.support.planning import BALANCING, OPTIMIZATION, carry_out, planned
from tests.support.pod_migrations import replace
from tests.unit.planning.outcome_world import CAME_BACK, NOT_PAID, PAID, UNKNOWN, move


class TestVerdicts:
    @pytest.mark.parametrize(
        ("predicted", "realised", "verdict"),
        [
            (12.0, 12.0, PAID),
            (12.0, 3.0, PAID),
            (12.0, 2.99, NOT_PAID),
            (12.0, 0.0, NOT_PAID),
            (12.0, -5.0, NOT_PAID),
            (12.0, 40.0, PAID),
            (None, 0.1, PAID),
            (None, -3.0, PAID),  # another purpose than a less busy node
            (0.0, 0.0, PAID),
            (0.0, -1.0, PAID),
            (0.0, -1.01, NOT_PAID),
            (-4.0, -4.0, PAID),
            (-4.0, -8.0, NOT_PAID),
        ],
    )
    def test_a_quarter_of_what_was_predicted_must_come_true(
        self, predicted: float | None, realised: float, verdict: OutcomeVerdict
    ) -> None:
        assert verdict_of(predicted, realised) is verdict

    @given(st.floats(0.01, 100.0), st.floats(-100.0, 100.0), st.floats(0.0, 50.0))
    def test_more_gain_is_never_a_worse_verdict(self, predicted: float, realised: float, more: float) -> None:
        assert verdict_of(predicted, realised) is NOT_PAID or verdict_of(predicted, realised + more) is PAID


class TestLookingAtTheCluster:
    def nodes(self) -> tuple[object, ...]:
        return node("a", cpu=10), node("b", cpu=10), node("c", cpu=10)

    def look(self, migration: PodMigration, *rows: object) -> MoveOutcome:
        snapshot = cluster(*self.nodes(), *rows)  # type: ignore[arg-type]  # rows of all kinds
        (found,) = assess_outcomes(snapshot, Policy(), [migration], [], frozenset(), NOW)
        assert found.assessed_time == NOW
        return found

    def done(self, **more: object) -> PodMigration:
        return move("m", replacement="new", **more)  # type: ignore[arg-type]  # what the test is about

    def test_a_pod_that_is_where_it_should_be_on_an_emptier_node_has_paid(self) -> None:
        load = pod("load", on="a", cpu=6, namespace="shop")
        found = self.look(self.done(), load, pod("new", on="b", cpu=2, namespace="shop"))
        assert found == MoveOutcome(PAID, 20.0, NOW)

    def test_the_node_where_it_really_is_counts_not_the_one_that_was_meant(self) -> None:
        rows = (
            pod("load", on="a", cpu=6, namespace="shop"),
            pod("more", on="c", cpu=9, namespace="shop"),
            pod("new", on="c", cpu=1, namespace="shop"),
        )
        assert self.look(self.done(), *rows) == MoveOutcome(NOT_PAID, -10.0, NOW)

    def test_a_pod_on_its_source_has_come_back(self) -> None:
        assert self.look(self.done(), pod("new", on="a", namespace="shop")) == MoveOutcome(CAME_BACK, 0.0, NOW)

    def test_a_pod_that_is_gone_or_ending_or_on_no_node_tells_nothing(self) -> None:
        nothing = MoveOutcome(UNKNOWN, None, NOW)
        assert self.look(self.done()) == nothing
        assert self.look(self.done(), pod("new", on="b", namespace="shop", deleting=True)) == nothing
        assert self.look(self.done(), pod("new", on="b", namespace="shop", phase="Failed")) == nothing
        assert self.look(self.done(), pod("new", namespace="shop", phase="Pending")) == nothing

    def test_nothing_can_be_compared_once_the_source_is_gone(self) -> None:
        assert self.look(self.done(way="gone>b"), pod("new", on="b", namespace="shop")) == MoveOutcome(
            UNKNOWN, None, NOW
        )

    def test_another_pod_of_the_name_is_another_pod(self) -> None:
        done = self.done()
        known = replace(done.status, replacement=ObjectReference("Pod", "new", "another"))
        assert self.look(replace(done, status=known), pod("new", on="a", namespace="shop")).verdict is UNKNOWN

    def test_a_pod_of_a_stateful_set_is_the_same_one_by_its_name(self) -> None:
        done = move("m", replacement="db-0", workload=ObjectReference("StatefulSet", "db"))
        known = replace(done.status, replacement=ObjectReference("Pod", "db-0", "the one before"))
        rows = statefulset("db", on=["a"], namespace="shop")
        assert self.look(replace(done, status=known), rows).verdict is CAME_BACK

    @pytest.mark.parametrize("strategy", ["NodeMaintenance", "Manual"])
    def test_a_move_that_had_to_be_has_paid_when_the_pod_has_left(self, strategy: str) -> None:
        done = self.done(strategy=strategy, predicted=None)
        rows = (pod("load", on="b", cpu=8, namespace="shop"), pod("new", on="b", cpu=2, namespace="shop"))
        assert self.look(done, *rows) == MoveOutcome(PAID, -20.0, NOW)
        assert self.look(done, pod("new", on="a", namespace="shop")).verdict is CAME_BACK

    def test_what_was_brought_back_meanwhile_has_come_back_wherever_the_pod_is(self) -> None:
        done = self.done()
        (found,) = assess_outcomes(cluster(*self.nodes()), Policy(), [done], [done], {("shop", "m")}, NOW)  # type: ignore[arg-type]  # nodes
        assert found.verdict is CAME_BACK


def as_migrations(plan: Plan) -> list[PodMigration]:
    """The moves of a plan, made in its order, each under the name of its pod."""
    return [
        replace(
            move(
                f"m{number}",
                f"{each.source}>{each.target}",
                ended=NOW + number,
                strategy=each.strategy,
                predicted=each.gain,
                workload=None,
                pod=each.pod,
                replacement=each.pod,
            ),
            namespace=each.namespace,
        )
        for number, each in enumerate(plan.moves)
    ]


@given(clusters(min_pods=8, max_pods=25, max_nodes=5))
def test_a_plan_that_is_carried_out_to_the_letter_comes_true_move_by_move(snapshot: ClusterSnapshot) -> None:
    """However many moves level the same nodes: each is judged by what it did in its turn."""
    steady = tuple(msgspec.structs.replace(each, held=each.shape.requests) for each in snapshot.pods)
    snapshot = replace(snapshot, pods=steady)
    plan = planned(snapshot, OPTIMIZATION, BALANCING, cpu=50, memory=50, imbalance=5)
    made = as_migrations(plan)
    found = assess_outcomes(carry_out(snapshot, plan), Policy(), made, made, frozenset(), NOW)
    assert [each.gain for each in found] == [pytest.approx(each.gain, abs=0.011) for each in plan.moves]
    assert {each.verdict for each in found} <= {PAID}


def test_moves_that_level_two_nodes_together_have_all_paid() -> None:
    """A node at 80% and one at 20% end at 50% and 50%: of the last pod alone it may be said that it gained little."""
    before = cluster(
        node("a", cpu=10), node("b", cpu=10), *(pod(f"p{n}", on="a", cpu=1) for n in range(8)), pod("q", on="b", cpu=2)
    )
    plan = planned(before, BALANCING, imbalance=1)
    made = as_migrations(plan)
    found = assess_outcomes(carry_out(before, plan), Policy(), made, made, frozenset(), NOW)
    assert [each.gain for each in found] == [each.gain for each in plan.moves] == [10.0, 10.0, 10.0]


def test_what_others_did_meanwhile_counts_and_what_we_moved_since_does_not() -> None:
    first, second = (move(f"m{n}", replacement=f"new-{n}", ended=NOW + n) for n in (1, 2))
    ours = [pod(f"new-{n}", on="b", cpu=4, namespace="shop") for n in (1, 2)]
    quiet = cluster(node("a", cpu=10), node("b", cpu=10), ours)
    found = assess_outcomes(quiet, Policy(), [first, second], [first, second], frozenset(), NOW)
    assert [each.gain for each in found] == [40.0, -40.0]
    filled = cluster(node("a", cpu=10), node("b", cpu=10), ours, pod("theirs", on="b", cpu=2))
    found = assess_outcomes(filled, Policy(), [first, second], [first, second], frozenset(), NOW)
    assert [(each.gain, each.verdict) for each in found] == [(20.0, PAID), (-40.0, NOT_PAID)]


def test_a_pod_that_was_moved_on_weighs_once() -> None:
    """Of a StatefulSet's pod, which keeps its name, several moves are known: it is put back once, or not at all."""
    own = {"replacement": "db-0", "workload": ObjectReference("StatefulSet", "db"), "predicted": 5.0}
    first, second = move("m1", "a>b", ended=NOW + 1, **own), move("m2", "b>c", ended=NOW + 2, **own)  # type: ignore[arg-type]  # as above
    before = move("m0", "b>c", replacement="new", predicted=5.0)
    db = statefulset("db", on=["c"], cpu=1, namespace="shop")
    loads = [pod(f"load-{at}", on=at, cpu=cpu, namespace="shop") for at, cpu in (("a", 8), ("b", 7), ("c", 7.5))]
    nodes = [node(name, cpu=10) for name in "abc"]
    snapshot = cluster(*nodes, db, loads, pod("new", on="c", cpu=1, namespace="shop"))
    found = assess_outcomes(snapshot, Policy(), [before, first, second], [before, first, second], frozenset(), NOW)
    # With the pod back, less with it there. m0 has db-0 on a: 80 - 85; m1 and m2 have it where it is: 90 - 95, 85 - 95.
    assert [each.gain for each in found] == [-5.0, -5.0, -10.0]
