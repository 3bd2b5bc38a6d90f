"""The checkout as a release sees it: its files, its commit, and the time that its archives bear.

`dist` and `image` ask it. Files are those that git knows or would take (ignored ones are left out), so nothing that
happens to lie around gets into an archive. A tree without git, such as an unpacked sdist, is taken whole, and has to be
told its time.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parent.parent
VERSION_FILE = "src/rescheduler/__init__.py"
COMMIT_FILE = "src/rescheduler/commit.txt"


class ReleaseError(Exception):
    """Something is missing or wrong; the message says what, and the cure."""


def version(root: Path = ROOT) -> str:
    """The version, from the one place that has it."""
    found = re.search(r'^__version__ = "([^"]+)"$', (root / VERSION_FILE).read_text(encoding="utf-8"), re.MULTILINE)
    if found is None:
        raise ReleaseError(f'{VERSION_FILE}: there is no line `__version__ = "…"`')
    return found[1]


def has_git(root: Path = ROOT) -> bool:
    """Whether this is the top of a checkout, and git is there to ask."""
    return (root / ".git").exists() and shutil.which("git") is not None


def files(root: Path = ROOT) -> list[str]:
    """The files of the checkout, by their paths, sorted."""
    if has_git(root):
        listed = _git(root, "ls-files", "-z", "--cached", "--others", "--exclude-standard").split("\0")
    else:
        listed = [path.relative_to(root).as_posix() for path in root.rglob("*")]
        ignored = [line.strip("/") for line in (root / ".gitignore").read_text().split()] + ["PKG-INFO"]
        listed = [path for path in listed if not _matches(path, ignored)]
    return sorted({path for path in listed if path and (root / path).is_file()})


def commit(root: Path = ROOT) -> str:
    """The commit, with `-dirty` behind it where files differ from it; empty where nobody knows it.

    An sdist brings a file with it that says the commit.
    """
    if not has_git(root):
        return (root / COMMIT_FILE).read_text(encoding="ascii").strip() if (root / COMMIT_FILE).exists() else ""
    changed = _git(root, "status", "--porcelain").strip()
    return _git(root, "rev-parse", "HEAD").strip() + ("-dirty" if changed else "")


def epoch(root: Path = ROOT) -> int:
    """SOURCE_DATE_EPOCH if it is given, else the time of the last commit."""
    if given := os.environ.get("SOURCE_DATE_EPOCH"):
        return int(given)
    if not has_git(root):
        raise ReleaseError("this is no git checkout: say of what time the archives are with SOURCE_DATE_EPOCH=seconds")
    return int(_git(root, "log", "-1", "--format=%ct"))


def export(into: Path, root: Path = ROOT) -> None:
    """Copy the checkout's files, and nothing else."""
    for path in files(root):
        (into / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(root / path, into / path)


def _matches(path: str, patterns: list[str]) -> bool:
    """Whether a part of the path is ignored; our .gitignore has only names in it."""
    return any(fnmatch(part, pattern) for part in path.split("/") for pattern in patterns)


def _git(root: Path, *args: str) -> str:
    try:
        return subprocess.run(["git", *args], cwd=root, capture_output=True, text=True, check=True).stdout
    except FileNotFoundError as error:
        raise ReleaseError("git is needed, and is not on the PATH") from error
    except subprocess.CalledProcessError as error:
        raise ReleaseError(f"git {' '.join(args)} in {root}: {error.stderr.strip()}") from error
