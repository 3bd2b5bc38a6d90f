"""The unit tests mirror `src`: a folder for each package that has some, and a test module begins with what it tests."""

from __future__ import annotations

from pathlib import Path

import pytest

UNIT = Path(__file__).parent
SOURCES = UNIT.parents[1] / "src"
PACKAGES = {"demo": SOURCES / "rescheduler_demo", "kubemini": SOURCES / "kubemini"}
"""Folders whose package is not in `src/rescheduler`."""
ABOUT_THE_REPOSITORY = {
    "test_docs.py",  # README, CONTRIBUTING and docs/
    "test_image.py",  # the Dockerfile
    "test_layout.py",  # the folders of the tests
    "test_tiers.py",  # the Makefile
}
"""Tests of no module of `src`: they stay at the top."""
FOLDERS = sorted({module.parent.relative_to(UNIT) for module in UNIT.rglob("test_*.py")} - {Path()})


def find_package(folder: Path) -> Path:
    root, *below = folder.parts
    return PACKAGES.get(root, SOURCES / "rescheduler" / root).joinpath(*below)


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_a_folder_has_the_name_of_a_package(folder: Path) -> None:
    assert (find_package(folder) / "__init__.py").is_file()


@pytest.mark.parametrize("folder", FOLDERS, ids=str)
def test_a_test_module_begins_with_the_name_of_a_module(folder: Path) -> None:
    # A folder beside the modules counts as one: a package, or `web/page`, which has JavaScript.
    names = {path.stem for path in find_package(folder).iterdir()}
    strays = [
        module.name
        for module in sorted((UNIT / folder).glob("test_*.py"))
        if not any(f"{module.stem}_".startswith(f"test_{name}_") for name in names)
    ]
    assert not strays, f"none of them has a module in {find_package(folder)}"


def test_what_is_at_the_top_is_about_the_repository() -> None:
    assert {path.name for path in UNIT.glob("test_*.py")} == ABOUT_THE_REPOSITORY
