"""`rescheduler run` as a process of its own, as it runs in a cluster: started, watched, frozen, ended or killed.

End-to-end tests and the benchmark of moving start it on a cluster under test with a configuration file of theirs. It is
tethered to the test (`tests.testbed.processes`), so that none outlives it; what it says is in a log file, one JSON
object a line, and its end is shown when a test fails with it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import yaml

from rescheduler.model.json import Json
from tests.support.config_volumes import replace_file
from tests.support.forking import ForkedProcess
from tests.testbed.processes import Child, Process, StateNotReached, until
from tests.testbed.toolchain import last_lines

PROGRAM = Path(sys.executable).with_name("rescheduler")
SECONDS_TO_END = 90.0
LINES_SHOWN = 25
NOTHING_PLANNED = '"moves": 0, "rejections": 0'
"""Cycles without a move would hide the lines that explain a failure."""
QUICK: Mapping[str, Any] = {
    "reschedulingInterval": "1s",
    "minPodAge": "0s",
    "coolDown": "0s",
    "maxReschedulePods": "unlimited",
    "migration": {"evictionGracePeriod": "1s", "retryDelay": "1s", "maxRetryDelay": "2s"},
}
"""A policy under which everything happens at once."""
SHORT_LEASE: Mapping[str, str] = {"leaseDuration": "15s", "renewDeadline": "12s", "retryPeriod": "500ms"}
"""Long enough for a machine under load to renew in time, short enough to be waited for."""


def write_config(path: Path, lease_namespace: str, **fields: Any) -> Path:
    """A configuration file: the quick policy, with these fields over it."""
    document = {
        "apiVersion": "rescheduler.io/v1alpha1",
        "kind": "ReschedulerConfiguration",
        "leaderElection": {**SHORT_LEASE, "resourceNamespace": lease_namespace},
        **QUICK,
        **fields,
    }
    replace_file(path, yaml.safe_dump(document))  # a controller may be reading it
    return path


class Controller(Child):
    """One replica; leaving the block kills it, if it has not ended."""

    def __init__(self, kubeconfig: Path, config: Path, log: Path, *flags: str) -> None:
        args = ["run", "--kubeconfig", str(kubeconfig), "--config", str(config), "--log-format", "json", "-v", *flags]
        super().__init__(log.stem, PROGRAM, args, log)

    def _start(self, program: Path, args: Iterable[str]) -> Process:
        return ForkedProcess("rescheduler.cli.main:main", list(args), self.log)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        if error is not None:
            telling = "".join(line for line in self.log.read_text().splitlines(True) if NOTHING_PLANNED not in line)
            error.add_note(f"the end of {self.name}'s log:\n{last_lines(telling, LINES_SHOWN)}")

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def stop(self) -> int:
        """Asked to end, as Kubernetes asks; the answer is its exit code."""
        os.kill(self.pid, signal.SIGTERM)
        return self.ended()

    def freeze(self) -> None:
        """No instruction of it runs from now on, whatever its clock says when it goes on."""
        os.kill(self.pid, signal.SIGSTOP)
        until(f"{self.name} is stopped", self._is_stopped, [self])

    def _is_stopped(self) -> bool:
        _, _, after_name = Path(f"/proc/{self.pid}/stat").read_text().rpartition(") ")
        return after_name.startswith("T")

    def thaw(self) -> None:
        os.kill(self.pid, signal.SIGCONT)

    def ended(self) -> int:
        """The exit code, once it has ended by itself."""
        try:
            return self._process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired as error:
            raise StateNotReached(f"{self.name} has not ended after {SECONDS_TO_END:.0f} s") from error

    def said(self) -> list[Json]:
        """What it has logged, line by line; a line that is half written is left for the next time."""
        whole, _, _ = self.log.read_text(errors="replace").rpartition("\n")
        return [json.loads(line) for line in whole.splitlines() if line.startswith("{") and line.endswith("}")]
