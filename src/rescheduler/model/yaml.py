"""Safe loading of YAML: with a limit on nesting, and with loaders that keep some scalars as text.

libyaml composes recursively in C without a limit: a file of 200,000 brackets would end the process. Its events come one
at a time, so they can be counted safely before anything is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import yaml

MAX_DEPTH = 100


class NestingError(yaml.YAMLError):
    """YAML that is nested too deeply."""


def check_nesting(text: str | bytes) -> None:
    """Raise NestingError, with line and column, if the text is nested deeper than any supported document."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            at = f"line {event.start_mark.line + 1}, column {event.start_mark.column + 1}"
            raise NestingError(f"{at}: is nested deeper than {MAX_DEPTH} levels")


def load_yaml(text: str | bytes, loader: type[yaml.CSafeLoader] = yaml.CSafeLoader) -> Any:
    """Load one document."""
    check_nesting(text)
    return yaml.load(text, Loader=loader)  # noqa: S506 - every CSafeLoader is safe


def load_all_yaml(text: str | bytes, loader: type[yaml.CSafeLoader] = yaml.CSafeLoader) -> Iterator[Any]:
    """Load all documents, one after the other."""
    check_nesting(text)
    return yaml.load_all(text, Loader=loader)


def resolve_only(loader: type[yaml.CSafeLoader], is_resolved: Callable[[str], bool]) -> None:
    """Let a loader recognize only these types of plain scalars (`null`, `bool`, `int`, …); all others stay text."""
    loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if is_resolved(tag.rpartition(":")[2])]
        for first, resolvers in yaml.CSafeLoader.yaml_implicit_resolvers.items()
    }
