"""`rescheduler approve`: shows, approves or rejects moves that wait for approval (`approval: required`).

`app.approval` finds the moves and writes the approval; the controller then starts them.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rescheduler.cli import messages
from rescheduler.cli.common import live_cluster, report_failures
from rescheduler.cli.lazy import app, app_approval, app_follow, app_pause, kube_approval
from rescheduler.cli.options import AccessOptions, access_options, config_file, group_options, option
from rescheduler.cli.output.documents import FORMATS, document_text
from rescheduler.cli.output.migrations import RESOURCE, waiting_document, waiting_lines
from rescheduler.cli.output.terminal import Terminal, plain
from rescheduler.model.migration import PodMigration

if TYPE_CHECKING:
    from rescheduler.config.configuration import Configuration
    from rescheduler.kube.approval import ApprovalResult


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
    output: str = option(
        "-o",
        "--output",
        type=click.Choice(["table", *FORMATS, "name"]),
        default="table",
        show_default=True,
        help="Output format of the list.",
    )
    no_headers: bool = option("--no-headers", is_flag=True, help="Omit the headers of the table.")

    def check(self, names: Sequence[str]) -> None:
        """Refuse flags that contradict each other."""
        if names and self.everything:
            raise click.UsageError("--all means everything that waits, and names some of it: give one of the two.")
        if self.listing and (names or self.everything or self.rejects):
            raise click.UsageError("--list only shows what waits: leave it out to decide.")
        if self.rejects and not names and not self.everything:
            raise click.UsageError("--reject needs to know what: name a plan or a migration, or say --all.")

    def scope(self) -> app_approval.ApprovalScope:
        """Where moves are looked for."""
        return app_approval.ApprovalScope(self.namespace, self.all_namespaces)

    def shows(self, names: Sequence[str]) -> bool:
        """Whether moves are only listed."""
        return not names and not self.everything


@click.command("approve", epilog=messages.EXIT_CODES)
@click.argument("names", metavar="[PLAN|MIGRATION]...", nargs=-1)
@access_options
@group_options("options", ApproveOptions)
@messages.verbose_option
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
        config = app.load_configuration(options.config, {})
        live = live_cluster(access, config.fields.client_connection.kubeconfig)
        known = app_approval.read_candidates(live, options.scope())
        if options.shows(names):
            _show(known, options)
            return
        chosen = known.waiting() if options.everything else known.chosen(names)
        if not chosen:
            messages.note(_nothing(known))
            return
        whole = known.with_members(chosen)
        _print_members(whole[len(chosen) :])
        answers = app_approval.decide(live, whole, rejects=options.rejects, dry=options.dry_run)
        done = kube_approval.ApprovalOutcome.REJECTED if options.rejects else kube_approval.ApprovalOutcome.APPROVED
        _print_results(answers, done, dry=options.dry_run)
        if not options.rejects and not options.dry_run:
            _warn_if_idle(live, config)
    refused = [
        f"{each.full_name}: {each.reason}" for each in answers if each.outcome is kube_approval.ApprovalOutcome.REFUSED
    ]
    if refused:
        raise messages.CommandError(*refused, code=messages.REFUSED)


def _show(known: app_approval.ApprovalCandidates, options: ApproveOptions) -> None:
    waiting, now = known.waiting(), time.time()
    if options.output in FORMATS:
        messages.emit(document_text(waiting_document(waiting, now), options.output))
    elif options.output == "name":
        messages.emit("".join(f"{RESOURCE}/{plain(each.name)}\n" for each in waiting))
    elif waiting:
        lines = waiting_lines(waiting, now, Terminal.of(sys.stdout), headers=not options.no_headers)
        messages.emit("".join(f"{line}\n" for line in lines))
    else:
        messages.note(_nothing(known))


def _nothing(known: app_approval.ApprovalCandidates) -> str:
    if not known.home:
        return "nothing waits for approval"
    elsewhere = sum(each.awaits_approval for each in known.migrations)
    more = f"; {_moves(elsewhere)} elsewhere (-A)" if elsewhere else ""
    return f"nothing waits for approval in namespace {known.home}{more}"


def _print_members(members: Sequence[PodMigration]) -> None:
    for each in members:
        messages.note(f"{each.full_name} belongs to it, and is decided on, too")


def _print_results(answers: Sequence[ApprovalResult], done: kube_approval.ApprovalOutcome, *, dry: bool) -> None:
    """Print what was written; `done` is the requested outcome."""
    suffix = " (dry run)" if dry else ""
    for each in answers:
        if each.outcome is done:
            messages.emit(f"{RESOURCE}/{plain(each.name)} {done}{suffix}\n")
        elif each.outcome is kube_approval.ApprovalOutcome.UNCHANGED:
            messages.emit(f"{RESOURCE}/{plain(each.name)} unchanged: {done} by {plain(each.by)} before{suffix}\n")
    if new := [each for each in answers if each.outcome is done]:
        messages.note(f"{_moves(len(new))} {done} by {new[0].by}{suffix}")


def _warn_if_idle(live: app.LiveCluster, config: Configuration) -> None:
    """Warn if nothing will happen now, as far as that can be seen."""
    lease = config.fields.leader_election.resource_name
    if absent := app_follow.explain_absence(live, lease):
        messages.warn([f"{absent}; what is approved waits until one does (`rescheduler run`)"])
    for pause in app_pause.list_pauses(live, config):
        messages.warn([f"{pause}; what is approved waits until `rescheduler resume`"])


def _moves(count: int) -> str:
    return f"{count} move{'' if count == 1 else 's'}"
