"""`rescheduler cleanup`: undoes all changes in a cluster before an uninstall, with `app.uninstall`."""

from __future__ import annotations

from dataclasses import dataclass

import click

from rescheduler.cli import messages
from rescheduler.cli.common import connect, report_failures
from rescheduler.cli.options import AccessOptions, command, config_file, option
from rescheduler.cli.output import format_count


@dataclass(frozen=True, slots=True)
class CleanupOptions:
    """What is undone, and whether to ask first."""

    config: str | None = config_file("The controller's configuration, for the name of its Lease; - is standard input.")
    crds: bool = option("--crds", is_flag=True, help="Also remove the CustomResourceDefinition of PodMigration.")
    dry_run: bool = option("--dry-run", is_flag=True, help="Show what would be undone, and change nothing.")
    yes: bool = option("-y", "--yes", is_flag=True, help="Do not ask.")


@command("cleanup")
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
        live, config = connect(access, options.config)
        if options.dry_run:
            for line in live.run(preview, live, config, definition=options.crds):
                messages.emit_line(f"{line} (dry run)")
            return
        if not options.yes:
            _confirm()
        undone = live.run(clean_up, live, config, messages.emit_line, definition=options.crds)
    if undone.left:
        raise messages.CommandError("not everything could be undone; the migrations are kept:", *undone.left)
    things, removed = format_count(undone.things, "thing"), format_count(undone.migrations, "migration")
    messages.note(f"{things} put right, {removed} removed")


def _confirm() -> None:
    """Ask for confirmation. Without an answer, as in a script, nothing is done."""
    try:
        click.confirm("Undo all that rescheduler did in this cluster?", abort=True, err=True)
    except click.Abort:
        click.echo(err=True)  # the question's own line may still be open
        messages.note("nothing is undone; --yes does not ask")
        raise
