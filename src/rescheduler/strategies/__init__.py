"""Strategies: one file each, found by itself. Nothing here needs to change when one is added."""

from __future__ import annotations

from functools import lru_cache

from rescheduler.planning.api import Strategy
from rescheduler.planning.discovery import find_classes
from rescheduler.planning.settings import StrategySettings


@lru_cache(maxsize=1)
def discover() -> dict[str, type[Strategy[StrategySettings]]]:
    """Find every strategy in this package, by name, in the order in which they run."""
    kinds = find_classes(__name__, __path__, Strategy)  # type: ignore[type-abstract]  # only concrete ones are yielded
    return {each.name: each for each in sorted(kinds, key=lambda each: (each.order, each.name))}


def settings_by_name() -> dict[str, type[StrategySettings]]:
    """Each strategy's settings class."""
    return {name: strategy.settings_type for name, strategy in discover().items()}
