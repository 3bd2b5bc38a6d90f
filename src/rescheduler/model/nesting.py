"""A limit on how deep YAML may be nested, checked before it is loaded.

libyaml composes recursively in C without a limit of its own: a file of 200,000 brackets would end the process. Its
events come one at a time, so they can be counted safely. Every reader of YAML asks here first.
"""

from __future__ import annotations

import yaml

MAX_DEPTH = 100


class NestingError(yaml.YAMLError):
    """YAML that is nested too deeply to be anything of ours."""


def check_nesting(text: str | bytes) -> None:
    """Raise NestingError, with line and column, where the text goes deeper than any document of ours does."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.CSafeLoader):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MAX_DEPTH:
            at = f"line {event.start_mark.line + 1}, column {event.start_mark.column + 1}"
            raise NestingError(f"{at}: is nested deeper than {MAX_DEPTH} levels")
