"""What planning gives back: moves in order, what was refused and why, and how the nodes stood before and after."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from typing import Any, TypeVar

import msgspec
import yaml

from rescheduler.model.nesting import check_nesting
from rescheduler.model.policy import Utilization


class Method(StrEnum):
    """How one pod is moved, or that it is removed."""

    HANDOFF = "handoff"
    EVICT = "evict"
    COPY = "copy"
    REMOVE = "remove"
    """A pod that has ended goes nowhere: it is deleted, and what is made in its place is its controller's business."""


@dataclass(frozen=True, slots=True)
class Move:
    """One pod, from one node to another; or one that has ended and is removed, and then `target` is empty."""

    namespace: str
    pod: str
    source: str
    target: str
    strategy: str
    reason: str
    method: Method
    uid: str = ""
    workload: str = ""
    priority: int = 0
    proposal: int = 0
    """Moves of one proposal stand or fall together; this is its number in the plan."""
    gain: float | None = None
    """By how many percentage points the busier of the two nodes becomes less busy; None in plans of older versions."""


@dataclass(frozen=True, slots=True)
class Rejection:
    """A pod that a strategy wanted to move and may or can not: which guard says so, and why."""

    namespace: str
    pod: str
    guard: str
    reason: str
    strategy: str = ""
    node: str = ""


@dataclass(frozen=True, slots=True)
class LoadDistribution:
    """The distribution of one resource's utilisation over nodes, in per cent of allocatable."""

    max: float
    min: float
    mean: float
    stddev: float


@dataclass(frozen=True, slots=True)
class NodeLoad:
    """One node's utilisation, in per cent of allocatable."""

    node: str
    cpu: float
    memory: float
    pods: int
    over: tuple[str, ...] = ()
    """The resources of which more is used than the node's threshold; it is hot if there are any."""
    pool: str = ""
    """The node pool of the configuration that it belongs to; empty for none."""
    others: tuple[float | None, ...] = ()
    """Of the picture's `others`, in their order; None where the node has nothing of it."""


@dataclass(frozen=True, slots=True)
class ClusterLoad:
    """How the worker nodes stand."""

    cpu: LoadDistribution
    memory: LoadDistribution
    hot_nodes: int
    loads: tuple[NodeLoad, ...]
    others: tuple[tuple[str, LoadDistribution], ...] = ()
    """Other resources with a threshold, over the nodes that have any of it."""
    pools: tuple[tuple[str, int], ...] = ()
    """Hot nodes of each node pool of the configuration."""


@dataclass(frozen=True, slots=True)
class Plan:
    """The outcome of one planning cycle."""

    moves: tuple[Move, ...]
    rejections: tuple[Rejection, ...]
    before: ClusterLoad
    after: ClusterLoad
    warnings: tuple[str, ...] = ()
    utilization: Utilization = Utilization.REQUESTS
    """What use is reckoned by."""


API_VERSION = "rescheduler.io/v1alpha1"
KIND = "Plan"

Row = TypeVar("Row")


class PlanFormatError(ValueError):
    """A text that is not a plan; the message says where and what is expected there."""


class _Wire(msgspec.Struct, rename="camel"):
    """Base: camelCase outside."""


class _Move(_Wire):
    namespace: str
    pod: str
    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")
    strategy: str
    reason: str
    method: Method
    uid: str = ""
    workload: str = ""
    priority: int = 0
    proposal: int = 0
    gain: float | None = None


class _Rejection(_Wire):
    namespace: str
    pod: str
    guard: str
    reason: str
    strategy: str = ""
    node: str = ""


class _Spreading(_Wire):
    max: float
    min: float
    mean: float
    stddev: float


class _Picture(_Wire):
    cpu: _Spreading
    memory: _Spreading
    hot_nodes: int
    others: dict[str, _Spreading] = {}
    hot_nodes_by_pool: dict[str, int] = {}


class _Document(_Wire):
    api_version: str
    kind: str
    moves: list[_Move]
    rejections: list[_Rejection]
    before: _Picture
    after: _Picture
    warnings: list[str] = []
    utilization: Utilization = Utilization.REQUESTS


def plan_document(plan: Plan) -> dict[str, Any]:
    """The plan as plain values, in the contract's order."""
    document = _Document(
        api_version=API_VERSION,
        kind=KIND,
        moves=[_copied(move, _Move) for move in plan.moves],
        rejections=[_copied(rejection, _Rejection) for rejection in plan.rejections],
        before=_outlined(plan.before),
        after=_outlined(plan.after),
        warnings=list(plan.warnings),
        utilization=plan.utilization,
    )
    plain: dict[str, Any] = msgspec.to_builtins(document)
    return plain


