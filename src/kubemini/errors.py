"""The errors of the embedded API server: Status objects of Kubernetes, as exceptions.

The HTTP server answers with them. Controllers, which call the API directly, catch them. Reasons and codes are those of
k8s.io/apimachinery, because clients decide by them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from kubemini.kinds import Kind

Json = dict[str, Any]


class FieldError(NamedTuple):
    """One field that is wrong, and why."""

    path: str
    why: str


class StatusError(Exception):
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


def not_found(kind: Kind, name: str) -> StatusError:
    """There is no such object."""
    return StatusError(404, "NotFound", f'{kind.resource} "{name}" not found', _about(kind, name))


def already_exists(kind: Kind, name: str) -> StatusError:
    """An object of this name is there."""
    return StatusError(409, "AlreadyExists", f'{kind.resource} "{name}" already exists', _about(kind, name))


def conflict(kind: Kind, name: str, why: str = "") -> StatusError:
    """The object has changed since the caller read it, or is not the one that was meant."""
    why = why or "the object has been modified; please apply your changes to the latest version and try again"
    message = f'Operation cannot be fulfilled on {kind.resource} "{name}": {why}'
    return StatusError(409, "Conflict", message, _about(kind, name))


def invalid(kind: Kind, name: str, faults: Sequence[FieldError]) -> StatusError:
    """The object breaks the rules of its kind; every fault is named."""
    listed = ", ".join(f"{fault.path}: {fault.why}" for fault in faults)
    qualified = f"{kind.name}.{kind.group}" if kind.group else kind.name
    causes = [{"reason": "FieldValueInvalid", "message": fault.why, "field": fault.path} for fault in faults]
    details = {"name": name, "group": kind.group, "kind": kind.name, "causes": causes}
    return StatusError(422, "Invalid", f'{qualified} "{name}" is invalid: {listed}', _without_empty(details))


def bad_request(message: str) -> StatusError:
    """The request makes no sense, whatever the state of the cluster."""
    return StatusError(400, "BadRequest", message)


def forbidden(kind: Kind, name: str, why: str) -> StatusError:
    """The object is well-formed, but not wanted here now."""
    return StatusError(403, "Forbidden", f'{kind.resource} "{name}" is forbidden: {why}', _about(kind, name))


def expired(message: str) -> StatusError:
    """A version or a page that is no longer kept."""
    return StatusError(410, "Expired", message)


def _about(kind: Kind, name: str) -> Json:
    return _without_empty({"name": name, "group": kind.group, "kind": kind.plural})


def _without_empty(details: Json) -> Json:
    return {key: value for key, value in details.items() if value}
