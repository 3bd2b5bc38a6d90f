"""What a node uses besides its pods: right after pods have left it, and not told where a pod is not measured."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rescheduler.config.schema import UsageSettings
from rescheduler.model.objects import Pod, Usage
from rescheduler.model.snapshot import MeasuredUsage
from rescheduler.usage.history import OverheadHistory, SystemOverhead, UsageHistory
from tests.support.builders import NOW, cluster, node, pod
from tests.unit.usage.rows import of_node, of_pod


def answered(history: UsageHistory, now: float, pods: list[Pod], *rows: Usage) -> None:
    history.begin(now, SystemOverhead(pods))
    history.take(rows)
    history.end()


def once(pods: list[Pod], *rows: Usage) -> MeasuredUsage:
    history = UsageHistory(UsageSettings())
    answered(history, NOW, pods, *rows)
    return history.measured(cluster(node("a"), node("b"), pods))


def test_it_is_what_the_node_uses_less_what_its_pods_use() -> None:
    pods = [pod("web", on="a"), pod("db", on="a"), pod("other", on="b")]
    rows = [of_pod("web", 100, 10), of_pod("db", 300, 20), of_pod("other", 900, 900)]
    found = once(pods, *rows, of_node("a", 1000, 100), of_node("b", 950, 1000))
    assert found.besides == {"a": (("cpu", 600), ("memory", 70)), "b": (("cpu", 50), ("memory", 100))}


def test_a_node_that_is_told_of_before_its_pods_is_reckoned_all_the_same() -> None:
    assert once([pod("web", on="a")], of_node("a", 1000, 100), of_pod("web", 100, 10)).besides["a"] == (
        ("cpu", 900),
        ("memory", 90),
    )


def test_it_is_never_less_than_nothing() -> None:
    found = once([pod("web", on="a")], of_node("a", 90, 10), of_pod("web", 100, 10))
    assert found.besides["a"] == (("cpu", 0), ("memory", 0))


def test_a_node_with_a_pod_that_is_not_measured_tells_nothing() -> None:
    found = once([pod("web", on="a"), pod("new", on="a")], of_node("a", 1000), of_pod("web", 100))
    assert found.besides == {}
    assert found.nodes


def test_pods_that_do_not_run_are_not_waited_for() -> None:
    pods = [pod("web", on="a"), pod("starting", on="a", phase="Pending"), pod("done", on="a", phase="Succeeded")]
    assert once(pods, of_node("a", 1000), of_pod("web", 100)).besides["a"][0] == ("cpu", 900)


def test_a_resource_that_is_not_told_of_is_not_known() -> None:
    found = once([pod("web", on="a")], of_node("a", 1000, None), of_pod("web", 100, 10))
    assert found.besides["a"] == (("cpu", 900),)


def test_without_pods_nothing_is_reckoned() -> None:
    assert once([], of_node("a", 1000)).besides == {}


def test_a_pod_that_has_left_is_not_taken_for_the_node_s_own() -> None:
    """The mean of the node has it for minutes; what is reckoned besides never has."""
    history = UsageHistory(UsageSettings())
    large, small = pod("large", on="a"), pod("small", on="a")
    for ago in (120.0, 90.0, 60.0):
        rows = [of_pod("large", 3000, 100, ago), of_pod("small", 200, 10, ago), of_node("a", 3300, 200, ago)]
        answered(history, NOW - ago, [large, small], *rows)
    gone = pod("large", on="b")
    for ago in (30.0, 0.0):
        rows = [of_pod("large", 3000, 100, ago), of_pod("small", 200, 10, ago)]
        nodes = [of_node("a", 300, 100, ago), of_node("b", 3100, 150, ago)]
        answered(history, NOW - ago, [gone, small], *rows, *nodes)
    found = history.measured(replace(cluster(node("a"), node("b"), gone, small), taken_at=NOW))
    assert dict(found.nodes["a"])["cpu"] > 2000
    assert dict(found.besides["a"])["cpu"] == 100
    assert dict(found.besides["b"])["cpu"] == 100


@given(
    own=st.lists(st.integers(0, 5000), min_size=1, max_size=6),
    system=st.integers(0, 2000),
    cuts=st.lists(st.integers(0, 8), max_size=4),
)
def test_however_an_answer_is_cut_it_adds_up(own: list[int], system: int, cuts: list[int]) -> None:
    pods = [pod(f"p{number}", on="a") for number in range(len(own))]
    rows = [of_pod(f"p{number}", cpu, 0) for number, cpu in enumerate(own)]
    rows.insert(len(own) // 2, of_node("a", sum(own) + system, 0))
    history = UsageHistory(UsageSettings())
    history.begin(NOW, SystemOverhead(pods))
    edges = sorted({0, len(rows), *(min(cut, len(rows)) for cut in cuts)})
    for first, last in pairwise(edges):
        history.take(rows[first:last])
    history.end()
    assert history.measured(cluster(node("a"), pods)).besides["a"][0] == ("cpu", system)


def test_a_node_s_number_that_is_older_than_where_its_pods_stand_makes_no_difference() -> None:
    """A source tells a node's use as of some seconds ago: pods that have left since are in it, and nowhere else."""
    history = UsageHistory(UsageSettings())
    large, small = pod("large", on="a"), pod("small", on="a")
    told = [of_pod("small", 200, 10), of_node("a", 3300, 200)]
    answered(history, NOW, [large, small], of_pod("large", 3000, 100), *told)
    answered(history, NOW + 1, [small], *told)  # the same sample again, and the pod is gone
    later = replace(cluster(node("a"), small), taken_at=NOW + 1)
    assert history.measured(later).besides["a"] == (("cpu", 100), ("memory", 90))


@given(
    st.lists(st.tuples(st.floats(-299.0, 0.0), st.integers(0, 10**6)), min_size=1, max_size=30),
    st.randoms(use_true_random=False),
)
def test_the_least_of_the_window_counts_whatever_the_order(
    found: list[tuple[float, int]], chance: random.Random
) -> None:
    shuffled = found.copy()
    chance.shuffle(shuffled)
    for order in (found, shuffled):
        kept = OverheadHistory(300.0)
        for ago, cpu in order:
            kept.put([("a", NOW + ago, (float(cpu), math.nan))], NOW)
        assert kept.least(["a", "b"], NOW) == {"a": (("cpu", min(cpu for _, cpu in found)),)}


def test_what_was_before_the_window_is_forgotten() -> None:
    kept = OverheadHistory(300.0)
    kept.put([("a", NOW, (1.0, 1.0))], NOW)
    kept.put([("a", NOW + 400, (5.0, 5.0))], NOW + 400)
    assert kept.least(["a"], NOW + 400) == {"a": (("cpu", 5), ("memory", 5))}
    kept.put([], NOW + 1000)
    assert kept.least(["a"], NOW + 400) == {}
