"""Debian's packages without installing them: fetched by apt, and unpacked into a folder.

Prometheus and the shells come so. Where the machine's lists of packages are empty or old they are renewed, by root or
by a sudo that asks no password.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tests.testbed import TestbedUnavailable
from tests.testbed.toolchain import last_lines


def unpack(packages: Sequence[str], folder: Path, cure: str) -> list[Path]:
    """Each package's file, unpacked in `folder/tree`; the folder is emptied first; `cure` ends each error."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    download = ["apt-get", "download", *packages]
    try:
        _run(download, folder, cure)
    except TestbedUnavailable:
        if (before := _privilege_prefix()) is None:
            raise
        _run([*before, "apt-get", "update"], folder, cure)  # a fresh machine has no list of packages
        _run(download, folder, cure)
    files = sorted(folder.glob("*.deb"))
    for file in files:
        _run(["dpkg-deb", "-x", str(file), "tree"], folder, cure)
    return files


def _privilege_prefix() -> list[str] | None:
    """What stands before a command that only root may run; None without that right."""
    if os.geteuid() == 0:
        return []
    asked = ["sudo", "-n", "true"]
    if shutil.which("sudo") and not subprocess.run(asked, capture_output=True, check=False).returncode:
        return ["sudo", "-n"]
    return None


def _run(command: Sequence[str], folder: Path, cure: str) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    except FileNotFoundError as error:
        raise TestbedUnavailable(
            f"it is not on this machine, and there is no {command[0]} to fetch it. {cure}"
        ) from error
    if done.returncode:
        raise TestbedUnavailable(f"`{' '.join(command)}` failed:\n{last_lines(done.stderr, 5)}\n{cure}")
