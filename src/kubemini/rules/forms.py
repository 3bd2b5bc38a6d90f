"""Reads an object as Kubernetes' own types read JSON: fields that are unknown or null go, wrong types are refused.

The tables in `fields_*` say for each type which fields it has and what they are; `typed` reads each object with them
before any rule looks at it, so that rules need not ask what they are given. As in the real API server, what is zero
and optional is left out, what is always shown is filled in, and quantities and times are written in one way.

A table's line is `Type = field field:Kind field!:Kind`. Without a kind it is a text. `!` is shown even when empty;
`*Kind` is kept when given, even when it is zero; `[Kind]` is a list, `{Kind}` a map from texts.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any

from kubemini import clock
from kubemini.rules.quantities import canonical, canonical_milli
from rescheduler.model.quantity import QuantityError

_INT32, _INT64 = 2**31, 2**63
_QUANTITY_RULE = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d+)?(Z|[+-]\d{2}:\d{2})")
_MICRO_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}(Z|[+-]\d{2}:\d{2})")

Reader = Callable[[Any], Any]
"""From what JSON holds to what is kept; a WrongType where that makes no sense. Objects are changed in place."""


class WrongType(Exception):  # noqa: N818  it becomes a refusal
    """A value that its field can't hold, with the path to it."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why
        self.path = ""

    def inside(self, step: str) -> WrongType:
        """The same, seen from one level up."""
        joint = "" if not self.path or self.path.startswith("[") else "."
        self.path = f"{step}{joint}{self.path}"
        return self

    def __str__(self) -> str:
        return f"{self.path}: {self.why}" if self.path else self.why


@dataclass(frozen=True, slots=True)
class Form:
    """One type: how each of its fields is read, which of them are left out when zero, and which are always there."""

    name: str
    readers: dict[str, Reader] = field(default_factory=dict)
    omitted: set[str] = field(default_factory=set)
    always: dict[str, Callable[[], Any]] = field(default_factory=dict)
    nulled: set[str] = field(default_factory=set)
    """The lists among those that are always there: an empty one is shown as null."""
    inner: dict[str, Form] = field(default_factory=dict)
    """The forms of the fields that are objects, lists or maps of objects."""

    def read(self, value: Any) -> Any:
        """Bring an object into this form."""
        if type(value) is not dict:
            raise WrongType(f"cannot unmarshal {_sort(value)} into an object of type {self.name}")
        readers, omitted, nulled = self.readers, self.omitted, self.nulled
        for key, each in list(value.items()):
            reader = readers.get(key)
            if reader is None or each is None:
                del value[key]
                continue
            try:
                value[key] = read = reader(each)
            except WrongType as wrong:
                raise wrong.inside(key) from None
            if not read and key in omitted:
                del value[key]
            elif not read and key in nulled:
                value[key] = None
        for key, zero in self.always.items():
            if key not in value:
                value[key] = zero()
        return value

    def unknown(self, value: Any, path: str = "") -> list[str]:
        """The paths of fields that this type does not have, for clients that want to be told."""
        if not isinstance(value, dict):
            return []
        found: list[str] = []
        for key, each in value.items():
            at = f"{path}.{key}" if path else key
            if key not in self.readers:
                found.append(at)
            elif key in self.inner:
                found += _unknown_inside(self.inner[key], each, at, isinstance(each, dict) and key in _maps(self))
        return found


def forms_of(*tables: str) -> dict[str, Form]:
    """The types that tables describe."""
    lines: dict[str, list[str]] = {}
    for line in " ".join(" ".join(tables).split()).split(";"):
        name, _, described = line.partition(" = ")
        if described:
            lines[name.strip()] = described.split()
    forms = {name: Form(name) for name in lines}
    for name, fields in lines.items():
        for each in fields:
            _enter(forms, forms[name], each)
    return forms


def _enter(forms: Mapping[str, Form], form: Form, description: str) -> None:
    key, _, kind = description.partition(":")
    shown = key.endswith("!")
    key = key.removesuffix("!")
    pointer, bare = kind.startswith("*"), kind.removeprefix("*") or "string"
    form.readers[key] = _reader(forms, bare)
    inner = forms.get(bare.strip("[]{}"))
    if inner is not None:
        form.inner[key] = inner
    is_object = bare in forms
    if pointer:
        if shown:
            form.always[key] = _nothing
    elif is_object:
        form.always[key] = partial(_empty, forms[bare])
    elif shown or bare in _ALWAYS:
        form.always[key] = _ALWAYS.get(bare, _ZEROS.get(bare, _nothing))
        if bare.startswith("["):
            form.nulled.add(key)
    else:
        form.omitted.add(key)


