"""Checks a release's tag: `python -m release.tag v1.2.3` passes where tag, version and CHANGELOG say the same.

The release workflow asks it before it builds anything. Every mistake is told at once, with its cure. Without a tag it
tells what is built: version, commit, time.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

from release import tree
from release.tree import ROOT, VERSION_FILE, ReleaseError

CHANGELOG = "CHANGELOG.md"
_RELEASED = re.compile(r"^## \[(?P<version>[^\]]+)\] - \d{4}-\d{2}-\d{2}$", re.MULTILINE)


def complaints(tag: str, root: Path = ROOT) -> list[str]:
    """What is wrong with releasing this tag; nothing where all is well."""
    if not tag:
        return ["say which tag: make release-check TAG=v1.2.3"]
    version = tree.version(root)
    found = []
    if not re.fullmatch(r"v\d+\.\d+\.\d+((a|b|rc)\d+)?", tag):
        found.append(f"the tag {tag} is not of the form v1.2.3 or v1.2.3rc1")
    if tag != f"v{version}":
        found.append(f"the tag is {tag}, and {VERSION_FILE} has {version}: they have to be the same")
    released = _RELEASED.search((root / CHANGELOG).read_text(encoding="utf-8"))
    if released is None:
        found.append(f"{CHANGELOG} has no heading of a release: add `## [{version}] - year-month-day`")
    elif released["version"] != version:
        found.append(f"the newest release of {CHANGELOG} is {released['version']}, and {VERSION_FILE} has {version}")
    return found


def facts() -> str:
    """What a build has to be told, a line each, as workflows pass it from job to job."""
    version = tree.version()
    before = "false" if re.fullmatch(r"[\d.]+", version) else "true"
    found = {"version": version, "commit": tree.commit(), "epoch": tree.epoch(), "prerelease": before}
    return "".join(f"{key}={value}\n" for key, value in found.items())


def main() -> int:
    """Say what is wrong; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("tag", nargs="?", help="such as v1.2.3; without one, what is built is told, a line a fact")
    tag = parser.parse_args().tag
    try:
        if tag is None:
            sys.stdout.write(facts())
            return 0
        found = complaints(tag)
    except (ReleaseError, OSError) as error:
        found = [str(error)]
    for line in found:
        sys.stderr.write(f"error: {line}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
