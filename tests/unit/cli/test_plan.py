"""Before and after in the terminal: numbers, a histogram that fits any number of nodes, and bars of few nodes."""

from __future__ import annotations

import pytest

from rescheduler.cli.output import Terminal, join_names
from rescheduler.cli.plan import BeforeAfter, summary
from rescheduler.model.plan import ClusterLoad, LoadDistribution, Method, Move, NodeLoad, Plan, Rejection
from rescheduler.model.policy import Utilization

_EVEN = LoadDistribution(50.0, 50.0, 50.0, 0.0)


def _picture(*cpu: float, memory: float = 5.0, hot: int = 0) -> ClusterLoad:
    loads = tuple(
        NodeLoad(f"n{index:04}", load, memory, 3, ("cpu",) if load > 80 else ()) for index, load in enumerate(cpu)
    )
    return ClusterLoad(LoadDistribution(max(cpu), min(cpu), 40.0, 12.34), _EVEN, hot, loads)


def _lines(before: ClusterLoad, after: ClusterLoad, terminal: Terminal | None = None) -> list[str]:
    return [*BeforeAfter(before, after).lines(terminal or Terminal())]


def test_numbers_are_shown_before_and_after() -> None:
    lines = _lines(_picture(90.0, 10.0, hot=1), _picture(50.0, 50.0))
    assert lines[0].split() == ["UTILISATION", "MAX", "MIN", "MEAN", "STDDEV"]
    assert lines[1].split("   ")[0] == "cpu"
    assert "90.0% → 50.0%" in lines[1]
    assert "12.3 → 12.3" in lines[1]
    assert lines[2].startswith("memory")
    assert lines[3].split("   ") == ["hot nodes", "  1 → 0"]


def test_the_histogram_counts_every_node_once_in_its_tenth() -> None:
    lines = _lines(_picture(0.0, 9.99, 10.0, 99.0, 100.0, 100.01), _picture(*[55.0] * 6))
    rows = {line.split()[0]: line for line in lines if "-" in line.split("%")[0] or line.startswith("over")}
    assert rows["0-10%"].split()[2] == "2"
    assert rows["10-20%"].split()[2] == "1"
    assert rows["90-100%"].split()[2] == "2"
    assert rows["over"].split()[3] == "1"
    assert "6" in rows["50-60%"].split()


@pytest.mark.parametrize("count", [1, 3, 21, 5000])
def test_the_picture_is_as_small_for_many_nodes_as_for_few(count: int) -> None:
    loads = [float(index * 100 % 9700) / 97 for index in range(count)]
    for terminal in (Terminal(), Terminal(width=100), Terminal(width=80), Terminal(width=40)):
        lines = _lines(_picture(*loads), _picture(*loads), terminal)
        assert len(lines) <= 4 + 1 + 12 + (22 if count <= 20 else 0)
    assert all(len(line) <= 100 for line in _lines(_picture(*loads), _picture(*loads), Terminal(width=100)))


def test_up_to_twenty_nodes_have_bars_of_their_own() -> None:
    few = _lines(_picture(*[50.0] * 20), _picture(*[50.0] * 20))
    many = _lines(_picture(*[50.0] * 21), _picture(*[50.0] * 21))
    assert sum(line.startswith("n00") for line in few) == 20
    assert not any(line.startswith("n00") for line in many)


def test_hot_nodes_are_marked_in_words_too() -> None:
    lines = _lines(_picture(90.0, 10.0, hot=1), _picture(50.0, 85.0, hot=1))
    assert lines[-2].endswith("yes → no")
    assert lines[-1].endswith("yes")


def test_hot_nodes_are_red_where_there_is_colour() -> None:
    lines = _lines(_picture(90.0, hot=1), _picture(50.0), Terminal(width=100, colour=True))
    assert "\x1b[31m" in lines[-1]


