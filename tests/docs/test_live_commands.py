"""Commands that only look are run as pages show them, on an embedded cluster with a little in it.

They run in the order of the page and in one folder, so that a plan can be made of the snapshot that a line above took.
Left out is what needs more than a page can say: objects and contexts of the reader's cluster, files that are not there,
input from a pipe, and what watches until it is told to end.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest

from tests.docs.pages import PAGES, blocks, name_of
from tests.docs.shell import CommandLine, command_lines
from tests.docs.skipped import is_of_reader
from tests.support.cli import rescheduler
from tests.support.embedded import EmbeddedControlPlane
from tests.support.manifests import lease
from tests.support.migrations import pod_migrations
from tests.support.shell import PROGRAM

LOOKING = (
    ("plan",),
    ("snapshot",),
    ("migrations",),
    ("approve", "-A"),
    ("approve", "--list"),
    ("maintenance", "status"),
    ("config", "show"),
    ("crds",),
    ("version",),
    ("completion",),
    ("run", "--dry-run", "--once"),
)
WAITING = {"-w", "--watch", "--context", "-"}
WITH_FILES = {"-f", "--filename", "--config", "--merge", "--ca-file"}
TWIN = "README.zh-CN.md"  # it has the blocks of README.md, by tests/unit/test_docs.py
WELL = (0, 3)  # 3: plan --exit-code has something to say


def looking(page: Path) -> Iterator[CommandLine]:
    """The lines of a page that can be run."""
    for block in blocks(page):
        for line in command_lines(block) if block.language in ("bash", "sh") else ():
            ours = line.words[0] == "rescheduler" and not is_of_reader(line.place, " ".join(line.words))
            if ours and _looks(line.words[1:]):
                yield line


def _looks(words: tuple[str, ...]) -> bool:
    found = [words[len(each) :] for each in LOOKING if words[: len(each)] == each]
    names_an_object = any(after[:1] and not after[0].startswith("-") for after in found)
    return bool(found) and not names_an_object and not WAITING & set(words)


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedControlPlane]:
    with EmbeddedControlPlane() as embedded, pod_migrations(embedded):
        embedded.add_nodes(2)
        embedded.api.post(
            "/apis/coordination.k8s.io/v1/namespaces/default/leases",
            {"apiVersion": "coordination.k8s.io/v1", **lease("kube-rescheduler")},
        )
        yield embedded


@pytest.mark.parametrize("page", [page for page in PAGES if page.name != TWIN and any(looking(page))], ids=name_of)
def test_commands_that_look_run_as_they_are_shown(
    page: Path, cluster: EmbeddedControlPlane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(cluster.kubeconfig))
    monkeypatch.chdir(tmp_path)
    for line in looking(page):
        words = line.words[1:]
        files = [after for word, after in pairwise(words) if word in WITH_FILES]
        if all(Path(file).exists() for file in files):
            code, said = _run(words)
            assert code in WELL, f"{line.place}: {' '.join(words)}: {said}"


def _run(words: tuple[str, ...]) -> tuple[int, str]:
    """Exit code and messages; the controller is a process of its own, because it sets up logs and signals."""
    if words[0] == "run":
        process = subprocess.run([*PROGRAM, *words], capture_output=True, text=True, check=False)
        return process.returncode, process.stderr
    ran = rescheduler(*words)
    return ran.code, ran.said
