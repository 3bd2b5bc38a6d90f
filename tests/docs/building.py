"""Builds the site as `make site` does, into a folder of a test."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.docs.pages import ROOT


def built_site(folder: Path) -> Path:
    """The folder, with the site in it; a warning is an error."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert "WARNING" not in ran.stderr, ran.stderr
    return folder
