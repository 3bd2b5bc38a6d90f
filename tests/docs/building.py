"""Builds the site as `make site` does, once for all tests of a run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.pages import ROOT
from tests.packaging.once import made_once


def built_site(factory: pytest.TempPathFactory) -> Path:
    """Return the folder of the site, built by the first worker that asks for it."""
    return made_once(factory, "site", _build) / "site"


def _build(folder: Path) -> None:
    """Build it; a warning is an error."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder / "site")]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "WARNING" not in ran.stderr, ran.stderr
