"""`rescheduler crds`: prints the CustomResourceDefinition, to install it by hand.

The controller installs it if it has the right to; otherwise an administrator pipes this to `kubectl apply -f -`.
"""

from __future__ import annotations

import click

from rescheduler.cli.messages import emit, verbose_option
from rescheduler.cli.output import FORMATS, format_document


@click.command("crds")
@click.option("-o", "--output", type=click.Choice(FORMATS), default="yaml", show_default=True, help="Output format.")
@verbose_option
def crds(output: str) -> None:
    """Print the CustomResourceDefinition of PodMigration.

    `rescheduler run` installs it if it has the right to. Otherwise an administrator does, with this.

    \b
    Examples:
      rescheduler crds | kubectl apply -f -     install or update it
      rescheduler crds | kubectl delete -f -    remove it, and with it all PodMigrations
    """
    from rescheduler.migration.crd import POD_MIGRATION  # noqa: PLC0415 - help and completion do without it

    emit(format_document(POD_MIGRATION, output).encode())
