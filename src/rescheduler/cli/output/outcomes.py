"""What the last moves of a pod's workload came to, as a table for people: a part of what `explain` shows."""

from __future__ import annotations

from collections.abc import Iterator

from rescheduler.cli.output.table import Table
from rescheduler.cli.output.terminal import Terminal
from rescheduler.model.instant import format_instant
from rescheduler.model.outcome import Memory, PastMove

_SHOWN = 5
_HEADERS = ("LAST MOVES", "FROM", "TO", "STRATEGY", "ENDED", "PREDICTED", "CAME TRUE", "OUTCOME")


def past_moves(memory: Memory, terminal: Terminal, *, wide: bool) -> Iterator[str]:
    """The newest moves of the workload, with the gain of each in percentage points."""
    shown = memory.moves if wide else memory.moves[:_SHOWN]
    rows = [
        [
            move.pod,
            move.source,
            move.target,
            move.strategy,
            format_instant(move.finished),
            _points(move.predicted),
            _points(move.realised),
            _verdict(move),
        ]
        for move in shown
    ]
    yield from Table(_HEADERS, rows, right=frozenset({5, 6})).lines(terminal)
    if len(shown) < len(memory.moves):
        yield f"and {len(memory.moves) - len(shown)} more (-o wide shows all)"


def _points(gain: float | None) -> str:
    return "" if gain is None else f"{gain:.1f}"


def _verdict(move: PastMove) -> str:
    if move.verdict is None:
        return "not assessed yet"
    return move.verdict.value if move.counts else f"{move.verdict.value} (does not count)"
