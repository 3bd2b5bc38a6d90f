"""JSON and YAML as kubectl prints them: from plain values to text that ends with a newline, always the same bytes.

Commands with `-o json|yaml` use it for plans, explanations and versions.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import yaml

FORMATS = ("json", "yaml")


class _Dumper(yaml.CSafeDumper):
    """The fast dumper, without anchors: they only puzzle."""

    def ignore_aliases(self, data: object) -> bool:
        return True


def document_text(data: Mapping[str, object], form: str) -> str:
    """The text of a document; `form` is one of FORMATS."""
    if form == "json":
        return msgspec.json.format(msgspec.json.encode(data), indent=2).decode() + "\n"
    # Not allow_unicode: libyaml would write line separators such as U+0085 as they are, and readers fold them.
    return yaml.dump(dict(data), Dumper=_Dumper, sort_keys=False, width=1 << 30)
