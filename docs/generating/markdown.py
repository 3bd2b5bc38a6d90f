"""What every page is written with: tables, and docstrings in one line."""

from __future__ import annotations

import inspect
import re
from collections.abc import Sequence


def words(thing: object) -> str:
    """A docstring in one line."""
    return " ".join(inspect.cleandoc(thing.__doc__ or "").split())


def table(headers: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = ["| " + " | ".join(headers) + " |", "|" + "---|" * len(headers)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(re.sub(r" +\|$", " |", line) for line in lines) + "\n"
