"""Tables: kubectl's columns to a pipe, never cut; on a terminal, sentences go where there is room."""

from __future__ import annotations

import pytest

from rescheduler.cli.output import Table, Terminal, columns_of, plain

_REASON = "a is at 90.0% cpu (threshold 80%); c is then at 12.5% CPU and 1.6% memory"
_MOVES = Table(("POD", "TO", "REASON"), [("web-0", "c", _REASON), ("a-longer-name", "b", "short")], flowing=1)
_GROUPS = Table(("BY", "COUNT", "REASON", "PODS"), [("Job", "12", _REASON, "a, b, c")], flowing=2, right=frozenset({1}))


def test_to_a_pipe_columns_are_aligned_and_nothing_is_cut() -> None:
    assert [*_MOVES.lines(Terminal())] == [
        "POD             TO   REASON",
        f"web-0           c    {_REASON}",
        "a-longer-name   b    short",
    ]


def test_headers_can_be_left_out_and_then_take_no_room() -> None:
    assert [*Table(("A LONG HEADER", "B"), [("x", "y")]).lines(Terminal(), headers=False)] == ["x   y"]


def test_a_table_without_rows_and_headers_is_nothing() -> None:
    assert [*Table(("A",), []).lines(Terminal(), headers=False)] == []


def test_numbers_stand_to_the_right() -> None:
    assert [*Table(("N",), [("1",), ("12",)], right=frozenset({0})).lines(Terminal())] == [" N", " 1", "12"]


def test_on_a_terminal_a_sentence_is_wrapped_within_its_column() -> None:
    lines = [*_MOVES.lines(Terminal(width=70))]
    assert lines[1].startswith("web-0           c    a is at 90.0%")
    assert lines[2].startswith(" " * 21)
    assert not lines[2].startswith(" " * 22)
    assert " ".join(" ".join(lines[1:3]).split()) == f"web-0 c {_REASON}"
    assert all(len(line) <= 70 for line in lines)


def test_on_a_narrow_terminal_sentences_go_beneath_their_row() -> None:
    lines = [*_MOVES.lines(Terminal(width=50))]
    assert lines[:2] == ["POD             TO", "web-0           c"]
    assert all(line.startswith("    ") for line in lines[2:4])
    assert next(iter(_GROUPS.lines(Terminal(width=60)))) == "BY    COUNT"
    assert [*_GROUPS.lines(Terminal(width=60))][-1] == "    a, b, c"


def test_on_a_wide_terminal_a_table_looks_as_in_a_pipe() -> None:
    assert [*_GROUPS.lines(Terminal(width=200))] == [*_GROUPS.lines(Terminal())]


def test_colours_are_only_for_terminals_that_have_them() -> None:
    table = Table(("A", "B"), [("hot", "x")], tints={(0, 0): "red"})
    assert [*table.lines(Terminal(width=80, colour=True))][1] == "\x1b[31mhot\x1b[0m   x"
    assert [*table.lines(Terminal(width=80))][1] == "hot   x"


def test_names_from_the_input_cannot_disturb_the_terminal_or_break_lines() -> None:
    assert plain("a\x1b[31m\nb\u2028") == "a\\x1b[31m\\x0ab\\u2028"
    assert [*Table(("A",), [("x\ny",)]).lines(Terminal())] == ["A", "x\\x0ay"]


def test_wide_characters_take_two_columns() -> None:
    assert (columns_of("重 a"), columns_of("e\u0301"), columns_of("abc")) == (4, 1, 3)


@pytest.mark.parametrize(
    ("share", "bar"), [(0.0, ""), (1.0, "████"), (2.0, "████"), (0.5, "██"), (0.0001, "▏"), (0.53125, "██▏")]
)
def test_bars_show_shares_in_eighths_and_nothing_only_for_nothing(share: float, bar: str) -> None:
    assert Terminal().bar(share, 4) == bar


def test_bars_are_ascii_where_nothing_else_can_be_shown() -> None:
    terminal = Terminal(unicode=False)
    assert (terminal.bar(0.5, 4), terminal.bar(0.001, 4), terminal.arrow) == ("##", "#", "->")
