"""Progress while reading: late, on a terminal's stderr only, and gone when reading is done."""

from __future__ import annotations

import io

import pytest

from rescheduler.cli import progress


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def _read(*, of_bytes: bool, total: int | None) -> None:
    with progress.show_bytes_read(total, of_bytes=of_bytes) as advance:
        for _ in range(10):
            advance(1_000_000)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    monkeypatch.setenv("TERM", "xterm")


def _shown(monkeypatch: pytest.MonkeyPatch, stream: io.StringIO, *, of_bytes: bool, total: int | None) -> str:
    monkeypatch.setattr("sys.stderr", stream)
    _read(of_bytes=of_bytes, total=total)
    return stream.getvalue()


@pytest.mark.usefixtures("impatient")
def test_files_are_counted_in_bytes_and_live_clusters_in_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "10.0 MB" in _shown(monkeypatch, _Terminal(), of_bytes=True, total=10_000_000)
    assert "objects" in _shown(monkeypatch, _Terminal(), of_bytes=False, total=None)


@pytest.mark.usefixtures("impatient")
def test_nothing_is_shown_where_stderr_is_not_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _shown(monkeypatch, io.StringIO(), of_bytes=True, total=10_000_000) == ""
    monkeypatch.setenv("TERM", "dumb")
    assert _shown(monkeypatch, _Terminal(), of_bytes=True, total=10_000_000) == ""


def test_nothing_is_shown_when_reading_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    assert _shown(monkeypatch, _Terminal(), of_bytes=True, total=10_000_000) == ""
