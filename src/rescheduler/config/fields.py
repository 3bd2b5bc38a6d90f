"""What configuration models are made of: the base of every section, and the types that fields have.

`schema` builds its models from them. Each checks a value as the file gave it and raises ValueError with the sentence
that the user reads; each also carries a JSON schema, from which `reference` takes what it says about a field's type.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
)
from pydantic.alias_generators import to_camel

from rescheduler.config.errors import not_an_integer, quote, wrong_type
from rescheduler.model.selector import SelectorError, parse_selector
from rescheduler.model.time import format_duration, parse_duration

UNLIMITED = "unlimited"
_MAX_INT32 = 2**31 - 1
_PERCENTAGE = re.compile(r"([0-9]{1,9})%", re.ASCII)
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


class Section(BaseModel):
    """A mapping of the file; its docstring introduces it in the reference."""

    model_config = ConfigDict(frozen=True, extra="forbid", alias_generator=to_camel, populate_by_name=True)


def _duration_of_at_least(minimum: str) -> PlainValidator:
    least = parse_duration(minimum)

    def check(value: object) -> float:
        if not isinstance(value, str):
            raise ValueError(wrong_type(value, "a duration such as 30s"))  # noqa: TRY004 - pydantic wants ValueError
        seconds = parse_duration(value)
        if seconds < least:
            raise ValueError(f"{value} is not at least {minimum}")
        return seconds

    return PlainValidator(check)


def _duration_schema(minimum: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "format": "duration", "x-minimum": minimum})


_PRINTED = PlainSerializer(format_duration)
Duration = Annotated[float, _duration_of_at_least("0s"), _PRINTED, _duration_schema("0s")]
Period = Annotated[float, _duration_of_at_least("1s"), _PRINTED, _duration_schema("1s")]
"""At least a second: cycles any shorter would give the API server little rest, and a Lease counts whole seconds."""
ShortPeriod = Annotated[float, _duration_of_at_least("100ms"), _PRINTED, _duration_schema("100ms")]


def _check_whole_seconds(seconds: float) -> float:
    if not seconds.is_integer():
        raise ValueError(f"{format_duration(seconds)} is not a whole number of seconds")
    return seconds


WholeSeconds = Annotated[
    float, _duration_of_at_least("0s"), AfterValidator(_check_whole_seconds), _PRINTED, _duration_schema("0s")
]
"""What Kubernetes counts in whole seconds, such as the time that a pod has to end."""
WholePeriod = Annotated[
    float, _duration_of_at_least("1s"), AfterValidator(_check_whole_seconds), _PRINTED, _duration_schema("1s")
]

Percent = Annotated[float, Field(gt=0, le=100, allow_inf_nan=False)]
Cycles = Annotated[int, Field(ge=1, le=1000)]
"""How often in a row something has been so."""


def _counts_from(minimum: int, expected: str) -> Callable[[object], int | None]:
    def check(value: object) -> int | None:
        if value == UNLIMITED:
            return None
        if isinstance(value, float):
            raise ValueError(not_an_integer(value, expected))  # noqa: TRY004 - the same
        if isinstance(value, str) and value.strip("0123456789"):  # a word may be right here, but not this one
            raise ValueError(f"{quote(value)} is not {expected}")
        if not isinstance(value, int) or isinstance(value, bool):
            raise ValueError(wrong_type(value, expected))  # noqa: TRY004 - the same
        if value < minimum:
            raise ValueError(f"{value} is not {expected}")
        return value

    return check


def _count_of_at_least(minimum: int) -> PlainValidator:
    return PlainValidator(_counts_from(minimum, f"an integer of at least {minimum} or the word {UNLIMITED}"))


def _count_schema(minimum: int) -> WithJsonSchema:
    return WithJsonSchema({"anyOf": [{"type": "integer", "minimum": minimum}, {"const": UNLIMITED}]})


def _print_count(count: int | None) -> int | str:
    return UNLIMITED if count is None else count


Count = Annotated[int | None, _count_of_at_least(0), PlainSerializer(_print_count), _count_schema(0)]
"""How many; None is no limit, which the file writes as `unlimited`, because null there means "not given"."""

PositiveCount = Annotated[int | None, _count_of_at_least(1), PlainSerializer(_print_count), _count_schema(1)]


_SHARE = "an integer of at least 0 or a percentage such as 25%"


def _percentage(value: object, minimum: int) -> str | None:
    """A percentage as it is kept; None if the value is meant to be something else."""
    if not isinstance(value, str) or not (percent := _PERCENTAGE.fullmatch(value)):
        return None
    if not minimum <= int(percent[1]) <= 100:
        raise ValueError(f"{quote(value)} is not between {minimum}% and 100%")
    return f"{int(percent[1])}%"


def _check_share(value: object) -> int | str:
    if (percentage := _percentage(value, 0)) is not None:
        return percentage
    if isinstance(value, float):
        raise ValueError(not_an_integer(value, _SHARE))  # noqa: TRY004 - the same
    if isinstance(value, str) and value.strip("0123456789"):
        raise ValueError(f"{quote(value)} is not {_SHARE}")
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(wrong_type(value, _SHARE))  # noqa: TRY004 - the same
    if value < 0:
        raise ValueError(f"{value} is not {_SHARE}")
    if value > _MAX_INT32:
        raise ValueError(f"{value} is not at most {_MAX_INT32}")
    return value


Share = Annotated[
    int | str,
    PlainValidator(_check_share),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "format": "percentage"}]}),
]
"""How many of a workload's pods, as disruption budgets say it: a number, or per cent of those there should be."""

