"""The archives as users have them: installed into clean environments, with the programs that pip puts onto the PATH."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest
from release import tree
from release.tree import ROOT

from rescheduler import __version__
from tests.testbed.binaries import binaries

pytestmark = pytest.mark.release
CLUSTER = str(ROOT / "examples" / "cluster.yaml")


@pytest.fixture(params=["from_wheel", "from_sdist"])
def programs(request: pytest.FixtureRequest) -> Path:
    """The folder of the installed programs."""
    folder: Path = request.getfixturevalue(request.param)
    return folder


def ran(folder: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """A program of the folder, in an environment that knows nothing of this checkout."""
    env = {"PATH": f"{folder}:{os.defpath}", "HOME": "/nonexistent", "KUBECONFIG": "/nonexistent"}
    program = binaries()["kubectl"] if args[0] == "kubectl" else folder / args[0]
    return subprocess.run([program, *args[1:]], env=env, cwd="/", capture_output=True, text=True, check=False)


def test_the_example_is_planned_as_the_checkout_plans_it(programs: Path) -> None:
    done = ran(programs, "rescheduler", "plan", "-f", CLUSTER, "-o", "json")
    assert done.returncode == 0, done.stderr
    plan = json.loads(done.stdout)
    assert plan["kind"] == "Plan"
    assert plan["moves"]


def test_it_says_which_version_and_commit_it_is(programs: Path) -> None:
    found = json.loads(ran(programs, "rescheduler", "version", "-o", "json").stdout)
    assert (found["version"], found["commit"]) == (__version__, tree.commit() or None)
    assert set(found) == {"version", "commit", "python", "implementation", "platform", "dependencies"}
    assert {"aiohttp", "numpy", "pydantic"} <= set(found["dependencies"])
    assert all(found["dependencies"].values())


def test_the_plugin_calls_itself_as_kubectl_does(programs: Path) -> None:
    assert ran(programs, "kubectl-rescheduler", "version").stdout.startswith(f"rescheduler {__version__} (python 3.")
    assert ran(programs, "kubectl-rescheduler", "plan", "--help").stdout.startswith("Usage: kubectl rescheduler plan")


def test_kubectl_finds_the_plugin_on_the_path(programs: Path) -> None:
    done = ran(programs, "kubectl", "rescheduler", "plan", "-f", CLUSTER, "-o", "name")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ran(programs, "rescheduler", "plan", "-f", CLUSTER, "-o", "name").stdout
    assert "pod/" in done.stdout


def test_without_the_demo_the_error_says_how_to_install_it(programs: Path) -> None:
    for args in ([], ["--once"], ["--help"]):
        done = ran(programs, "rescheduler", "demo", *args)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            "error: the command demo is not installed: it comes with kube-rescheduler-demo; "
            f"pip install kube-rescheduler-demo=={__version__}, or in a checkout: make setup\n"
        )
    assert "\n  demo  " in ran(programs, "rescheduler", "--help").stdout
    completed = complete(programs, "demo", "--")
    assert (completed.returncode, completed.stdout, completed.stderr) == (0, "plain,--help\n", "")
    there = {path.name for path in (programs.parent / "lib").glob("python*/site-packages/*")}
    assert not there & {"kubemini", "rescheduler_demo", "jsonpatch.py", "jsonschema"}


def test_with_the_demo_it_runs_and_its_flags_are_completed(with_demo: Path) -> None:
    done = ran(with_demo, "rescheduler", "demo", "--once", "--nodes", "3", "--pods", "12", "--speed", "50")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "balance: goal reached after " in done.stdout
    assert complete(with_demo, "demo", "--sc").stdout == "plain,--scenario\n"
    helped = ran(with_demo, "python", "-m", "kubemini", "--help")
    assert helped.returncode == 0, helped.stderr


def complete(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """What the program tells bash to complete the last word with."""
    typed = {"COMP_WORDS": " ".join(["rescheduler", *words]), "COMP_CWORD": str(len(words))}
    env = {"PATH": str(folder), "_RESCHEDULER_COMPLETE": "bash_complete", **typed}
    return subprocess.run([folder / "rescheduler"], env=env, cwd="/", capture_output=True, text=True, check=False)


def test_the_page_and_the_types_are_with_it(programs: Path) -> None:
    (package,) = (programs.parent / "lib").glob("python*/site-packages/rescheduler")
    assert (package / "py.typed").exists()
    page = {path.name for path in (package / "web" / "page").iterdir()}
    assert page == {path.name for path in (ROOT / "src" / "rescheduler" / "web" / "page").iterdir()}