def _reader(forms: Mapping[str, Form], kind: str) -> Reader:
    if kind.startswith("["):
        item = kind[1:-1]
        return partial(_list, _reader(forms, item), partial(_zero, forms, item))
    if kind == "{Quantity}":
        return partial(_map, _resource, lambda: "0")
    if kind.startswith("{"):
        item = kind[1:-1]
        return partial(_map, _reader(forms, item), partial(_zero, forms, item))
    return forms[kind].read if kind in forms else _SIMPLE[kind]


def _zero(forms: Mapping[str, Form], kind: str) -> Any:
    """What a null in a list or a map stands for."""
    if kind in forms:
        return _empty(forms[kind])
    return _ALWAYS.get(kind, _ZEROS.get(kind, _nothing))()


def _empty(form: Form) -> Any:
    return form.read({})


def _nothing() -> None:
    return None


def _list(item: Reader, zero: Callable[[], Any], value: Any) -> Any:
    if type(value) is not list:
        raise WrongType(f"cannot unmarshal {_sort(value)} into a list")
    for number, each in enumerate(value):
        try:
            value[number] = zero() if each is None else item(each)
        except WrongType as wrong:
            raise wrong.inside(f"[{number}]") from None
    return value


def _map(item: Reader, zero: Callable[[], Any], value: Any) -> Any:
    if type(value) is not dict:
        raise WrongType(f"cannot unmarshal {_sort(value)} into a map")
    for key, each in value.items():
        try:
            value[key] = zero() if each is None else item(each)
        except WrongType as wrong:
            raise wrong.inside(key) from None
    return value


def _text(value: Any) -> Any:
    if type(value) is not str:
        raise WrongType(f"cannot unmarshal {_sort(value)} into a string")
    return value


def _switch(value: Any) -> Any:
    if type(value) is not bool:
        raise WrongType(f"cannot unmarshal {_sort(value)} into a bool")
    return value


def _number(bound: int, value: Any) -> Any:
    if type(value) is not int:
        raise WrongType(f"cannot unmarshal {_sort(value)} into an integer")
    if not -bound <= value < bound:
        raise WrongType(f"cannot unmarshal number {value}: it does not fit into {bound.bit_length()} bits")
    return value


def _number_or_text(value: Any) -> Any:
    return value if type(value) is str else _number(_INT32, value)


def _quantity(write: Callable[[Any], str], value: Any) -> Any:
    if type(value) not in (str, int, float):
        raise WrongType(f"cannot unmarshal {_sort(value)} into a quantity")
    try:
        return write(value)
    except QuantityError:
        raise WrongType(_QUANTITY_RULE) from None


_resource = partial(_quantity, canonical_milli)


def _moment(form: re.Pattern[str], write: Callable[[datetime], str], value: Any) -> Any:
    _text(value)
    if not form.fullmatch(value):
        example = "2006-01-02T15:04:05Z07:00" if form is _TIME else "2006-01-02T15:04:05.000000Z07:00"
        raise WrongType(f'parsing time "{value}" as "{example}": cannot parse it')
    try:
        return write(clock.moment(value).astimezone(UTC))
    except ValueError:
        raise WrongType(f'parsing time "{value}": there is no such day or hour') from None


def _bytes(value: Any) -> Any:
    _text(value)
    try:
        base64.b64decode(value, validate=True)
    except (ValueError, binascii.Error):
        raise WrongType("illegal base64 data") from None
    return value


def _anything(value: Any) -> Any:
    return value


_SIMPLE: dict[str, Reader] = {
    "string": _text,
    "bool": _switch,
    "int32": partial(_number, _INT32),
    "int64": partial(_number, _INT64),
    "IntOrString": _number_or_text,
    "Quantity": partial(_quantity, canonical),
    "Time": partial(_moment, _TIME, clock.stamp),
    "MicroTime": partial(_moment, _MICRO_TIME, clock.micro_stamp),
    "bytes": _bytes,
    "any": _anything,
}
_ZEROS: dict[str, Callable[[], Any]] = {"string": str, "bool": bool, "int32": int, "int64": int}
# These are objects in Kubernetes' own types, which shows them even when they are empty.
_ALWAYS: dict[str, Callable[[], Any]] = {
    "Time": _nothing,
    "MicroTime": _nothing,
    "Quantity": lambda: "0",
    "IntOrString": int,
}


def _sort(value: Any) -> str:
    names = {dict: "object", list: "array", str: "string", bool: "bool", int: "number", float: "number"}
    return names.get(type(value), "null")


def _maps(form: Form) -> set[str]:
    return {key for key, reader in form.readers.items() if isinstance(reader, partial) and reader.func is _map}


def _unknown_inside(form: Form, value: Any, path: str, is_map: bool) -> list[str]:  # noqa: FBT001  one caller
    if isinstance(value, list):
        return [each for number, item in enumerate(value) for each in form.unknown(item, f"{path}[{number}]")]
    if is_map:
        return [each for key, item in value.items() for each in form.unknown(item, f"{path}.{key}")]
    return form.unknown(value, path)
