"""The image, where no engine runs: what the Dockerfile says, what it would be given, and its steps carried out here.

Its build stage is carried out in a folder, with the RUN lines as they stand; only the interpreter is this one. What
comes out must run, write nothing, and know what it was built from. `make image` builds the real one with an engine.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from release import image, tree
from release.tree import ROOT, ReleaseError

from rescheduler import __version__
from tests.packaging.dockerfile import Dockerfile, DryBuild, parsed, sent
from tests.packaging.once import made_once

pytestmark = pytest.mark.release

COMMIT = "0123456789abcdef0123456789abcdef01234567"
WRITES = """
import os, pkgutil, sys, importlib
wrote = []
def heed(event, args):
    if event == "open" and isinstance(args[2], int) and args[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        wrote.append(str(args[0]))
    elif event in ("os.mkdir", "os.rename", "os.remove", "os.symlink", "os.truncate", "tempfile.mkstemp"):
        wrote.append(f"{event} {args[0]}")
sys.addaudithook(heed)
import rescheduler
names = [each.name for each in pkgutil.walk_packages(rescheduler.__path__, "rescheduler.")]
for name in names:
    if not name.endswith("__main__"):
        importlib.import_module(name)
print(len(names), *wrote)
"""


@pytest.fixture(scope="module")
def ours() -> Dockerfile:
    return parsed((ROOT / "Dockerfile").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def built(ours: Dockerfile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that stands for the image's root, after the build stage; made once for all workers."""

    def make(folder: Path) -> None:
        # The cache is only for speed here, and an image has no use for it.
        changed = {"PIP_NO_CACHE_DIR": "", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
        given = {"SOURCE_DATE_EPOCH": "1700000000", "COMMIT": COMMIT}
        DryBuild(folder, ROOT, sent(ROOT, tree.files()), given, changed).carry_out(ours.stages[0])

    return made_once(tmp_path_factory, "image", make)


def program(built: Path, *args: str) -> subprocess.CompletedProcess[str]:
    """Run a program of the image, with an empty home and nothing of this checkout on its path."""
    name, *rest = args
    env = {"PATH": "/nowhere", "HOME": "/", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [str(built / "opt" / "rescheduler" / "bin" / name), *rest]
    return subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, check=False)


def test_both_stages_begin_with_the_same_base_of_an_exact_version(ours: Dockerfile) -> None:
    build, last = ours.stages
    assert build.base == last.base
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-[a-z]+", last.base)
    assert ours.arguments["PYTHON_DIGEST"] == ""


def test_the_user_is_a_number_and_not_root(ours: Dockerfile) -> None:
    (user,) = ours.stages[-1].all("USER")
    user_id, group_id = map(int, user.split(":"))  # Kubernetes' runAsNonRoot can only judge numbers
    assert min(user_id, group_id) >= 1000


def test_the_last_stage_copies_the_environment_and_installs_nothing(ours: Dockerfile) -> None:
    last = ours.stages[-1]
    assert last.all("COPY") == ["--from=build /opt/rescheduler /opt/rescheduler"]
    assert all("uninstall" in line for line in last.all("RUN"))
    assert json.loads(last.all("ENTRYPOINT")[0]) == ["/opt/rescheduler/bin/rescheduler"]
    assert last.pairs("ENV")["HOME"] == "/"


def test_labels_say_what_it_is_and_where_it_is_from(ours: Dockerfile) -> None:
    labels = ours.stages[-1].pairs("LABEL")
    prefix = "org.opencontainers.image."
    assert {name.removeprefix(prefix) for name in labels} == {
        *("title", "description", "url", "source", "licenses", "version", "revision")
    }
    assert labels[f"{prefix}licenses"] == "Apache-2.0"
    assert labels[f"{prefix}description"] in (ROOT / "pyproject.toml").read_text(encoding="utf-8")


def test_packages_come_from_the_lock_by_their_hashes_and_never_from_source(ours: Dockerfile) -> None:
    build = ours.stages[0]
    assert build.pairs("ENV")["PIP_ONLY_BINARY"] == ":all:"
    installs = [part for line in build.all("RUN") for part in line.split("&&") if "pip" in part and "install" in part]
    assert len(installs) == 3
    for line in installs:
        locked = "--require-hashes -r release/" in line
        assert locked or "--no-index --find-links /wheels kube-rescheduler" in line
        assert "--no-deps" in line


def test_the_engine_is_sent_what_is_copied_and_nothing_else(ours: Dockerfile) -> None:
    given = sent(ROOT, tree.files())
    sources = [word for line in ours.stages[0].all("COPY") for word in line.split()[:-1]]
    for path in given:
        assert any(path == source or path.startswith(f"{source}/") for source in sources), path
    for source in sources:
        assert any(path == source or path.startswith(f"{source}/") for path in given), source
    junk = [
        "src/rescheduler/__pycache__/x.pyc",
        "src/kubemini/store.py",
        "src/rescheduler_demo/command.py",
        ".venv/bin/python",
        "tests/conftest.py",
        ".git/config",
    ]
    assert sent(ROOT, [*junk, "src/kube_rescheduler.egg-info/PKG-INFO", "dist/x.whl"]) == []


@pytest.mark.release
def test_there_are_wheels_for_every_package_on_both_architectures(ours: Dockerfile) -> None:
    python = re.match(r"python:(3\.\d+)", ours.stages[0].base)
    assert python is not None
    for machine in ("x86_64", "aarch64"):
        command = [
            *(str(Path(sys.executable).parent / "uv"), "pip", "install", "--quiet", "--dry-run", "--only-binary=:all:"),
            *(f"--python-version={python[1]}", f"--python-platform={machine}-manylinux_2_28", "--no-deps"),
            *("--require-hashes", "--target=/nonexistent", "-r", str(ROOT / "release" / "runtime.lock")),
        ]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{machine}: {done.stderr}"


@pytest.mark.release
def test_what_the_steps_build_runs_and_knows_what_it_is(built: Path) -> None:
    said = program(built, "rescheduler", "version", "-o", "json")
    assert said.returncode == 0, said.stderr
    found = json.loads(said.stdout)
    assert (found["version"], found["commit"]) == (__version__, COMMIT)
    assert None not in found["dependencies"].values()
    helped = program(built, "rescheduler", "run", "--help")
    assert (helped.returncode, helped.stderr) == (0, "")
    assert helped.stdout.startswith("Usage: rescheduler run")


@pytest.mark.release
def test_the_environment_has_neither_pip_nor_tools_of_development_nor_the_demo(built: Path) -> None:
    there = {path.name for path in (built / "opt" / "rescheduler").glob("lib/python*/site-packages/*")}
    assert "rescheduler" in there
    assert not there & {"pip", "setuptools", "hatchling", "pytest", "mypy", "kubernetes", "playwright"}
    assert not there & {"kubemini", "rescheduler_demo", "jsonpatch.py", "jsonschema"}


@pytest.mark.release
def test_every_module_is_compiled_by_its_content_and_not_by_its_time(built: Path) -> None:
    (package,) = (built / "opt" / "rescheduler").glob("lib/python*/site-packages/rescheduler")
    sources = list(package.rglob("*.py"))
    compiled = list(package.rglob("*.pyc"))
    assert len(compiled) == len(sources)
    flags = {int.from_bytes(path.read_bytes()[4:8], "little") for path in compiled}
    assert flags == {0b01}  # PEP 552: by hash, and not checked at run time


@pytest.mark.release
def test_nothing_is_written_when_all_of_it_is_imported(built: Path) -> None:
    said = program(built, "python", "-c", WRITES)
    assert said.returncode == 0, said.stderr
    count, *wrote = said.stdout.split()
    assert int(count) > 200
    assert wrote == []


class TestWithAnEngine:
    """What `make image` does, told by what it runs."""

    def test_it_builds_and_runs_the_image_as_a_cluster_would(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("release.image.shutil.which", lambda name: f"/usr/bin/{name}")
        monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
        ran: list[list[str]] = []
        version = {"version": __version__, "commit": tree.commit() or None}
        answer = json.dumps({**version, "python": "3.13.9", "platform": "linux/x86_64"})

        def run(command: Sequence[str]) -> image.Said:
            ran.append(list(command))
            return image.Said(0, answer)

        told = image.build_and_run("kr:1", run)
        assert told == f"kr:1: rescheduler {__version__}, python 3.13.9, linux/x86_64"
        info, build, started = ran
        assert info == ["docker", "info"]
        assert "--build-arg=SOURCE_DATE_EPOCH=1700000000" in build
        assert "--read-only" in started
        assert started[-4:] == ["kr:1", "version", "-o", "json"]

    def test_what_the_engine_remarks_is_no_part_of_what_the_image_says(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        answer = {"version": __version__, "commit": tree.commit() or None, "python": "3.13.9", "platform": "linux/x"}
        engine = tmp_path / "docker"
        engine.write_text(f"#!/bin/sh\necho 'WARNING: no cgroups' >&2\necho '{json.dumps(answer)}'\n")
        engine.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
        assert image.build_and_run("kr:1", image.ran) == f"kr:1: rescheduler {__version__}, python 3.13.9, linux/x"

    def test_where_an_engine_fails_all_that_it_said_is_told(
        self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
    ) -> None:
        engine = tmp_path / "docker"
        engine.write_text('#!/bin/sh\n[ "$1" = info ] && exit 0\necho step 3\necho no space left >&2\nexit 1\n')
        engine.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        monkeypatch.setenv("SOURCE_DATE_EPOCH", "1700000000")
        with pytest.raises(ReleaseError, match=r"docker could not build the image:\nstep 3\nno space left"):
            image.build_and_run("kr:1", image.ran)

    def test_where_none_runs_it_says_so_and_builds_nothing(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("release.image.shutil.which", lambda name: name if name == "docker" else None)
        refused = image.Said(1, "Client: 1\nCannot connect to the Docker daemon\n")
        with pytest.raises(ReleaseError, match=r"docker does not answer: Cannot connect .* podman is not on the PATH"):
            image.build_and_run("kr:1", lambda command: refused)
