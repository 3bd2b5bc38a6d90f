"""The demo on a terminal: one picture that changes in place, in the terminal's second screen.

An Audience of `app.demo`. Everything is drawn by the event loop's own thread, several times a second; nothing else
writes to the terminal meanwhile, because the log is heard and not written. At the end the first screen comes back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rich.console import Console, Group
from rich.live import Live

from rescheduler.cli.output.terminal import Terminal
from rescheduler_demo.frame import Billing, Frame
from rescheduler_demo.scene import Scene

_NEWS = 20


@dataclass(frozen=True, slots=True)
class Eyes:
    """Who looks on besides, and at how much of the log."""

    browse: Callable[[str], None]
    """Told the page's address."""
    log: Callable[[int, str], None]
    """Told what is logged."""
    left: Callable[[], None]
    """Told that the terminal has gone."""
    log_rows: int = 0


class LiveView:
    """Draws scenes between `with` and its end."""

    def __init__(self, console: Console, terminal: Terminal, billing: Billing, eyes: Eyes) -> None:
        self._console = console
        self._eyes = eyes
        self._gone = False
        self._terminal = terminal
        self._billing = billing
        self._news: deque[tuple[float, str]] = deque(maxlen=_NEWS)
        self._logged: deque[str] = deque(maxlen=eyes.log_rows)
        self._live = Live(console=console, screen=True, auto_refresh=False)

    def __enter__(self) -> Self:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError) if self._gone else nullcontext():
            self._live.stop()

    def show(self, scene: Scene) -> None:
        """Draw this moment."""
        frame = Frame(self._billing, scene, tuple(self._news), tuple(self._logged))
        size = self._console.size
        drawn = Group(*frame.lines(self._terminal, size.width, size.height))
        try:
            if not self._gone:
                self._live.update(drawn, refresh=True)
        except OSError:  # its window was closed
            self._gone = True
            self._eyes.left()

    def tell(self, elapsed: float, line: str) -> None:
        """Something has happened: it stands in the next picture."""
        self._news.append((elapsed, line))

    def log(self, level: int, line: str) -> None:
        """Something was logged: the same, if there is room for it."""
        self._logged.append(line.partition("\n")[0])
        self._eyes.log(level, line)

    def opened(self, address: str) -> None:
        """Where the page is."""
        self._billing = Billing(self._billing.scenario, self._billing.goal, address, self._billing.kubeconfig)
        self._eyes.browse(address)

    def connected(self, kubeconfig: str) -> None:
        """How to talk to the cluster."""
        self._billing = Billing(self._billing.scenario, self._billing.goal, self._billing.page, kubeconfig)
