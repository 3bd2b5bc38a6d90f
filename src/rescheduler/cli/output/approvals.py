"""Moves that wait for approval, as rows: what `approve --list` shows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rescheduler.cli.output.ages import age
from rescheduler.cli.output.table import Table
from rescheduler.cli.output.terminal import Terminal
from rescheduler.model.migration import Migration

_HEADERS = ("PLAN", "NAMESPACE", "NAME", "POD", "FROM", "TO", "STRATEGY", "AGE", "REASON")


def waiting_lines(waiting: Sequence[Migration], now: float, terminal: Terminal, *, headers: bool) -> Iterator[str]:
    """The table, in the order given."""
    return Table(_HEADERS, [_row(each, now) for each in waiting], flowing=1).lines(terminal, headers=headers)


def waiting_document(waiting: Sequence[Migration], now: float) -> dict[str, object]:
    """The same for programs."""
    keys = ("plan", "namespace", "name", "pod", "source", "target", "strategy", "age", "reason")
    items = [dict(zip(keys, _row(each, now), strict=True)) for each in waiting]
    for item, each in zip(items, waiting, strict=True):
        del item["age"]
        item["belongsTo"] = each.order.proposal
    return {"waiting": [{key: value for key, value in item.items() if value} for item in items]}


def _row(migration: Migration, now: float) -> list[str]:
    order, progress = migration.order, migration.progress
    return [
        order.plan,
        migration.namespace,
        migration.name,
        order.pod,
        progress.source,
        progress.target or order.target,
        order.strategy,
        age(migration.created, now),
        order.reason,
    ]
