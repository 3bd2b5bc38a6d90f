"""One frame of the demo's live view: a Scene and the latest lines, as rich text that fits the window.

From above: what is played and where to look at it, how use is spread, the nodes, the moves, what comes next, what has
happened, and with -v what was logged. Nodes get what the others leave.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.text import Text

from rescheduler.cli.output.terminal import Terminal, plain
from rescheduler.model.migration import Phase
from rescheduler_demo import words
from rescheduler_demo.nodes import NodeRows
from rescheduler_demo.scene import Scene

_FEW, _SOME = 3, 6
_TALL = 30
"""Rows from which on there is room for more than the least."""


@dataclass(frozen=True, slots=True)
class Billing:
    """What is played, and where."""

    scenario: str
    goal: str
    page: str = ""
    kubeconfig: str = ""


@dataclass(frozen=True, slots=True)
class Frame:
    """What one frame is drawn from."""

    billing: Billing
    scene: Scene
    news: Sequence[tuple[float, str]] = ()
    """What has happened, the newest last."""
    logged: Sequence[str] = ()

    def lines(self, terminal: Terminal, width: int, height: int) -> list[Text]:
        """As many as the window has."""
        rows = _SOME if height >= _TALL else _FEW
        above = [*self._head(), *self._spread(terminal), Text()]
        below = [Text(), *self._moves(terminal, rows), self._coming(), *self._news(rows), *self._log(rows)]
        below.append(Text("Ctrl-C ends it, and nothing of it stays.", "dim"))
        room = height - len(above) - len(below)
        nodes = NodeRows(self.scene, terminal, width).lines(room)
        shown = [*above, *nodes, *below][:height]
        for line in shown:
            line.no_wrap, line.overflow = True, "crop"
            line.truncate(width, overflow="ellipsis" if terminal.unicode else "crop")
        return shown

    def _head(self) -> list[Text]:
        billing, scene = self.billing, self.scene
        first = Text(f"rescheduler demo: {billing.scenario}", "bold")
        first.append(f"  {words.clock(scene.elapsed)}  ", "cyan")
        # First that it is reached: a narrow window cuts the end.
        first.append("goal reached: " if scene.reached else "goal: ", "bold green" if scene.reached else "")
        first.append(billing.goal, "green" if scene.reached else "")
        page = Text("page      ", "dim").append(billing.page or "not open yet", "bold" if billing.page else "dim")
        kubectl = Text("kubectl   ", "dim").append(f"export KUBECONFIG={billing.kubeconfig}")
        return [first, page, kubectl]

    def _spread(self, terminal: Terminal) -> list[Text]:
        scene, lines = self.scene, []
        for name, said in words.spread(scene, terminal.arrow):
            lines.append(Text(f"{name:<10}", "dim").append(said, "bold"))
        hot = lines[-1]
        hot.append(f"   {len(scene.now.loads)} nodes, {scene.pods} pods", "dim")
        hot.append(f", {scene.pending} without a node" if scene.pending else "", "yellow")
        hot.append(f"   {words.kept(scene)}", "bold red" if scene.broken else "green")
        return lines

    def _moves(self, terminal: Terminal, rows: int) -> list[Text]:
        """As many lines each time, so that what is below does not jump."""
        moves = self.scene.moves
        lines = [Text("moves     ", "dim").append(words.moves(self.scene), "bold")]
        shown = [*moves.active[:rows], *moves.lately][:rows]
        for each in shown:
            failed = each.progress.phase is Phase.FAILED
            style = "red" if failed else "dim" if each.progress.over else ""
            lines.append(Text(f"  {words.move(each, terminal.arrow)}", style))
        return lines + [Text() for _ in range(rows + 1 - len(lines))]

    def _coming(self) -> Text:
        return Text("next      ", "dim").append(words.coming(self.scene), "cyan")

    def _news(self, rows: int) -> list[Text]:
        told = list(self.news)[-rows:]
        lines = [Text(f"  {words.clock(when):>5}  ", "dim").append(plain(line)) for when, line in told]
        return [Text() for _ in range(rows - len(lines))] + lines

    def _log(self, rows: int) -> list[Text]:
        return [Text(plain(line), "dim") for line in list(self.logged)[-rows:]]
