"""What sections of the configuration are made of: their base, and the types that fields have.

A section is a frozen dataclass in the shape of the file; `setting` gives a field its default and its description, from
which reference, JSON schema and flags are made. A type checks a value as the file gave it, and raises ValueError with
the sentence that the user reads; so the words for values and their types are here, too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, NamedTuple, TypeVar

from annotated_types import Ge, Gt, Le

from rescheduler.model.selector import SelectorError, check_key, parse_selector
from rescheduler.model.time import format_duration, parse_duration
from rescheduler.model.windows import parse_window, zone_of

if TYPE_CHECKING:
    from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler, ValidationInfo
    from pydantic_core.core_schema import CoreSchema

Default = TypeVar("Default")

WIDEST = 60
"""Characters of a user's text that errors show; it also keeps difflib, which is quadratic, quick."""
_PLAIN_KEY = re.compile(r"[A-Za-z0-9_-]+")


def to_camel(name: str) -> str:
    """The name of a field in files: `cpu_threshold` → `cpuThreshold`."""
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))


def flag_name(key: str) -> str:
    """The flag of a field, named after its last part: `limits.perNodeIn` → `--per-node-in`.

    Those of `allow` say so, since `--jobs` alone would not: `allow.jobs` → `--allow-jobs`.
    """
    name = key.replace(".", "-") if key.startswith("allow.") else key.rpartition(".")[2]
    return "--" + re.sub(r"([A-Z])", r"-\1", name).lower()


class Section:
    """A mapping of the configuration file; the docstring of a section introduces it in the reference."""

    __pydantic_config__: ClassVar[Mapping[str, Any]] = {
        "extra": "forbid",
        "alias_generator": to_camel,
        "populate_by_name": True,
    }


class Flag(NamedTuple):
    """The command-line flag of a field. `name` and `metavar` only where they do not follow from the field."""

    help: str
    name: str = ""
    metavar: str = ""


def setting(default: Default, about: str, flag: Flag | None = None) -> Default:
    """A field of a section: its default, its description, and its command-line flag if it has one."""
    metadata = {"about": about, "flag": flag}
    if isinstance(default, dict):
        return field(default_factory=dict, metadata=metadata)  # type: ignore[return-value] # it is the field's default
    return field(default=default, metadata=metadata)


def required(about: str) -> Any:
    """A field of a section without a default."""
    return field(metadata={"about": about})


