"""The base of every strategy's settings: frozen, strict, camelCase outside and snake_case inside.

A field's description is its documentation: docs/strategies.md and the configuration reference are made from it. Types
for fields that are more than a number or a word are in `model.fields`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import ClassVar, NamedTuple

from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from rescheduler.model.policy import Thresholds


class Misfit(NamedTuple):
    """Where settings do not fit what else the configuration says: the path within them, and why."""

    path: tuple[str, ...]
    why: str


class StrategySettings(BaseModel):
    """Settings of one strategy; subclass it beside the strategy and describe each field."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)
    conflicts_with: ClassVar[frozenset[str]] = frozenset()
    """Strategies whose moves this one would undo, and they its own: the two cannot run for the same nodes."""

    def misfits(self, thresholds: Thresholds, counted: Collection[str]) -> Iterable[Misfit]:
        """What cannot be meant where nodes have these thresholds, and these resources count."""
        return ()
