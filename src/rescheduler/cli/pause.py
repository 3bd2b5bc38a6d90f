"""`rescheduler pause` and `rescheduler resume`: no new moves start for a while.

`app.holds` finds the controller's ConfigMap and writes it; every replica sees it within seconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rescheduler.cli import messages
from rescheduler.cli.common import connect, report_failures, warn_if_absent
from rescheduler.cli.lazy import app_holds
from rescheduler.cli.options import AccessOptions, command, config_file, option
from rescheduler.model.time import format_instant

if TYPE_CHECKING:
    from rescheduler.kube.pause_state import PauseDetails


@dataclass(frozen=True, slots=True)
class PauseOptions:
    """The controller, and whether anything is changed."""

    namespace: str | None = option(
        "-n", "--namespace", metavar="NAMESPACE", help="The controller's namespace (default: that of its Lease)."
    )
    config: str | None = config_file()
    dry_run: bool = option("--dry-run", is_flag=True, help="Only show the current state, and change nothing.")


@command("pause")
@click.option("--reason", metavar="TEXT", default="", help="The reason, shown to others.")
def pause(access: AccessOptions, options: PauseOptions, reason: str) -> None:
    """Pause rescheduling: no new moves begin until `rescheduler resume`.

    Plans are made and shown, but not carried out. Moves that are ordered already wait; so do the emptying of nodes
    under maintenance and the rescheduling of failed pods. Moves under way are finished. The pause applies to all
    replicas, and survives a restart. Pausing again keeps the first pause.

    \b
    Examples:
      rescheduler pause --reason "network maintenance until noon"
      rescheduler pause --dry-run            is it paused, by whom, and why?
    """
    with report_failures():
        live, config = connect(access, options.config)
        place = app_holds.ControllerRef(live, config, options.namespace)
        done = live.run(app_holds.pause, place, reason, dry=options.dry_run)
        if not options.dry_run:
            warn_if_absent(live, config, "it holds as soon as one does")
    if done.pause is not None and not done.changed:
        messages.emit_line(f"paused already{_describe(done.pause)}")
        return
    if options.dry_run:
        messages.emit_line("not paused; it would be now (dry run)")
        return
    messages.emit_line(f"paused by {done.by}")
    messages.note("nothing new is begun in a few seconds; what has begun is finished. `rescheduler resume` goes on")


@command("resume")
def resume(access: AccessOptions, options: PauseOptions) -> None:
    """Resume after a pause.

    Plans are carried out again. Waiting moves begin, if they are still valid.

    \b
    Examples:
      rescheduler resume
    """
    with report_failures():
        live, config = connect(access, options.config)
        place = app_holds.ControllerRef(live, config, options.namespace)
        done = live.run(app_holds.resume, place, dry=options.dry_run)
        if done.changed and not options.dry_run:
            warn_if_absent(live, config, "nothing is moved until one does (`rescheduler run`)")
    if done.pause is None:
        messages.emit_line("not paused")
    elif options.dry_run:
        messages.emit_line(f"paused{_describe(done.pause)}; it would go on (dry run)")
    else:
        messages.emit_line(f"resumed; it was paused{_describe(done.pause)}")


def _describe(found: PauseDetails) -> str:
    by = f" by {found.by}" if found.by else ""
    since = f" since {format_instant(found.since)}" if found.since is not None else ""
    return f"{by}{since}" + (f": {found.reason}" if found.reason else "")
