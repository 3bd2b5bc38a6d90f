"""Finds the classes of a package that has one rule per file, so that a new file is all that a new rule needs."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import TypeVar

Kind = TypeVar("Kind")


def find_classes(package: str, path: Iterable[str], base: type[Kind]) -> Iterator[type[Kind]]:
    """Import the modules of a package and yield the subclasses of `base` that they define.

    `base` and packages (`support`) hold what the rules share, and are left out.
    """
    for module in pkgutil.iter_modules(path):
        if module.ispkg or module.name == "base":
            continue
        loaded = import_module(f"{package}.{module.name}")
        for found in vars(loaded).values():
            if isinstance(found, type) and issubclass(found, base) and found.__module__ == loaded.__name__:
                yield found
