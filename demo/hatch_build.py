"""Builds the demo's distribution from ../src; hatchling calls it.

An sdist brings the packages along in a src/ of its own, from which wheels are built; what is dynamic is then read from
its PKG-INFO. An editable install needs no files: it leads to ../src.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface
from hatchling.metadata.plugin.interface import MetadataHookInterface

PACKAGES = ("kubemini", "rescheduler_demo")


class DependenciesHook(MetadataHookInterface):
    """The field `dependencies`: kube-rescheduler of the very same version, because its modules are used."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called with the fields of pyproject.toml, before any build."""
        metadata["dependencies"] = [f"kube-rescheduler=={metadata['version']}", *self.config["dependencies"]]


class PackagesHook(BuildHookInterface):  # type: ignore[type-arg]  # hatchling finds it by its base, which is generic in its configuration only
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
