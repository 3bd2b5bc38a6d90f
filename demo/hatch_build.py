"""Puts the two packages of ../src into wheel and sdist of the demo; hatchling calls it.

An sdist brings them along in a src/ of its own, from which wheels are built. An editable install needs neither: it
leads to ../src.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGES = ("kubemini", "rescheduler_demo")


class DemoHook(BuildHookInterface):  # type: ignore[type-arg]  # hatchling finds it by its base, which is generic in its configuration only
    """The packages, from where they are."""

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Called before each build; `version` is the kind of it, such as standard or editable."""
        if version == "editable":
            return
        root = Path(self.root)
        source = root / "src" if (root / "src").exists() else root.parent / "src"
        prefix = "src/" if self.target_name == "sdist" else ""
        for name in PACKAGES:
            build_data["force_include"][str(source / name)] = prefix + name
