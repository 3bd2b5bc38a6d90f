"""Builds the programs of a real control plane from their Go modules, once, into a cache folder outside the checkout.

`binaries(version)` is called by the fixtures and by `python -m tests.testbed`; `cluster` runs what it answers with.
What is built is pinned by `modules/**/go.mod` and `go.sum` (see `pins`), and the cache is keyed by version and by a
hash of those files, so a changed pin builds again and an unchanged one never does. A build happens beside its place
and is renamed into it, under a file lock: two runs at once wait for each other, and a killed one leaves nothing half
done.
"""

import hashlib
import os
import platform
import re
import selectors
import shutil
import subprocess
import sys
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.testbed import TestbedUnavailable, require_tool
from tests.testbed.toolchain import Go, cache_folder, go_for, hold_lock

MODULES = Path(__file__).parent / "modules"
DEFAULT_VERSION = "v1.37.1"
KUBERNETES_PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl")
SECONDS_BETWEEN_PROGRESS_LINES = 5.0


@dataclass(frozen=True)
class Component:
    """One Go module of ours, and the programs that are built from what it pins."""

    folder: Path
    module: str
    packages: Mapping[str, str]

    @property
    def version(self) -> str:
        pinned = re.search(rf"{re.escape(self.module)} (v\S+)", (self.folder / "go.mod").read_text())
        if pinned is None:
            raise TestbedUnavailable(f"{self.folder / 'go.mod'} does not require {self.module}")
        return pinned[1]

    @property
    def title(self) -> str:
        return f"{self.folder.relative_to(MODULES).parts[0]} {self.version}"

    def linker_flags(self) -> str:
        flags = "-s -w"
        if self.module == "k8s.io/kubernetes":  # without these it says v0.0.0-master, and clients believe it
            major, minor, _ = self.version.removeprefix("v").split(".")
            named = {"gitVersion": self.version, "gitMajor": major, "gitMinor": minor}
            flags += "".join(f" -X k8s.io/component-base/version.{name}={value}" for name, value in named.items())
        return flags

    def key(self) -> str:
        digest = hashlib.sha256(self.linker_flags().encode())
        for name in ("go.mod", "go.sum"):
            digest.update((self.folder / name).read_bytes())
        digest.update(" ".join(sorted(self.packages.values())).encode())
        machine = f"{sys.platform}-{platform.machine()}"
        return f"{self.title.replace(' ', '-')}-{machine}-{digest.hexdigest()[:12]}"


@dataclass(frozen=True)
class Binaries:
    """Where each program is."""

    version: str
    paths: Mapping[str, Path]

    def __getitem__(self, program: str) -> Path:
        return self.paths[program]


def versions() -> list[str]:
    """Every Kubernetes version that can be built, oldest first."""
    found = [folder.name for folder in (MODULES / "kubernetes").iterdir() if (folder / "go.sum").exists()]
    return sorted(found, key=lambda version: [int(part) for part in version.removeprefix("v").split(".")])


def binaries(version: str | None = None) -> Binaries:
    """The programs of this Kubernetes version, built now if they never were; TestbedUnavailable says why not."""
    require_tool("the real control plane or kubectl")
    version = version or os.environ.get("RESCHEDULER_TESTBED_VERSION")
    cache = cache_folder()
    kwok = Component(MODULES / "kwok", "sigs.k8s.io/kwok", {"kwok": "sigs.k8s.io/kwok/cmd/kwok"})
    if assets := os.environ.get("KUBEBUILDER_ASSETS"):
        given = _find_given(Path(assets), version)
        return given if "kwok" in given.paths else Binaries(given.version, {**given.paths, **built(kwok, cache)})
    version = version or DEFAULT_VERSION
    if version not in versions():
        raise TestbedUnavailable(f"Kubernetes {version} is not pinned here; there are: {', '.join(versions())}")
    kubernetes = Component(
        MODULES / "kubernetes" / version,
        "k8s.io/kubernetes",
        {program: f"k8s.io/kubernetes/cmd/{program}" for program in KUBERNETES_PROGRAMS},
    )
    etcd = Component(MODULES / "etcd", "go.etcd.io/etcd/server/v3", {"etcd": "go.etcd.io/etcd/server/v3"})
    paths: dict[str, Path] = {}
    for component in (etcd, kwok, kubernetes):  # the quick ones first: what is wrong shows early
        paths |= built(component, cache)
    return Binaries(version, paths)


