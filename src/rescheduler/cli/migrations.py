"""`rescheduler migrations`: lists the PodMigrations of a cluster, and watches them with -w.

`app.follow` lists and watches them. Rows are made from the objects themselves, so that a malformed one is shown too.
While they are watched, each change is one more row under columns that only ever grow wider.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import click

from rescheduler.cli import messages
from rescheduler.cli.common import live_cluster, report_failures
from rescheduler.cli.lazy import app, app_follow
from rescheduler.cli.options import (
    AccessOptions,
    command,
    no_headers_option,
    option,
    output_option,
)
from rescheduler.cli.output import FORMATS, RESOURCE, Table, Terminal, age, columns_of, format_document, plain
from rescheduler.cli.progress import warnings_as_messages
from rescheduler.model.json import Json
from rescheduler.model.migration import Phase
from rescheduler.model.selector import SelectorError, parse_selector
from rescheduler.model.time import read_instant

_HEADERS = ("NAME", "POD", "PHASE", "STEP", "FROM", "TO", "METHOD", "AGE", "MESSAGE")
_WIDE = (
    *("NAME", "POD", "PHASE", "STEP", "FROM", "TO", "METHOD", "STRATEGY", "REPLACEMENT", "TRIES"),
    *("PREDICTED", "CAME TRUE", "OUTCOME", "AGE", "MESSAGE"),
)
_TINTS = {"Completed": "green", "Failed": "red", "InProgress": "cyan"}
_GAP = "   "


@dataclass(frozen=True, slots=True)
class MigrationsOptions:
    """The migrations to show, and the output."""

    namespace: str | None = option(
        "-n", "--namespace", metavar="NAMESPACE", help="Show this namespace (default: the context's)."
    )
    all_namespaces: bool = option("-A", "--all-namespaces", is_flag=True, help="Show all namespaces.")
    selector: str | None = option(
        "-l", "--selector", metavar="SELECTOR", help="Show only migrations with these labels (a=b,c)."
    )
    phases: tuple[str, ...] = option(
        "--phase",
        multiple=True,
        type=click.Choice([phase.value.lower() for phase in Phase], case_sensitive=False),
        help="Show only migrations in this phase; may be repeated.",
    )
    output: str = output_option("wide has more columns; json and yaml are the objects.", "wide", *FORMATS, "name")
    no_headers: bool = no_headers_option()
    watch: bool = option("-w", "--watch", is_flag=True, help="Keep showing changes, until interrupted.")

    def part(self, live: app.LiveCluster, name: str | None) -> app_follow.FollowedObjects:
        """Return what to list and follow; -A wins over -n, as in kubectl."""
        if self.selector:
            try:
                parse_selector(self.selector)
            except SelectorError as error:
                raise click.UsageError(f"-l: {error}") from None
        namespace = "" if self.all_namespaces else self.namespace or live.connection().namespace
        chosen = {"fieldSelector": f"metadata.name={name}" if name else "", "labelSelector": self.selector or ""}
        return app_follow.FollowedObjects(
            app_follow.KIND, namespace, tuple((key, value) for key, value in chosen.items() if value)
        )

    def wants(self, body: Json) -> bool:
        """Whether a migration is in one of the chosen phases."""
        return not self.phases or phase_of(body).lower() in self.phases

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table."""
        return migration_columns(wide=self.output == "wide", namespaces=self.all_namespaces)


@command("migrations")
@click.argument("name", required=False)
def migrations(name: str | None, access: AccessOptions, options: MigrationsOptions) -> None:
    """Show ordered, running and finished moves.

    Like `kubectl get pmig`, with the age of each move and what it waits for. Finished moves are kept for
    `migration.keepFinished` of the configuration.

    \b
    Examples:
      rescheduler migrations -A
      rescheduler migrations -n shop -w
      rescheduler migrations -A --phase failed -o wide
      rescheduler migrations web-0-5f0c1a2b -n shop -o yaml
    """
    live = live_cluster(access)
    with report_failures():
        part = options.part(live, name)
        if options.watch:
            watcher = _Watcher(options)
            with warnings_as_messages():
                live.run(app_follow.watch_migrations, part, app_follow.ChangeSink(watcher.tell, watcher.settled), name)
        found = live.run(app_follow.list_migrations, part, name)
    shown = [body for body in found if options.wants(body)]
    if options.output in FORMATS:
        messages.emit(_document(shown, options.output, alone=name is not None))
    elif options.output == "name":
        messages.emit_lines(_name(body) for body in shown)
    elif shown:
        table = migration_table(shown, options.columns, time.time())
        messages.emit_lines(table.lines(Terminal.of(sys.stdout), headers=not options.no_headers))
    else:
        messages.note(_none(part))


