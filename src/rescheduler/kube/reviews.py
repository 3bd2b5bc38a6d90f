"""Who somebody is, and whether he may do something: the API server's TokenReview and SubjectAccessReview.

`web.identity` asks for people who sign in on the page. The token is sent to the API server and kept nowhere; what an
API server says in its refusal of a token is not passed on, because it may tell what is known about it.
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
    """A user as the API server knows him; a service account is one, too."""

    name: str
    uid: str = ""
    groups: tuple[str, ...] = ()
    extra: tuple[tuple[str, tuple[str, ...]], ...] = ()
    """What else authorizers may go by."""


@dataclass(frozen=True, slots=True)
class ResourceAttributes:
    """Something that somebody would like to do; without a namespace it is meant for all of them."""

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
    """Asks one API server."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def authenticate(self, token: str) -> User | None:
        """Whose token it is; None if the API server does not accept it."""
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token}}
        answer = await self._client.request("POST", _TOKENS, body=msgspec.json.encode(body))
        found = _read(answer, _TokenReview, _TOKENS).status
        user = found.user
        # Who is not named cannot be asked about, and what he does could not be told of anybody.
        if not found.authenticated or user is None or not user.username:
            return None
        extra = tuple((key, tuple(values)) for key, values in sorted((user.extra or {}).items()))
        return User(user.username, user.uid or "", tuple(user.groups or ()), extra)

    async def is_allowed(self, person: User, question: ResourceAttributes) -> bool:
        """Whether the person may do that."""
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
    """The user name that our credentials have there; empty where nobody can say."""
    body = msgspec.json.encode({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
    try:
        answer = await client.send(ApiRequest("POST", _REVIEWS, {}, body, answers=_CANNOT_SAY))
        return msgspec.json.decode(answer, type=_OwnReview).status.user.username
    except ApiError as error:
        if error.status not in _CANNOT_SAY:
            raise
        return ""
    except msgspec.MsgspecError:
        return ""  # something else answers there
