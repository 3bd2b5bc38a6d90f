"""The parts of requirements.lock: in step with it, entries unchanged, and mistakes told with their cure."""

from __future__ import annotations

from pathlib import Path

import pytest
from release.lock import Entry, closure, entries, needs, parts, wanted
from release.tree import ROOT, ReleaseError


def test_the_kept_parts_are_what_the_lock_says() -> None:
    for path, text in wanted():
        assert (ROOT / path).read_text(encoding="utf-8") == text, "run `python -m release.lock`"


def test_every_line_of_a_part_is_one_of_the_lock() -> None:
    whole = (ROOT / "requirements.lock").read_text(encoding="utf-8")
    for part in parts():
        header, _, body = (ROOT / part.path).read_text(encoding="utf-8").partition("\n")
        assert header.startswith("# Made from requirements.lock")
        assert set(body.splitlines()) <= set(whole.splitlines())


def test_every_entry_has_hashes() -> None:
    for variants in entries().values():
        assert all(entry.hashes for entry in variants)


def test_what_is_needed_on_other_pythons_and_platforms_counts() -> None:
    lock = entries()
    assert "colorama" in needs("pytest", lock)  # on Windows only
    assert {entry.version for entry in closure(["numpy"], lock)} == {entry.version for entry in lock["numpy"]}
    assert "coverage" not in needs("pytest", lock)  # an extra of it


def test_a_package_that_the_lock_lacks_is_named_with_the_cure() -> None:
    with pytest.raises(ReleaseError, match=r"nonesuch is needed, and not in requirements.lock: run `make lock`"):
        closure(["nonesuch"], entries())


def test_an_environment_that_is_behind_the_lock_is_refused() -> None:
    newer = Entry("click", "99.0", "", ("sha256:0",), "")
    with pytest.raises(ReleaseError, match=r"click .* is installed, and not in requirements.lock: run `make setup`"):
        needs("click", {"click": (newer,)})


def test_an_entry_that_is_not_understood_is_no_silent_loss(tmp_path: Path) -> None:
    (tmp_path / "requirements.lock").write_text("click==8.1\n")
    with pytest.raises(ReleaseError, match="1 packages, of which 0 were understood"):
        entries(tmp_path)
