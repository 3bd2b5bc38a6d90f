"""`rescheduler cleanup`: undoes all changes in a cluster before an uninstall, with `app.uninstall`."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import click

from rescheduler.cli import messages
from rescheduler.cli.common import live_cluster, report_failures
from rescheduler.cli.lazy import app
from rescheduler.cli.options import AccessOptions, access_options, group_options, option
from rescheduler.cli.output.terminal import plain


@dataclass(frozen=True, slots=True)
class CleanupOptions:
    """What is undone, and whether to ask first."""

    config: str | None = option(
        "--config",
        metavar="FILE",
        type=click.Path(),
        help="The controller's configuration, for the name of its Lease; - is standard input.",
    )
    crds: bool = option("--crds", is_flag=True, help="Also remove the CustomResourceDefinition of PodMigration.")
    dry_run: bool = option("--dry-run", is_flag=True, help="Show what would be undone, and change nothing.")
    yes: bool = option("-y", "--yes", is_flag=True, help="Do not ask.")


@click.command("cleanup", epilog=messages.EXIT_CODES)
@access_options
@group_options("options", CleanupOptions)
@messages.verbose_option
def cleanup(access: AccessOptions, options: CleanupOptions) -> None:
    """Undo all changes in the cluster, before an uninstall.

    Moves under way are rolled back. Copies, temporary disruption budgets, pauses, preferences, deletion costs, marks
    and cordons of ours are taken back, also the trace of finished moves on pods; the webhook's registration and
    certificates, the PodMigrations and the Lease are deleted. Whatever is not marked as ours is left alone. Stop the
    controller first: while it holds its Lease, nothing is done.

    \b
    Examples:
      rescheduler cleanup --dry-run        what there is to undo
      rescheduler cleanup --yes --crds     without asking, and the CustomResourceDefinition, too
    """
    from rescheduler.app.uninstall import clean_up, preview  # noqa: PLC0415 - it takes a while to import
    from rescheduler.runtime.logs import LogFormat, configure  # noqa: PLC0415 - the same

    configure(LogFormat.TEXT, verbose=messages.verbose(), quiet=True)  # stdout has what is undone
    with report_failures():
        config = app.load_configuration(options.config, {})
        live = live_cluster(access, config.fields.client_connection.kubeconfig)
        if options.dry_run:
            for line in asyncio.run(preview(live, config, definition=options.crds)):
                _say(f"{line} (dry run)")
            return
        if not options.yes:
            _confirm()
        undone = asyncio.run(clean_up(live, config, _say, definition=options.crds))
    if undone.left:
        raise messages.CommandError("not everything could be undone; the migrations are kept:", *undone.left)
    removed = f"{undone.migrations} migration{'' if undone.migrations == 1 else 's'} removed"
    things = f"{undone.things} thing{'' if undone.things == 1 else 's'} put right"
    messages.note(f"{things}, {removed}")


def _say(line: str) -> None:
    messages.emit(plain(line) + "\n")


def _confirm() -> None:
    """Ask for confirmation. Without an answer, as in a script, nothing is done."""
    try:
        click.confirm("Undo all that rescheduler did in this cluster?", abort=True, err=True)
    except click.Abort:
        click.echo(err=True)  # the question's own line may still be open
        messages.note("nothing is undone; --yes does not ask")
        raise
