"""Real shells for the tests of completion: bash, zsh and fish of this machine, else of Debian's unpacked packages.

Nothing is installed: apt fetches a package once into the cache of the test bed, and the shell runs from there, told
where its own files are. Where that is impossible the test fails, and says what would help.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tests.testbed import TestbedUnavailable
from tests.testbed.debian import unpack
from tests.testbed.toolchain import cache_folder, hold_lock

PACKAGES = {"zsh": ("zsh", "zsh-common"), "fish": ("fish", "fish-common", "libpcre2-32-0")}


@dataclass(frozen=True)
class Shell:
    """A shell: its program, and what it has to be told before a script and in the environment to find its files."""

    program: Path
    preamble: str = ""
    env: Mapping[str, str] = field(default_factory=dict)

    def runs(self, script: str, *, path: str, home: Path) -> str:
        """What a script prints, with these programs on the PATH and no start-up files of anybody."""
        env = {"PATH": path, "HOME": str(home), "TERM": "dumb", "LC_ALL": "C.UTF-8", **self.env}
        options = {"zsh": ["-f"], "bash": ["--norc", "--noprofile"], "fish": ["--no-config"]}[self.program.name]
        command = [str(self.program), *options, "-c", self.preamble + script]
        done = subprocess.run(command, env=env, cwd=home, capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{self.program.name}: {done.stdout}{done.stderr}"
        assert done.stderr == ""
        return done.stdout


def shell(name: str) -> Shell:
    """The machine's, else the cached one, else that of the package, fetched now."""
    if found := shutil.which(name):
        return Shell(Path(found))
    if name not in PACKAGES:
        raise TestbedUnavailable(f"there is no {name} on the PATH: install it")
    cache = cache_folder()
    home = cache / f"shell-{name}"
    with hold_lock(cache / f"shell-{name}.lock"):
        if not home.exists():
            _unpack(PACKAGES[name], home)
    return _zsh(home) if name == "zsh" else _fish(home)


def _zsh(home: Path) -> Shell:
    (modules,) = home.glob("usr/lib/*/zsh/*")
    functions = " ".join(str(folder) for folder in (home / "usr/share/zsh/functions").rglob("*") if folder.is_dir())
    return Shell(home / "bin" / "zsh", f"module_path=({modules})\nfpath=({functions})\n")


def _fish(home: Path) -> Shell:
    (libraries,) = home.glob("usr/lib/*-linux-gnu*")
    return Shell(home / "usr" / "bin" / "fish", env={"LD_LIBRARY_PATH": str(libraries)})


def _unpack(packages: tuple[str, ...], home: Path) -> None:
    partial = home.with_name(f"{home.name}.partial")
    cure = f"Install the shell (`apt-get install {packages[0]}`), or make `apt-get download` work."
    unpack(packages, partial, cure)
    # Where fish is not at its usual place it looks for its files beside its program's folder.
    (partial / "tree" / "usr" / "etc").symlink_to("../etc")
    (partial / "tree").rename(home)
    shutil.rmtree(partial)
