"""Builds the image with the container engine of this machine, and runs it once: `python -m release.image`.

Docker or Podman, whichever answers first; where none does, it says so and ends with 1, and builds nothing. The image is
run as it would be in a cluster: root read-only, no capabilities, no network.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from release import tree
from release.tree import ROOT, ReleaseError

ENGINES = ("docker", "podman")
REPOSITORY = "ghcr.io/kube-rescheduler/kube-rescheduler"
HARDENED = ("--read-only", "--cap-drop=ALL", "--network=none", "--security-opt=no-new-privileges")


@dataclass(frozen=True)
class Said:
    """How a command ended, and what it printed: on stdout, and beside it what engines remark on stderr."""

    code: int
    text: str
    remarks: str = ""

    @property
    def all(self) -> str:
        """Everything, for whoever has to find out why it failed."""
        return self.text + self.remarks


Runner = Callable[[Sequence[str]], Said]


def engine(run: Runner) -> str:
    """The first engine that is there and answers."""
    reasons = []
    for name in ENGINES:
        if shutil.which(name) is None:
            reasons.append(f"{name} is not on the PATH")
            continue
        said = run([name, "info"])
        if said.code == 0:
            return name
        reasons.append(f"{name} does not answer: {(said.all.strip().splitlines() or ['it says nothing'])[-1]}")
    raise ReleaseError(
        f"no container engine runs here, so no image was built ({'; '.join(reasons)}). Start Docker or Podman. "
        "`pytest tests/unit/test_image.py` runs the steps of the Dockerfile without one."
    )


def build_command(name: str, tag: str) -> list[str]:
    """The command line that builds the image of this checkout."""
    given = {"SOURCE_DATE_EPOCH": tree.epoch(), "COMMIT": tree.commit(), "VERSION": tree.version()}
    arguments = [f"--build-arg={key}={value}" for key, value in given.items()]
    return [name, "build", *arguments, f"--tag={tag}", str(ROOT)]


def build_and_run(tag: str, run: Runner) -> str:
    """Build, run `version`, and compare; gives what is to be told."""
    name = engine(run)
    built = run(build_command(name, tag))
    if built.code:
        raise ReleaseError(f"{name} could not build the image:\n{built.all}")
    said = run([name, "run", "--rm", *HARDENED, tag, "version", "-o", "json"])
    if said.code:
        raise ReleaseError(f"the image was built, and `version` failed in it:\n{said.all}")
    found = json.loads(said.text)
    if (found["version"], found["commit"]) != (tree.version(), tree.commit() or None):
        raise ReleaseError(f"the image says {found['version']} of {found['commit']}, and this is another checkout")
    return f"{tag}: rescheduler {found['version']}, python {found['python']}, {found['platform']}"


def ran(command: Sequence[str]) -> Said:
    """Run it for real."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return Said(done.returncode, done.stdout, done.stderr)


def main() -> int:
    """Build, and say what there is; the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tag", default=f"{REPOSITORY}:{tree.version()}", help="the image's name")
    try:
        sys.stdout.write(f"{build_and_run(parser.parse_args().tag, ran)}\n")
    except ReleaseError as error:
        sys.stderr.write(f"error: {error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
