"""A converted configuration as YAML, with a comment wherever a value is not quite what it was.

`converting` calls it last. The fields come in the order of docs/configuration.md.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Mapping, Sequence

from rescheduler.config.conversion.draft import Path
from rescheduler.config.document import dump_document
from rescheduler.config.forms import NATIVE_KIND, NATIVE_VERSION
from rescheduler.config.schema import Fields
from rescheduler.config.translation import fields_by_name

_WIDEST = 110
_SPECIAL = frozenset(",[]{}#")
Comments = Mapping[Path, Sequence[str]]


def written(data: Mapping[str, object], comments: Comments, opening: Sequence[str]) -> str:
    """The text of a configuration."""
    order = {name: place for place, name in enumerate(fields_by_name(Fields))}
    fields = dict(sorted(data.items(), key=lambda item: order.get(item[0], len(order))))
    lines = [line for text in opening for line in _comment(text, "")]
    lines += [f"apiVersion: {NATIVE_VERSION}", f"kind: {NATIVE_KIND}", *_mapping(fields, comments, (), "")]
    return "\n".join(lines) + "\n"


def _mapping(data: Mapping[str, object], comments: Comments, at: Path, indent: str) -> Iterator[str]:
    for name, value in data.items():
        path = (*at, name)
        for text in comments.get(path, ()):
            yield from _comment(text, indent)
        if isinstance(value, dict) and value:
            yield f"{indent}{_key(name)}:"
            yield from _mapping(value, comments, path, indent + "  ")
        elif isinstance(value, list) and value and all(isinstance(each, dict) and each for each in value):
            yield f"{indent}{_key(name)}:"
            for index, each in enumerate(value):
                inside = [*_mapping(each, comments, (*path, index), indent + "    ")]
                yield f"{indent}  - {inside[0].strip()}"
                yield from inside[1:]
        else:
            yield from _leaf(name, value, indent)


def _leaf(name: str, value: object, indent: str) -> Iterator[str]:
    texts = [dump_document({"x": each}).rstrip("\n") for each in value] if isinstance(value, list) else []
    if texts and not any("\n" in text for text in texts):
        items = [text.removeprefix("x: ") for text in texts]
        flat = f"{indent}{_key(name)}: [{', '.join(items)}]"
        if len(flat) <= _WIDEST and not any(set(item) & _SPECIAL for item in items):
            yield flat
            return
        yield f"{indent}{_key(name)}:"
        yield from (f"{indent}  - {item}" for item in items)
        return
    yield from (indent + line for line in dump_document({name: value}).rstrip("\n").splitlines())


def _key(name: str) -> str:
    return dump_document({name: None}).rstrip("\n").removesuffix(": null")


def _comment(text: str, indent: str) -> Iterator[str]:
    yield from textwrap.wrap(text, _WIDEST, initial_indent=f"{indent}# ", subsequent_indent=f"{indent}# ")