def _pooled(*rows: tuple[str, float | None, tuple[str, ...]]) -> ClusterLoad:
    loads = tuple(
        NodeLoad(f"n{index}", 50.0, 5.0, 3, over, pool, (gpu, 30.0)) for index, (pool, gpu, over) in enumerate(rows)
    )
    hot = sum(bool(load.over) for load in loads)
    in_pool = sum(bool(load.over) for load in loads if load.pool == "gpu")
    return ClusterLoad(_EVEN, _EVEN, hot, loads, {"example.com/gpu": _EVEN, "pods": _EVEN}, {"gpu": in_pool})


def test_pools_and_other_resources_are_shown_where_there_are_any() -> None:
    before = _pooled(("gpu", 75.0, ("example.com/gpu",)), ("", None, ()))
    after = _pooled(("gpu", 25.0, ()), ("", None, ()))
    lines = _lines(before, after)
    assert [line.split("  ")[0] for line in lines[1:7]] == [
        "cpu", "memory", "example.com/gpu", "pods", "hot nodes", "hot in gpu",
    ]  # fmt: skip
    assert lines[6].split("   ")[-1].strip() == "1 → 0"
    head, first, second = lines[-3:]
    assert [each.strip() for each in head.split("   ") if each.strip()][-4:] == [
        "PODS", "EXAMPLE.COM/GPU", "POD PLACES", "HOT",
    ]  # fmt: skip
    assert first.split()[1] == "gpu"
    assert "75.0% → 25.0%" in first
    assert first.endswith("yes → no")
    assert second.split()[1] == "-"


def test_a_node_is_hot_by_its_own_thresholds_however_much_it_is_used() -> None:
    def at(over: tuple[str, ...]) -> ClusterLoad:
        return ClusterLoad(_EVEN, _EVEN, bool(over), (NodeLoad("n", 95.0, 30.0, 3, over),))

    colour = Terminal(width=100, colour=True)
    assert "\x1b[31m" not in _lines(at(()), at(()), colour)[-1]
    assert "\x1b[31m" in _lines(at(("memory",)), at(()), colour)[-1]


@pytest.mark.parametrize(("by", "head"), [("requests", "UTILISATION "), ("usage", "UTILISATION (usage)")])
def test_the_head_says_what_use_is_reckoned_by(by: str, head: str) -> None:
    (first, *_) = BeforeAfter(_picture(5.0), _picture(5.0), Utilization(by)).lines(Terminal())
    assert first.startswith(head)


def test_a_cluster_without_workers_has_no_bars() -> None:
    empty = ClusterLoad(LoadDistribution(0, 0, 0, 0), LoadDistribution(0, 0, 0, 0), 0, ())
    assert len(_lines(empty, empty)) == 4


def _move(method: Method) -> Move:
    return Move("default", f"p-{method}", "a", "b", "S", "why", method)


def test_the_summary_counts_moves_by_method_and_what_was_rejected() -> None:
    moves = (_move(Method.COPY), *[_move(Method.HANDOFF)] * 3)
    rejections = (Rejection("default", "x", "Job", "why"),) * 2
    before, after = _picture(90.0, hot=1), _picture(50.0)
    assert (
        summary(Plan(moves, rejections, before, after), Terminal())
        == "4 moves (3 handoff, 1 copy), 2 rejected; hot nodes 1 → 0"
    )
    assert summary(Plan((), (), after, after), Terminal()) == "0 moves, 0 rejected; hot nodes 0 → 0"
    assert summary(Plan((_move(Method.EVICT),), (), after, after), Terminal(unicode=False)).startswith(
        "1 move (1 evict)"
    )


def test_long_lists_of_names_are_cut_and_say_so() -> None:
    assert join_names(["a", "b", "c"], 3) == "a, b, c"
    assert join_names(["a", "b", "c", "d"], 3) == "a, b, c and 1 more"
    assert join_names(["a", "b", "c", "d"], None) == "a, b, c, d"
