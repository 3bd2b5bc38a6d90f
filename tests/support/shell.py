"""The command line on a cluster under test: commands in this process, or in one of their own where signals matter.

Scenarios of commands that order moves use it. `driven` is what carries their orders out there: a thread that works on
every migration of a namespace with the product's own lifecycle, and no controller around it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any
from unittest import mock

from structlog.testing import capture_logs

from rescheduler.kube.client import ApiClient
from rescheduler.kube.connection import Impersonation
from rescheduler.kube.kubeconfig import KubeconfigOptions, load_connection
from rescheduler.kube.migrations import decode_migrations
from rescheduler.kube.objects import ObjectClient
from tests.support.both_clusters import ClusterUnderTest, Space
from tests.support.cli import Ran, rescheduler
from tests.support.migrations import Moves

PROGRAM = (sys.executable, "-m", "rescheduler")
_PAUSE = 0.02


class Shell:
    """Runs commands on one cluster."""

    def __init__(self, cluster: ClusterUnderTest) -> None:
        self._flags = ("--kubeconfig", str(cluster.kubeconfig))

    def run(self, *args: str, stdin: str = "") -> Ran:
        """However it ends."""
        return rescheduler(*args, *self._flags, stdin=stdin)

    def ok(self, *args: str, stdin: str = "") -> Ran:
        """It must end well."""
        ran = self.run(*args, stdin=stdin)
        assert ran.code == 0, ran.said
        return ran

    def refused(self, code: int, *args: str) -> str:
        """What it says when it ends with this exit code."""
        ran = self.run(*args)
        assert ran.code == code, (ran.code, ran.said)
        return ran.said

    @contextmanager
    def started(self, *args: str) -> Iterator[Running]:
        """As a process of its own, until the end of the block."""
        process = subprocess.Popen(
            [*PROGRAM, *args, *self._flags],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        with process:
            try:
                yield Running(process)
            finally:
                if process.poll() is None:
                    process.kill()


def clean_up(cluster: ClusterUnderTest, *flags: str) -> Ran:
    """Run `rescheduler cleanup` in this process, and leave the logging of this process as it is."""
    logger = logging.getLogger("rescheduler")
    level = logger.level
    try:
        with mock.patch("rescheduler.runtime.logs.configure"), capture_logs():
            return Shell(cluster).run("cleanup", *flags)
    finally:
        logger.setLevel(level)


class Running:
    """A command that is running."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def prints(self, text: str) -> str:
        """Read stdout up to the first line that has this text; gives that line."""
        return self._read(self._process.stdout, text)

    def says(self, text: str) -> str:
        """The same of stderr."""
        return self._read(self._process.stderr, text)

    def interrupt(self) -> tuple[int, str]:
        """Ctrl-C; gives its exit code and what it says in the end."""
        self._process.send_signal(signal.SIGINT)
        _, said = self._process.communicate(timeout=120)
        return self._process.returncode, said

    def hang_up(self) -> None:
        """Close the reader of stdout, as `head` does."""
        assert self._process.stdout is not None
        self._process.stdout.close()

    def ended(self) -> int:
        """Its exit code, when it has ended by itself."""
        return self._process.wait(timeout=120)

    def _read(self, stream: Any, text: str) -> str:
        lines = []
        for line in stream:
            lines.append(line)
            if text in line:
                return str(line)
        raise AssertionError(f"it ended without {text!r}: {lines}")


@contextmanager
def meanwhile(act: Callable[[], None]) -> Iterator[None]:
    """Do something in another thread while the block waits for it."""
    with ThreadPoolExecutor(1) as pool:
        acting = pool.submit(act)
        yield
        acting.result()


@contextmanager
def driven(space: Space) -> Iterator[None]:
    """Carry out what is ordered in the namespace, until the end of the block."""
    stop = threading.Event()
    failures: list[BaseException] = []
    connection = load_connection(KubeconfigOptions(space.cluster.kubeconfig, None, Impersonation("", ())), os.environ)

    async def waiting() -> list[str]:
        async with ApiClient(connection) as client:
            found = decode_migrations(await ObjectClient(client).list_all("PodMigration", space.name))
        return [each.name for each in found if not each.status.over]

    def work() -> None:
        try:
            while not stop.wait(_PAUSE):
                for name in asyncio.run(waiting()):
                    Moves(space).drive(name)
        except BaseException as failure:  # noqa: BLE001 - it is raised again where it is seen
            failures.append(failure)

    thread = threading.Thread(target=work, name="driver")
    with capture_logs():  # else they would stand in what the command prints
        thread.start()
        try:
            yield
        finally:
            stop.set()
            thread.join()
    if failures:
        raise failures[0]
