"""Puts the commit that was built into wheel and sdist, as `rescheduler/commit.txt`; hatchling calls it.

The commit is what RESCHEDULER_COMMIT says (release.dist and the Dockerfile set it). Where nobody says one, nothing is
added, and an sdist that has the file passes it on to the wheels that are built from it.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

IN_PACKAGE = "rescheduler/commit.txt"


class CommitHook(BuildHookInterface):  # type: ignore[type-arg]  # hatchling finds it by its base, which is generic in its configuration only
    """One file more, if the commit is known."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before each build; `version` is the kind of it, such as standard or editable."""
        commit = os.environ.get("RESCHEDULER_COMMIT", "")
        if not commit or version == "editable" or (Path(self.root) / "src" / IN_PACKAGE).exists():
            return
        if not re.fullmatch(r"[0-9a-f]{7,64}(-dirty)?", commit):
            raise ValueError(f"RESCHEDULER_COMMIT: {commit!r} is not a commit's hash")
        self._folder = tempfile.TemporaryDirectory()
        file = Path(self._folder.name) / "commit.txt"
        file.write_text(f"{commit}\n", encoding="ascii")
        prefix = "src/" if self.target_name == "sdist" else ""
        build_data["force_include"][str(file)] = prefix + IN_PACKAGE

    def finalize(self, version: str, build_data: dict[str, Any], artifact_path: str) -> None:
        """Called after each build."""
        if hasattr(self, "_folder"):
            self._folder.cleanup()
