"""Folders that are costly to make and that several tests look at: made once in a run, also with several workers."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.testbed.toolchain import hold_lock


def made_once(factory: pytest.TempPathFactory, name: str, make: Callable[[Path], None]) -> Path:
    """The folder of this name, made by the first worker that asks; whoever looks at it must not change it."""
    base = factory.getbasetemp()
    shared = base.parent if "PYTEST_XDIST_WORKER" in os.environ else base
    folder = shared / f"once-{name}"
    with hold_lock(shared / f"once-{name}.lock"):
        if not (folder / ".made").exists():
            folder.mkdir()  # a worker that failed to make it leaves it; the others then fail at once, and say where
            make(folder)
            (folder / ".made").touch()
    return folder
