"""The hosted workflows and the rules of the house: readable, of things that exist, with as few rights as can be."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from release.image import REPOSITORY
from release.lock import PYTHONS
from release.tree import ROOT

from rescheduler.model.json import Json

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
FORMS = sorted(path for path in (ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml") if path.name != "config.yml")
# Which job may write what; every other job only reads the repository.
MAY_WRITE = {
    ("release.yml", "image"): {"packages"},
    ("release.yml", "github"): {"contents"},
    ("release.yml", "pypi"): {"id-token"},
}
# The first major version of each action that declares Node 24: runners force older ones onto it, untried.
ON_NODE_24 = {
    "actions/cache": 5,
    "actions/checkout": 5,
    "actions/download-artifact": 7,
    "actions/setup-python": 6,
    "actions/upload-artifact": 6,
    "docker/build-push-action": 7,
    "docker/login-action": 4,
    "docker/setup-buildx-action": 4,
    "docker/setup-qemu-action": 4,
    "softprops/action-gh-release": 3,
}
IN_A_CONTAINER = {"pypa/gh-action-pypi-publish"}


def read(path: Path) -> Json:
    """With a loader for which `on` is a word, as it is for GitHub."""
    document: Json = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml.BaseLoader)
    return document


def jobs() -> list[tuple[str, str, Json]]:
    return [(path.name, name, job) for path in WORKFLOWS for name, job in read(path)["jobs"].items()]


def steps() -> list[tuple[str, Json]]:
    return [(f"{file}:{name}", step) for file, name, job in jobs() for step in job.get("steps", [])]


def targets() -> set[str]:
    """What make can be asked for."""
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    return set(re.findall(r"^([a-z][a-z-]*):", makefile, re.MULTILINE))


def test_there_are_both_workflows() -> None:
    assert [path.name for path in WORKFLOWS] == ["ci.yml", "release.yml"]


def test_all_tests_run_on_one_python_and_the_fast_ones_on_every_other_that_is_supported() -> None:
    found = read(ROOT / ".github/workflows/ci.yml")["jobs"]
    ran = {name: [step["run"] for step in found[name]["steps"] if "run" in step] for name in ("all", "test")}
    assert ran == {"all": [".ci/run"], "test": ["make test"]}
    (one,) = [
        step["with"]["python-version"] for step in found["all"]["steps"] if "setup-python" in step.get("uses", "")
    ]
    assert sorted([one, *found["test"]["strategy"]["matrix"]["python"]]) == sorted(PYTHONS)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    classified = [line.rsplit(" ", 1)[-1] for line in project["classifiers"] if "Python :: 3." in line]
    assert classified == list(PYTHONS)


def test_what_is_run_is_a_target_of_make_or_a_file_that_exists() -> None:
    ran = [(where, step["run"]) for where, step in steps() if "run" in step]
    assert len(ran) >= 5
    for where, line in ran:
        words = [word for word in shlex.split(line.split(">>")[0]) if not word.startswith("-")]
        if words[0] == "make":
            assert words[1:], where
            assert set(words[1:]) <= targets(), f"{where}: {line}"
        else:
            assert (ROOT / words[0]).is_file(), f"{where}: {line}"
            assert len(words) == 1, f"{where}: {line}"


def test_no_script_has_values_of_events_pasted_into_it() -> None:
    for where, step in steps():
        assert "${{" not in step.get("run", ""), where  # give them by `env`: a tag's name could be a command


def test_actions_are_pinned_by_their_major_version() -> None:
    uses = [step["uses"] for _, step in steps() if "uses" in step] + [
        job["uses"] for *_, job in jobs() if "uses" in job
    ]
    for each in uses:
        if each.startswith("./"):
            assert (ROOT / each).is_file()
        else:
            assert re.fullmatch(r"[\w-]+/[\w-]+@(v\d+|release/v\d+|[0-9a-f]{40})", each), each


def test_actions_are_made_for_the_node_that_runs_them() -> None:
    used = {step["uses"] for _, step in steps() if "uses" in step}
    for name, _, major in (each.partition("@v") for each in used if each.split("@")[0] not in IN_A_CONTAINER):
        assert int(major) >= ON_NODE_24[name], f"{name}@v{major}"


def test_jobs_may_read_and_write_only_what_they_publish() -> None:
    for path in WORKFLOWS:
        assert read(path)["permissions"] == {"contents": "read"}, path.name
    for file, name, job in jobs():
        writes = {what for what, how in job.get("permissions", {}).items() if how == "write"}
        assert writes == MAY_WRITE.get((file, name), set()), f"{file}: {name}"


def test_checkouts_leave_no_credentials_behind_and_jobs_end() -> None:
    for where, step in steps():
        if step.get("uses", "").startswith("actions/checkout@"):
            assert step["with"]["persist-credentials"] == "false", where
    for file, name, job in jobs():
        assert "uses" in job or int(job["timeout-minutes"]) <= 240, f"{file}: {name}"


def test_secrets_are_only_for_the_job_that_pushes_the_image() -> None:
    for path in WORKFLOWS:
        found = re.findall(r"secrets\.(\w+)", path.read_text(encoding="utf-8"))
        assert found == (["GITHUB_TOKEN"] if path.name == "release.yml" else []), path.name


def test_nothing_is_published_before_the_tag_and_the_tests_are_good() -> None:
    found = read(ROOT / ".github/workflows/release.yml")["jobs"]

    def before(name: str) -> set[str]:
        needed = found[name].get("needs", [])
        direct = {needed} if isinstance(needed, str) else set(needed)
        return direct.union(*map(before, direct))

    for _, name in MAY_WRITE:
        assert {"check", "test"} <= before(name), name
    assert found["test"]["uses"] == "./.github/workflows/ci.yml"
    assert "workflow_call" in read(ROOT / ".github/workflows/ci.yml")["on"]


def test_outputs_that_are_used_are_made() -> None:
    text = (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
    used = set(re.findall(r"needs\.check\.outputs\.(\w+)", text))
    assert used == set(re.findall(r"steps\.facts\.outputs\.(\w+)", text))
    assert used == set(read(ROOT / ".github/workflows/release.yml")["jobs"]["check"]["outputs"])
    assert used == set(re.findall(r'"(\w+)": ', (ROOT / "release/tag.py").read_text(encoding="utf-8")))


def test_the_image_has_one_name_everywhere() -> None:
    assert f"name={REPOSITORY}:" in (ROOT / ".github/workflows/release.yml").read_text(encoding="utf-8")
    values = yaml.safe_load((ROOT / "charts/kube-rescheduler/values.yaml").read_text(encoding="utf-8"))
    assert values["image"]["repository"] == REPOSITORY


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_issue_forms_have_what_github_asks_of_them(path: Path) -> None:
    form = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert {"name", "description", "body"} <= set(form)
    ids = [part["id"] for part in form["body"] if part["type"] != "markdown"]
    assert len(set(ids)) == len(ids)
    for part in form["body"]:
        assert part["type"] in {"markdown", "textarea", "input", "dropdown", "checkboxes"}
        assert "value" in part["attributes"] if part["type"] == "markdown" else "label" in part["attributes"]


def test_a_bug_report_asks_for_version_configuration_and_plan() -> None:
    text = (ROOT / ".github/ISSUE_TEMPLATE/bug.yml").read_text(encoding="utf-8")
    for command in ("rescheduler version -o json", "rescheduler config show", "rescheduler plan -o yaml"):
        assert command in text
    assert [path.stem for path in FORMS] == ["bug", "feature", "strategy"]


def test_every_hook_runs_a_tool_of_the_projects_own_environment() -> None:
    document = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    (repo,) = document["repos"]
    assert repo["repo"] == "local"
    assert {hook["language"] for hook in repo["hooks"]} == {"system"}  # anything else would be downloaded
    for hook in repo["hooks"]:
        program, *words = hook["entry"].split()
        assert program.startswith(".venv/bin/")
        assert (Path(program).name) in {"ruff", "mypy", "lint-imports", "python"}
        assert all((ROOT / word).is_file() for word in words if word.endswith(".py"))
    validate = [sys.executable, "-m", "pre_commit", "validate-config", str(ROOT / ".pre-commit-config.yaml")]
    assert subprocess.run(validate, check=False).returncode == 0
    check = (ROOT / "Makefile").read_text(encoding="utf-8").partition("\ncheck:")[2].partition("\n\n")[0]
    tools = {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in repo["hooks"]}
    assert {line.split()[0].removeprefix("$(BIN)/") for line in check.splitlines()[1:]} == tools


def test_the_house_is_open() -> None:
    for name in ("LICENSE", "SECURITY.md", "CODE_OF_CONDUCT.md", "CONTRIBUTING.md", "CHANGELOG.md"):
        assert (ROOT / name).stat().st_size > 500, name
    for name in ("dependabot.yml", "PULL_REQUEST_TEMPLATE.md", "ISSUE_TEMPLATE/config.yml"):
        assert (ROOT / ".github" / name).is_file()
