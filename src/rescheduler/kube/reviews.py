"""Authentication and authorization by the API server: TokenReview, SubjectAccessReview, SelfSubjectReview.

`web.auth` uses this for people who sign in on the page. The token is sent to the API server and stored nowhere. What
the server says when it refuses a token is not passed on, because it may reveal what is known about the token.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Generic, TypeVar

import msgspec

from rescheduler.kube.client import ApiClient, ApiRequest
from rescheduler.kube.errors import NOT_KUBERNETES, ApiError
from rescheduler.model.json import Json

_CANNOT_SAY = frozenset({403, 404, 405})
Status = TypeVar("Status")


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


class _OwnUser(msgspec.Struct):
    user: _User = msgspec.field(name="userInfo", default_factory=_User)


class _Allowed(msgspec.Struct):
    allowed: bool
    denied: bool = False


class _Review(msgspec.Struct, Generic[Status]):
    status: Status


class ReviewClient:
    """Sends reviews to one API server."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def authenticate(self, token: str) -> User | None:
        """Return the user of a token; None if the API server does not accept it."""
        found = await _review(self._client, "TokenReview", {"token": token}, _Review[_Identified])
        user = found.user
        # An unnamed user can be neither authorized nor audited.
        if not found.authenticated or user is None or not user.username:
            return None
        extra = tuple((key, tuple(values)) for key, values in sorted((user.extra or {}).items()))
        return User(user.username, user.uid or "", tuple(user.groups or ()), extra)

    async def is_allowed(self, person: User, question: ResourceAttributes) -> bool:
        """Whether the user may do that."""
        spec = {
            "user": person.name,
            "uid": person.uid,
            "groups": person.groups,
            "extra": dict(person.extra),
            "resourceAttributes": {key: value for key, value in asdict(question).items() if value},
        }
        found = await _review(self._client, "SubjectAccessReview", spec, _Review[_Allowed])
        return found.allowed and not found.denied


async def fetch_own_name(client: ApiClient) -> str:
    """Return the user name of the client's own credentials; empty if the server cannot tell."""
    try:
        return (await _review(client, "SelfSubjectReview", {}, _Review[_OwnUser], _CANNOT_SAY)).user.username
    except ApiError as error:
        if error.status not in _CANNOT_SAY and error.reason != NOT_KUBERNETES:
            raise
        return ""


async def _review(
    client: ApiClient, kind: str, spec: Json, answer: type[_Review[Status]], answers: frozenset[int] = frozenset()
) -> Status:
    """Create a review; return its status."""
    api_version = f"{'authorization' if kind == 'SubjectAccessReview' else 'authentication'}.k8s.io/v1"
    path = f"/apis/{api_version}/{kind.lower()}s"
    body = msgspec.json.encode({"apiVersion": api_version, "kind": kind, "spec": spec})
    written = await client.send(ApiRequest("POST", path, {}, body, answers=answers))
    try:
        return msgspec.json.decode(written, type=answer).status
    except msgspec.MsgspecError as error:
        raise ApiError(None, NOT_KUBERNETES, f"the answer to a review does not decode ({error})", path) from error
