"""Builds what is published: wheels, sdists, chart, SBOM and their sums, into dist/: `python -m release.dist`.

There are two distributions: the product, and the demo with the embedded cluster, from the folder demo/.

Everything is built twice, from two copies of the checkout in different folders, and compared: a release that is not the
same bytes twice is refused. The time in the archives is that of the last commit, hatchling is the one of the lock, and
only files of the checkout are copied, so whoever builds the same commit gets the same files.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from release import tree
from release.chart import chart_name, packed
from release.sbom import NAME, sbom_text
from release.tree import ROOT, ReleaseError

SUMS = "SHA256SUMS"
PROJECTS = (".", "demo")
"""The folders that have a pyproject.toml of their own."""


def build(root: Path, into: Path, seconds: int, commit: str) -> list[Path]:
    """Wheels and sdists of this tree, in this folder."""
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(seconds), "RESCHEDULER_COMMIT": commit}
    command = [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-t", "wheel", "-d", str(into)]
    for project in PROJECTS:
        folder = root / project
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
        if done.returncode:
            raise ReleaseError(f"hatchling could not build {folder}:\n{done.stdout}{done.stderr}")
    return sorted(into.iterdir())


def build_twice(into: Path, root: Path = ROOT) -> list[Path]:
    """Wheels, sdists, chart, SBOM and sums in this folder, whose older files go; refused if two builds differ."""
    seconds, commit = tree.epoch(root), tree.commit(root)
    with tempfile.TemporaryDirectory() as scratch:
        builds = [_build_copy(Path(scratch) / name, root, seconds, commit) for name in ("first", "and-the-second")]
        first, second = ({file.name: file.read_bytes() for file in files} for files in builds)
        if first != second:
            differing = sorted(name for name in {*first, *second} if first.get(name) != second.get(name))
            raise ReleaseError(f"two builds of the same files differ: {', '.join(differing)}")
    bill = f"{NAME}-{tree.version(root)}.cdx.json"
    made = {**first, bill: sbom_text(seconds, root).encode(), chart_name(root): packed(seconds, root)}
    made[SUMS] = "".join(f"{hashlib.sha256(made[name]).hexdigest()}  {name}\n" for name in sorted(made)).encode()
    shutil.rmtree(into, ignore_errors=True)
    into.mkdir(parents=True)
    for name, content in made.items():
        (into / name).write_bytes(content)
    return [into / name for name in sorted(made)]


def _build_copy(folder: Path, root: Path, seconds: int, commit: str) -> list[Path]:
    copy = folder / "checkout"
    tree.export(copy, root)
    return build(copy, folder / "dist", seconds, commit)


def main() -> int:
    """Build, and say what there is; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--into", type=Path, default=ROOT / "dist", help="the folder (default: dist)")
    into = parser.parse_args().into
    try:
        made = build_twice(into)
        commit = tree.commit()
    except ReleaseError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    for file in made:
        sys.stdout.write(f"{file.relative_to(Path.cwd()) if file.is_relative_to(Path.cwd()) else file}\n")
    sys.stderr.write(f"built twice from {commit or 'a tree without git'}, the same bytes both times\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
