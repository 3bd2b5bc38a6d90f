"""What became of a plan's entries, as `apply` shows it: lines like kubectl's, names, or a document.

The document, kind PlanResult, is a contract (docs/plan-format.md).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rescheduler.app.apply import AppliedMove, ApplyOutcome
from rescheduler.cli.output.migrations import RESOURCE
from rescheduler.cli.output.terminal import plain
from rescheduler.model.migration import PodMigration
from rescheduler.model.plan import API_VERSION

Ended = Mapping[tuple[str, str], PodMigration | None]
"""Migrations that were waited for; None is one that was deleted."""


def entry_line(entry: AppliedMove, *, dry: bool) -> str:
    """One line for one entry."""
    move = entry.move
    if entry.migration is None:
        return plain(f"pod/{move.pod} -n {move.namespace} refused: {entry.reason}")
    aside = f" ({entry.migration.status.phase})" if entry.outcome is ApplyOutcome.UNCHANGED else " (dry run)" * dry
    return plain(f"{RESOURCE}/{entry.migration.name} {entry.outcome}{aside}")


def entry_names(entries: Sequence[AppliedMove]) -> list[str]:
    """The names of the migrations that there are now."""
    return [plain(f"{RESOURCE}/{entry.migration.name}") for entry in entries if entry.migration is not None]


def result_document(entries: Sequence[AppliedMove], ended: Ended) -> dict[str, object]:
    """All there is to say, as plain values."""
    return {
        "apiVersion": API_VERSION,
        "kind": "PlanResult",
        "entries": [_row(entry, ended) for entry in entries],
    }


def _row(entry: AppliedMove, ended: Ended) -> dict[str, object]:
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