def decode_plan(text: bytes) -> Plan:
    """The plan in a JSON or YAML text; PlanFormatError names the path of what is wrong."""
    data = _plain(text)
    if not isinstance(data, dict):
        raise PlanFormatError(f"expected an object of kind {KIND}, found {_called(data)}")
    for field, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if data.get(field) != expected:
            found = f"{data[field]!r} is not" if field in data else "missing; expected"
            raise PlanFormatError(f"{field}: {found} {expected}")
    try:
        document = msgspec.convert(data, _Document)
    except msgspec.ValidationError as error:
        raise PlanFormatError(_with_path(error)) from None
    _check_moves(document.moves)
    return Plan(
        moves=tuple(_copied(move, Move) for move in document.moves),
        rejections=tuple(_copied(rejection, Rejection) for rejection in document.rejections),
        before=_picture(document.before),
        after=_picture(document.after),
        warnings=tuple(document.warnings),
        utilization=document.utilization,
    )


def _plain(text: bytes) -> Any:
    if not text.strip():
        raise PlanFormatError(f"is empty; expected an object of kind {KIND}")
    if text.lstrip()[:1] in b"{[":
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise PlanFormatError(f"is not JSON: {error}") from None
    try:
        check_nesting(text)
        return yaml.load(text, Loader=yaml.CSafeLoader)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise PlanFormatError(f"is neither JSON nor YAML: {' '.join(str(error).split())}") from None


def _check_moves(moves: list[_Move]) -> None:
    """What types cannot say: names that are there, a move that goes somewhere, and each pod once."""
    seen: dict[tuple[str, str], int] = {}
    for index, move in enumerate(moves):
        at = f"moves[{index}]"
        removed = move.method is Method.REMOVE
        named = {"namespace": move.namespace, "pod": move.pod, "from": move.source}
        for field, value in (named if removed else {**named, "to": move.target}).items():
            if not value:
                raise PlanFormatError(f"{at}.{field}: is empty")
        if removed and move.target:
            raise PlanFormatError(f"{at}.to: {move.target} makes no sense with method remove, which moves it nowhere")
        if move.gain is not None and not isfinite(move.gain):
            raise PlanFormatError(f"{at}.gain: {move.gain} is not a number of percentage points")
        if move.source == move.target:
            raise PlanFormatError(f"{at}.to: {move.target} is where the pod is already")
        first = seen.setdefault((move.namespace, move.pod), index)
        if first != index:
            raise PlanFormatError(f"{at}.pod: moves[{first}] moves {move.namespace}/{move.pod} already")


def _with_path(error: msgspec.ValidationError) -> str:
    """msgspec's `Expected `str`, got `int` - at `$.moves[0].pod`` with the path first."""
    what, _, where = str(error).partition(" - at `$")
    path = where.rstrip("`").lstrip(".")
    said = what.replace("`", "")
    return f"{path}: {said[:1].lower()}{said[1:]}" if path else f"{said[:1].lower()}{said[1:]}"


def _called(data: object) -> str:
    names = {list: "a list", str: "a text", type(None): "nothing"}
    return names.get(type(data), f"the value {data!r:.40}")


def _copied(row: object, into: type[Row]) -> Row:
    """The same fields in another class: the wire's and the model's are called alike."""
    fields = into.__dataclass_fields__ if hasattr(into, "__dataclass_fields__") else into.__struct_fields__  # type: ignore[attr-defined] # one of the two
    return into(**{name: getattr(row, name) for name in fields})


def _outlined(picture: ClusterLoad) -> _Picture:
    return _Picture(
        _copied(picture.cpu, _Spreading),
        _copied(picture.memory, _Spreading),
        picture.hot_nodes,
        {name: _copied(each, _Spreading) for name, each in picture.others},
        dict(picture.pools),
    )


def _picture(outline: _Picture) -> ClusterLoad:
    return ClusterLoad(
        _copied(outline.cpu, LoadDistribution),
        _copied(outline.memory, LoadDistribution),
        outline.hot_nodes,
        loads=(),
        others=tuple((name, _copied(each, LoadDistribution)) for name, each in outline.others.items()),
        pools=tuple(outline.hot_nodes_by_pool.items()),
    )
