"""`rescheduler apply`: orders the moves of a reviewed plan that are still valid.

`app.apply` checks the plan against the cluster and orders the moves; with --wait `app.follow` follows them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rescheduler.cli import messages
from rescheduler.cli.common import live_cluster, report_failures, show_reading
from rescheduler.cli.lazy import app, app_apply, app_follow, entries_output
from rescheduler.cli.options import (
    STDIN,
    AccessOptions,
    WaitOptions,
    access_options,
    config_file,
    group_options,
    option,
    waiting_options,
)
from rescheduler.cli.output.documents import FORMATS, document_text
from rescheduler.cli.progress import MigrationProgress, show_progress
from rescheduler.model.migration import Phase, PodMigration

if TYPE_CHECKING:
    from rescheduler.app.apply import AppliedMove
    from rescheduler.cli.output.entries import Ended

_GO_ON = "the moves go on. Watch them with `rescheduler migrations -A -w`, cancel one with `kubectl delete pmig NAME`"


@dataclass(frozen=True, slots=True)
class ApplyOptions:
    """Which plan, how much of it, and what is shown."""

    file: str = option(
        "-f",
        "--filename",
        metavar="FILE",
        type=click.Path(),
        required=True,
        help="The plan, as written by `rescheduler plan -o json` or `-o yaml`; - is standard input.",
    )
    namespace: str | None = option("-n", "--namespace", metavar="NAMESPACE", help="Apply only this namespace's moves.")
    config: str | None = config_file()
    dry_run: bool = option("--dry-run", is_flag=True, help="Check everything, and order nothing.")
    output: str | None = option(
        "-o",
        "--output",
        type=click.Choice([*FORMATS, "name"]),
        help="json and yaml are stable (docs/plan-format.md); name prints the names of the migrations.",
    )

    def check(self) -> None:
        """Refuse flags that contradict each other."""
        if self.file == self.config == STDIN:
            raise click.UsageError("--config - and -f - cannot both be standard input.")


@click.command("apply", epilog=messages.EXIT_CODES)
@access_options
@group_options("options", ApplyOptions)
@waiting_options("all moves are over", wait=False)
@messages.verbose_option
def apply(access: AccessOptions, options: ApplyOptions, waiting: WaitOptions) -> None:
    """Order the moves of a reviewed plan.

    Each move is checked against the current cluster. It is refused, with the reason, if its pod or node has changed
    since the plan, if the pod is being moved already, or if it may not or cannot be moved any more. Moves that belong
    together are refused together. The others become PodMigrations, which the controller carries out. Applying a plan
    twice orders nothing twice.

    \b
    Examples:
      rescheduler plan -o json > plan.json
      rescheduler apply -f plan.json --dry-run
      rescheduler apply -f plan.json --wait --timeout 15m
    """
    options.check()
    waiting.check()
    with report_failures():
        plan = app_apply.read_plan(options.file)
        config = app.load_configuration(options.config, {})
        live = live_cluster(access, config.fields.client_connection.kubeconfig)
        with show_reading(live) as advance:
            snapshot = app.read(live, None, advance)
        part = app_apply.ApplyScope(options.namespace, options.dry_run)
        entries = app_apply.apply_plan(live, plan, snapshot, config.policy(), part)
        _print_lines(entries, options)
        if not entries:
            messages.note("the plan has no move" + (f" in namespace {options.namespace}" if options.namespace else ""))
        ordered = any(entry.outcome is app_apply.ApplyOutcome.CREATED for entry in entries) and not options.dry_run
        if ordered and (absent := app_follow.explain_absence(live, config.fields.leader_election.resource_name)):
            messages.warn([f"{absent}; the moves wait until one does (`rescheduler run`)"])
        followed = waiting.wait and not options.dry_run
        ended, late = _await_end(live, entries, waiting.timeout) if followed else ({}, False)
    if options.output in FORMATS:
        messages.emit(document_text(entries_output.result_document(entries, ended), options.output))
    if late:
        raise messages.CommandError(f"not all are over yet; {_GO_ON}", code=messages.TIMED_OUT)
    _end(entries, ended)


def _print_lines(entries: Sequence[AppliedMove], options: ApplyOptions) -> None:
    """Print a line for each move to stdout; with -o, refusals go to stderr."""
    refused = [entry for entry in entries if entry.migration is None]
    if options.output is None:
        messages.emit("".join(f"{entries_output.entry_line(entry, dry=options.dry_run)}\n" for entry in entries))
        return
    if options.output == "name":
        messages.emit("".join(f"{name}\n" for name in entries_output.entry_names(entries)))
    messages.warn(entries_output.entry_line(entry, dry=options.dry_run) for entry in refused)


def _await_end(live: app.LiveCluster, entries: Sequence[AppliedMove], timeout: float | None) -> tuple[Ended, bool]:
    """Wait for the end of the migrations, showing progress; return how they ended, and whether time ran out."""
    keys = [(e.migration.namespace, e.migration.name) for e in entries if e.migration is not None]
    if not keys:
        return {}, False
    try:
        with show_progress() as line:
            progress = MigrationProgress(line, len(keys))
            return app_follow.await_migrations(live, keys, progress.show, timeout), False
    except TimeoutError:
        return dict(progress.known), True
    except KeyboardInterrupt:
        messages.note(f"interrupted; {_GO_ON}")
        raise


def _end(entries: Sequence[AppliedMove], ended: Ended) -> None:
    """Exit with the code of the outcome: a failed move outweighs a refused one."""
    if ended:
        completed = sum(one is not None and one.status.phase is Phase.COMPLETED for one in ended.values())
        messages.note(f"{completed} of {len(ended)} moves are completed")
        if completed < len(ended):
            failures = {key: _explain_failure(ended[key]) for key in sorted(ended)}
            lost = [f"{namespace}/{name}: {why}" for (namespace, name), why in failures.items() if why]
            raise messages.CommandError(*lost, code=messages.FAILED)
    if any(entry.outcome is app_apply.ApplyOutcome.REFUSED for entry in entries):
        raise click.exceptions.Exit(messages.REFUSED)


def _explain_failure(one: PodMigration | None) -> str:
    """Explain what went wrong with a migration; empty if nothing did."""
    if one is None:
        return "deleted before it was over"
    failed = one.status.phase is Phase.FAILED
    return f"pod {one.spec.pod.name} was not moved: {one.status.message}" if failed else ""
