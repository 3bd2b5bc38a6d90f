"""Names that were probably meant, for those that don't exist."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

_COMPARED = 5_000
_PREFIX = 3


def nearest_names(name: str, names: Iterable[str], most: int = 3) -> list[str]:
    """The nearest names, best first. Of very many, those with the same first letters: comparing takes its time."""
    known = list(names)
    if len(known) > _COMPARED:
        known = [candidate for candidate in known if candidate[:_PREFIX] == name[:_PREFIX]][:_COMPARED]
    return get_close_matches(name[:256], known, n=most)
