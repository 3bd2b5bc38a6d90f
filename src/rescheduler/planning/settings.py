"""The base of every strategy's settings: frozen, strict, camelCase outside and snake_case inside.

A field's description is its documentation: docs/strategies.md and the configuration reference are made from it. The
types here are for fields that are more than a number or a word.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Annotated, ClassVar, NamedTuple

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    PlainSerializer,
    PlainValidator,
    ValidationInfo,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel

from rescheduler.model.policy import Thresholds
from rescheduler.model.selector import SelectorError, parse_selector
from rescheduler.model.time import format_duration, parse_duration


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


def _check_duration(value: object, info: ValidationInfo) -> float:
    if isinstance(value, float) and info.mode == "python":
        return value  # already seconds, as `model_dump` gives them; files give text
    if not isinstance(value, str):
        cure = f": write {value}s for seconds" if isinstance(value, int) and not isinstance(value, bool) else ""
        raise ValueError(f"{_said(value)}, expected a duration such as 30s{cure}")  # noqa: TRY004 - pydantic wants ValueError
    seconds = parse_duration(value)
    if seconds < 0:
        raise ValueError(f"{value} is not at least 0s")
    return seconds


def _check_text(value: object) -> object:
    if not isinstance(value, str):
        raise ValueError(f"{_said(value)}, expected a label selector as text, such as app=web,tier!=db")  # noqa: TRY004
    return value


def _said(value: object) -> str:
    """What was given instead of text, in the words of `config.errors`, which is out of reach from here."""
    if isinstance(value, bool):
        return f"{str(value).lower()} is a boolean"
    if isinstance(value, (int, float)):
        return f"{value} is a number"
    return "is null" if value is None else f"is a {'mapping' if isinstance(value, dict) else 'list'}"


def _check_selector(text: str) -> str:
    try:
        parse_selector(text)
    except SelectorError as error:
        raise ValueError(f"{text!r} is not a label selector: {error}") from error
    return text


Duration = Annotated[
    float,
    PlainValidator(_check_duration),
    PlainSerializer(format_duration, when_used="json"),
    WithJsonSchema({"type": "string", "format": "duration", "x-minimum": "0s"}),
]
"""Seconds; `24h` in files."""

LabelSelector = Annotated[
    str,
    BeforeValidator(_check_text),
    AfterValidator(_check_selector),
    WithJsonSchema({"type": "string", "format": "label selector"}),
]
"""The text of a label selector; empty selects everything."""
