"""`rescheduler approve`: shows, approves or rejects moves that wait for approval (`approval: required`).

`app.holds` finds the moves and writes the approval; the controller then starts them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rescheduler.cli import messages
from rescheduler.cli.common import connect, report_failures, warn_if_absent
from rescheduler.cli.lazy import app_holds, kube_migrations
from rescheduler.cli.options import (
    AccessOptions,
    command,
    config_file,
    no_headers_option,
    option,
    output_option,
)
from rescheduler.cli.output import FORMATS, RESOURCE, Table, Terminal, age, format_count, format_document, plain
from rescheduler.model.migration import PodMigration

if TYPE_CHECKING:
    from rescheduler.kube.migrations import ApprovalResult


@dataclass(frozen=True, slots=True)
class ApproveOptions:
    """The moves, the decision, and the output."""

    namespace: str | None = option("-n", "--namespace", metavar="NAMESPACE", help="Only moves in this namespace.")
    all_namespaces: bool = option("-A", "--all-namespaces", is_flag=True, help="Moves in all namespaces.")
    everything: bool = option("--all", is_flag=True, help="Decide on all waiting moves.")
    listing: bool = option("--list", is_flag=True, help="Only list waiting moves; the default without a name.")
    rejects: bool = option("--reject", is_flag=True, help="Reject instead: the moves are dropped.")
    dry_run: bool = option("--dry-run", is_flag=True, help="Let the server check it, and change nothing.")
    config: str | None = config_file()
    output: str = output_option("Output format of the list.", *FORMATS, "name")
    no_headers: bool = no_headers_option()

    def check(self, names: Sequence[str]) -> None:
        """Refuse flags that contradict each other."""
        if names and self.everything:
            raise click.UsageError("--all means everything that waits, and names some of it: give one of the two.")
        if self.listing and (names or self.everything or self.rejects):
            raise click.UsageError("--list only shows what waits: leave it out to decide.")
        if self.rejects and not names and not self.everything:
            raise click.UsageError("--reject needs to know what: name a plan or a migration, or say --all.")


@command("approve")
@click.argument("names", metavar="[PLAN|MIGRATION]...", nargs=-1)
def approve(names: tuple[str, ...], access: AccessOptions, options: ApproveOptions) -> None:
    """Approve waiting moves, or reject them.

    With `approval: required` in its configuration the controller stores its plans and waits. Without a name, what waits
    is shown. PLAN is in the first column, and means all moves of that plan in any namespace unless -n is given;
    MIGRATION is one move, as NAME or NAMESPACE/NAME. Moves that stand or fall together are approved together. What is
    approved is judged once more before it begins.

    A rejected move is given up, and its pod is left alone for coolDown; `kubectl delete pmig` takes a move back, too,
    but the next plan may have it again.

    \b
    Examples:
      rescheduler approve -A                 what waits
      rescheduler approve k4m9tz             one plan
      rescheduler approve shop/web-0-5f0c1a2b
      rescheduler approve --all -A
      rescheduler approve k4m9tz --reject
      kubectl annotate pmig -A -l rescheduler.io/plan=k4m9tz rescheduler.io/approved=me
    """
    options.check(names)
    with report_failures():
        live, config = connect(access, options.config)
        home = "" if options.all_namespaces else options.namespace or live.connection().namespace
        known = live.run(app_holds.read_candidates, home, named=options.namespace is not None)
        if not names and not options.everything:
            _show(known, options)
            return
        chosen = known.waiting() if options.everything else known.chosen(names)
        if not chosen:
            messages.note(_nothing(known))
            return
        whole = kube_migrations.add_group_members(chosen, known.migrations)
        for each in whole[len(chosen) :]:
            messages.note(f"{each.full_name} belongs to it, and is decided on, too")
        answers = live.run(app_holds.decide, whole, live.user, rejects=options.rejects, dry=options.dry_run)
        done = kube_migrations.ApprovalOutcome.REJECTED if options.rejects else kube_migrations.ApprovalOutcome.APPROVED
        _print_results(answers, done, dry=options.dry_run)
        if not options.rejects and not options.dry_run:
            warn_if_absent(live, config, "what is approved waits until one does (`rescheduler run`)")
            for pause in live.run(app_holds.list_pauses, app_holds.ControllerRef(live, config)):
                messages.warn([f"{pause}; what is approved waits until `rescheduler resume`"])
    refused = [
        f"{each.full_name}: {each.reason}"
        for each in answers
        if each.outcome is kube_migrations.ApprovalOutcome.REFUSED
    ]
    if refused:
        raise messages.CommandError(*refused, code=messages.REFUSED)


def _show(known: app_holds.ApprovalCandidates, options: ApproveOptions) -> None:
    now = time.time()
    waiting = [_describe(each, now) for each in known.waiting()]
    if options.output in FORMATS:
        items = [{key: value for key, value in each.items() if value and key != "age"} for each in waiting]
        messages.emit(format_document({"waiting": items}, options.output))
    elif options.output == "name":
        messages.emit_lines(f"{RESOURCE}/{plain(each['name'])}" for each in waiting)
    elif waiting:
        table = Table([*_COLUMNS], [[each[key] for key in _COLUMNS.values()] for each in waiting], flowing=1)
        messages.emit_lines(table.lines(Terminal.of(sys.stdout), headers=not options.no_headers))
    else:
        messages.note(_nothing(known))


_COLUMNS = {
    "PLAN": "plan",
    "NAMESPACE": "namespace",
    "NAME": "name",
    "POD": "pod",
    "FROM": "source",
    "TO": "target",
    "STRATEGY": "strategy",
    "AGE": "age",
    "REASON": "reason",
}
"""The columns of the list, and what they show."""


def _describe(migration: PodMigration, now: float) -> dict[str, str]:
    order, progress = migration.spec, migration.status
    return {
        "plan": order.plan,
        "namespace": migration.namespace,
        "name": migration.name,
        "pod": order.pod.name,
        "source": progress.source,
        "target": progress.target or order.target,
        "strategy": order.strategy,
        "age": age(migration.metadata.creation_timestamp, now),
        "reason": order.reason,
        "belongsTo": order.proposal_name,
    }


def _nothing(known: app_holds.ApprovalCandidates) -> str:
    if not known.home:
        return "nothing waits for approval"
    elsewhere = sum(each.awaits_approval for each in known.migrations)
    more = f"; {format_count(elsewhere, 'move')} elsewhere (-A)" if elsewhere else ""
    return f"nothing waits for approval in namespace {known.home}{more}"


def _print_results(answers: Sequence[ApprovalResult], done: kube_migrations.ApprovalOutcome, *, dry: bool) -> None:
    """Print what was written; `done` is the requested outcome."""
    suffix = " (dry run)" if dry else ""
    for each in answers:
        if each.outcome is done:
            messages.emit_line(f"{RESOURCE}/{each.name} {done}{suffix}")
        elif each.outcome is kube_migrations.ApprovalOutcome.UNCHANGED:
            messages.emit_line(f"{RESOURCE}/{each.name} unchanged: {done} by {each.by} before{suffix}")
    if new := [each for each in answers if each.outcome is done]:
        messages.note(f"{format_count(len(new), 'move')} {done} by {new[0].by}{suffix}")