_check_count = _counts_from(1, "an integer of at least 1, a percentage such as 10% or the word unlimited")


def _check_count_or_share(value: object) -> int | str | None:
    percentage = _percentage(value, 1)
    return _check_count(value) if percentage is None else percentage


CountOrShare = Annotated[
    int | str | None,
    PlainValidator(_check_count_or_share),
    PlainSerializer(lambda count: UNLIMITED if count is None else count),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "integer", "minimum": 1},
                {"type": "string", "format": "percentage"},
                {"const": UNLIMITED},
            ]
        }
    ),
]
"""How many of a workload's pods, where none makes no sense; None is no limit."""


def _check_namespace(name: str) -> str:
    if len(name) > 63 or not _LABEL.fullmatch(name):
        raise ValueError(
            f"{quote(name)} is not a namespace: lower-case letters, digits and '-', at most 63 characters, "
            "with a letter or digit first and last"
        )
    return name


def check_subdomain(name: str) -> str:
    """The name of an object, as most kinds have it."""
    if len(name) > 253 or not all(_LABEL.fullmatch(part) for part in name.split(".")):
        raise ValueError(
            f"{quote(name)} is not an object name: lower-case letters, digits, '-' and '.', at most 253 characters, "
            "with a letter or digit first and last"
        )
    return name


def _check_text(value: object) -> object:
    if not isinstance(value, str):
        expected = "a label selector as text, such as app=web,tier!=db"
        raise ValueError(wrong_type(value, expected))  # noqa: TRY004 - pydantic wants ValueError
    return value


def _check_selector(text: str) -> str:
    try:
        parse_selector(text)
    except SelectorError as error:
        raise ValueError(f"{quote(text)} is not a label selector: {error}") from error
    return text


_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?")


def _check_label_name(name: str) -> str:
    prefix, slash, last = name.rpartition("/")
    if not _NAME.fullmatch(last) or (slash and not all(_LABEL.fullmatch(part) for part in prefix.split("."))):
        raise ValueError(f"{quote(name)} is not the name of a label, such as app or example.com/group")
    return name


LabelName = Annotated[str, AfterValidator(_check_label_name), WithJsonSchema({"type": "string", "format": "label"})]
"""The key of a label."""

Namespace = Annotated[str, AfterValidator(_check_namespace), WithJsonSchema({"type": "string", "format": "namespace"})]
OptionalNamespace = Annotated[
    str,
    AfterValidator(lambda name: name and _check_namespace(name)),
    WithJsonSchema({"type": "string", "format": "namespace"}),
]
ObjectName = Annotated[str, AfterValidator(check_subdomain), WithJsonSchema({"type": "string", "format": "name"})]
LabelSelector = Annotated[
    str,
    BeforeValidator(_check_text),
    AfterValidator(_check_selector),
    WithJsonSchema({"type": "string", "format": "label selector"}),
]
