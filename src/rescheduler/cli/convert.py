"""`rescheduler convert`: converts another tool's configuration, and lists what has no counterpart.

The configuration goes to stdout or a file. Remarks go to stderr, one line each: users have to know what is lost.
"""

from __future__ import annotations

from pathlib import Path

import click

from rescheduler.cli import messages
from rescheduler.cli.common import report_failures
from rescheduler.cli.lazy import config_loader
from rescheduler.cli.options import STDIN, command
from rescheduler.cli.output import plain

_FORMATS = ("yaml", "json")


@command("convert")
@click.option(
    "-f", "--filename", "file", metavar="FILE", required=True, help="The configuration to convert, or - for stdin."
)
@click.option("-o", "--output", metavar="FILE", default=STDIN, help="Output file; default, or with -: stdout.")
@click.option(
    "--strict", is_flag=True, help="Exit with 4 if anything has no counterpart; the output is written anyway."
)
def convert(file: str, output: str, *, strict: bool) -> None:
    """Convert the configuration of another tool into ours.

    Reads a DeschedulerPolicy of descheduler (v1alpha2), a DeschedulerConfiguration of koordinator, and a
    KubeSchedulerConfiguration with the plugin Rescheduler; also out of a ConfigMap, out of values of descheduler's
    chart, and among other documents. Prints an equivalent ReschedulerConfiguration, with comments where a value
    differs, and lists on stderr what has no counterpart. Unknown options are never dropped in a way that would move
    more pods.

    \b
    Examples:
      rescheduler convert -f policy.yaml > rescheduler.yaml
      kubectl get cm descheduler -n kube-system -o yaml | rescheduler convert -f - -o rescheduler.yaml
      helm get values descheduler -n kube-system --all -o yaml | rescheduler convert -f - -o rescheduler.yaml
      rescheduler convert -f policy.yaml --strict -o /dev/null
    """
    if output in _FORMATS:
        raise click.UsageError(f"-o names a file here, and it is YAML; for a file of this name: -o ./{output}")
    # Finding the strategies imports each of them, numpy included; `--help` and completion need none.
    from rescheduler.convert.convert import convert_text  # noqa: PLC0415 - as said above
    from rescheduler.strategies import settings_by_name  # noqa: PLC0415 - the same

    with report_failures():
        result = convert_text(config_loader.read_text(file), config_loader.source_name(file), settings_by_name())
    lost = [remark for remark in result.remarks if remark.is_loss]
    for text in lost:
        click.echo(f"warning: {plain(str(text))}", err=True)
    for remark in result.remarks:
        if not remark.is_loss:
            messages.note(str(remark))
    for note in result.notes:
        messages.note(note)
    if output == STDIN:
        messages.emit(result.text)
    else:
        try:
            Path(output).write_text(result.text, encoding="utf-8")
        except OSError as error:
            raise messages.CommandError(f"{output}: cannot be written: {error.strerror or error}") from None
    if strict and lost:
        raise click.exceptions.Exit(messages.REFUSED)
