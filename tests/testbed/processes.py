"""One program of a control plane as a child process, and the waiting for a state of it.

`cluster` starts its programs through `Child`: each in a process group of its own (so that Ctrl-C reaches us and not
them), tethered to us (see `tether`), its output in a log file. `until` is the only way in which the test bed waits:
it asks for a state again and again, gives up at a deadline, and fails at once when a program that the state depends
on has ended.
"""

import contextlib
import itertools
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from tests.testbed.toolchain import last_lines

TETHER = Path(__file__).with_name("tether.py")
PORT_TAKEN = "address already in use"
TRIES = 5  # for a port that another program takes first
PORTS = range(15_000, 32_000)
"""Those that no kernel deals out by itself: neither to connections nor to servers that ask for any port."""
T = TypeVar("T")


class ProgramEnded(Exception):  # noqa: N818 - says what happened, as ProcessLookupError does
    """A program that should be running is not."""

    def __init__(self, name: str, code: int | None, log: Path) -> None:
        said = log.read_text(errors="replace")
        self.port_was_taken = PORT_TAKEN in said
        super().__init__(f"{name} ended with code {code}; the end of {log}:\n{last_lines(said)}")


class StateNotReached(Exception):  # noqa: N818 - the same
    """What we waited for did not come about in time."""


class Process(Protocol):
    """What a Child needs of `subprocess.Popen`, or of a process that was started in another way."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...


class Child:
    """A running program. Start it in a thread that lives as long as it shall: the tether is to that thread."""

    def __init__(self, name: str, program: Path, args: Iterable[str], log: Path) -> None:
        self.name = name
        self.log = log
        self._process = self._start(program, args)

    def _start(self, program: Path, args: Iterable[str]) -> Process:
        # -I -S: nothing of the environment, nothing of site: it starts in 10 ms and can't be led astray.
        tethered = [sys.executable, "-I", "-S", str(TETHER), str(os.getpid()), str(program), *args]
        with self.log.open("ab") as output:
            return subprocess.Popen(
                tethered, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, process_group=0
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def check(self) -> None:
        if self._process.poll() is not None:
            raise ProgramEnded(self.name, self._process.returncode, self.log)

    def kill(self) -> None:
        """At once: what these programs would tidy up is thrown away with their data folder anyway."""
        if self._process.poll() is None:  # else its pid may be someone else's by now
            os.killpg(self.pid, signal.SIGKILL)
        self._process.wait()


def until(
    what: str, ask: Callable[[], T | None], needs: Iterable[Child] = (), seconds: float = 120.0, every: float = 0.05
) -> T:
    """The first answer that is not None (nor False, nor empty)."""
    needs = tuple(needs)
    deadline = time.monotonic() + seconds
    while True:
        for child in needs:
            child.check()
        if answer := ask():
            return answer
        if time.monotonic() >= deadline:
            raise StateNotReached(f"waited {seconds:.0f} s in vain: {what}")
        time.sleep(every)


def listening(start: Callable[[int], Child], listens: Callable[[int], bool]) -> tuple[Child, int]:
    """A program that listens, and its port: started on a free one, and on another if that was taken."""
    for attempt in range(1, TRIES + 1):
        port = free_port()
        child = start(port)
        try:
            until(f"{child.name} listens", partial(listens, port), [child])
        except ProgramEnded as error:
            if not error.port_was_taken or attempt == TRIES:
                raise
        except BaseException:
            child.kill()
            raise
        else:
            return child, port
    raise AssertionError("the last try raises")


def free_port() -> int:
    """Free now. Someone may take it before it is used: see `listening`, or look at `ProgramEnded.port_was_taken`.

    That is rare: of PORTS, each process takes one after the other from a place of its own.
    """
    for _ in PORTS:
        port = next(_ports)
        with contextlib.suppress(OSError), socket.socket() as probe:
            probe.bind(("127.0.0.1", port))
            return port
    raise OSError(f"every port from {PORTS[0]} to {PORTS[-1]} is taken")


def _from(place: int) -> Iterator[int]:
    """All of PORTS again and again, beginning there."""
    return itertools.cycle([*PORTS[place:], *PORTS[:place]])


_ports = _from(os.getpid() * 7919 % len(PORTS))  # workers have pids in a row, and are to be far apart
