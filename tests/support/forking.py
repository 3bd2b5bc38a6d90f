"""Processes that are forked from one that has imported the product: they start at once, and are real ones otherwise.

Importing the product takes a second of CPU, and hundreds of tests start it as a process of its own, to end it by
signals, to freeze it, or to have two of it. One server for each test process imports it once, and forks for each that
is wanted. Such a process has its own group, its own log and the environment of the test. The kernel kills it when the
server goes, and the server goes with the test process.
"""

from __future__ import annotations

import atexit
import functools
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from tests.testbed.tether import tie_to_parent

PRELOADED = (
    "rescheduler.app.controller",
    "rescheduler.app.controller",
    "rescheduler.app.controller",
    "rescheduler.cli.main",
    "rescheduler.cli.run",
    "tests.support.killing",
)
_starting = threading.Lock()


class ForkedProcess:
    """A process that runs a function with a command line, with the methods of `subprocess.Popen` that tests use."""

    def __init__(self, entry: str, args: Sequence[str], log: Path) -> None:
        self._status, theirs = socket.socketpair()
        request = {"entry": entry, "args": list(args), "environment": dict(os.environ), "folder": str(Path.cwd())}
        with theirs, log.open("ab") as output:
            _send(json.dumps(request).encode(), [theirs.fileno(), output.fileno()])
        self._answers = self._status.makefile("rb")
        self.pid = int(self._answers.readline())
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, negative for a signal; None while it runs."""
        return self._look(0.0)

    def wait(self, timeout: float | None = None) -> int:
        code = self._look(timeout)
        if code is None:
            raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0.0)
        return code

    def send_signal(self, signum: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, signum)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def _look(self, timeout: float | None) -> int | None:
        if self.returncode is None and select.select([self._status], [], [], timeout)[0]:
            self.returncode = int(self._answers.readline() or -signal.SIGKILL)  # without an answer, the server is gone
            self._answers.close()
            self._status.close()  # from here on its pid may be used again
        return self.returncode


def _send(request: bytes, files: list[int]) -> None:
    with _starting:
        server = _server()
        server.send(len(request).to_bytes(4, "big"))
        socket.send_fds(server, [request[:1]], files)
        server.sendall(request[1:])


@functools.cache
def _server() -> socket.socket:
    """The connection to this test process's server."""
    ours, theirs = socket.socketpair()
    with theirs:
        command = [sys.executable, "-m", __name__, str(theirs.fileno())]
        process = subprocess.Popen(
            command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, process_group=0
        )

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


def serve(requests: socket.socket) -> None:
    """Fork for each request, until the test process is gone. In a forked process this ends with its SystemExit."""
    for name in PRELOADED:
        importlib.import_module(name)
    gc.freeze()  # what is there now stays in pages that all processes share
    while size := requests.recv(4, socket.MSG_WAITALL):
        first, (status, log), _, _ = socket.recv_fds(requests, 1, 2)
        request = json.loads(first + requests.recv(int.from_bytes(size, "big") - 1, socket.MSG_WAITALL))
        if os.fork() == 0:
            requests.close()
            _supervise(request, socket.socket(fileno=status), log)
        os.close(status)
        os.close(log)
        _reap()


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass  # none is left


def _supervise(request: dict[str, Any], status: socket.socket, log: int) -> None:
    """Fork the process, and tell its pid and its exit code. Its pid stays taken until the test has read the code."""
    tie_to_parent(os.getppid())
    supervisor = os.getpid()
    pid = os.fork()
    if pid == 0:
        status.close()
        tie_to_parent(supervisor)
        _run(request, log)
    try:
        os.setpgid(pid, pid)
        status.sendall(b"%d\n" % pid)
        ended = os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
        assert ended is not None
        code = ended.si_status if ended.si_code == os.CLD_EXITED else -ended.si_status
        status.sendall(b"%d\n" % code)
        status.recv(1)
        os.waitpid(pid, 0)
    finally:
        os._exit(0)


def _run(request: dict[str, Any], log: int) -> NoReturn:
    """Become the process that is wanted, as if it had been started by its command line."""
    for stream in (1, 2):
        os.dup2(log, stream)
    os.close(log)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    module, _, function = request["entry"].partition(":")
    sys.argv = [module, *request["args"]]
    sys.exit(getattr(importlib.import_module(module), function)())


if __name__ == "__main__":
    serve(socket.socket(fileno=int(sys.argv[1])))
