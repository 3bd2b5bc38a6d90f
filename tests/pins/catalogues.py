"""References that are made from the code: strategies, configuration, guards, predicates, metrics, Events and rights.

`docs.generating` makes the pages that users read, and `charts` the JSON schema of the configuration. So the pins need
no names of the product's modules.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from charts.config_schema import config_schema
from docs.generating.writing import PAGES

_REFERENCE = "#/$defs/"


def _configuration_schema() -> str:
    """The schema with its definitions put in their places, because their names are those of classes."""
    root, definitions = config_schema()
    return json.dumps(_without_references(root, definitions), indent=1, ensure_ascii=False) + "\n"


def _without_references(schema: Any, definitions: dict[str, Any]) -> Any:
    if isinstance(schema, list):
        return [_without_references(each, definitions) for each in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: _without_references(value, definitions) for key, value in schema.items() if key != "$ref"}
    if "$ref" in schema:
        meant = definitions[schema["$ref"].removeprefix(_REFERENCE)]
        found = {**_without_references(meant, definitions), **found}
    return found


CATALOGUES: dict[str, Callable[[], str]] = {
    **{page.removesuffix(".md"): make for page, make in PAGES.items() if page != "commands.md"},
    "configuration-schema": _configuration_schema,
}
"""The command reference is left out: `help/` has the same texts."""
