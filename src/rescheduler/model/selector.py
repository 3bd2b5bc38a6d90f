"""Label selectors, as Kubernetes parses and matches them: the text form and the object form.

One Requirement type serves label selectors (pods, namespaces) and node selectors (which add Gt and Lt). Selectors are
immutable and hashable, so that equal ones are evaluated once however many pods have them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

Labels = Mapping[str, str]


class SelectorError(ValueError):
    """A selector that Kubernetes would refuse; the message says what is wrong with it."""


class Operator(StrEnum):
    """The operators of label and node selectors."""

    IN = "In"
    NOT_IN = "NotIn"
    EXISTS = "Exists"
    DOES_NOT_EXIST = "DoesNotExist"
    GT = "Gt"
    LT = "Lt"


_PREFIX = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_NAME = re.compile(r"[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_MAX_INT64 = 2**63 - 1


@dataclass(frozen=True, slots=True)
class Requirement:
    """One condition on one label."""

    key: str
    operator: Operator
    values: tuple[str, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Whether labels satisfy it; an absent key satisfies NotIn and DoesNotExist only, as in Kubernetes."""
        value = labels.get(self.key)
        match self.operator:
            case Operator.IN:
                return value is not None and value in self.values
            case Operator.NOT_IN:
                return value is None or value not in self.values
            case Operator.EXISTS:
                return value is not None
            case Operator.DOES_NOT_EXIST:
                return value is None
            case Operator.GT | Operator.LT:
                number, bound = _int64(value), _int64(self.values[0])
                if number is None or bound is None:
                    return False
                return number > bound if self.operator is Operator.GT else number < bound

    def __str__(self) -> str:
        match self.operator:
            case Operator.IN if len(self.values) == 1:
                return f"{self.key}={self.values[0]}"
            case Operator.NOT_IN if len(self.values) == 1:
                return f"{self.key}!={self.values[0]}"
            case Operator.IN | Operator.NOT_IN:
                return f"{self.key} {self.operator.lower()} ({','.join(self.values)})"
            case Operator.EXISTS:
                return self.key
            case Operator.DOES_NOT_EXIST:
                return f"!{self.key}"
            case Operator.GT | Operator.LT:
                return f"{self.key}{'>' if self.operator is Operator.GT else '<'}{self.values[0]}"


@dataclass(frozen=True, slots=True)
class Selector:
    """Requirements that must all hold; none at all matches everything."""

    requirements: tuple[Requirement, ...] = ()

    def matches(self, labels: Labels) -> bool:
        """Whether every requirement holds."""
        return all(requirement.matches(labels) for requirement in self.requirements)

    def __str__(self) -> str:
        return ",".join(str(requirement) for requirement in self.requirements)


EVERYTHING = Selector()


def selector_of(requirements: Sequence[Requirement]) -> Selector:
    """A selector in canonical order, so that equal selectors compare equal."""
    return Selector(tuple(sorted(set(requirements), key=lambda r: (r.key, r.operator, r.values))))


def requirement(key: str, operator: str, values: Sequence[str] | None = None, *, node: bool = False) -> Requirement:
    """Build a checked requirement; `node` allows Gt and Lt and lifts the syntax check of values, as Kubernetes does."""
    allowed = [op.value for op in Operator if node or op not in (Operator.GT, Operator.LT)]
    if operator not in allowed:
        raise SelectorError(f"operator {operator!r} is not one of {', '.join(allowed)}")
    chosen = Operator(operator)
    check_key(key)
    given = tuple(values or ())
    if chosen in (Operator.IN, Operator.NOT_IN) and not given:
        raise SelectorError(f"{key}: {operator} needs at least one value")
    if chosen in (Operator.EXISTS, Operator.DOES_NOT_EXIST) and given:
        raise SelectorError(f"{key}: {operator} takes no values")
    if chosen in (Operator.GT, Operator.LT) and len(given) != 1:
        raise SelectorError(f"{key}: {operator} needs exactly one value")  # one that is no integer matches nothing
    if not node:
        for value in given:
            check_value(key, value)
    return Requirement(key, chosen, tuple(sorted(set(given))))


def check_key(key: str) -> None:
    """Check a label key: an optional DNS prefix of up to 253 and a name of up to 63 characters."""
    prefix, slash, name = key.rpartition("/")
    bad_prefix = bool(slash) and (len(prefix) > 253 or not _PREFIX.fullmatch(prefix))
    if bad_prefix or len(name) > 63 or not _NAME.fullmatch(name):
        raise SelectorError(f"{key!r} is not a label key: letters, digits, '-', '_' and '.', at most 63 characters")


def check_value(key: str, value: str) -> None:
    """Check a label value; SelectorError if it is not one."""
    if value and (len(value) > 63 or not _NAME.fullmatch(value)):
        raise SelectorError(f"{key}: {value!r} is not a label value: letters, digits, '-', '_' and '.', at most 63")


def _int64(text: str | None) -> int | None:
    if text is None or len(text) > 63 or not _INTEGER.fullmatch(text):
        return None
    number = int(text)
    return number if -_MAX_INT64 - 1 <= number <= _MAX_INT64 else None


_TOKEN = re.compile(r"\s*(==|!=|[=<>!(),]|[^\s=<>!(),]+)")


class _Reader:
    """A cursor over the tokens of a selector's text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tokens = _TOKEN.findall(text)
        self.at = 0

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        self.at += 1
        return token

    def expect(self, token: str) -> None:
        found = self.take()
        if found != token:
            raise SelectorError(f"{self.text!r}: expected {token!r}, found {found or 'the end'!r}")

    def word(self) -> str:
        token = self.take()
        if not token or token in {"==", "!=", "=", "<", ">", "!", "(", ")", ","}:
            raise SelectorError(f"{self.text!r}: expected a label, found {token or 'the end'!r}")
        return token


def parse_selector(text: str) -> Selector:
    """Read the text form: `a=b,c!=d,e in (x,y),f notin (z),g,!h,i>1`; the empty text matches everything."""
    reader = _Reader(text)
    found: list[Requirement] = []
    while reader.peek():
        found.append(_parse_requirement(reader))
        if reader.peek():
            reader.expect(",")
            if not reader.peek():
                raise SelectorError(f"{text!r}: ends with a comma")
    return selector_of(found)


def _parse_requirement(reader: _Reader) -> Requirement:
    if reader.peek() == "!":
        reader.take()
        return requirement(reader.word(), Operator.DOES_NOT_EXIST)
    key = reader.word()
    match reader.peek():
        case "" | ",":
            return requirement(key, Operator.EXISTS)
        case "=" | "==" | "!=":
            operator = Operator.NOT_IN if reader.take() == "!=" else Operator.IN
            value = "" if reader.peek() in ("", ",") else reader.word()
            return requirement(key, operator, [value])
        case "<" | ">":
            operator = Operator.LT if reader.take() == "<" else Operator.GT
            bound = reader.word()
            if _int64(bound) is None:
                raise SelectorError(f"{reader.text!r}: {bound!r} is not an integer")
            return requirement(key, operator, [bound], node=True)
        case "in" | "notin":
            operator = Operator.IN if reader.take() == "in" else Operator.NOT_IN
            return requirement(key, operator, _parse_values(reader))
        case other:
            raise SelectorError(f"{reader.text!r}: {other!r} is not an operator: use =, ==, !=, in, notin, < or >")


def _parse_values(reader: _Reader) -> list[str]:
    reader.expect("(")
    values: list[str] = []
    while True:
        values.append("" if reader.peek() in (",", ")") else reader.word())
        if reader.peek() == ")":
            reader.take()
            return values
        reader.expect(",")
