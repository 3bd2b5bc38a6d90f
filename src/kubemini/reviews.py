"""Authentication and authorization: the cluster's own token, tokens of service accounts, and reviews about both.

The server calls it for every request, for reviews and for `serviceaccounts/token`. None of these are stored. There is
no RBAC: the user of the cluster's own token is in the group system:masters, which may do everything; a service account
may do nothing. Its tokens are random texts, remembered here, and valid for their time while the account exists.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from kubemini import clock
from kubemini.api import Api, Target
from kubemini.errors import Json, bad_request
from kubemini.kinds import ACCESS_REVIEW, SERVICE_ACCOUNT, SUBJECT_REVIEW, TOKEN_REVIEW, Kind

_MASTERS = "system:masters"
_AUDIENCE = "https://kubernetes.default.svc.cluster.local"
_USUAL_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class _Grant:
    """What a token stands for."""

    namespace: str
    name: str
    uid: str
    audiences: list[str]
    expires: datetime


class Authenticator:
    """The users of one cluster."""

    def __init__(self, api: Api, token: str) -> None:
        self._api = api
        self._token = token.encode()
        self._grants: dict[str, _Grant] = {}
        self.reviews: dict[Kind, Callable[[Json], Json]] = {
            TOKEN_REVIEW: self._token_review,
            SUBJECT_REVIEW: self._access_review,
            ACCESS_REVIEW: lambda body: {**body, "status": {"allowed": True}},  # service accounts get no further
        }
        """The answer to each kind of review."""

    def user(self, token: str) -> Json | None:
        """The user of a token, as a TokenReview shows it; None if the token is not valid."""
        if secrets.compare_digest(token.encode(errors="surrogateescape"), self._token):
            return {"username": "kubernetes-admin", "groups": [_MASTERS, "system:authenticated"]}
        grant = self._grants.get(token)
        if grant is None or grant.expires <= clock.now():
            return None
        account = self._api.store.get(SERVICE_ACCOUNT, (grant.namespace, grant.name))
        if account is None or account.uid != grant.uid:
            return None
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{grant.namespace}", "system:authenticated"]
        username = f"system:serviceaccount:{grant.namespace}:{grant.name}"
        return {"username": username, "uid": grant.uid, "groups": groups}

    def may_do_everything(self, user: Json) -> bool:
        """Whether a user is in system:masters; all others may do nothing."""
        return _MASTERS in user["groups"]

    def token_of(self, target: Target, body: Json) -> Json:
        """Create a token for a service account, from a TokenRequest."""
        spec = _spec_of(body)
        uid = self._api.get(target)["metadata"]["uid"]
        expires = clock.now() + timedelta(seconds=spec.get("expirationSeconds") or _USUAL_SECONDS)
        token = secrets.token_urlsafe(32)
        audiences = spec.get("audiences") or [_AUDIENCE]
        self._grants[token] = _Grant(target.namespace, target.name, uid, audiences, expires)
        return {**body, "status": {"token": token, "expirationTimestamp": clock.stamp(expires)}}

    def _token_review(self, body: Json) -> Json:
        spec = _spec_of(body)
        token = spec.get("token") or ""
        user = self.user(token)
        audiences = self._grants[token].audiences if token in self._grants else [_AUDIENCE]
        shared = [each for each in spec.get("audiences") or [_AUDIENCE] if each in audiences]
        if user is None or not shared:
            return {**body, "status": {"user": {}, "error": "[invalid bearer token]"}}
        return {**body, "status": {"authenticated": True, "user": user, "audiences": shared}}

    def _access_review(self, body: Json) -> Json:
        groups = _spec_of(body).get("groups") or []
        return {**body, "status": {"allowed": self.may_do_everything({"groups": groups})}}


def _spec_of(body: Json) -> Json:
    """The spec of a review; refused if something in it has the wrong type."""
    spec = body.setdefault("spec", {})
    types = {"token": str, "expirationSeconds": int, "audiences": list, "groups": list}
    if not isinstance(spec, dict) or not all(isinstance(spec.get(key) or each(), each) for key, each in types.items()):
        raise bad_request("the spec of the review has a field of the wrong type")
    return spec
