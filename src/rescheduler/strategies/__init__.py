"""The strategies, one file each. They are discovered: adding one changes nothing else here."""

from __future__ import annotations

from functools import lru_cache

from rescheduler.planning.api import Strategy
from rescheduler.planning.discovery import find_classes
from rescheduler.planning.settings import StrategySettings


@lru_cache(maxsize=1)
def discover() -> dict[str, type[Strategy[StrategySettings]]]:
    """Return all strategies of this package by name, in the order in which they run."""
    kinds = find_classes(__name__, __path__, Strategy)  # type: ignore[type-abstract]  # only concrete ones are yielded
    return {each.name: each for each in sorted(kinds, key=lambda each: (each.order, each.name))}


def mandatory_strategies() -> list[type[Strategy[StrategySettings]]]:
    """Return the strategies whose moves a person wants: those that empty nodes under maintenance."""
    return [strategy for strategy in discover().values() if strategy.mandatory]


def name_mandatory() -> str:
    """Name them in a sentence: `A or B`."""
    return " or ".join(strategy.name for strategy in mandatory_strategies())


def settings_by_name() -> dict[str, type[StrategySettings]]:
    """Return the settings class of each strategy."""
    return {name: strategy.settings_type for name, strategy in discover().items()}
