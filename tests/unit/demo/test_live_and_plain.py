"""What the demo shows: pictures that fit any window, and the same things as plain lines."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rescheduler.cli.output import Terminal
from rescheduler.model.migration import Phase
from rescheduler_demo.live import Frame
from rescheduler_demo.plain import PlainView, format_next, format_result
from rescheduler_demo.runner import Result
from tests.support.pod_migrations import replace
from tests.unit.demo.statuses import make_migration, make_status

SCREEN = Terminal(80)


def draw(frame: Frame, width: int = 80, height: int = 24, terminal: Terminal = SCREEN) -> list[str]:
    return [line.plain.rstrip() for line in frame.lines(terminal, width, height)]


@given(
    nodes=st.integers(0, 400),
    width=st.integers(20, 250),
    height=st.integers(4, 80),
    unicode=st.booleans(),
    known=st.booleans(),
)
def test_every_picture_fits_its_window(nodes: int, width: int, height: int, unicode: bool, known: bool) -> None:
    now = [float(number * 7 % 103) for number in range(nodes)]
    shown = Frame(make_status(now if known else None, now, node_states={"node-1": "not ready"}), [(1.0, "x" * 300)])
    lines = shown.lines(Terminal(width, unicode=unicode), width, height)
    assert len(lines) <= height
    assert all(line.cell_len <= width for line in lines)
    if not unicode:
        assert all(line.plain.isascii() for line in lines)


def test_a_narrow_window_cuts_the_goal_and_not_that_it_is_reached() -> None:
    goal = "no node is hot, and all are within 20 points of each other"
    shown = draw(Frame(make_status([95.0], [50.0], goal=goal, reached=True)))
    assert shown[0] == "rescheduler demo: balance  1:05  goal reached: no node is hot, and all are with…"


def test_few_nodes_have_a_bar_before_and_a_bar_now() -> None:
    shown = draw(Frame(make_status([95.0, 1.0], [50.0, 45.0], node_states={"node-1": "maintenance"})))
    (first,) = [line for line in shown if line.startswith("node-0")]
    (second,) = [line for line in shown if line.startswith("node-1")]
    assert first.split() == ["node-0", "█" * 22 + "▊", "95%", "→", "█" * 12, "50%"]
    assert second.endswith("45% maint")


@pytest.mark.parametrize(("nodes", "of_each"), [(100, 1), (1000, 0)])
def test_many_nodes_are_cells_and_very_many_a_histogram(nodes: int, of_each: int) -> None:
    shown = draw(Frame(make_status([85.0] * nodes, [35.0] * nodes)))
    assert sum(line.startswith("before") for line in shown) == of_each
    assert sum(line.startswith("now") for line in shown) == of_each
    if not of_each:
        (hot,) = [line for line in shown if "80-90%" in line]
        (cool,) = [line for line in shown if "30-40%" in line]
        assert hot.split()[-2:] == [str(nodes), "0"]
        assert cool.split()[-1] == str(nodes)


def test_moves_in_flight_and_done_and_what_comes_next_are_shown() -> None:
    active, recent = (make_migration("web-1"),), (make_migration("web-0", Phase.COMPLETED),)
    status = make_status([90.0], [40.0], active=active, recent=recent, completed=7, failed=1)
    text = "\n".join(draw(Frame(status, [(61.0, "somebody scales web")])))
    assert "1 in progress, 0 waiting, 7 done, 1 failed" in text
    assert "web-1  node-0 → node-1 by handoff: AwaitReady" in text
    assert "web-0  node-0 → node-1 by handoff: Completed" in text
    assert "next plan in 4 s; in 8 s a kubelet dies" in text
    assert "1:01  somebody scales web" in text
    assert "hot nodes 1 → 0" in text
    assert "disruption budgets: 3 checks, 0 violations" in text
    assert status.page in text
    assert f"export KUBECONFIG={status.kubeconfig}" in text


def test_the_log_has_a_pane_only_where_it_is_wanted() -> None:
    assert "planned moves=3" in "\n".join(draw(Frame(make_status([9.0], [9.0]), logged=["planned moves=3"])))


def test_plain_lines_tell_everything_at_once_and_how_it_stands_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    view = PlainView(lambda: None)
    view.show(make_status([90.0, 1.0], [90.0, 1.0], elapsed=0.0))
    view.show(make_status([90.0, 1.0], [80.0, 9.0], elapsed=0.5))
    view.report(1.0, "somebody scales \x1b[31mweb")
    view.show(make_status([90.0, 1.0], [60.0, 30.0], elapsed=6.0))
    view.show(make_status([90.0, 1.0], [60.0, 30.0], elapsed=12.0))
    lines = capsys.readouterr().out.splitlines()
    assert lines[:2] == ["kubectl: export KUBECONFIG=/tmp/somewhere/kubeconfig", "page: http://127.0.0.1:1/"]
    assert [line.split()[0] for line in lines[2:]] == ["0.0s", "1.0s", "6.0s"], "not twice the same"
    assert "cpu 1-90% (gap 89)" in lines[2]
    assert lines[3] == "   1.0s  somebody scales \\x1b[31mweb"


def test_what_is_waited_for_has_no_seconds() -> None:
    status = make_status([1.0], [1.0], next_step="node-1 is empty", next_step_in=None)
    assert format_next(status) == "next plan in 4 s; waiting for: node-1 is empty"


def test_a_pause_is_told_instead_of_the_next_plan() -> None:
    told = format_next(make_status([1.0], [1.0], paused="rescheduling is paused by jane"))
    assert told == "rescheduling is paused by jane; in 8 s a kubelet dies"


def test_the_result_says_whether_the_goal_was_reached_and_what_it_took() -> None:
    last = make_status([95.0, 1.0], [50.0, 45.0], completed=9)
    reached = format_result(Result(replace(last, reached=True), 41.26), "→")
    assert reached == (
        "balance: goal reached after 41.3 s: no node is hot; 9 moves done, 0 failed; cpu 1-95% → 45-50%; "
        "disruption budgets: 3 checks, 0 violations"
    )
    missed = format_result(Result(last, 41.26), "→")
    assert missed.startswith("balance: ended before the goal was reached: no node is hot; ")