class _Watcher:
    """Prints changes as they come; what exists already is printed first, all at once, so that columns fit."""

    def __init__(self, options: MigrationsOptions) -> None:
        self._options = options
        self._stream = RowStream(options.columns, headers=not options.no_headers)
        self._first: list[app_follow.ObjectChange] | None = []

    def tell(self, change: app_follow.ObjectChange) -> None:
        """Print a change, or keep it until the first list is complete."""
        if not self._options.wants(change.body):
            return
        if self._first is not None:
            self._first.append(change)
        else:
            self._write([change])

    def settled(self) -> None:
        """Print the first list, now that it is complete."""
        first, self._first = self._first, None
        self._write(first or [])

    def _write(self, changes: list[app_follow.ObjectChange]) -> None:
        form = self._options.output
        if form in FORMATS:
            opening = "---\n" if form == "yaml" else ""
            messages.emit("".join(opening + format_document(change.body, form) for change in changes))
        elif form == "name":
            messages.emit_lines(_name(change.body) for change in changes)
        else:
            columns, now = self._options.columns, time.time()
            rows = [row(change.body, columns, now, gone=change.gone) for change in changes]
            messages.emit_lines(self._stream.lines(rows))


def _document(bodies: list[Json], form: str, *, alone: bool) -> str:
    if alone and bodies:
        return format_document(bodies[0], form)
    return format_document({"apiVersion": "v1", "kind": "List", "items": bodies}, form)


def _name(body: Json) -> str:
    return plain(f"{RESOURCE}/{body['metadata']['name']}")


def _none(part: app_follow.FollowedObjects) -> str:
    where = f"in namespace {part.namespace}" if part.namespace else "in any namespace"
    return f"no such migrations {where}" if part.selection else f"no migrations {where}"


def migration_columns(*, wide: bool = False, namespaces: bool = False) -> tuple[str, ...]:
    """The headers of the table."""
    return (("NAMESPACE",) if namespaces else ()) + (_WIDE if wide else _HEADERS)


def phase_of(body: Json) -> str:
    """Its phase; pending if it has none yet."""
    return str((body.get("status") or {}).get("phase") or "Pending")


def migration_table(bodies: Iterable[Json], columns: Sequence[str], now: float) -> Table:
    """The table of migrations."""
    rows = [row(body, columns, now) for body in bodies]
    at = columns.index("PHASE")
    tints = {(index, at): tint for index, each in enumerate(rows) if (tint := _TINTS.get(each[at]))}
    return Table(columns, rows, flowing=1, tints=tints)


def row(body: Json, columns: Sequence[str], now: float, *, gone: bool = False) -> list[str]:
    """One migration's cells."""
    metadata, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    outcome = status.get("outcome") or {}
    cells = {
        "NAMESPACE": metadata.get("namespace"),
        "NAME": metadata["name"],
        "POD": (spec.get("pod") or {}).get("name"),
        "PHASE": "Deleted" if gone else phase_of(body),
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
        "AGE": age(read_instant(str(metadata.get("creationTimestamp") or "")), now),
        "MESSAGE": status.get("message"),
    }
    return [str(cells[column] if cells[column] is not None else "") for column in columns]


class RowStream:
    """Rows one after the other, as they come."""

    def __init__(self, columns: Sequence[str], *, headers: bool = True) -> None:
        self._columns = columns
        self._widths = [columns_of(header) for header in columns]
        self._headed = not headers

    def lines(self, rows: Sequence[Sequence[str]]) -> Iterator[str]:
        """The lines of more rows; the headers stand before the first."""
        shown = [[plain(cell) for cell in each] for each in rows]
        if not self._headed and shown:
            self._headed = True
            shown.insert(0, [*self._columns])
        for each in shown:
            self._widths = [max(width, columns_of(cell)) for width, cell in zip(self._widths, each, strict=True)]
        for each in shown:
            cells = (cell + " " * (width - columns_of(cell)) for cell, width in zip(each, self._widths, strict=True))
            yield _GAP.join(cells).rstrip()
