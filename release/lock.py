"""requirements.lock, read; and the parts of it that the image and the build of a wheel need.

    python -m release.lock            write release/runtime.lock and release/build.lock
    python -m release.lock --check    write nothing; exit 1 where one is out of step

The lock has the packages of development, too, and does not say who needs whom. That is asked of the packages, as they
are installed here: what can be needed on any supported Python and platform counts. Entries are taken over unchanged,
so versions and hashes are the lock's. `sbom` asks for the same entries and edges.
"""

from __future__ import annotations

import argparse
import re
import sys
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import metadata
from itertools import product
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from release.tree import ROOT, ReleaseError

LOCK = "requirements.lock"
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
PLATFORMS = (("linux", "Linux", "posix"), ("darwin", "Darwin", "posix"), ("win32", "Windows", "nt"))
_HEADER = "# Made from requirements.lock by `python -m release.lock`: {what}. Change that one, and run it again.\n"
_ENTRY = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)(?: ; ([^\\]+?))? \\\n((?:    --hash=[^\n]+\n?)+)", re.MULTILINE)


@dataclass(frozen=True)
class Entry:
    """One package of the lock."""

    name: str
    version: str
    marker: str
    hashes: tuple[str, ...]
    text: str


Lock = dict[str, tuple[Entry, ...]]


@dataclass(frozen=True)
class Part:
    """A part of the lock: where it is kept, what it is, and which packages it begins with."""

    path: str
    what: str
    roots: tuple[str, ...]


def entries(root: Path = ROOT) -> Lock:
    """Every package of the lock by its name; some have an entry for older Pythons and one for newer ones."""
    text = (root / LOCK).read_text(encoding="utf-8")
    found: dict[str, list[Entry]] = {}
    for match in _ENTRY.finditer(text):
        hashes = tuple(re.findall(r"--hash=(sha256:[0-9a-f]{64})", match[4]))
        entry = Entry(canonicalize_name(match[1]), match[2], (match[3] or "").strip(), hashes, f"{match[0].rstrip()}\n")
        found.setdefault(entry.name, []).append(entry)
    lines = sum("==" in line and not line.startswith((" ", "#")) for line in text.splitlines())
    understood = sum(map(len, found.values()))
    if lines != understood:
        raise ReleaseError(f"{LOCK}: {lines} packages, of which {understood} were understood")
    return {name: tuple(each) for name, each in found.items()}


def parts(root: Path = ROOT) -> list[Part]:
    """What is kept apart: from pyproject.toml."""
    document = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))
    return [
        Part("release/runtime.lock", "what the product needs to run", _names(document["project"]["dependencies"])),
        Part("release/build.lock", "what builds its wheel", _names(document["build-system"]["requires"])),
    ]


def closure(roots: Iterable[str], lock: Lock) -> list[Entry]:
    """These packages and all that they can need, in the order of their names."""
    found: set[str] = set()
    waiting = list(roots)
    while waiting:
        name = waiting.pop()
        if name not in lock:
            raise ReleaseError(f"{name} is needed, and not in {LOCK}: run `make lock`")
        if name not in found:
            found.add(name)
            waiting += needs(name, lock)
    return [entry for name in sorted(found) for entry in lock[name]]


def needs(name: str, lock: Lock) -> list[str]:
    """The packages that this one can need, by name; what is for another platform is not installed here and has none."""
    try:
        installed = metadata.distribution(name)
    except metadata.PackageNotFoundError:
        if all(entry.marker for entry in lock[name]):
            return []
        raise ReleaseError(f"{name} is not installed here: run `make setup`") from None
    if installed.version not in {entry.version for entry in lock[name]}:
        raise ReleaseError(f"{name} {installed.version} is installed, and not in {LOCK}: run `make setup`")
    asked = (Requirement(line) for line in installed.requires or [])
    return sorted({canonicalize_name(each.name) for each in asked if _can_count(each)} & lock.keys())


def wanted(root: Path = ROOT) -> Iterator[tuple[str, str]]:
    """Each part by its path, and the text that it should have."""
    lock = entries(root)
    for part in parts(root):
        chosen = closure(part.roots, lock)
        yield part.path, _HEADER.format(what=part.what) + "".join(entry.text for entry in chosen)


def _names(requirements: Iterable[str]) -> tuple[str, ...]:
    return tuple(canonicalize_name(Requirement(line).name) for line in requirements)


def _can_count(requirement: Requirement) -> bool:
    """Whether it holds on some supported Python and platform; extras are not asked for."""
    marker = requirement.marker
    return marker is None or any(marker.evaluate(dict(environment)) for environment in _environments())


@cache
def _environments() -> list[dict[str, str]]:
    found = []
    for python, (platform, system, name) in product(PYTHONS, PLATFORMS):
        found.append(
            {
                "extra": "",
                "python_version": python,
                "python_full_version": f"{python}.0",
                "sys_platform": platform,
                "platform_system": system,
                "os_name": name,
                "platform_python_implementation": "CPython",
                "implementation_name": "cpython",
            }
        )
    return found


def main() -> int:
    """Write or check; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--check", action="store_true", help="only say what is out of step")
    check = parser.parse_args().check
    try:
        texts = dict(wanted())
    except ReleaseError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    stale = [path for path, text in texts.items() if not (ROOT / path).exists() or (ROOT / path).read_text() != text]
    for path in stale:
        if check:
            sys.stderr.write(f"{path} is not what {LOCK} says: run `python -m release.lock`\n")
        else:
            (ROOT / path).write_text(texts[path], encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
