"""The demo without a terminal: a line for everything that happens, and every few seconds one for how things stand.

An Audience of `app.demo`; `cli.demo` chooses between it and `demo_live`. Lines go to stdout and are never torn: each is
written whole.
"""

from __future__ import annotations

from collections.abc import Callable

from rescheduler.cli.output.terminal import plain
from rescheduler_demo import words
from rescheduler_demo.scene import Scene

_EVERY = 5.0  # seconds
Write = Callable[[str], None]


class PlainView:
    """Writes lines; `log` is told what is logged, `browse` where the page is."""

    def __init__(self, write: Write, log: Callable[[int, str], None], browse: Callable[[str], None]) -> None:
        self._write = write
        self._log = log
        self._browse = browse
        self._due = 0.0
        self._last = ""

    def show(self, scene: Scene) -> None:
        """How things stand, if it is time for that and something has changed."""
        if scene.elapsed < self._due:
            return
        self._due = scene.elapsed + _EVERY
        if (told := words.state(scene)) != self._last:
            self._last = told
            self.tell(scene.elapsed, f"{told}; {words.coming(scene)}")

    def tell(self, elapsed: float, line: str) -> None:
        """Something has happened."""
        self._write(f"{elapsed:6.1f}s  {plain(line)}\n")

    def log(self, level: int, line: str) -> None:
        """Something was logged."""
        self._log(level, line)

    def opened(self, address: str) -> None:
        """Where the page is."""
        self._write(f"page: {address}\n")
        self._browse(address)

    def connected(self, kubeconfig: str) -> None:
        """How to talk to the cluster."""
        self._write(f"kubectl: export KUBECONFIG={kubeconfig}\n")
