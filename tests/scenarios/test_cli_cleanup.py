"""`rescheduler cleanup` asks before it undoes anything; what it undoes is in tests/contract/test_cleanup.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from rescheduler.cli import messages
from tests.support.cli import rescheduler

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: here
contexts: [{name: here, context: {cluster: here}}]
clusters: [{name: here, cluster: {server: "http://127.0.0.1:9"}}]
"""


@pytest.mark.parametrize("answer", ["", "n\n", "\n"])
def test_without_a_yes_nothing_is_undone_and_the_flag_is_named(tmp_path: Path, answer: str) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(KUBECONFIG)
    ran = rescheduler("cleanup", "--kubeconfig", str(file), stdin=answer)
    assert ran.code == messages.INTERRUPTED
    assert ran.said.splitlines()[-1] == "note: nothing is undone; --yes does not ask"
    assert not [line for line in ran.said.splitlines() if line.startswith("error")]
