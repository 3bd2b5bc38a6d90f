"""Progress of reading and of migrations: a live line on a terminal; migrations are lines where there is none."""

from __future__ import annotations

import io
import logging

import pytest

from rescheduler.cli import progress
from rescheduler.cli.progress import MigrationProgress, describe_migration, show_bytes_read, show_progress
from rescheduler.model.migration import MigrationStatus, Phase, PodMigration
from tests.support.pod_migrations import migration_spec, pod_migration


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def migration(name: str, phase: Phase = Phase.IN_PROGRESS, **made: object) -> PodMigration:
    return pod_migration("shop", name, migration_spec(f"web-{name}"), MigrationStatus(phase, **made))  # type: ignore[arg-type] # its fields


def _shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, *told: PodMigration) -> str:
    monkeypatch.setattr("sys.stderr", stream)
    with show_progress() as line:
        tracker = MigrationProgress(line, 2)
        for each in told:
            tracker.show(each)
    return stream.getvalue()


def test_a_line_for_each_change_where_there_is_no_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    first = migration("a", step="AwaitReady", message="not Ready yet")
    shown = _shown(monkeypatch, io.StringIO(), first, first, migration("a", Phase.COMPLETED))
    assert shown == "shop/web-a: AwaitReady: not Ready yet\nshop/web-a: Completed\n"


def test_one_live_line_on_a_terminal_which_is_gone_at_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    shown = _shown(monkeypatch, _Terminal(), migration("a", Phase.COMPLETED), migration("b", step="[bold]Mark"))
    assert "1 of 2 moved; shop/web-b: [bold]Mark" in shown
    assert shown.endswith("\x1b[2K")


def test_a_dumb_terminal_gets_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    assert _shown(monkeypatch, _Terminal(), migration("a", step="Mark")) == "shop/web-a: Mark\n"


def test_what_watching_warns_of_is_a_message_and_only_meanwhile(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    log = logging.getLogger("rescheduler.kube.reflector")
    with show_progress():
        log.warning("podmigrations: cut off; tried again")
        log.info("of no interest")
    log.warning("later")
    assert stream.getvalue() == "warning: podmigrations: cut off; tried again\n"


def test_attempts_and_failures_are_told() -> None:
    assert describe_migration(migration("a", step="Mark", attempts=2)) == "shop/web-a: Mark (attempt 2)"
    assert (
        describe_migration(migration("a", Phase.PENDING, message="waits for room"))
        == "shop/web-a: Pending: waits for room"
    )
    assert (
        describe_migration(migration("a", Phase.FAILED, message="no room", attempts=3)) == "shop/web-a: Failed: no room"
    )


def test_failed_moves_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    shown = _shown(monkeypatch, _Terminal(), migration("a", Phase.FAILED, message="no room"))
    assert "0 of 2 moved, 1 failed; shop/web-a: Failed: no room" in shown


def _read(*, of_bytes: bool, total: int | None) -> None:
    with show_bytes_read(total, of_bytes=of_bytes) as advance:
        for _ in range(10):
            advance(1_000_000)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    monkeypatch.setenv("TERM", "xterm")


def _shown_while_reading(
    monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, *, of_bytes: bool, total: int | None
) -> str:
    monkeypatch.setattr("sys.stderr", stream)
    _read(of_bytes=of_bytes, total=total)
    return stream.getvalue()


@pytest.mark.usefixtures("impatient")
def test_files_are_counted_in_bytes_and_live_clusters_in_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "10.0 MB" in _shown_while_reading(monkeypatch, _Terminal(), of_bytes=True, total=10_000_000)
    assert "objects" in _shown_while_reading(monkeypatch, _Terminal(), of_bytes=False, total=None)


@pytest.mark.usefixtures("impatient")
def test_nothing_is_shown_while_reading_where_stderr_is_not_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _shown_while_reading(monkeypatch, io.StringIO(), of_bytes=True, total=10_000_000) == ""
    monkeypatch.setenv("TERM", "dumb")
    assert _shown_while_reading(monkeypatch, _Terminal(), of_bytes=True, total=10_000_000) == ""


def test_nothing_is_shown_while_reading_when_reading_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _shown_while_reading(monkeypatch, _Terminal(), of_bytes=True, total=10_000_000) == ""
