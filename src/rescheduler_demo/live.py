"""The demo's live view, in the terminal's alternate screen.

From the top: scenario, page and kubeconfig; how use is spread; the nodes; moves; what comes next; what has happened;
and with -v what was logged. The nodes get the rows that the other parts leave: bars for few nodes, one coloured cell
each for many, else a histogram.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from rescheduler.cli.output import Terminal, plain
from rescheduler.model.migration import Phase
from rescheduler.model.plan import NodeLoad
from rescheduler_demo.plain import (
    format_budgets,
    format_clock,
    format_move,
    format_moves,
    format_next,
    format_spread,
)
from rescheduler_demo.runner import Status

_NEWS = 20
_FEW_ROWS, _MORE_ROWS, _TALL = 3, 6, 30
_CELL, _GAP, _LONGEST_NAME = 36, 2, 14
_LONGEST_BAR, _SHORTEST_BAR = 24, 3
_SHORT_STATES = {"not ready": "down", "maintenance": "maint", "cordoned": "cord"}
_LONGEST_STATE = max(map(len, _SHORT_STATES.values()))
_HEAT, _ASCII_HEAT = "▁▂▃▄▅▆▇█", "01234567"
_HEAT_LABEL = len("before ")
_TENTHS = 11  # the last one is over 100%
_WARM = 0.75


class LiveView:
    """Draws while its context is open, and calls `stop` if the terminal closes; `log_rows` shows the log."""

    def __init__(self, terminal: Terminal, stop: Callable[[], None], log_rows: int) -> None:
        self._terminal = terminal
        self._stop = stop
        self._news: deque[tuple[float, str]] = deque(maxlen=_NEWS)
        self._logged: deque[str] = deque(maxlen=log_rows)
        self._console = Console()
        self._live = Live(console=self._console, screen=True, auto_refresh=False)
        self._closed = False

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError) if self._closed else nullcontext():
            self._live.stop()

    def show(self, status: Status) -> None:
        """Draw the current moment."""
        if self._closed:
            return
        frame = Frame(status, tuple(self._news), tuple(self._logged))
        size = self._console.size
        try:
            self._live.update(Group(*frame.lines(self._terminal, size.width, size.height)), refresh=True)
        except OSError:  # the terminal's window was closed
            self._closed = True
            self._stop()

    def report(self, elapsed: float, line: str) -> None:
        """Show an event in the next frame."""
        self._news.append((elapsed, line))

    def log(self, line: str) -> None:
        """Show a log line, if there is room."""
        self._logged.append(line.partition("\n")[0])


@dataclass(frozen=True, slots=True)
class Frame:
    """One frame."""

    status: Status
    news: Sequence[tuple[float, str]] = ()
    """Times and events; the newest last."""
    logged: Sequence[str] = ()

    def lines(self, terminal: Terminal, width: int, height: int) -> list[Text]:
        """The lines, limited to the size of the window."""
        rows = _MORE_ROWS if height >= _TALL else _FEW_ROWS
        above = [*self._head(), *self._spread(terminal.arrow), Text()]
        below = [Text(), *self._moves(terminal.arrow, rows), _labelled("next", format_next(self.status), "cyan")]
        below += [*self._news(rows), *(Text(plain(line), "dim") for line in list(self.logged)[-rows:])]
        below.append(Text("Ctrl-C ends it, and nothing of it stays.", "dim"))
        nodes = NodeRows(self.status, terminal, width).lines(height - len(above) - len(below))
        shown = [*above, *nodes, *below][:height]
        for line in shown:
            line.no_wrap, line.overflow = True, "crop"
            line.truncate(width, overflow="ellipsis" if terminal.unicode else "crop")
        return shown

    def _head(self) -> list[Text]:
        status, reached = self.status, self.status.reached
        first = Text(f"rescheduler demo: {status.scenario}", "bold")
        first.append(f"  {format_clock(status.elapsed)}  ", "cyan")
        # That the goal is reached comes before the goal: a narrow window cuts the end.
        first.append("goal reached: " if reached else "goal: ", "bold green" if reached else "")
        first.append(status.goal, "green" if reached else "")
        page = _labelled("page", status.page or "not open yet", "bold" if status.page else "dim")
        return [first, page, _labelled("kubectl", f"export KUBECONFIG={status.kubeconfig}")]

    def _spread(self, arrow: str) -> list[Text]:
        status, before, now = self.status, self.status.before, self.status.now
        hot = f"{now.hot_nodes}" if before is None else f"{before.hot_nodes} {arrow} {now.hot_nodes}"
        last = _labelled("hot nodes", hot, "bold")
        last.append(f"   {len(now.loads)} nodes, {status.pods} pods", "dim")
        last.append(f", {status.pending} without a node" if status.pending else "", "yellow")
        last.append(f"   {format_budgets(status)}", "bold red" if status.budgets_broken else "green")
        return [
            _labelled("cpu", format_spread(before.cpu if before else None, now.cpu, arrow), "bold"),
            _labelled("memory", format_spread(before.memory if before else None, now.memory, arrow), "bold"),
            last,
        ]

    def _moves(self, arrow: str, rows: int) -> list[Text]:
        """Always the same number of lines, so that the lines below do not jump."""
        lines = [_labelled("moves", format_moves(self.status), "bold")]
        for each in [*self.status.active, *self.status.recent][:rows]:
            failed = each.status.phase is Phase.FAILED
            style = "red" if failed else "dim" if each.status.over else ""
            lines.append(Text(f"  {format_move(each, arrow)}", style))
        return lines + [Text() for _ in range(rows + 1 - len(lines))]

    def _news(self, rows: int) -> list[Text]:
        shown = list(self.news)[-rows:]
        lines = [Text(f"  {format_clock(when):>5}  ", "dim").append(plain(line)) for when, line in shown]
        return [Text() for _ in range(rows - len(lines))] + lines


def _labelled(label: str, text: str, style: str = "") -> Text:
    return Text(f"{label:<10}", "dim").append(text, style)


@dataclass(frozen=True, slots=True)
class NodeRows:
    """Draws the nodes of one moment."""

    status: Status
    terminal: Terminal
    width: int

    def lines(self, rows: int) -> list[Text]:
        """The nodes in at most so many rows."""
        loads = self.status.now.loads
        if not loads or rows < 1:
            return []
        for columns in range(1, max(1, self.width // (_CELL + _GAP)) + 1):
            if -(-len(loads) // columns) <= rows:
                return self._bars(columns)
        across = self.width - _HEAT_LABEL
        if 2 * -(-len(loads) // across) <= rows:
            cells = [*self._heat("before", self._before()), *self._heat("now", loads)]
            tenths = [Text(), *self._histogram()]
            return [*cells, *tenths] if len(cells) + len(tenths) <= rows else cells
        return self._histogram()[: max(rows, 1)]

    def _before(self) -> Sequence[NodeLoad]:
        return self.status.before.loads if self.status.before is not None else ()

    def _bars(self, columns: int) -> list[Text]:
        loads, before = self.status.now.loads, {load.node: load for load in self._before()}
        deep = -(-len(loads) // columns)
        cell = self.width // columns - _GAP
        cells = [self._bar_cell(load, before.get(load.node), cell) for load in loads]
        lines = []
        for row in range(deep):
            line = Text(no_wrap=True, overflow="crop")
            for each in cells[row::deep]:
                each.truncate(cell, pad=True)
                line.append_text(each).append(" " * _GAP)
            lines.append(line)
        return lines

    def _bar_cell(self, now: NodeLoad, before: NodeLoad | None, width: int) -> Text:
        """`node-3   █████ 85% → ██ 42%  maint`: CPU before and now, and its unusual state."""
        names = min(max(len(load.node) for load in self.status.now.loads), _LONGEST_NAME)
        state = _SHORT_STATES.get(self.status.node_states.get(now.node, ""), "")
        states = _LONGEST_STATE + 1 if self.status.node_states else 0
        arrow = self.terminal.arrow
        bar = (width - names - 2 * 5 - len(arrow) - 3 - states) // 2
        bar = max(_SHORTEST_BAR, min(bar, _LONGEST_BAR))
        cell = Text(no_wrap=True)
        cell.append(f"{plain(now.node)[:names]:<{names}} ", "yellow" if state else "")
        was = before.cpu if before is not None else None
        cell.append(f"{self._bar(was or 0.0, bar)}{_percent(was)} ", "dim")
        cell.append(f"{arrow} ", "dim")
        cell.append(f"{self._bar(now.cpu, bar)}{_percent(now.cpu)}", self._tint(now))
        if state:
            cell.append(f" {state}", "yellow")
        return cell

    def _bar(self, percent: float, width: int) -> str:
        return f"{self.terminal.bar(percent / 100, width):<{width}}"

    def _tint(self, load: NodeLoad) -> str:
        limits = self.status.thresholds
        worst = max(load.cpu / limits.cpu, load.memory / limits.memory)
        return "red" if worst > 1 else "yellow" if worst > _WARM else "green"

    def _heat(self, label: str, loads: Sequence[NodeLoad]) -> list[Text]:
        """One character per node; height and colour show its use."""
        across = self.width - _HEAT_LABEL
        lines = []
        for first in range(0, len(loads), across):
            line = Text(f"{label if not first else '':<{_HEAT_LABEL}}", no_wrap=True, overflow="crop")
            for load in loads[first : first + across]:
                odd = self.status.node_states.get(load.node) if label == "now" else None
                line.append(self._cell(load), "magenta" if odd else self._tint(load))
            lines.append(line)
        return lines

    def _cell(self, load: NodeLoad) -> str:
        cells = _HEAT if self.terminal.unicode else _ASCII_HEAT
        return cells[max(0, min(int(load.cpu / 100 * len(cells)), len(cells) - 1))]

    def _histogram(self) -> list[Text]:
        """Node counts per tenth of CPU, the highest first; only tenths with nodes."""
        counts = [Counter(_tenth(load) for load in loads) for loads in (self._before(), self.status.now.loads)]
        most = max(count for each in counts for count in each.values())
        digits = len(str(most))
        bar = max(_SHORTEST_BAR, min((self.width - 11 - 2 * (digits + 3)) // 2, 3 * _LONGEST_BAR))
        lines = []
        for tenth in range(_TENTHS - 1, -1, -1):
            if not any(each[tenth] for each in counts):
                continue
            label = "over 100%" if tenth == _TENTHS - 1 else f"{tenth * 10}-{tenth * 10 + 10}%"
            line = Text(f"{label:>10} ", no_wrap=True, overflow="crop")
            styles = ("dim", "red" if tenth * 10 >= self.status.thresholds.cpu else "green")
            for each, style in zip(counts, styles, strict=True):
                line.append(f"{self._bar(each[tenth] * 100 / most, bar)} {each[tenth]:>{digits}}  ", style)
            lines.append(line)
        return lines


def _percent(number: float | None) -> str:
    return "    -" if number is None else f"{number:4.0f}%"


def _tenth(load: NodeLoad) -> int:
    return _TENTHS - 1 if load.cpu > 100 else min(int(load.cpu // 10), _TENTHS - 2)
