"""The errors of the embedded API server: Status objects of Kubernetes, as exceptions.

The HTTP server answers with them. Controllers, which call the API directly, catch them. Reasons and codes are those of
k8s.io/apimachinery, because clients decide by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from kubemini.kinds import Kind

Json = dict[str, Any]

_WITHOUT_VALUE = frozenset({"Required value", "Forbidden", "Too long"})
_REASONS = {"Unsupported value": "FieldValueNotSupported"}  # the others are called as they are sorted


@dataclass(frozen=True, slots=True)
class Fault:
    """One field that is wrong: its path, the sort of error, and why."""

    path: str
    sort: str
    """As Kubernetes sorts them: `Invalid value`, `Required value`, `Unsupported value`, `Forbidden`…"""
    detail: str = ""
    value: object = None

    def __str__(self) -> str:
        shown = "" if self.sort in _WITHOUT_VALUE else f": {_shown(self.value)}"
        return f"{self.path}: {self.sort}{shown}" + (f": {self.detail}" if self.detail else "")

    @property
    def cause(self) -> Json:
        """The fault as a cause in a Status."""
        words = self.sort.removesuffix(" value").split()
        reason = _REASONS.get(self.sort) or "FieldValue" + "".join(word.capitalize() for word in words)
        return {"reason": reason, "message": str(self).removeprefix(f"{self.path}: "), "field": self.path}


class Refusal(Exception):  # noqa: N818  a refusal is an answer, not an error of ours
    """A request that is refused."""

    def __init__(self, code: int, reason: str, message: str, details: Mapping[str, Any] | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.details = dict(details or {})

    @property
    def status(self) -> Json:
        """The Status object that a client reads."""
        status: Json = {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": self.message,
        }
        if self.reason:
            status["reason"] = self.reason
        if self.details:
            status["details"] = self.details
        return status | {"code": self.code}


def not_found(kind: Kind, name: str) -> Refusal:
    """There is no such object."""
    return Refusal(404, "NotFound", f'{kind.resource} "{name}" not found', _about(kind, name))


def already_exists(kind: Kind, name: str) -> Refusal:
    """An object of this name is there."""
    return Refusal(409, "AlreadyExists", f'{kind.resource} "{name}" already exists', _about(kind, name))


def conflict(kind: Kind, name: str, why: str = "") -> Refusal:
    """The object has changed since the caller read it, or is not the one that was meant."""
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return Refusal(409, "Conflict", message, _about(kind, name))


def invalid(kind: Kind, name: str, faults: Sequence[Fault]) -> Refusal:
    """The object breaks the rules of its kind; every fault is named."""
    texts = list(dict.fromkeys(str(fault) for fault in faults))
    listed = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
    qualified = f"{kind.name}.{kind.group}" if kind.group else kind.name
    details = {"name": name, "group": kind.group, "kind": kind.name, "causes": [fault.cause for fault in faults]}
    return Refusal(422, "Invalid", f'{qualified} "{name}" is invalid: {listed}', _without_empty(details))


def bad_request(message: str) -> Refusal:
    """The request makes no sense, whatever the state of the cluster."""
    return Refusal(400, "BadRequest", message)


def forbidden(kind: Kind, name: str, why: str) -> Refusal:
    """The object is well-formed, but not wanted here now."""
    return Refusal(403, "Forbidden", f'{kind.resource} "{name}" is forbidden: {why}', _about(kind, name))


def expired(message: str) -> Refusal:
    """A version or a page that is no longer kept."""
    return Refusal(410, "Expired", message)


def method_not_allowed(kind: Kind, verb: str) -> Refusal:
    """The kind has no such verb."""
    return Refusal(405, "MethodNotAllowed", f"{verb} is not supported on resources of kind {kind.resource!r}")


def _about(kind: Kind, name: str) -> Json:
    return _without_empty({"name": name, "group": kind.group, "kind": kind.plural})


def _without_empty(details: Json) -> Json:
    return {key: value for key, value in details.items() if value}


def _shown(value: object) -> str:
    match value:
        case str():
            return f'"{value}"'
        case bool():
            return str(value).lower()
        case None:
            return "null"
        case dict() | list():
            return msgspec.json.encode(value).decode()
        case _:
            return str(value)
