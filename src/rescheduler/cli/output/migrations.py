"""PodMigrations as rows: what `migrations` shows of each, as `kubectl get pmig` would, and a little more.

Rows are made from the objects themselves, so that one that makes no sense is shown, too. While they are watched, each
change is one more row under columns that only ever grow wider.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from rescheduler.cli.output.table import Table, age
from rescheduler.cli.output.terminal import Terminal, columns_of, plain
from rescheduler.model.json import Json
from rescheduler.model.migration import PodMigration
from rescheduler.model.time import InstantError, parse_instant

_HEADERS = ("NAME", "POD", "PHASE", "STEP", "FROM", "TO", "METHOD", "AGE", "MESSAGE")
_WIDE = (
    *("NAME", "POD", "PHASE", "STEP", "FROM", "TO", "METHOD", "STRATEGY", "REPLACEMENT", "TRIES"),
    *("PREDICTED", "CAME TRUE", "OUTCOME", "AGE", "MESSAGE"),
)
_TINTS = {"Completed": "green", "Failed": "red", "InProgress": "cyan"}
_GAP = "   "
GONE = "Deleted"
RESOURCE = "podmigration.rescheduler.io"
"""What kubectl calls them, before the slash and the name."""


@dataclass(frozen=True, slots=True)
class MigrationLayout:
    """What is shown of each migration."""

    namespaces: bool = False
    wide: bool = False
    headers: bool = True

    @property
    def columns(self) -> tuple[str, ...]:
        """The headers."""
        return (("NAMESPACE",) if self.namespaces else ()) + (_WIDE if self.wide else _HEADERS)


def phase_of(body: Json) -> str:
    """Its phase; pending if it has none yet."""
    return str((body.get("status") or {}).get("phase") or "Pending")


def migration_lines(bodies: Iterable[Json], layout: MigrationLayout, now: float, terminal: Terminal) -> Iterator[str]:
    """The table of migrations."""
    rows = [row(body, layout, now) for body in bodies]
    at = layout.columns.index("PHASE")
    tints = {(index, at): tint for index, each in enumerate(rows) if (tint := _TINTS.get(each[at]))}
    return Table(layout.columns, rows, flowing=1, tints=tints).lines(terminal, headers=layout.headers)


def row(body: Json, layout: MigrationLayout, now: float, *, gone: bool = False) -> list[str]:
    """One migration's cells."""
    metadata, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    outcome = status.get("outcome") or {}
    cells = {
        "NAMESPACE": metadata.get("namespace"),
        "NAME": metadata["name"],
        "POD": (spec.get("pod") or {}).get("name"),
        "PHASE": GONE if gone else phase_of(body),
        "STEP": status.get("step"),
        "FROM": status.get("source"),
        "TO": status.get("target") or spec.get("target"),
        "METHOD": status.get("method") or spec.get("method"),
        "STRATEGY": spec.get("strategy"),
        "REPLACEMENT": (status.get("replacement") or {}).get("name"),
        "TRIES": status.get("attempts"),
        "PREDICTED": spec.get("expectedGain"),
        "CAME TRUE": outcome.get("gain"),
        "OUTCOME": outcome.get("verdict"),
        "AGE": age(_instant(metadata.get("creationTimestamp")), now),
        "MESSAGE": status.get("message"),
    }
    return [str(cells[column] if cells[column] is not None else "") for column in layout.columns]


class RowStream:
    """Rows one after the other, as they come."""

    def __init__(self, layout: MigrationLayout) -> None:
        self._layout = layout
        self._widths = [columns_of(header) for header in layout.columns]
        self._headed = not layout.headers

    def lines(self, rows: Sequence[Sequence[str]]) -> Iterator[str]:
        """The lines of more rows; the headers stand before the first."""
        shown = [[plain(cell) for cell in each] for each in rows]
        if not self._headed and shown:
            self._headed = True
            shown.insert(0, list(self._layout.columns))
        for each in shown:
            self._widths = [max(width, columns_of(cell)) for width, cell in zip(self._widths, each, strict=True)]
        for each in shown:
            cells = (cell + " " * (width - columns_of(cell)) for cell, width in zip(each, self._widths, strict=True))
            yield _GAP.join(cells).rstrip()


def _instant(text: object) -> float | None:
    try:
        return parse_instant(str(text)) if text else None
    except InstantError:
        return None


_APPROVAL_HEADERS = ("PLAN", "NAMESPACE", "NAME", "POD", "FROM", "TO", "STRATEGY", "AGE", "REASON")


def waiting_lines(waiting: Sequence[PodMigration], now: float, terminal: Terminal, *, headers: bool) -> Iterator[str]:
    """The table, in the order given."""
    return Table(_APPROVAL_HEADERS, [_row(each, now) for each in waiting], flowing=1).lines(terminal, headers=headers)


def waiting_document(waiting: Sequence[PodMigration], now: float) -> dict[str, object]:
    """The same for programs."""
    keys = ("plan", "namespace", "name", "pod", "source", "target", "strategy", "age", "reason")
    items = [dict(zip(keys, _row(each, now), strict=True)) for each in waiting]
    for item, each in zip(items, waiting, strict=True):
        del item["age"]
        item["belongsTo"] = each.spec.proposal_name
    return {"waiting": [{key: value for key, value in item.items() if value} for item in items]}


def _row(migration: PodMigration, now: float) -> list[str]:
    order, progress = migration.spec, migration.status
    return [
        order.plan,
        migration.namespace,
        migration.name,
        order.pod.name,
        progress.source,
        progress.target or order.target,
        order.strategy,
        age(migration.metadata.creation_timestamp, now),
        order.reason,
    ]
