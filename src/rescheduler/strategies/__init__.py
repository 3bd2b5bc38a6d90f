"""Strategies: one file each, found by itself. Nothing here needs to change when one is added."""

from __future__ import annotations

import pkgutil
from functools import lru_cache
from importlib import import_module

from rescheduler.planning.api import Strategy
from rescheduler.planning.settings import StrategySettings


@lru_cache(maxsize=1)
def discover() -> dict[str, type[Strategy[StrategySettings]]]:
    """Every strategy in this package, by name, in the order in which they run."""
    found: dict[str, type[Strategy[StrategySettings]]] = {}
    for module in pkgutil.iter_modules(__path__):
        if module.ispkg:
            continue  # `support`: what several strategies share
        loaded = import_module(f"{__name__}.{module.name}")
        for thing in vars(loaded).values():
            if isinstance(thing, type) and issubclass(thing, Strategy) and thing.__module__ == loaded.__name__:
                found[thing.name] = thing
    return dict(sorted(found.items(), key=lambda item: (item[1].order, item[0])))


def settings_by_name() -> dict[str, type[StrategySettings]]:
    """Each strategy's settings class."""
    return {name: strategy.settings_type for name, strategy in discover().items()}
