"""Authentication and authorization by the API server: TokenReview, SubjectAccessReview, SelfSubjectReview.

`web.auth` uses this for people who sign in on the page. The token is sent to the API server and stored nowhere. What
the server says when it refuses a token is not passed on, because it may reveal what is known about the token.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import msgspec

from rescheduler.kube.client import ApiClient, ApiRequest
from rescheduler.kube.errors import NOT_KUBERNETES, ApiError

_TOKENS = "/apis/authentication.k8s.io/v1/tokenreviews"
_ACCESS = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
Review = TypeVar("Review")


@dataclass(frozen=True, slots=True)
class User:
    """A user, as the API server identifies them; may be a service account."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """Further attributes for authorizers."""


@dataclass(frozen=True, slots=True)
class ResourceAttributes:
    """An action on a resource; without a namespace, in all of them."""

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""
    name: str = ""

    def __str__(self) -> str:
        resource = f"{self.resource}.{self.group}" if self.group else self.resource
        named = f" {self.name}" if self.name else ""
        return f"{self.verb} {resource}{named}" + (f" in namespace {self.namespace}" if self.namespace else "")


class _User(msgspec.Struct):
    username: str = ""
    uid: str | None = None
    groups: list[str] | None = None
    extra: dict[str, list[str]] | None = None


class _Identified(msgspec.Struct):
    authenticated: bool = False
    user: _User | None = None


class _TokenReview(msgspec.Struct):
    status: _Identified


class _Allowed(msgspec.Struct):
    allowed: bool
    denied: bool = False


class _AccessReview(msgspec.Struct):
    status: _Allowed


class ReviewClient:
    """Sends reviews to one API server."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def authenticate(self, token: str) -> User | None:
        """Return the user of a token; None if the API server does not accept it."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        answer = await self._client.request("POST", _TOKENS, body=msgspec.json.encode(body))
        found = _read(answer, _TokenReview, _TOKENS).status
        user = found.user
        # An unnamed user can be neither authorized nor audited.
        if not found.authenticated or user is None or not user.username:
            return None
        extra = tuple((key, tuple(values)) for key, values in sorted((user.extra or {}).items()))
        return User(user.username, user.uid or "", tuple(user.groups or ()), extra)

    async def is_allowed(self, person: User, question: ResourceAttributes) -> bool:
        """Whether the user may do that."""
        attributes = {
            "verb": question.verb,
            "group": question.group,
            "resource": question.resource,
            "namespace": question.namespace,
            "name": question.name,
        }
        spec = {
            "user": person.name,
            "uid": person.uid,
            "groups": person.groups,
            "extra": dict(person.extra),
            "resourceAttributes": {key: value for key, value in attributes.items() if value},
        }
        body = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
        answer = await self._client.request("POST", _ACCESS, body=msgspec.json.encode(body))
        status = _read(answer, _AccessReview, _ACCESS).status
        return status.allowed and not status.denied


def _read(answer: bytes, kind: type[Review], path: str) -> Review:
    try:
        return msgspec.json.decode(answer, type=kind)
    except msgspec.MsgspecError as error:
        raise ApiError(None, NOT_KUBERNETES, f"the answer to a review does not decode ({error})", path) from error


_REVIEWS = "/apis/authentication.k8s.io/v1/selfsubjectreviews"
_CANNOT_SAY = frozenset({403, 404, 405})


class _OwnUser(msgspec.Struct):
    username: str = ""


class _OwnStatus(msgspec.Struct):
    user: _OwnUser = msgspec.field(name="userInfo", default_factory=_OwnUser)


class _OwnReview(msgspec.Struct):
    status: _OwnStatus


async def fetch_own_name(client: ApiClient) -> str:
    """Return the user name of the client's own credentials; empty if the server cannot tell."""
    body = msgspec.json.encode({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    try:
        answer = await client.send(ApiRequest("POST", _REVIEWS, {}, body, answers=_CANNOT_SAY))
        return msgspec.json.decode(answer, type=_OwnReview).status.user.username
    except ApiError as error:
        if error.status not in _CANNOT_SAY:
            raise
        return ""
    except msgspec.MsgspecError:
        return ""  # not an API server
