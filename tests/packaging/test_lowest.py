"""The lower bounds of pyproject.toml are true: with the oldest packages that it allows, all imports and plans."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from release.tree import ROOT

from tests.packaging.archives import DEMO_WHEEL, WHEEL
from tests.packaging.once import made_once

pytestmark = pytest.mark.release

EVERYTHING = """
import importlib, pkgutil, kubemini, rescheduler, rescheduler_demo
packages = (kubemini, rescheduler, rescheduler_demo)
names = [each.name for one in packages for each in pkgutil.walk_packages(one.__path__, f"{one.__name__}.")]
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
print(len(names))
"""


@pytest.fixture(scope="module")
def oldest(dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of an environment with both wheels and the oldest packages that they say they can do with."""

    def make(folder: Path) -> None:
        demo = tomllib.loads((ROOT / "demo" / "pyproject.toml").read_text(encoding="utf-8"))
        of_demo = demo["tool"]["hatch"]["metadata"]["hooks"]["custom"]["dependencies"]
        lowest = ["--resolution=lowest-direct", "-r", str(ROOT / "pyproject.toml"), *of_demo]
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
        install = [
            *(str(Path(sys.executable).parent / "uv"), "pip", "install", "--quiet", "--only-binary=:all:"),
            f"--python={folder / 'bin/python'}",
        ]
        for rest in (lowest, ["--no-deps", str(dist / WHEEL), str(dist / DEMO_WHEEL)]):
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
    assert int(ran(oldest, "python", "-c", EVERYTHING)) > 200


def test_the_example_is_planned(oldest: Path) -> None:
    plan = json.loads(ran(oldest, "rescheduler", "plan", "-f", str(ROOT / "examples/cluster.yaml"), "-o", "json"))
    assert plan["moves"]
