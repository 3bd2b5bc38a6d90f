"""The columns of custom resources: those that their definition names by JSONPath, or name and age alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kubemini.refusals import Json
from kubemini.server import ages
from kubemini.server.columns import NAME, Cells, Column, Printer, age_of, name_of
from kubemini.server.jsonpath import Path, PathError, parse_path

_AGE = Column("Age", "date")
_NOWHERE = Path((lambda _: iter(()),))


def custom_printer(columns: Sequence[Json]) -> Printer:
    """The printer that `additionalPrinterColumns` describe."""
    if not columns:
        return Printer([NAME, _AGE], lambda body: [name_of(body), age_of(body)])
    paths = [(_path(each.get("jsonPath", "")), each.get("type", "string")) for each in columns]

    def row(body: Json) -> Cells:
        return [name_of(body), *(_cell(path.find(body), sort) for path, sort in paths)]

    return Printer([NAME, *(_column(each) for each in columns)], row)


def _column(column: Json) -> Column:
    path = column.get("jsonPath", "")
    return Column(
        name=column.get("name", ""),
        type=column.get("type", "string"),
        priority=column.get("priority", 0),
        format=column.get("format", ""),
        description=column.get("description") or f"Custom resource definition column (in JSONPath format): {path}",
    )


def _path(text: str) -> Path:
    try:
        return parse_path(text)
    except PathError:
        return _NOWHERE  # the definition was accepted: an empty column beats no table


def _cell(found: list[Any], sort: str) -> Any:
    """The first of what a path leads to, if it is of the column's type; texts take anything."""
    value = found[0] if found else None
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    match sort:
        case _ if value is None:
            return None
        case "string":
            return value if isinstance(value, str) else msgspec.json.encode(value).decode()
        case "integer" if is_number:
            return int(value)
        case "number" if is_number:
            return value
        case "boolean" if isinstance(value, bool):
            return value
        case "date" if isinstance(value, str):
            return ages.age(value)
    return None
