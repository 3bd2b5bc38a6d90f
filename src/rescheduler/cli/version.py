"""`rescheduler version`: which version this is, and what it runs on."""

from __future__ import annotations

import platform

import click

from rescheduler import __version__
from rescheduler.cli.messages import emit, verbose_option
from rescheduler.cli.output.documents import FORMATS, document_text


@click.command("version")
@click.option("-o", "--output", type=click.Choice(FORMATS), help="Print it for programs.")
@verbose_option
def version(output: str | None) -> None:
    """Print the version."""
    found = {
        "version": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }
    if output is None:
        emit(f"rescheduler {found['version']} (python {found['python']}, {found['platform']})\n")
    else:
        emit(document_text(found, output).encode())
