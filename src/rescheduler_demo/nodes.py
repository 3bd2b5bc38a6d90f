"""The demo's nodes in so many rows: bars before and now for few, one coloured cell each for many, else a histogram.

From a Scene's two pictures to lines of rich text that fit the window, whatever the number of nodes. `demo_frame` puts
them between the other parts of the view.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from rescheduler.cli.output.terminal import Terminal, plain
from rescheduler.model.plan import NodeLoad
from rescheduler_demo.scene import Scene

_NARROWEST, _GAP = 36, 2
_LONGEST_BAR, _SHORTEST_BAR = 24, 3
_SHORT_STATES = {"not ready": "down", "maintenance": "maint", "cordoned": "cord"}
_CELLS, _PLAIN_CELLS = "▁▂▃▄▅▆▇█", "01234567"
_TENTHS = 11
_WARM = 0.75
_LABEL = len("before ")


@dataclass(frozen=True, slots=True)
class NodeRows:
    """Draws the nodes of one scene."""

    scene: Scene
    terminal: Terminal
    width: int

    def lines(self, rows: int) -> list[Text]:
        """In at most so many rows, as much as they can show."""
        loads = self.scene.now.loads
        if not loads or rows < 1:
            return []
        for columns in range(1, max(1, self.width // (_NARROWEST + _GAP)) + 1):
            if -(-len(loads) // columns) <= rows:
                return self._bars(columns)
        across = self.width - _LABEL
        if 2 * -(-len(loads) // across) <= rows:
            cells = [*self._heat("before", self._before()), *self._heat("now", loads)]
            tenths = [Text(), *self._histogram()]
            return [*cells, *tenths] if len(cells) + len(tenths) <= rows else cells
        return self._histogram()[: max(rows, 1)]

    def _before(self) -> Sequence[NodeLoad]:
        return self.scene.before.loads if self.scene.before is not None else ()

    def _bars(self, columns: int) -> list[Text]:
        loads, before = self.scene.now.loads, {load.node: load for load in self._before()}
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
        """`node-3   █████ 85% → ██ 42%  maint`: CPU before and now, and what is not usual about it."""
        names = min(max(len(load.node) for load in self.scene.now.loads), 14)
        state = _SHORT_STATES.get(self.scene.states.get(now.node, ""), "")
        states = max((len(each) + 1 for each in _SHORT_STATES.values()), default=0) if self.scene.states else 0
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
        limits = self.scene.thresholds
        worst = max(load.cpu / limits.cpu, load.memory / limits.memory)
        return "red" if worst > 1 else "yellow" if worst > _WARM else "green"

    def _heat(self, label: str, loads: Sequence[NodeLoad]) -> list[Text]:
        """One character a node: its height and its colour are the node's use."""
        across = self.width - _LABEL
        lines = []
        for first in range(0, len(loads), across):
            line = Text(f"{label if not first else '':<{_LABEL}}", no_wrap=True, overflow="crop")
            for load in loads[first : first + across]:
                odd = self.scene.states.get(load.node) if label == "now" else None
                line.append(self._cell(load), "magenta" if odd else self._tint(load))
            lines.append(line)
        return lines

    def _cell(self, load: NodeLoad) -> str:
        cells = _CELLS if self.terminal.unicode else _PLAIN_CELLS
        return cells[max(0, min(int(load.cpu / 100 * len(cells)), len(cells) - 1))]

    def _histogram(self) -> list[Text]:
        """How many nodes are in each tenth of CPU, the highest first; only tenths that some node is in."""
        counts = [Counter(_tenth(load) for load in loads) for loads in (self._before(), self.scene.now.loads)]
        most = max(count for each in counts for count in each.values())
        digits = len(str(most))
        bar = max(_SHORTEST_BAR, min((self.width - 11 - 2 * (digits + 3)) // 2, 3 * _LONGEST_BAR))
        lines = []
        for tenth in range(_TENTHS - 1, -1, -1):
            if not any(each[tenth] for each in counts):
                continue
            label = "over 100%" if tenth == _TENTHS - 1 else f"{tenth * 10}-{tenth * 10 + 10}%"
            line = Text(f"{label:>10} ", no_wrap=True, overflow="crop")
            styles = ("dim", "red" if tenth * 10 >= self.scene.thresholds.cpu else "green")
            for each, style in zip(counts, styles, strict=True):
                line.append(f"{self._bar(each[tenth] * 100 / most, bar)} {each[tenth]:>{digits}}  ", style)
            lines.append(line)
        return lines


def _percent(number: float | None) -> str:
    return "    -" if number is None else f"{number:4.0f}%"


def _tenth(load: NodeLoad) -> int:
    return _TENTHS - 1 if load.cpu > 100 else min(int(load.cpu // 10), _TENTHS - 2)