def metrics_server() -> Path:
    """Upstream's metrics-server, built now if it never was; only the tests of measured usage run it."""
    require_tool("metrics-server")
    given = Path(os.environ.get("KUBEBUILDER_ASSETS", "")) / "metrics-server"
    if "KUBEBUILDER_ASSETS" in os.environ and os.access(given, os.X_OK):
        return given
    package = "sigs.k8s.io/metrics-server/cmd/metrics-server"
    component = Component(MODULES / "metrics-server", "sigs.k8s.io/metrics-server", {"metrics-server": package})
    return built(component, cache_folder())["metrics-server"]


def _find_given(assets: Path, version: str | None) -> Binaries:
    """What KUBEBUILDER_ASSETS points at. Parts of another version are not mixed in: only KWOK may be missing."""
    wanted = ("etcd", *KUBERNETES_PROGRAMS, "kwok")
    found = {program: assets / program for program in wanted if os.access(assets / program, os.X_OK)}
    if missing := [program for program in wanted if program not in found and program != "kwok"]:
        raise TestbedUnavailable(
            f"KUBEBUILDER_ASSETS={assets} has no {', '.join(missing)}: add them, or unset it to have all built"
        )
    said = subprocess.run([found["kube-apiserver"], "--version"], capture_output=True, text=True, check=False)
    has = said.stdout.strip().removeprefix("Kubernetes ")
    if said.returncode or not has:
        raise TestbedUnavailable(f"KUBEBUILDER_ASSETS={assets} has a kube-apiserver that does not run: {said.stderr}")
    if version not in (None, has):
        raise TestbedUnavailable(
            f"KUBEBUILDER_ASSETS={assets} has {has}, but {version} was asked for: unset one of them"
        )
    return Binaries(has, found)


def built(component: Component, cache: Path) -> dict[str, Path]:
    """Where the programs of a component are, built now if they never were."""
    home = cache / component.key()
    if not home.exists():
        try:
            with hold_lock(cache / f"{component.key()}.lock"):
                if not home.exists():  # another run may have built it while we waited
                    _build(component, cache, home)
        except OSError as error:
            raise TestbedUnavailable(f"the cache folder {cache} can't be used: {error}") from error
    return {program: home / program for program in component.packages}


def _build(component: Component, cache: Path, home: Path) -> None:
    go = go_for(component.folder, cache)
    partial = home.with_name(f"{home.name}.partial")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    started = time.monotonic()
    _say(f"building {component.title} with Go {'.'.join(map(str, go.version))}, once, into {home}")
    _go_build(go, component, partial)
    if len(component.packages) == 1:  # Go names a program after the last part of its package: etcd's would be `server`
        (program,) = component.packages
        next(partial.iterdir()).rename(partial / program)
    partial.rename(home)
    _say(f"built {component.title} in {time.monotonic() - started:.0f} s")


def _go_build(go: Go, component: Component, into: Path) -> None:
    """`-mod=readonly`: only what go.sum vouches for is compiled, whatever GOFLAGS says. `-v` names each package."""
    command = [
        *(str(go.command), "build", "-v", "-mod=readonly", "-trimpath", "-buildvcs=false"),
        *("-ldflags", component.linker_flags(), "-o", f"{into}/", *component.packages.values()),
    ]
    started = time.monotonic()
    with subprocess.Popen(command, cwd=component.folder, env=go.environment(), stderr=subprocess.PIPE) as build:
        try:
            said = _show_progress(build, component, started)
        except BaseException:
            build.kill()
            raise
    if build.returncode:
        raise TestbedUnavailable(f"{component.title} can't be built:\n" + "\n".join(said))


def _show_progress(build: subprocess.Popen[bytes], component: Component, started: float) -> deque[str]:
    """Shows progress until the build closes its stderr; returns what it said last, for an error message."""
    assert build.stderr is not None
    os.set_blocking(build.stderr.fileno(), False)
    said: deque[str] = deque(maxlen=20)
    packages = downloads = 0
    unfinished = b""
    shown = started
    with selectors.DefaultSelector() as selector:
        selector.register(build.stderr, selectors.EVENT_READ)
        while True:
            if selector.select(timeout=SECONDS_BETWEEN_PROGRESS_LINES):
                data = build.stderr.read()
                if data == b"":
                    return said
                *lines, unfinished = (unfinished + (data or b"")).split(b"\n")
                for line in (raw.decode(errors="replace") for raw in lines):
                    said.append(line)
                    downloads += line.startswith("go: downloading")
                    packages += " " not in line
            if time.monotonic() - shown >= SECONDS_BETWEEN_PROGRESS_LINES:
                shown = time.monotonic()
                counted = f"{downloads} modules fetched, {packages} packages compiled"
                _say(f"{component.title}: {counted}, {shown - started:.0f} s")


def _say(line: str) -> None:
    print(f"testbed: {line}", file=sys.stderr, flush=True)
