"""`rescheduler version`: prints the version, the commit of the build, and the platform.

`-o json` has what a bug report needs: beside the version the commit of the build, the interpreter, the platform, and
the installed versions of the packages that we require (a package that is missing is null). The commit comes from
`commit.txt` beside this package, which release/build_hook.py puts into wheels; a checkout has none.
"""

from __future__ import annotations

import platform
import re
from importlib import metadata, resources

import click

from rescheduler import __version__
from rescheduler.cli.messages import emit, verbose_option
from rescheduler.cli.output import FORMATS, format_document

DISTRIBUTION = "kube-rescheduler"
COMMIT_FILE = "commit.txt"


@click.command("version")
@click.option(
    "-o", "--output", type=click.Choice(FORMATS), help="Print it for programs, with everything that a bug report needs."
)
@verbose_option
def version(output: str | None) -> None:
    """Print the version."""
    found: dict[str, object] = {
        "version": __version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }
    if output is None:
        emit(f"rescheduler {found['version']} (python {found['python']}, {found['platform']})\n")
    else:
        emit(format_document({**found, "dependencies": _dependencies()}, output).encode())


def _commit() -> str | None:
    """Return the commit of the build; None if the build did not record it."""
    file = resources.files("rescheduler").joinpath(COMMIT_FILE)
    return file.read_text(encoding="ascii").strip() if file.is_file() else None


def _dependencies() -> dict[str, str | None]:
    """Return the installed version of each package that we require."""
    try:
        required = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:  # run from a folder of sources that was never installed
        return {}
    names = sorted({re.split(r"[^A-Za-z0-9._-]", line, maxsplit=1)[0] for line in required}, key=str.lower)
    return {name: _installed(name) for name in names}


def _installed(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None
