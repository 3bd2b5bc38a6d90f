"""docs/writing-a-configuration-field.md is true: a copy of the product with its two changes does what it says."""

from __future__ import annotations

import ast
import os
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.extending import of_language
from tests.docs.pages import ROOT
from tests.docs.shell import shown

PAGE = ROOT / "docs" / "writing-a-configuration-field.md"
SOURCE = ROOT / "src" / "rescheduler"


def statement_of(text: str, name: str) -> ast.AnnAssign:
    """The declaration of a field in the class Policy."""
    (policy,) = (each for each in ast.parse(text).body if isinstance(each, ast.ClassDef) and each.name == "Policy")
    fields = (each for each in policy.body if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name))
    (found,) = (each for each in fields if ast.unparse(each.target) == name)
    return found


@pytest.fixture(scope="module")
def changed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the changed product, examples and the page's configuration."""
    folder = tmp_path_factory.mktemp("changed")
    shutil.copytree(SOURCE, folder / "rescheduler", ignore=shutil.ignore_patterns("__pycache__", "page"))
    field, guard, _ = (each.text for each in of_language(PAGE, "python"))
    declared = field.splitlines()[statement_of(field, "max_pod_age").lineno - 1 :]
    policy = folder / "rescheduler" / "model" / "policy.py"
    lines = policy.read_text(encoding="utf-8").splitlines()
    end = statement_of("\n".join(lines), "min_pod_age").end_lineno
    policy.write_text("\n".join([*lines[:end], *declared, *lines[end:]]) + "\n", encoding="utf-8")
    (folder / "rescheduler" / "planning" / "guards" / "max_pod_age.py").write_text(guard, encoding="utf-8")
    (folder / "examples").symlink_to(ROOT / "examples")
    (folder / "old.yaml").write_text(of_language(PAGE, "yaml")[0].text, encoding="utf-8")
    return folder


def run(changed: Path, *args: str) -> str:
    """What Python prints with the changed product in front."""
    paths = os.pathsep.join([str(changed), str(ROOT)])
    command = [sys.executable, *args]
    env = {**os.environ, "PYTHONPATH": paths}
    return subprocess.run(
        command, cwd=changed, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    ).stdout


def test_its_commands_print_what_is_shown(changed: Path) -> None:
    (console,) = of_language(PAGE, "console")
    for each in shown(console):
        _, *words = shlex.split(each.command)
        assert run(changed, "-m", "rescheduler", *words) == each.output, each.place


def test_its_own_test_passes(changed: Path) -> None:
    code = of_language(PAGE, "python")[2].text
    assert run(changed, "-c", f"{code}\n\ntest_old_pods_stay()\nprint('passed')\n") == "passed\n"


def test_reference_schema_and_flag_come_from_the_declaration(changed: Path) -> None:
    reference = (
        "from docs.generating.configuration import configuration; from charts.config_schema import config_schema\n"
        "print([line for line in configuration().splitlines() if 'maxPodAge' in line][0])\n"
        "print(config_schema()[0]['properties']['maxPodAge']['type'])"
    )
    row, kind = run(changed, "-c", reference).splitlines()
    assert row == (
        "| `maxPodAge` | duration | `0s` | Older pods are left alone, as their caches are warm; 0s leaves none alone. |"
    )
    assert kind == "string"
    assert "--max-pod-age DURATION" in run(changed, "-m", "rescheduler", "plan", "--help")
    assert "maxPodAge: 12h" in run(changed, "-m", "rescheduler", "config", "show", "--config", "old.yaml")
