"""The memory of outcomes: what comes back, what counts, how the rest grows, and what must not be forgotten."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.model.migration import ObjectReference, OutcomeVerdict, Phase, PodMigration
from rescheduler.model.move_history import backoff_after, longest_streak
from rescheduler.model.objects import Owner, Workload
from rescheduler.model.policy import OutcomeSettings, Policy
from rescheduler.model.time import MAX_INSTANT
from rescheduler.planning.outcomes import find_backoffs, find_needed, find_undone, is_due, move_histories
from tests.support.builders import NOW
from tests.support.pod_migrations import replace
from tests.unit.planning.outcome_world import CAME_BACK, NOT_PAID, PAID, POLICY, UNKNOWN, WEB_KEY, failed, judged, move

COOL = POLICY.cool_down
verdicts = st.lists(st.sampled_from([None, PAID, NOT_PAID, CAME_BACK, UNKNOWN]), max_size=12)


def in_a_row(found: Sequence[OutcomeVerdict | None], way: str = "a>b") -> list[PodMigration]:
    """Moves with these verdicts, an hour apart, the last one at NOW."""
    first = NOW - 3600.0 * (len(found) - 1)
    return [move(f"m{n}", way, ended=first + 3600.0 * n, verdict=verdict) for n, verdict in enumerate(found)]


def bad(migrations: Sequence[PodMigration]) -> int:
    found = move_histories(migrations).get(WEB_KEY)
    return len(found.streak) if found is not None else 0


class TestComingBack:
    def test_a_later_move_the_other_way_brings_a_pod_back(self) -> None:
        there, back = move("there", ended=NOW), move("back", "b>a", ended=NOW + 700)
        assert find_undone([back, there], POLICY) == {("shop", "there")}

    def test_one_move_back_undoes_one_move_the_newest(self) -> None:
        first, second = move("first", ended=NOW), move("second", ended=NOW + 100)
        back = move("back", "b>a", ended=NOW + 700)
        assert find_undone([first, second, back], POLICY) == {("shop", "second")}
        again = move("again", "b>a", ended=NOW + 800)
        assert find_undone([first, second, back, again], POLICY) == {("shop", "first"), ("shop", "second")}

    @pytest.mark.parametrize(
        "other",
        [
            move("other", "b>c", ended=NOW + 700),
            move("other", "c>a", ended=NOW + 700),
            move("other", "b>a", ended=NOW + 700, workload=ObjectReference("Deployment", "api")),
            move("other", "b>a", ended=NOW + 700, strategy="NodeMaintenance"),
            move("other", "b>a", ended=NOW + 0.5),
            move("other", "b>a", ended=NOW + POLICY.outcomes.longest_rest + 2),
        ],
        ids=["elsewhere", "from elsewhere", "another workload", "an emptied node", "at the same time", "long after"],
    )
    def test_nothing_else_is_a_way_back(self, other: PodMigration) -> None:
        assert find_undone([move("there"), other], POLICY) == set()

    def test_a_person_who_moves_it_back_undoes_the_move(self) -> None:
        back = move("back", "b>a", ended=NOW + 700, strategy="Manual")
        assert find_undone([move("there"), back], POLICY) == {("shop", "there")}

    def test_moves_that_are_not_completed_bring_nothing_back(self) -> None:
        back = move("back", "b>a", ended=NOW + 700)
        for phase in (Phase.FAILED, Phase.IN_PROGRESS, Phase.PENDING):
            assert not find_undone([move("there"), replace(back, status=replace(back.status, phase=phase))], POLICY)

    def test_the_move_that_brought_it_back_forgives_nothing_even_if_it_paid(self) -> None:
        there = move("there", ended=NOW, verdict=CAME_BACK)
        back = move("back", "b>a", ended=NOW + 700, verdict=PAID)
        assert bad([there, back]) == 1
        again = move("again", ended=NOW + 2000, verdict=PAID)
        assert bad([there, judged(back, CAME_BACK), again]) == 2


def rest_lengths(migrations: Sequence[PodMigration], policy: Policy, now: float) -> list[float]:
    found = [(memory.rest(policy), memory) for memory in move_histories(migrations).values()]
    return [rest.until - memory.ended for rest, memory in found if rest is not None and rest.until > now]


class TestWhatCounts:
    @given(verdicts)
    def test_bad_ones_since_the_last_that_paid_are_counted(self, found: list[OutcomeVerdict | None]) -> None:
        since = found[len(found) - found[::-1].index(PAID) :] if PAID in found else found
        assert bad(in_a_row(found)) == sum(each in (NOT_PAID, CAME_BACK) for each in since)

    @given(verdicts, st.randoms(use_true_random=False))
    def test_the_order_in_which_migrations_are_known_changes_nothing(
        self, found: list[OutcomeVerdict | None], chance: object
    ) -> None:
        moves = in_a_row(found)
        shuffled = list(moves)
        chance.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis calls it a Random
        assert move_histories(shuffled) == move_histories(moves)

    @given(verdicts, st.sampled_from(["NodeMaintenance", "Manual"]))
    def test_moves_that_had_to_be_change_no_rest(self, found: list[OutcomeVerdict | None], strategy: str) -> None:
        moves = in_a_row(found)
        forced = [
            move(f"f{n}", "c>d", ended=NOW + 50.0 * n, verdict=verdict, strategy=strategy)
            for n, verdict in enumerate((PAID, CAME_BACK, NOT_PAID))
        ]
        assert find_backoffs([*moves, *forced], POLICY) == find_backoffs(moves, POLICY)

    def test_workloads_are_told_apart(self) -> None:
        moves = [
            move("m1", verdict=NOT_PAID),
            move("m2", verdict=NOT_PAID, workload=ObjectReference("Deployment", "api")),
            move("m3", verdict=NOT_PAID, workload=ObjectReference("StatefulSet", "web")),
        ]
        assert sorted(move_histories(moves)) == [
            ("Deployment", "shop", "api"),
            ("Deployment", "shop", "web"),
            ("StatefulSet", "shop", "web"),
        ]

    def test_a_replica_set_counts_for_its_deployment(self) -> None:
        done = move("m", verdict=NOT_PAID, workload=None)
        set_ = ObjectReference("ReplicaSet", "web-1", "set-uid")
        done = replace(done, status=replace(done.status, controller=set_))
        above = Workload("Deployment", "shop", "web")
        below = Workload("ReplicaSet", "shop", "web-1", "set-uid", Owner("Deployment", "web"))
        known = {(each.kind, each.namespace, each.name): each for each in (above, below)}
        assert list(move_histories([done], known)) == [WEB_KEY]

    def test_of_workloads_that_are_gone_or_made_anew_nothing_is_remembered(self) -> None:
        done = move("m", verdict=NOT_PAID, workload=ObjectReference("Deployment", "web", "first"))
        assert not move_histories([done], {})
        assert not move_histories([done], {WEB_KEY: Workload("Deployment", "shop", "web", "second")})
        assert move_histories([done], {WEB_KEY: Workload("Deployment", "shop", "web", "first")})
        assert move_histories([move("m", workload=ObjectReference("Rollout", "web"))], {}), "a kind that is not listed"

    def test_a_pod_that_nobody_manages_is_followed_through_its_copies(self) -> None:
        first = move("m1", ended=NOW - 100, verdict=NOT_PAID, workload=None, pod="solo", replacement="solo-1")
        second = move("m2", ended=NOW, verdict=NOT_PAID, workload=None, pod="solo-1", replacement="solo-2")
        other = move("m3", ended=NOW, verdict=NOT_PAID, workload=None, pod="other", replacement="other-1")
        found = move_histories([first, second, other])
        assert {key[2]: len(memory.streak) for key, memory in found.items()} == {"solo-2": 2, "other-1": 1}

    def test_a_move_that_failed_after_the_eviction_counts_as_a_bad_one_that_moved_nothing(
        self,
    ) -> None:
        gentle = failed("gentle", evicted=False)
        assert move_histories([gentle]) == {}
        assert find_needed([gentle], POLICY, 120.0, NOW + 1) == set()
        found = move_histories([move("m1", verdict=NOT_PAID), failed("m2", ended=NOW + 700), gentle])[WEB_KEY]
        assert [each.migration for each in found.moves] == ["m1"]
        assert [each.migration for each in found.streak] == ["m2", "m1"]
        rest = found.rest(POLICY)
        assert rest is not None
        assert (rest.bad, rest.until) == (2, NOW + 700 + 4 * COOL)
        assert rest.why.startswith("its last 2 moves did not pay or failed after the eviction: it rests")

    def test_a_failed_move_by_hand_or_off_a_drained_node_does_not_make_the_rest_longer(self) -> None:
        assert find_backoffs([failed("m", strategy="Manual")], POLICY) == {}
        assert find_needed([failed("m", strategy="Manual")], POLICY, 120.0, NOW + COOL - 1) == {("shop", "m")}

    def test_a_failed_move_brings_nothing_back(self) -> None:
        assert find_undone([move("there"), failed("back", "b>a", ended=NOW + 700)], POLICY) == set()


class TestTheRest:
    @given(st.integers(1, 80), st.floats(0.0, 1e6), st.floats(0.0, 1e6))
    def test_it_doubles_with_each_bad_move_up_to_the_longest(self, count: int, cool: float, longest: float) -> None:
        policy = Policy(cool_down=cool, outcomes=OutcomeSettings(longest_rest=longest))
        one, next_one = backoff_after(count, policy), backoff_after(count + 1, policy)
        assert one <= next_one <= longest
        assert next_one in (2 * one, longest) or count >= 60
        assert backoff_after(longest_streak(policy) + 7, policy) == backoff_after(longest_streak(policy), policy)

    @pytest.mark.parametrize(("count", "times"), [(1, 2), (2, 4), (3, 8), (7, 128)])
    def test_it_begins_at_the_end_of_the_last_move(self, count: int, times: int) -> None:
        (rest,) = find_backoffs(in_a_row([NOT_PAID] * count), POLICY).values()
        assert (rest.bad, rest.until) == (count, NOW + times * COOL)

    def test_a_move_that_nobody_has_looked_at_yet_begins_it_anew(self) -> None:
        moves = [move("m1", verdict=NOT_PAID), move("m2", ended=NOW + 2000)]
        (rest,) = find_backoffs(moves, POLICY).values()
        assert (rest.bad, rest.until) == (1, NOW + 2000 + 2 * COOL)

    def test_it_says_why(self) -> None:
        def why(*found: OutcomeVerdict, policy: Policy = POLICY) -> str:
            (rest,) = find_backoffs(in_a_row(found), policy).values()
            return rest.why

        assert why(NOT_PAID, NOT_PAID) == (
            "its last 2 moves did not pay (12.0 points predicted, 0.3 came true): it rests until 2027-01-15T08:40:00Z, "
            "4 × coolDown"
        )
        assert why(CAME_BACK).startswith("its last move came back (12.0 points predicted, 0.3 came true): it rests")
        assert why(CAME_BACK, NOT_PAID).startswith("its last 2 moves did not pay or came back (")
        assert why(NOT_PAID, policy=replace(POLICY, outcomes=OutcomeSettings(longest_rest=900.0))).endswith(
            "08:15:00Z, longestRest"
        )

    def test_a_move_that_ended_at_the_end_of_time_breaks_nothing(self) -> None:
        (found,) = in_a_row([NOT_PAID])
        late = replace(found, status=replace(found.status, completion_time=MAX_INSTANT))
        (rest,) = find_backoffs([late], POLICY).values()
        assert rest.until == MAX_INSTANT

    def test_gains_that_are_not_known_are_not_told(self) -> None:
        (rest,) = find_backoffs([move("m", verdict=CAME_BACK, predicted=None)], POLICY).values()
        assert rest.why.startswith("its last move came back: it rests until")

    @pytest.mark.parametrize(
        "policy",
        [
            replace(POLICY, cool_down=0.0),
            replace(POLICY, cool_down=-inf),
            replace(POLICY, outcomes=OutcomeSettings(longest_rest=0.0)),
            replace(POLICY, outcomes=OutcomeSettings(longest_rest=COOL)),
        ],
        ids=["no coolDown", "orders", "no longestRest", "no longer than coolDown"],
    )
    def test_who_wants_none_has_none(self, policy: Policy) -> None:
        assert find_backoffs(in_a_row([NOT_PAID] * 5), policy) == {}


class TestWhatIsNeeded:
    def test_bad_moves_are_needed_for_twice_the_rest(self) -> None:
        moves = in_a_row([PAID, NOT_PAID, NOT_PAID])
        wanted = {("shop", "m1"), ("shop", "m2")}
        assert find_needed(moves, POLICY, 120.0, NOW + 8 * COOL - 1) == wanted
        assert find_needed(moves, POLICY, 120.0, NOW + 8 * COOL) == set()

    def test_so_are_those_that_failed_after_the_eviction(self) -> None:
        moves = [failed("m1", ended=NOW - 3600), failed("m2")]
        wanted = {("shop", "m1"), ("shop", "m2")}
        assert find_needed(moves, POLICY, 120.0, NOW + 8 * COOL - 1) == wanted
        assert find_needed(moves, POLICY, 120.0, NOW + 8 * COOL) == set()

    def test_a_move_that_paid_is_needed_for_as_long_as_the_next_move_may_bring_it_back(self) -> None:
        """Else, where coolDown is longer than keepFinished, no move that comes back would ever be noticed."""
        moves = [move("m", verdict=PAID), move("by-hand", verdict=PAID, strategy="Manual")]
        assert find_needed(moves, POLICY, 120.0, NOW + 2 * COOL - 1) == {("shop", "m")}
        assert find_needed(moves, POLICY, 120.0, NOW + 2 * COOL) == set()

    def test_what_nobody_has_looked_at_is_needed_until_then_but_not_for_ever(self) -> None:
        moves, restless = [move("m")], replace(POLICY, cool_down=0.0)
        assert find_needed(moves, restless, 120.0, NOW + 179.0) == {("shop", "m")}
        assert find_needed(moves, restless, 120.0, NOW + 180.0) == set()

    def test_every_move_is_needed_while_its_workload_rests_for_it(self) -> None:
        moves = [judged(move("m"), UNKNOWN), move("by-hand", strategy="Manual")]
        assert find_needed(moves, POLICY, 120.0, NOW + COOL - 1) == {("shop", "m"), ("shop", "by-hand")}
        assert find_needed(moves, POLICY, 120.0, NOW + COOL) == set()

    @given(verdicts, st.integers(0, 10))
    def test_the_rest_is_the_same_without_what_is_not_needed(
        self, found: list[OutcomeVerdict | None], hours: int
    ) -> None:
        policy = Policy(cool_down=600.0, outcomes=OutcomeSettings(longest_rest=4800.0))
        moves = in_a_row(found)
        now = NOW + hours * 600.0
        keep = find_needed(moves, policy, 120.0, now)
        kept = [each for each in moves if (each.namespace, each.name) in keep]
        assert rest_lengths(kept, policy, now) == rest_lengths(moves, policy, now)
        assert len(kept) <= longest_streak(policy) + 1

    @given(st.lists(st.sampled_from([PAID, CAME_BACK, NOT_PAID, None]), max_size=12), st.integers(0, 10))
    def test_nor_does_going_to_and_fro_change_that(self, found: list[OutcomeVerdict | None], times: int) -> None:
        """Here moves that paid may only have brought a pod back; what is young is known whether it is needed or not."""
        policy = Policy(cool_down=600.0, outcomes=OutcomeSettings(longest_rest=2400.0))
        ways = ("a>b", "b>a")
        first = NOW - 3600.0 * (len(found) - 1)
        moves = [move(f"m{n}", ways[n % 2], ended=first + 3600.0 * n, verdict=each) for n, each in enumerate(found)]
        now = NOW + times * 600.0
        keep = find_needed(moves, policy, 120.0, now)
        kept = [
            each
            for each in moves
            if (each.namespace, each.name) in keep or now - (each.status.completion_time or 0.0) < 7200.0
        ]
        assert rest_lengths(kept, policy, now) == rest_lengths(moves, policy, now)

    def test_a_move_is_due_once_it_is_old_enough_and_until_it_was_looked_at(self) -> None:
        assert not is_due(move("m"), 120.0, NOW + 119.0)
        assert is_due(move("m"), 120.0, NOW + 120.0)
        assert not is_due(move("m", verdict=PAID), 120.0, NOW + 120.0)
        failed = move("m")
        assert not is_due(replace(failed, status=replace(failed.status, phase=Phase.FAILED)), 120.0, NOW + 120.0)
