"""Releases are of one mind: tag, version and CHANGELOG."""

from __future__ import annotations

from pathlib import Path

import pytest
from release import tree
from release.tag import complaints, facts
from release.tree import ROOT, VERSION_FILE

from rescheduler import __version__


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src" / "rescheduler").mkdir(parents=True)
    (tmp_path / VERSION_FILE).write_text('"""x"""\n\n__version__ = "1.2.0"\n')
    (tmp_path / "CHANGELOG.md").write_text(
        "# Changelog\n\n## [Unreleased]\n\n## [1.2.0] - 2027-01-31\n\n## [1.1.0] - 2026-12-01\n"
    )
    return tmp_path


def test_a_tag_that_says_the_same_as_version_and_changelog_passes(project: Path) -> None:
    assert complaints("v1.2.0", project) == []


@pytest.mark.parametrize(
    ("tag", "told"),
    [
        ("v1.2.1", ["the tag is v1.2.1, and src/rescheduler/__init__.py has 1.2.0: they have to be the same"]),
        ("1.2.0", ["the tag 1.2.0 is not of the form v1.2.3 or v1.2.3rc1", "the tag is 1.2.0, and"]),
    ],
)
def test_another_tag_is_refused(project: Path, tag: str, told: list[str]) -> None:
    found = complaints(tag, project)
    assert len(found) == len(told)
    assert all(line.startswith(start) for line, start in zip(found, told, strict=True))


def test_no_tag_is_no_release() -> None:
    assert complaints("") == ["say which tag: make release-check TAG=v1.2.3"]


def test_what_is_built_is_told_a_line_a_fact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "12")
    told = dict(line.split("=", 1) for line in facts().splitlines())
    assert (told["version"], told["epoch"], told["commit"]) == (__version__, "12", tree.commit())
    assert told["prerelease"] == ("false" if __version__.replace(".", "").isdigit() else "true")


def test_the_changelogs_newest_release_has_to_be_this_one(project: Path) -> None:
    (project / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n\n## [1.1.0] - 2026-12-01\n")
    assert complaints("v1.2.0", project) == [
        "the newest release of CHANGELOG.md is 1.1.0, and src/rescheduler/__init__.py has 1.2.0"
    ]
    (project / "CHANGELOG.md").write_text("# Changelog\n\n## [Unreleased]\n")
    assert "add `## [1.2.0] - year-month-day`" in complaints("v1.2.0", project)[0]


def test_a_version_of_development_cannot_be_released() -> None:
    assert complaints("v0.1.0.dev0", ROOT)
