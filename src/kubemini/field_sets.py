"""Sets of fields of an object, as managedFields write them down: who owns what.

A field is a path of steps: `f:name` into an object, `k:{"name":"web"}` to an item of a keyed list, `v:"x"` to a member
of a set. `apply` keeps one set for each writer; `field_walks` makes them from objects. On the wire a set is a tree
(FieldsV1), in which `.` stands for a field that is owned itself besides what is in it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

import msgspec

from kubemini.refusals import Json

Path = tuple[str, ...]
Fields = frozenset[Path]


def field_step(name: str) -> str:
    """Into a field of an object."""
    return f"f:{name}"


def key_step(keys: Json) -> str:
    """To the item of a list that has these keys."""
    return "k:" + _json(keys)


def value_step(value: Any) -> str:
    """To the member of a set."""
    return "v:" + _json(value)


def as_tree(fields: Iterable[Path]) -> Json:
    """FieldsV1."""
    tree: Json = {}
    for path in sorted(fields):  # a field comes before what is in it
        below = tree
        for step in path:
            below = below.setdefault(step, {})
        below["."] = {}
    return _without_lone_dots(tree)


def from_tree(tree: Json, above: Path = ()) -> Fields:
    """The way back."""
    found: set[Path] = set()
    for step, below in tree.items():
        if step == ".":
            found.add(above)
            continue
        path = (*above, step)
        if not below:
            found.add(path)
        else:
            found |= from_tree(below, path)
    return frozenset(found)


def in_words(path: Path) -> str:
    """`.spec.containers[name="web"].image`, as conflicts name it."""
    words = ""
    for step in path:
        sort, text = step[:2], step[2:]
        if sort == "f:":
            words += f".{text}"
        elif sort == "k:":
            words += "[" + ",".join(f"{key}={json.dumps(value)}" for key, value in json.loads(text).items()) + "]"
        else:
            words += f"[={text}]"
    return words


def in_order(fields: Iterable[Path]) -> list[Path]:
    """As the API server lists them: at each level first what is owned there, then what is further in."""
    listed = list(fields)
    parents = {path[:length] for path in listed for length in range(1, len(path))}
    return sorted(listed, key=lambda path: [(path[: at + 1] in parents, step) for at, step in enumerate(path)])


def _json(value: Any) -> str:
    return msgspec.json.encode(value, order="sorted").decode()


def _without_lone_dots(tree: Json) -> Json:
    """A field with nothing further in it needs no dot."""
    return {
        step: {} if below.keys() == {"."} else _without_lone_dots(below) if step != "." else {}
        for step, below in tree.items()
    }
