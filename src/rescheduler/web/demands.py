"""What the page may ask for, read strictly: the bodies of `POST /api/actions/…`, and which rights each of them needs.

`actions` decodes by it. Unknown fields are refused with their path, as is what can be no name in Kubernetes, so that
nothing of a body reaches a path, a log or an object that does not belong there.
"""

from __future__ import annotations

import re
from typing import Annotated, Literal

import msgspec
from msgspec import Meta, Struct

from rescheduler.kube.reviews import Question
from rescheduler.web.answers import Refusal

MIGRATIONS = ("podmigrations", "rescheduler.io")
_NAME = r"[a-z0-9]([-a-z0-9.]*[a-z0-9])?"
_SECTION = re.compile(r"^(.*?)(?: - at `\$(.*)`)?$", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`", re.DOTALL)

Name = Annotated[str, Meta(max_length=253, pattern=rf"^{_NAME}\Z")]
OptionalName = Annotated[str, Meta(max_length=253, pattern=rf"^({_NAME})?\Z")]
Line = Annotated[str, Meta(max_length=500, pattern=r"^[^\x00-\x1f\x7f-\x9f\u2028\u2029]*\Z")]


class _Demand(Struct, forbid_unknown_fields=True):
    """Base: nothing that we do not know."""


class Pause(_Demand):
    """Begin no more moves."""

    reason: Line = ""


class Resume(_Demand):
    """Go on."""


class Which(_Demand):
    """One migration."""

    namespace: Name
    name: Name


class Approve(_Demand):
    """Let these migrations begin."""

    migrations: Annotated[list[Which], Meta(min_length=1, max_length=1000)]


class Migrate(_Demand):
    """Move one pod; without a target to wherever it fits best."""

    namespace: Name
    pod: Name
    target: OptionalName = ""
    method: Literal["", "auto", "handoff", "evict", "copy"] = ""


class Maintenance(_Demand):
    """Empty a node and keep it empty, or have done with that."""

    node: Name
    on: bool


Demand = Pause | Resume | Approve | Migrate | Maintenance
DEMANDS: dict[str, type[Demand]] = {
    "pause": Pause,
    "resume": Resume,
    "approve": Approve,
    "migrate": Migrate,
    "maintenance": Maintenance,
}


def read(action: str, body: bytes) -> Demand:
    """What a body asks for; a Refusal says where it is wrong."""
    kind = DEMANDS[action]
    try:
        return msgspec.json.decode(body, type=kind)
    except msgspec.ValidationError as error:
        raise Refusal(422, _told(str(error), kind)) from None
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise Refusal(400, f"the body is not JSON: {error}") from None


def needed(demand: Demand, state: tuple[str, str]) -> list[Question]:
    """The rights that it needs; `state` is the namespace and name of the ConfigMap that says whether we are paused."""
    resource, group = MIGRATIONS
    match demand:
        case Pause() | Resume():
            return [Question("patch", "configmaps", "", *state)]
        case Approve():
            namespaces = sorted({each.namespace for each in demand.migrations})
            return [Question("patch", resource, group, namespace) for namespace in namespaces]
        case Migrate():
            return [Question("create", resource, group, demand.namespace)]
        case Maintenance():
            return [Question("patch", "nodes", name=demand.node)]


def everywhere(state: tuple[str, str]) -> dict[str, Question]:
    """By what the page shows, the right that goes with it; in all namespaces, for those who may act in all."""
    resource, group = MIGRATIONS
    return {
        "pause": Question("patch", "configmaps", "", *state),
        "approve": Question("patch", resource, group),
        "migrate": Question("create", resource, group),
        "maintenance": Question("patch", "nodes"),
    }


def _told(message: str, kind: type[Demand]) -> str:
    """msgspec's words with the path in front, as in all our errors."""
    found = _SECTION.match(message)
    what, path = (found[1], found[2] or "") if found else (message, "")
    path = path.lstrip(".")
    if unknown := _UNKNOWN.fullmatch(what):
        inner = Which if path.startswith("migrations[") else kind
        allowed = ", ".join(inner.__struct_fields__) or "none"
        return f"{_joined(path, ascii(unknown[1][:80])[1:-1])}: unknown field; allowed are: {allowed}"
    if missing := _MISSING.fullmatch(what):
        return f"{_joined(path, missing[1])}: is needed"
    return f"{path or 'the body'}: {what[:1].lower()}{what[1:]}"


def _joined(path: str, field: str) -> str:
    return f"{path}.{field}" if path else field
