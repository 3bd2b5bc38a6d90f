"""Gives wheel and sdist a README whose links lead somewhere: PyPI shows it far from the files that it names.

Links to files of the checkout become links to the project's page, and pictures to their bytes. hatchling calls it for
every build, also of the editable kind.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

PROJECT = "https://github.com/kube-rescheduler/kube-rescheduler"
_LINK = re.compile(r"(?P<picture>!?)(?P<text>\[[^\]]*\])\((?P<path>(?![a-z]+:|#)[^)\s]+)\)")


class ReadmeHook(MetadataHookInterface):
    """The field `readme`, which pyproject.toml declares dynamic."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Called with the fields of pyproject.toml, before any build."""
        text = (Path(self.root) / "README.md").read_text(encoding="utf-8")
        metadata["readme"] = {"content-type": "text/markdown", "text": published(text)}


def published(text: str) -> str:
    """The README as it is read elsewhere; code is left as it is."""
    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(part if part.startswith("```") else _LINK.sub(_absolute, part) for part in parts)


def _absolute(link: re.Match[str]) -> str:
    kind = "raw" if link["picture"] else "blob"
    return f"{link['picture']}{link['text']}({PROJECT}/{kind}/main/{link['path']})"
