"""The values of the chart as values.yaml has them: each with its default and the comment above it.

From here `value_schema` takes descriptions and types, and `generate` the tables of README.md and docs/installing.md: so
values.yaml is the one place in which a value is described.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import yaml
from yaml.nodes import MappingNode

Path = tuple[str, ...]


@dataclass(frozen=True)
class Value:
    """One value, or a mapping of values."""

    path: Path
    default: Any
    comment: str

    @property
    def name(self) -> str:
        return ".".join(part if "." not in part else f'"{part}"' for part in self.path)

    @property
    def is_section(self) -> bool:
        return isinstance(self.default, dict) and bool(self.default)


def values_of(text: str) -> list[Value]:
    """Every value, a section before what is in it; a ValueError names those without a comment."""
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if not isinstance(root, MappingNode):
        raise ValueError("values.yaml is not a mapping")  # noqa: TRY004 - it is the text that is wrong
    found = list(_values(root, yaml.safe_load(text), (), text.splitlines()))
    if bare := [each.name for each in found if not each.comment]:
        raise ValueError(f"values without a comment above them: {', '.join(bare)}")
    return found


def _values(node: MappingNode, data: Any, at: Path, lines: Sequence[str]) -> Iterator[Value]:
    for key, value in node.value:
        path, line = (*at, str(key.value)), key.start_mark.line
        default = data[key.value]
        yield Value(path, default, _comment_above(line, key.start_mark.column, lines))
        if isinstance(value, MappingNode) and value.value:
            yield from _values(value, default, path, lines)


def _comment_above(line: int, column: int, lines: Sequence[str]) -> str:
    """The lines of comment that end just above, as far in as the key is."""
    opening = " " * column + "# "
    first = line
    while first and lines[first - 1].startswith(opening):
        first -= 1
    return " ".join(each.removeprefix(opening) for each in lines[first:line])


def table(values: Sequence[Value]) -> str:
    """All of them as a table for people."""
    rows = ["| value | default | what it is |", "|---|---|---|"]
    for each in values:
        default = "" if each.is_section else f"`{json.dumps(each.default, ensure_ascii=False)}`"
        comment = each.comment.replace("|", "\\|")
        rows.append(f"| `{each.name}` |{f' {default}' if default else ''} | {comment} |")
    return "\n".join(rows) + "\n"