@dataclass(frozen=True, slots=True, eq=False)  # pydantic hashes annotations
class Check:
    """How pydantic checks a field, in an annotation; pydantic itself is imported only when a file is read.

    The function gets the value as the file gave it; with `after` it gets what pydantic made of it.
    """

    function: Callable[[Any], Any]
    json_schema: Mapping[str, Any] | None = None
    after: bool = False
    print: Callable[[Any], object] | None = None
    """How a value is written to a file."""
    is_parsed: Callable[[object], bool] | None = None
    """Recognises values in Python that have been parsed already."""

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> CoreSchema:
        from pydantic_core import core_schema  # noqa: PLC0415 - as said above

        printed = core_schema.plain_serializer_function_ser_schema(self.print, when_used="json") if self.print else None
        if self.after:
            return core_schema.no_info_after_validator_function(self.function, handler(source), serialization=printed)
        return core_schema.with_info_plain_validator_function(self._validate, serialization=printed)

    def __get_pydantic_json_schema__(self, schema: CoreSchema, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        return handler(schema) if self.json_schema is None else dict(self.json_schema)

    def _validate(self, value: object, info: ValidationInfo) -> Any:
        if self.is_parsed is not None and info.mode == "python" and self.is_parsed(value):
            return value
        return self.function(value)


class FieldError(ValueError):
    """Raised by a check of several fields together, to put the blame on one of them, such as `port` or `web.port`."""

    def __init__(self, field: str, message: str) -> None:
        self.field = field
        super().__init__(message)


def quote(value: object) -> str:
    """A value within a sentence, on one line and not too long, with nothing that could disturb a terminal."""
    if isinstance(value, str):
        text = json.dumps(value[:WIDEST], ensure_ascii=False)
        cut = text[:-1] + '…"' if len(value) > WIDEST else text
        return "".join(ch if ch.isprintable() else f"\\u{ord(ch):04x}" for ch in cut)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        value = int(value)
    text = json.dumps(value)
    return text[:WIDEST] + "…" if len(text) > WIDEST else text


def describe_type(value: object) -> str:
    """What a value is, with its article."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
        case Mapping():
            return "a mapping"
        case _:
            return "a list"


def wrong_type(value: object, expected: str) -> str:
    """`"80" is a string, expected a number: write 80, without quotes`."""
    if value is None:
        return f"is null, expected {expected}"
    if isinstance(value, (dict, list)):
        return f"is {describe_type(value)}, expected {expected}"
    return f"{quote(value)} is {describe_type(value)}, expected {expected}{_cure(value, expected)}"


def _cure(value: object, expected: str) -> str:
    if isinstance(value, str) and expected.startswith(("a number", "an integer")) and _is_number(value):
        return f": write {value.strip()}, without quotes"
    if expected.startswith("a string"):
        return ": put it in quotes"
    if expected.startswith("a duration") and isinstance(value, int) and not isinstance(value, bool):
        return f": write {value}s for seconds"
    if expected.startswith("a list"):
        return f": write [{value}]" if isinstance(value, str) and _PLAIN_KEY.fullmatch(value) else ": put it in [ ]"
    return ""


def not_an_integer(value: float, expected: str = "an integer") -> str:
    """`2.5 is not an integer`; of 2.0 too, for a count with a fraction is more often a slip than meant."""
    return f"{value} is not {expected}" + (f": write {int(value)}" if value.is_integer() else "")


def _is_number(text: str) -> bool:
    return len(text) < WIDEST and re.fullmatch(r"\s*[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)\s*", text, re.ASCII) is not None


UNLIMITED = "unlimited"
_MIN_INT32, _MAX_INT32 = -(2**31), 2**31 - 1
_PERCENTAGE = re.compile(r"([0-9]{1,9})%", re.ASCII)
_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")


def _duration(minimum: str, *, whole: bool = False) -> Check:
    least = parse_duration(minimum)

    def check(value: object) -> float:
        if not isinstance(value, str):
            raise ValueError(wrong_type(value, "a duration such as 30s"))  # noqa: TRY004 - pydantic wants ValueError
        seconds = parse_duration(value)
        if seconds < least:
            raise ValueError(f"{value} is not at least {minimum}")
        if whole and not seconds.is_integer():
            raise ValueError(f"{format_duration(seconds)} is not a whole number of seconds")
        return seconds

    schema = {"type": "string", "format": "duration", "x-minimum": minimum}
    return Check(check, schema, print=format_duration, is_parsed=lambda value: isinstance(value, float))


Duration = Annotated[float, _duration("0s")]
"""Seconds; `24h` in files."""
Period = Annotated[float, _duration("1s")]
"""At least a second: cycles any shorter would give the API server little rest, and a Lease counts whole seconds."""
ShortPeriod = Annotated[float, _duration("100ms")]
WholeSeconds = Annotated[float, _duration("0s", whole=True)]
"""What Kubernetes counts in whole seconds, such as the time that a pod has to end."""
WholePeriod = Annotated[float, _duration("1s", whole=True)]

Percent = Annotated[float, Gt(0), Le(100)]
Cycles = Annotated[int, Ge(1), Le(1000)]
"""How often in a row something has been so."""


def _integer(value: object, minimum: int, expected: str) -> int:
    if isinstance(value, float):
        raise ValueError(not_an_integer(value, expected))  # noqa: TRY004 - the same
    if isinstance(value, str) and value.strip("0123456789"):  # a word may be right here, but not this one
        raise ValueError(f"{quote(value)} is not {expected}")
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(wrong_type(value, expected))  # noqa: TRY004 - the same
    if value < minimum:
        raise ValueError(f"{value} is not {expected}")
    return value


def _print_count(count: object) -> object:
    return UNLIMITED if count is None else count


def _count(minimum: int) -> Check:
    schema = {"anyOf": [{"type": "integer", "minimum": minimum}, {"const": UNLIMITED}]}
    expected = f"an integer of at least {minimum} or the word {UNLIMITED}"
    return Check(
        lambda value: None if value == UNLIMITED else _integer(value, minimum, expected), schema, print=_print_count
    )


Count = Annotated[int | None, _count(0)]
"""How many; None is no limit, which the file writes as `unlimited`, because null there means "not given"."""

PositiveCount = Annotated[int | None, _count(1)]


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
    if (number := _integer(value, 0, _SHARE)) > _MAX_INT32:
        raise ValueError(f"{number} is not at most {_MAX_INT32}")
    return number


Share = Annotated[
    int | str,
    Check(_check_share, {"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string", "format": "percentage"}]}),
]
"""How many of a workload's pods, as disruption budgets say it: a number, or per cent of those there should be."""

_COUNT_OR_SHARE = "an integer of at least 1, a percentage such as 10% or the word unlimited"


def _check_count_or_share(value: object) -> int | str | None:
    return None if value == UNLIMITED else _percentage(value, 1) or _integer(value, 1, _COUNT_OR_SHARE)


CountOrShare = Annotated[
    int | str | None,
    Check(
        _check_count_or_share,
        {
            "anyOf": [
                {"type": "integer", "minimum": 1},
                {"type": "string", "format": "percentage"},
                {"const": UNLIMITED},
            ]
        },
        print=_print_count,
    ),
]
"""A number of a workload's pods, at least one; None means no limit."""


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


def _check_selector(text: object) -> str:
    if not isinstance(text, str):
        expected = "a label selector as text, such as app=web,tier!=db"
        raise ValueError(wrong_type(text, expected))  # noqa: TRY004 - pydantic wants ValueError
    try:
        parse_selector(text)
    except SelectorError as error:
        raise ValueError(f"{quote(text)} is not a label selector: {error}") from error
    return text


def _check_label_name(name: str) -> str:
    try:
        check_key(name)
    except SelectorError:
        raise ValueError(f"{quote(name)} is not the name of a label, such as app or example.com/group") from None
    return name


def check_text(check: Callable[[str], str], form: str) -> Check:
    """A check of a text, with the name of its format."""
    return Check(check, {"type": "string", "format": form}, after=True)


_KIND = re.compile(r"[A-Z][A-Za-z0-9]*")


def _check_controller_kind(name: str) -> str:
    kind, dot, group = name.partition(".")
    if name != "*" and not (_KIND.fullmatch(kind) and (not dot or all(map(_LABEL.fullmatch, group.split("."))))):
        raise ValueError(f"{quote(name)} is not a kind with its API group, such as CloneSet.apps.kruise.io, nor *")
    return name


ControllerKind = Annotated[str, check_text(_check_controller_kind, "kind")]
"""A kind of controllers with its API group, as `sections.owner` writes it; `*` for all."""
LabelName = Annotated[str, check_text(_check_label_name, "label")]
"""The key of a label."""
Namespace = Annotated[str, check_text(_check_namespace, "namespace")]
OptionalNamespace = Annotated[str, check_text(lambda name: name and _check_namespace(name), "namespace")]
ObjectName = Annotated[str, check_text(check_subdomain, "name")]
LabelSelector = Annotated[str, Check(_check_selector, {"type": "string", "format": "label selector"})]
"""The text of a label selector; empty selects everything."""


_PRIORITY = "a priority such as 10000 or the name of a PriorityClass"


def _check_priority(value: object) -> int | str | None:
    if value is None:
        return None
    if isinstance(value, str):
        return check_subdomain(value)
    if isinstance(value, int) and not _MIN_INT32 <= value <= _MAX_INT32:
        raise ValueError(f"{quote(value)} is not {_PRIORITY}: it has more than 32 bits")
    return _integer(value, _MIN_INT32, _PRIORITY)


Priority = Annotated[
    int | str | None,
    Check(_check_priority, {"anyOf": [{"type": "integer"}, {"type": "string", "format": "name"}]}),
]


_FIELDS = {"cpu": "cpuThreshold", "memory": "memoryThreshold"}


_PART = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_RESOURCE = re.compile(rf"({_PART}(\.{_PART})*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?")


def _check_resources(thresholds: dict[str, float]) -> dict[str, float]:
    for name in thresholds:
        if name in _FIELDS:
            raise ValueError(f"{quote(name)} has a field of its own: give {_FIELDS[name]} instead")
        if not name.strip():
            raise ValueError("a resource has no name: give one such as pods or nvidia.com/gpu")
        if not _RESOURCE.fullmatch(name):
            raise ValueError(f"{quote(name)} is not the name of a resource, such as pods or nvidia.com/gpu")
    return thresholds


ResourceThresholds = Annotated[dict[str, Percent], Check(_check_resources, after=True)]
"""Per cent by the name of a resource other than CPU and memory."""


def _check_selects(selector: str) -> str:
    if not selector.strip():
        raise ValueError("selects every node: name the labels that the pool's nodes have, such as pool=gpu")
    return selector


NodeSelector = Annotated[LabelSelector, Check(_check_selects, after=True)]
"""A label selector that leaves out some nodes."""


_REASON = re.compile(r"[A-Za-z][A-Za-z0-9_.-]*\*?|\*", re.ASCII)


def _check_reason(text: str) -> str:
    if not _REASON.fullmatch(text):
        raise ValueError(f"{quote(text)} is not a reason such as Evicted or OutOf*")
    return text


Reason = Annotated[str, Check(_check_reason, after=True)]


def _check_window(text: str) -> str:
    return parse_window(text).text


def _check_zone(name: str) -> str:
    zone_of(name)
    return name


WindowText = Annotated[str, check_text(_check_window, "time window")]
ZoneName = Annotated[str, check_text(_check_zone, "time zone")]
