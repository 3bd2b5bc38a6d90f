"""Finds the rules of a package that has one rule per file, so that a new file is all that a new rule needs."""

from __future__ import annotations

import pkgutil
from collections.abc import Iterable, Iterator
from importlib import import_module
from types import ModuleType
from typing import TypeVar

Kind = TypeVar("Kind")


def find_modules(package: str, path: Iterable[str]) -> Iterator[ModuleType]:
    """Import the modules of a package, but `base` and packages (`support`), which hold what the rules share."""
    for module in pkgutil.iter_modules(path):
        if not module.ispkg and module.name != "base":
            yield import_module(f"{package}.{module.name}")


def find_classes(package: str, path: Iterable[str], base: type[Kind]) -> Iterator[type[Kind]]:
    """Find the subclasses of `base` that the modules of a package define."""
    for module in find_modules(package, path):
        for found in vars(module).values():
            if isinstance(found, type) and issubclass(found, base) and found.__module__ == module.__name__:
                yield found
