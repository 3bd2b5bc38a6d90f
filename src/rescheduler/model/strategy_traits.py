"""What strategies declare about their moves, looked up by name: a PodMigration has only its strategy's name.

Each subclass of `planning.api.Strategy` is entered when it is defined; `strategies.discover` defines them all.
"""

from __future__ import annotations

from typing import NamedTuple

MANUAL = "Manual"
"""The strategy name of moves that a person ordered."""


class StrategyTraits(NamedTuple):
    """What one strategy declares."""

    mandatory: bool = False
    can_undo: bool = True
    for_gain: bool = True


_declared: dict[str, StrategyTraits] = {}


def declare(name: str, traits: StrategyTraits) -> None:
    """Enter a strategy."""
    _declared[name] = traits


def is_mandatory(strategy: str) -> bool:
    """Whether its moves are made because a person wants them, whatever they gain; also moves ordered by hand."""
    return strategy == MANUAL or _traits(strategy).mandatory


def can_undo(strategy: str) -> bool:
    """Whether a move of it that goes back means that the earlier move was wrong."""
    return _traits(strategy).can_undo


def is_for_gain(strategy: str) -> bool:
    """Whether its moves are meant to make a node less busy."""
    return _traits(strategy).for_gain


def _traits(strategy: str) -> StrategyTraits:
    if not _declared:
        raise RuntimeError("no strategy is loaded: call strategies.discover() first")
    return _declared.get(strategy, StrategyTraits())  # a strategy of another version, or none at all
