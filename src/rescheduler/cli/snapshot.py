"""`rescheduler snapshot`: records what `plan -f` reads, from the live cluster or from an existing dump.

The recording is made in a temporary file and copied when it is complete, so that a failure leaves neither half a file
nor half a stream behind.
"""

from __future__ import annotations

import gzip
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import click

from rescheduler.cli import messages
from rescheduler.cli.common import choose_source, report_failures, show_reading
from rescheduler.cli.lazy import app
from rescheduler.cli.options import STDIN, InputOptions, command, now_option, option

_KUBECTL_FORMATS = ("json", "yaml", "wide", "name", "table")


@dataclass(frozen=True, slots=True)
class SnapshotOptions:
    """The file, and the time."""

    output: str = option(
        "-o",
        "--output",
        metavar="FILE",
        default=STDIN,
        type=click.Path(),
        help="Output file, gzipped if the name ends with .gz. Default, or with -: standard output.",
    )
    now: float | None = now_option()


@command("snapshot")
def snapshot(inputs: InputOptions, options: SnapshotOptions) -> None:
    """Record a cluster for `plan -f`, without secrets.

    Leaves out everything that planning does not read: environment variables, commands, images, contents of volumes,
    annotations of other tools, managed fields, status messages. With -f, an existing dump is stripped in the same way;
    --now adds the time when it was taken, which dumps of kubectl lack.

    \b
    Examples:
      rescheduler snapshot > cluster.json
      rescheduler snapshot --context prod -o prod.json.gz
      rescheduler snapshot -f dump.yaml -o stripped.json
    """
    output = options.output
    if output in _KUBECTL_FORMATS:
        raise click.UsageError(f"-o names a file here, and recordings are JSON; for a file of this name: -o ./{output}")
    source = choose_source(inputs)
    with tempfile.TemporaryFile() as recording:
        with report_failures(), show_reading(source) as progress:
            recorder = app.record(source, recording, options.now, progress)
        recording.seek(0)
        if output == STDIN:
            _copy_to_stdout(recording)
        else:
            _copy_to_file(recording, output)
    messages.warn(sorted(set(recorder.warnings)))
    counts = ", ".join(f"{count} {kind}" for kind, count in sorted(recorder.counts.items()))
    messages.note(f"recorded {counts or 'nothing'}")


def _copy_to_stdout(recording: BinaryIO) -> None:
    while chunk := recording.read(1 << 20):
        messages.emit(chunk)


def _copy_to_file(recording: BinaryIO, output: str) -> None:
    try:
        with Path(output).open("wb") as file:
            if not output.endswith(".gz"):
                shutil.copyfileobj(recording, file)
                return
            # No name and no time in the header: the same cluster gives the same bytes.
            with gzip.GzipFile("", "wb", fileobj=file, mtime=0) as packed:
                shutil.copyfileobj(recording, packed)
    except OSError as error:
        raise messages.CommandError(f"{output}: cannot be written: {error.strerror or error}") from None
