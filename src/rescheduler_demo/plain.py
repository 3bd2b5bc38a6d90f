"""The demo in words: the lines that both views show, and the view for output that is no terminal.

`PlainView` prints a line for everything that happens, and every few seconds one with the state of things.
"""

from __future__ import annotations

import sys
from collections.abc import Callable

import click

from rescheduler.cli.output import plain
from rescheduler.model.migration import Phase, PodMigration
from rescheduler.model.plan import LoadDistribution
from rescheduler_demo.runner import Result, Status

_STATUS_INTERVAL = 5.0  # seconds


class PlainView:
    """Prints lines to stdout; calls `stop` when the reader has gone away."""

    def __init__(self, stop: Callable[[], None]) -> None:
        self._stop = stop
        self._due = 0.0
        self._last = ""
        self._addresses: set[str] = set()
        self._closed = False

    def show(self, status: Status) -> None:
        """Print addresses when they are known, and now and then how things stand, if something has changed."""
        for label, address in (("kubectl", f"export KUBECONFIG={status.kubeconfig}"), ("page", status.page)):
            if address and address not in self._addresses:
                self._addresses.add(address)
                self._write(f"{label}: {address}\n")
        if status.elapsed < self._due:
            return
        self._due = status.elapsed + _STATUS_INTERVAL
        if (line := format_status(status)) != self._last:
            self._last = line
            self.report(status.elapsed, f"{line}; {format_next(status)}")

    def report(self, elapsed: float, line: str) -> None:
        """Print what has happened."""
        self._write(f"{elapsed:6.1f}s  {plain(line)}\n")

    def _write(self, text: str) -> None:
        """Print a line; when the reader has gone away, nothing more is printed, and the demo ends."""
        if self._closed:
            return
        try:
            click.echo(text, nl=False)
            sys.stdout.flush()
        except OSError:
            self._closed = True
            self._stop()


def format_status(status: Status) -> str:
    """The status, in one line."""
    now = status.now
    return (
        f"cpu {_range(now.cpu)} (gap {_gap(now.cpu)}), memory {_range(now.memory)}, {now.hot_nodes} hot nodes; "
        f"{status.pods} pods, {status.pending} without a node; moves: {format_moves(status)}; {format_budgets(status)}"
    )


def format_result(result: Result, arrow: str) -> str:
    """The result, in one line."""
    status = result.status
    before = f"{_range(status.before.cpu)} {arrow} " if status.before is not None else ""
    how = f"goal reached after {result.seconds:.1f} s" if result.reached else "ended before the goal was reached"
    return plain(
        f"{status.scenario}: {how}: {status.goal}; {status.completed} moves done, {status.failed} failed; "
        f"cpu {before}{_range(status.now.cpu)}; {format_budgets(status)}"
    )


def format_spread(before: LoadDistribution | None, now: LoadDistribution, arrow: str) -> str:
    """The spread of a resource across nodes at the start and now."""
    if before is None:
        return f"{_range(now)}, mean {now.mean:.0f}%, gap {_gap(now)}"
    return f"{_range(before)} {arrow} {_range(now)}, mean {now.mean:.0f}%, gap {_gap(before)} {arrow} {_gap(now)}"


def format_moves(status: Status) -> str:
    """The counts of moves."""
    running = sum(each.status.phase is Phase.IN_PROGRESS for each in status.active)
    waiting = len(status.active) - running
    return f"{running} in progress, {waiting} waiting, {status.completed} done, {status.failed} failed"


def format_move(migration: PodMigration, arrow: str) -> str:
    """One move, in one line."""
    progress, order = migration.status, migration.spec
    target = progress.target or order.target  # a pod that is removed has none
    way = f"{progress.source} {arrow} {target}".strip() if target else progress.source  # a pending move has no source
    at = progress.phase.value if progress.over else progress.step or progress.phase.value
    method = f" by {progress.method.value}" if progress.method else ""
    return plain(f"{order.pod.name}  {way}{method}: {at}")


def format_next(status: Status) -> str:
    """The next event."""
    plan = "" if status.next_plan is None else f"next plan in {status.next_plan:.0f} s; "
    if status.paused:
        plan = f"{plain(status.paused)}; "
    if status.next_step_in is not None:
        return f"{plan}in {status.next_step_in:.0f} s {status.next_step}"
    return f"{plan}waiting for: {status.next_step}"


def format_budgets(status: Status) -> str:
    """The checks and violations of disruption budgets."""
    return f"disruption budgets: {status.budgets_checked} checks, {status.budgets_broken} violations"


def format_clock(seconds: float) -> str:
    """`1:05`."""
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


def _range(spreading: LoadDistribution) -> str:
    return f"{spreading.min:.0f}-{spreading.max:.0f}%"


def _gap(spreading: LoadDistribution) -> str:
    return f"{spreading.max - spreading.min:.0f}"
