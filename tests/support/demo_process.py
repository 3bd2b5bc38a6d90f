"""`rescheduler demo` as a process of its own, as a person starts it: in a pipe, or on a terminal.

Scenarios of the demo read what it prints, end it as people do, and ask here whether anything of it stayed. Its
temporary files go to a folder of the test, so that whatever it leaves is seen.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import signal
import socket
import struct
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import yaml

from tests.support.controller_process import PROGRAM

LONGEST = 600.0
SMALL = ("--nodes", "6", "--pods", "30", "--speed", "50")
SLOW = ("--nodes", "3", "--pods", "12", "--speed", "0.1")
"""Far from its goal for minutes."""
ROWS, COLUMNS = 24, 80
_CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


def ran(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """The command, when it has ended by itself."""
    return subprocess.run(
        [PROGRAM, "demo", *args], capture_output=True, text=True, check=False, timeout=LONGEST, env=_environment(folder)
    )


class Piped:
    """A running demo whose output is read from a pipe."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.kubeconfig = Path()
        self.page = ""
        self.lines: list[str] = []

    def says(self, text: str) -> str:
        """Read up to the first line with this text."""
        for line in self.process.stdout or ():
            self.lines.append(line)
            if line.startswith("kubectl: "):
                self.kubeconfig = Path(line.strip().partition("KUBECONFIG=")[2])
            if line.startswith("page: "):
                self.page = line.strip().removeprefix("page: ")
            if text in line:
                return line
        raise AssertionError(f"it ended without {text!r}: {self.lines}")

    def ports(self) -> list[int]:
        """Where it listens for people: the API server and the page."""
        config = yaml.safe_load(self.kubeconfig.read_text())
        urls = [config["clusters"][0]["cluster"]["server"], self.page]
        return [port for url in urls if (port := urlsplit(url).port)]

    def ended(self, number: signal.Signals) -> tuple[int, str]:
        """Its exit code and its last output, after a signal to end."""
        self.process.send_signal(number)
        rest, _ = self.process.communicate(timeout=LONGEST)
        return self.process.returncode, rest


@contextlib.contextmanager
def piped(folder: Path, *args: str) -> Iterator[Piped]:
    """It runs until the end of the block, at the latest."""
    with subprocess.Popen(
        [PROGRAM, "demo", *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=_environment(folder),
        # Shells let background jobs ignore Ctrl-C, and these tests may be one.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),  # noqa: PLW1509 - nothing else runs
    ) as process:
        try:
            yield Piped(process)
        finally:
            if process.poll() is None:
                process.kill()


class OnTerminal:
    """A running demo on a terminal of its own."""

    def __init__(self, process: subprocess.Popen[bytes], line: int) -> None:
        self.process = process
        self._line = line
        self.raw = ""

    def shows(self, text: str) -> None:
        """Read until the text was on the screen."""
        while text not in self.text():
            if not self._read():
                raise AssertionError(f"it ended without {text!r}: {self.text()[-2000:]}")

    def press(self, keys: bytes) -> None:
        os.write(self._line, keys)

    def close(self) -> None:
        """Close the terminal's window, if that is not done."""
        if self._line >= 0:
            os.close(self._line)
        self._line = -1

    def ended(self) -> int:
        """Its exit code, when it has ended; everything that it wrote until then is read."""
        while self._read():
            pass
        return self.process.wait(LONGEST)

    def text(self) -> str:
        """All that it has written, without colours and the like."""
        return _CODES.sub("", self.raw)

    def last_picture(self) -> list[str]:
        """The lines of the picture that it drew last."""
        whole = self.raw.rpartition("\x1b[?1049l")[0] or self.raw
        return [line.rstrip() for line in _CODES.sub("", whole.rpartition("\x1b[H")[2]).splitlines()]

    def _read(self) -> bool:
        try:
            found = os.read(self._line, 65536)
        except OSError:  # the last process that had the terminal has ended
            return False
        self.raw += found.decode(errors="replace")
        return bool(found)


@contextlib.contextmanager
def on_terminal(folder: Path, *args: str, **environment: str) -> Iterator[OnTerminal]:
    """It runs until the end of the block, at the latest."""
    line, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))

    def take_terminal() -> None:
        """Ctrl-C goes to the process group of the terminal."""
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)

    with subprocess.Popen(
        [PROGRAM, "demo", *args],
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
        start_new_session=True,
        env=_environment(folder) | {"TERM": "xterm-256color"} | environment,
        preexec_fn=take_terminal,  # noqa: PLW1509 - nothing else runs in it
    ) as process:
        os.close(terminal)
        demo = OnTerminal(process, line)
        try:
            yield demo
        finally:
            if process.poll() is None:
                process.kill()
            demo.close()


def is_listening(port: int) -> bool:
    """Whether a server answers at a port of loopback."""
    with socket.socket() as line:
        return line.connect_ex(("127.0.0.1", port)) == 0


def _environment(folder: Path) -> dict[str, str]:
    dropped = ("DISPLAY", "WAYLAND_DISPLAY", "COLUMNS", "LINES", "NO_COLOR", "KUBECONFIG")
    kept = {name: value for name, value in os.environ.items() if name not in dropped}
    return kept | {"TMPDIR": str(folder), "PYTHONUNBUFFERED": "1"}
