"""What a Prometheus answers to an instant query, from bytes to amounts by node or pod.

`prometheus` hands the bodies over. Series without the labels that name a node or a pod, and values that are no amounts
(NaN, infinite, negative), are left out one by one and counted; an answer that is no vector is refused whole.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

import msgspec

from rescheduler.model.quantity import MAX
from rescheduler.usage.errors import AnswerError
from rescheduler.usage.samples import Key
from rescheduler.usage.telling import Names

_LONGEST = 200  # characters of somebody else's text within a sentence


class _Labels(msgspec.Struct, gc=False):
    node: str = ""
    instance: str = ""
    namespace: str = ""
    pod: str = ""


class _Series(msgspec.Struct, gc=False):
    metric: _Labels
    value: tuple[float, str]


class _Data(msgspec.Struct, rename="camel"):
    result_type: str
    result: msgspec.Raw


class _Answer(msgspec.Struct, rename="camel"):
    status: str
    data: _Data | None = None
    error_type: str = ""
    error: str = ""


_ANSWER = msgspec.json.Decoder(_Answer)
_VECTOR = msgspec.json.Decoder(list[_Series])
_PARTS = msgspec.json.Decoder(list[msgspec.Raw])
_ONE = msgspec.json.Decoder(_Series)


@dataclass(frozen=True, slots=True)
class Question:
    """One query, and what its answer tells of."""

    field: str
    """As the configuration calls it: nodeCpu."""
    query: str
    resource: str
    of_pods: bool
    unit: int
    """How many of what is counted are in one of what is answered: 1000 for CPU in cores."""


@dataclass(frozen=True, slots=True)
class Vector:
    """Amount and time by key, and what is to be said about the rest."""

    amounts: dict[Key, tuple[int, float]]
    warnings: tuple[str, ...]


def vector(question: Question, body: bytes) -> Vector:
    """What the answer tells; AnswerError if it is none."""
    nameless, garbled, several = Names(), Names(), dict[Key, None]()
    amounts: dict[Key, tuple[int, float]] = {}
    for series in _series(question, body, garbled):
        key = _key(question, series.metric)
        if key is None:
            nameless.add(_shown(series.metric))
            continue
        amount = _amount(series.value[1], question.unit)
        if amount is None or not math.isfinite(series.value[0]):
            garbled.add(f"{'/'.join(filter(None, key))} ({series.value[1][:_LONGEST]})")
            continue
        if key in amounts:
            several[key] = None
            amount = max(amount, amounts[key][0])
        amounts[key] = (amount, series.value[0])
    double = Names("/".join(filter(None, key)) for key in several)
    labels = "namespace and pod" if question.of_pods else "node or instance"
    about = f"usage: the answer to {question.field} has"
    told = (
        (nameless, f"{about} {nameless.count} series without the labels {labels}, and they are left out: {nameless}"),
        (garbled, f"{about} {garbled.count} values that are no amounts, and they are left out: {garbled}"),
        (double, f"{about} several series for {double.count} names, of which the largest counts: {double}"),
    )
    return Vector(amounts, tuple(sentence for names, sentence in told if names))


def complaint(body: bytes) -> str:
    """What a Prometheus says about a question that it refuses; empty if it is not its way of saying so."""
    try:
        return _ANSWER.decode(body).error[:_LONGEST]
    except msgspec.DecodeError:
        return ""


def _series(question: Question, body: bytes, garbled: Names) -> Iterator[_Series]:
    try:
        answer = _ANSWER.decode(body)
    except msgspec.DecodeError as error:
        raise AnswerError(f"the answer to {question.field} is not one of a Prometheus ({error})") from error
    if answer.status != "success" or answer.data is None:
        raise AnswerError(f"it refuses usage.prometheus.queries.{question.field}: {answer.error[:_LONGEST]}")
    if answer.data.result_type != "vector":
        raise AnswerError(
            f"usage.prometheus.queries.{question.field} gives a {answer.data.result_type[:_LONGEST]}, "
            "and not an instant vector with a value for each node or pod"
        )
    with suppress(msgspec.ValidationError):  # some of them are garbled: which, is found out one by one
        yield from _VECTOR.decode(answer.data.result)
        return
    try:
        parts = _PARTS.decode(answer.data.result)
    except msgspec.ValidationError as error:
        raise AnswerError(f"the answer to {question.field} is not one of a Prometheus ({error})") from error
    for part in parts:
        try:
            yield _ONE.decode(part)
        except msgspec.ValidationError:
            garbled.add(bytes(part)[:40].decode("utf-8", "replace"))


def _key(question: Question, labels: _Labels) -> Key | None:
    if question.of_pods:
        return (labels.namespace, labels.pod) if labels.namespace and labels.pod else None
    name = labels.node or _host(labels.instance)
    return ("", name) if name else None


def _host(instance: str) -> str:
    """`node-1:9100` without its port; an IPv6 address comes in brackets."""
    if instance.startswith("["):
        return instance[1:].partition("]")[0]
    host, colon, port = instance.rpartition(":")
    return host if colon and port.isdigit() and ":" not in host else instance


def _amount(text: str, unit: int) -> int | None:
    try:
        number = float(text) * unit
    except ValueError:
        return None
    return min(math.ceil(number), MAX) if math.isfinite(number) and number >= 0 else None


def _shown(labels: _Labels) -> str:
    given = [f"{name}={value}" for name in _Labels.__struct_fields__ if (value := getattr(labels, name))]
    return f"{{{', '.join(given)}}}"[:_LONGEST]
