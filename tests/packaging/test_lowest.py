"""The lower bounds of pyproject.toml are true: with the oldest packages that it allows, all imports and plans."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from release.tree import ROOT

from tests.packaging.once import made_once

EVERYTHING = """
import importlib, pkgutil, rescheduler
names = [each.name for each in pkgutil.walk_packages(rescheduler.__path__, "rescheduler.")]
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
print(len(names))
"""


@pytest.fixture(scope="module")
def oldest(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with the wheel and the oldest packages that it says it can do with."""

    def make(folder: Path) -> None:
        (wheel,) = dist.glob("*.whl")
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        install = [
            *(str(Path(sys.executable).parent / "uv"), "pip", "install", "--quiet", "--only-binary=:all:"),
            f"--python={folder / 'bin/python'}",
        ]
        for rest in (["--resolution=lowest-direct", "-r", str(ROOT / "pyproject.toml")], ["--no-deps", str(wheel)]):
            done = subprocess.run([*install, *rest], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr

    return made_once(tmp_path_factory, "oldest", make) / "bin"


def ran(folder: Path, *command: str) -> str:
    env = {"PATH": f"{folder}:{os.defpath}", "HOME": "/nonexistent", "KUBECONFIG": "/nonexistent"}
    program = [str(folder / command[0]), *command[1:]]
    done = subprocess.run(program, env=env, cwd="/", capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_module_imports(oldest: Path) -> None:
    assert int(ran(oldest, "python", "-c", EVERYTHING)) > 500


def test_the_example_is_planned(oldest: Path) -> None:
    plan = json.loads(ran(oldest, "rescheduler", "plan", "-f", str(ROOT / "examples/cluster.yaml"), "-o", "json"))
    assert plan["moves"]
