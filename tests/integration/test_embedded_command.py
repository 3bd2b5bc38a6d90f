"""`python -m kubemini`: one line starts a cluster that our commands work with, and nothing of it stays."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.cli import rescheduler
from tests.testbed.processes import until

COMMAND = [sys.executable, "-m", "kubemini"]


@pytest.fixture
def started() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command at work, and the path of the kubeconfig that it told."""
    process = subprocess.Popen(
        [*COMMAND, "--nodes", "3", "--pods", "30"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        # Shells let background jobs ignore Ctrl-C, and so may whoever runs these tests.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # noqa: PLW1509  nothing else runs in it
    )
    assert process.stdout
    with process.stdout as told:
        lines = [told.readline().strip() for _ in range(3)]
        yield process, lines[1].removeprefix("export KUBECONFIG=")
        process.terminate()
        process.wait()


def test_it_is_planned_like_any_cluster(started: tuple[subprocess.Popen[str], str]) -> None:
    _, kubeconfig = started

    def all_are_seen() -> bool:
        answer = rescheduler("plan", "--kubeconfig", kubeconfig, "-o", "json")
        # 30 pods of 100m on three nodes of 4 CPUs.
        return answer.code == 0 and answer.data["before"]["cpu"]["mean"] == 25.0

    until("all pods are on nodes", all_are_seen)


@pytest.mark.parametrize("signalled", [signal.SIGINT, signal.SIGTERM])
def test_it_ends_when_it_is_told_and_leaves_no_file(
    started: tuple[subprocess.Popen[str], str], signalled: signal.Signals
) -> None:
    process, kubeconfig = started
    assert Path(kubeconfig).stat().st_mode & 0o077 == 0
    process.send_signal(signalled)
    assert process.wait() == 0
    assert not Path(kubeconfig).parent.exists()
