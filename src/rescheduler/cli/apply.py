"""`rescheduler apply`: orders the moves of a reviewed plan that are still valid.

`app.orders` checks the plan against the cluster and orders the moves; with --wait they are followed to their end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from rescheduler.cli import messages
from rescheduler.cli.common import await_migrations, connect, read_cluster, report_failures, warn_if_absent
from rescheduler.cli.lazy import app_orders
from rescheduler.cli.options import (
    STDIN,
    AccessOptions,
    WaitOptions,
    command,
    config_file,
    option,
    waiting_options,
)
from rescheduler.cli.output import FORMATS, RESOURCE, format_document, plain
from rescheduler.model.migration import Phase, PodMigration
from rescheduler.model.plan import API_VERSION

if TYPE_CHECKING:
    from rescheduler.app.orders import AppliedMove

Ended = Mapping[tuple[str, str], PodMigration | None]
"""Migrations that were waited for; None is one that was deleted."""
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

    def __post_init__(self) -> None:
        if self.file == self.config == STDIN:
            raise click.UsageError("--config - and -f - cannot both be standard input.")


@command("apply")
@waiting_options("all moves are over", wait=False)
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
    ended: Ended = {}
    late = False
    with report_failures():
        plan = app_orders.read_plan(options.file)
        live, config = connect(access, options.config)
        snapshot, namespace, dry = read_cluster(live), options.namespace, options.dry_run
        entries = live.run(app_orders.apply_plan, plan, snapshot, config.policy(), namespace=namespace, dry=dry)
        _print_lines(entries, options)
        if not entries:
            messages.note("the plan has no move" + (f" in namespace {options.namespace}" if options.namespace else ""))
        if any(entry.outcome is app_orders.ApplyOutcome.CREATED for entry in entries) and not options.dry_run:
            warn_if_absent(live, config, "the moves wait until one does (`rescheduler run`)")
        keys = [(e.migration.namespace, e.migration.name) for e in entries if e.migration is not None]
        if waiting.wait and keys and not options.dry_run:
            ended, late = await_migrations(live, keys, waiting.timeout, f"interrupted; {_GO_ON}")
    if options.output in FORMATS:
        messages.emit(format_document(_result_document(entries, ended), options.output))
    if late:
        raise messages.CommandError(f"not all are over yet; {_GO_ON}", code=messages.TIMED_OUT)
    _end(entries, ended)


def _print_lines(entries: Sequence[AppliedMove], options: ApplyOptions) -> None:
    """Print a line for each move to stdout; with -o, refusals go to stderr."""
    if options.output is None:
        messages.emit_lines(_format_entry(entry, dry=options.dry_run) for entry in entries)
        return
    if options.output == "name":
        ordered = [entry.migration for entry in entries if entry.migration is not None]
        messages.emit_lines(plain(f"{RESOURCE}/{migration.name}") for migration in ordered)
    messages.warn(_format_entry(entry, dry=options.dry_run) for entry in entries if entry.migration is None)


def _format_entry(entry: AppliedMove, *, dry: bool) -> str:
    move = entry.move
    if entry.migration is None:
        return plain(f"pod/{move.pod} -n {move.namespace} refused: {entry.reason}")
    unchanged = entry.outcome is app_orders.ApplyOutcome.UNCHANGED
    aside = f" ({entry.migration.status.phase})" if unchanged else " (dry run)" * dry
    return plain(f"{RESOURCE}/{entry.migration.name} {entry.outcome}{aside}")


def _result_document(entries: Sequence[AppliedMove], ended: Ended) -> dict[str, object]:
    """A PlanResult, whose form is a contract (docs/plan-format.md)."""
    return {"apiVersion": API_VERSION, "kind": "PlanResult", "entries": [_entry_row(each, ended) for each in entries]}


def _entry_row(entry: AppliedMove, ended: Ended) -> dict[str, object]:
    move, migration = entry.move, entry.migration
    last = ended.get((migration.namespace, migration.name), migration) if migration is not None else None
    return {
        "namespace": move.namespace,
        "pod": move.pod,
        "from": move.source,
        "to": move.target,
        "outcome": entry.outcome.value,
        "reason": entry.reason,
        "migration": migration.name if migration is not None else "",
        "phase": last.status.phase.value if last is not None else "",
        "message": last.status.message if last is not None else "",
    }


def _end(entries: Sequence[AppliedMove], ended: Ended) -> None:
    """Exit with the code of the outcome: a failed move outweighs a refused one."""
    if ended:
        completed = sum(one is not None and one.status.phase is Phase.COMPLETED for one in ended.values())
        messages.note(f"{completed} of {len(ended)} moves are completed")
        if completed < len(ended):
            failures = {key: _explain_failure(ended[key]) for key in sorted(ended)}
            lost = [f"{namespace}/{name}: {why}" for (namespace, name), why in failures.items() if why]
            raise messages.CommandError(*lost, code=messages.FAILED)
    if any(entry.outcome is app_orders.ApplyOutcome.REFUSED for entry in entries):
        raise click.exceptions.Exit(messages.REFUSED)


def _explain_failure(one: PodMigration | None) -> str:
    """Explain what went wrong with a migration; empty if nothing did."""
    if one is None:
        return "deleted before it was over"
    failed = one.status.phase is Phase.FAILED
    return f"pod {one.spec.pod.name} was not moved: {one.status.message}" if failed else ""
