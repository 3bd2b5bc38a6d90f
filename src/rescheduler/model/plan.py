"""The plan: moves in order, rejections with their reasons, and the load of the nodes before and after.

The same structs are the plan format (docs/plan-format.md), which `rescheduler plan` writes and `apply` reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from math import isfinite
from typing import Any

import msgspec
import yaml

from rescheduler.model.policy import Utilization
from rescheduler.model.yaml import load_yaml


class Method(StrEnum):
    """How one pod is moved, or that it is removed."""

    HANDOFF = "handoff"
    EVICT = "evict"
    COPY = "copy"
    REMOVE = "remove"
    """A pod that has ended is deleted; its controller decides whether to replace it."""


class CamelStruct(msgspec.Struct, frozen=True, rename="camel"):
    """Base of what is written as documents: camelCase there."""


class Move(CamelStruct, frozen=True):
    """One pod, from one node to another; or one that has ended and is removed, and then `target` is empty."""

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
    """Moves of one proposal stand or fall together; this is its number in the plan."""
    gain: float | None = None
    """By how many percentage points the busier of the two nodes becomes less busy; None in plans of older versions."""


class Rejection(CamelStruct, frozen=True):
    """A pod that a strategy proposed and that is not moved: which guard refuses it, and why."""

    namespace: str
    pod: str
    guard: str
    reason: str
    strategy: str = ""
    node: str = ""


class LoadDistribution(CamelStruct, frozen=True):
    """The distribution of one resource's utilisation over nodes, in per cent of allocatable."""

    max: float
    min: float
    mean: float
    stddev: float


class NodeLoad(CamelStruct, frozen=True):
    """One node's utilisation, in per cent of allocatable."""

    node: str
    cpu: float
    memory: float
    pods: int
    over: tuple[str, ...] = ()
    """The resources above their thresholds; the node is hot if there are any."""
    pool: str = ""
    """Its node pool in the configuration; empty for none."""
    others: tuple[float | None, ...] = ()
    """As `ClusterLoad.others`, in that order; None where the node has nothing of it."""


class ClusterLoad(CamelStruct, frozen=True):
    """The load of the worker nodes."""

    cpu: LoadDistribution
    memory: LoadDistribution
    hot_nodes: int
    loads: tuple[NodeLoad, ...] = ()
    """By node; not a part of the plan format."""
    others: dict[str, LoadDistribution] = {}
    """Other resources with a threshold, over the nodes that have any of it."""
    hot_nodes_by_pool: dict[str, int] = {}
    """Of each node pool of the configuration."""


class HeldBack(CamelStruct, frozen=True):
    """How many running pods a guard keeps where they are, also those that no strategy proposed."""

    guard: str
    pods: int
    changed_by: str = ""
    """The setting, label or annotation that changes it; empty if nothing does."""


class Plan(CamelStruct, frozen=True):
    """The outcome of one planning cycle."""

    moves: tuple[Move, ...]
    rejections: tuple[Rejection, ...]
    before: ClusterLoad
    after: ClusterLoad
    warnings: tuple[str, ...] = ()
    utilization: Utilization = Utilization.REQUESTS
    """What utilisation is measured by."""
    held_back: tuple[HeldBack, ...] = ()
    """By guard, the most pods first; only the command `plan` counts them."""


API_VERSION = "rescheduler.io/v1alpha1"
KIND = "Plan"


class PlanFormatError(ValueError):
    """A text that is not a plan; the message says where and what is expected there."""


def plan_document(plan: Plan) -> dict[str, Any]:
    """The plan as plain values, in the order of docs/plan-format.md."""
    plain = msgspec.json.decode(msgspec.json.encode(_without_loads(plan)))
    for load in (plain["before"], plain["after"]):
        del load["loads"]
    return {"apiVersion": API_VERSION, "kind": KIND, **plain}


def _without_loads(plan: Plan) -> Plan:
    before, after = (msgspec.structs.replace(load, loads=()) for load in (plan.before, plan.after))
    return msgspec.structs.replace(plan, before=before, after=after)


def decode_plan(text: bytes) -> Plan:
    """Read a plan from JSON or YAML; PlanFormatError names the path of what is wrong."""
    data = _plain(text)
    if not isinstance(data, dict):
        raise PlanFormatError(f"expected an object of kind {KIND}, found {_describe_value(data)}")
    for field, expected in (("apiVersion", API_VERSION), ("kind", KIND)):
        if data.get(field) != expected:
            found = f"{data[field]!r} is not" if field in data else "missing; expected"
            raise PlanFormatError(f"{field}: {found} {expected}")
    try:
        plan = _without_loads(msgspec.convert(data, Plan))
    except msgspec.ValidationError as error:
        raise PlanFormatError(_with_path(error)) from None
    _check_moves(plan.moves)
    return plan


def _plain(text: bytes) -> Any:
    if not text.strip():
        raise PlanFormatError(f"is empty; expected an object of kind {KIND}")
    if text.lstrip()[:1] in b"{[":
        try:
            return msgspec.json.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise PlanFormatError(f"is not JSON: {error}") from None
    try:
        return load_yaml(text)
    except (yaml.YAMLError, UnicodeDecodeError, RecursionError) as error:
        raise PlanFormatError(f"is neither JSON nor YAML: {' '.join(str(error).split())}") from None


def _check_moves(moves: Sequence[Move]) -> None:
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


def _describe_value(data: object) -> str:
    names = {list: "a list", str: "a text", type(None): "nothing"}
    return names.get(type(data), f"the value {data!r:.40}")
