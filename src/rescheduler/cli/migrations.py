"""`rescheduler migrations`: lists the PodMigrations of a cluster, and watches them with -w.

`app.follow` lists and watches them; `output.migrations` formats the rows.
"""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass

import click

from rescheduler.cli import messages
from rescheduler.cli.common import live_cluster, report_failures
from rescheduler.cli.lazy import app, app_follow
from rescheduler.cli.options import AccessOptions, access_options, group_options, option
from rescheduler.cli.output.documents import FORMATS, document_text
from rescheduler.cli.output.migrations import RESOURCE, MigrationLayout, RowStream, migration_lines, phase_of, row
from rescheduler.cli.output.terminal import Terminal, plain
from rescheduler.cli.progress import warnings_as_messages
from rescheduler.model.json import Json
from rescheduler.model.migration import Phase
from rescheduler.model.selector import SelectorError, parse_selector


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
    output: str = option(
        "-o",
        "--output",
        type=click.Choice(["table", "wide", *FORMATS, "name"]),
        default="table",
        show_default=True,
        help="wide has more columns; json and yaml are the objects.",
    )
    no_headers: bool = option("--no-headers", is_flag=True, help="Omit the headers of the table.")
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

    def layout(self) -> MigrationLayout:
        """Return the layout of the table."""
        return MigrationLayout(self.all_namespaces, wide=self.output == "wide", headers=not self.no_headers)


@click.command("migrations", epilog=messages.EXIT_CODES)
@click.argument("name", required=False)
@access_options
@group_options("options", MigrationsOptions)
@messages.verbose_option
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
                app_follow.watch_migrations(live, part, app_follow.ChangeSink(watcher.tell, watcher.settled), name)
        found = app_follow.list_migrations(live, part, name)
    shown = [body for body in found if options.wants(body)]
    if options.output in FORMATS:
        messages.emit(_document(shown, options.output, alone=name is not None))
    elif options.output == "name":
        messages.emit("".join(f"{plain(_name(body))}\n" for body in shown))
    elif shown:
        lines = migration_lines(shown, options.layout(), time.time(), Terminal.of(sys.stdout))
        messages.emit("".join(f"{line}\n" for line in lines))
    else:
        messages.note(_none(part))


class _Watcher:
    """Prints changes as they come; what exists already is printed first, all at once, so that columns fit."""

    def __init__(self, options: MigrationsOptions) -> None:
        self._options = options
        self._stream = RowStream(options.layout())
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
            messages.emit("".join(opening + document_text(change.body, form) for change in changes))
        elif form == "name":
            messages.emit("".join(f"{plain(_name(change.body))}\n" for change in changes))
        else:
            layout, now = self._options.layout(), time.time()
            rows = [row(change.body, layout, now, gone=change.gone) for change in changes]
            messages.emit("".join(f"{line}\n" for line in self._stream.lines(rows)))


def _document(bodies: list[Json], form: str, *, alone: bool) -> str:
    if alone and bodies:
        return document_text(bodies[0], form)
    return document_text({"apiVersion": "v1", "kind": "List", "items": bodies}, form)


def _name(body: Json) -> str:
    return f"{RESOURCE}/{body['metadata']['name']}"


def _none(part: app_follow.FollowedObjects) -> str:
    where = f"in namespace {part.namespace}" if part.namespace else "in any namespace"
    return f"no such migrations {where}" if part.selection else f"no migrations {where}"
