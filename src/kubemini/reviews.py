"""Authentication and authorization: the cluster's own token, tokens of service accounts, and reviews about both.

The server calls it for every request, for reviews and for `serviceaccounts/token`. None of these are stored. There is
no RBAC: the user of the cluster's own token is in the group system:masters, which may do everything; a service account
may do nothing. Its token is a JSON Web Token, signed with a key that ends with the cluster, and valid while the account
exists.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
import uuid
from collections.abc import Callable
from datetime import UTC, datetime

import msgspec

from kubemini import clock
from kubemini.api import Api, Target
from kubemini.kinds import ACCESS_REVIEW, SERVICE_ACCOUNT, SUBJECT_REVIEW, TOKEN_REVIEW, Kind
from kubemini.refusals import Fault, Json, bad_request, invalid

_MASTERS = "system:masters"
_ISSUER = "https://kubernetes.default.svc.cluster.local"
_SHORTEST, _LONGEST, _USUAL = 600, 2**32, 3600  # seconds
_TOKEN_REQUEST = Kind("authentication.k8s.io", "v1", "TokenRequest", "tokenrequests")


class Accounts:
    """The users of one cluster."""

    def __init__(self, api: Api, token: str) -> None:
        self._api = api
        self._token = token.encode()
        self._key = secrets.token_bytes(32)
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
        claims = self._claims(token)
        if claims is None or claims["exp"] <= clock.now().timestamp():
            return None
        namespace, named = claims["kubernetes.io"]["namespace"], claims["kubernetes.io"]["serviceaccount"]
        found = self._api.find(SERVICE_ACCOUNT, (namespace, named["name"]))
        if found is None or found["metadata"]["uid"] != named["uid"]:
            return None
        groups = ["system:serviceaccounts", f"system:serviceaccounts:{namespace}", "system:authenticated"]
        extra = {"authentication.kubernetes.io/credential-id": [f"JTI={claims['jti']}"]}
        return {"username": claims["sub"], "uid": named["uid"], "groups": groups, "extra": extra}

    def may_do_everything(self, user: Json) -> bool:
        """Whether a user is in system:masters; all others may do nothing."""
        return _MASTERS in user["groups"]

    def token_of(self, target: Target, body: Json) -> Json:
        """Create a token for a service account, from a TokenRequest."""
        spec = _spec_of(body)
        account = self._api.get(target)["metadata"]
        seconds = spec.get("expirationSeconds") or _USUAL
        why = ""
        if seconds < _SHORTEST:
            why = "may not specify a duration less than 10 minutes"
        elif seconds > _LONGEST:
            why = "may not specify a duration larger than 2^32 seconds"
        if why:
            fault = Fault("spec.expirationSeconds", "Invalid value", why, seconds)
            raise invalid(_TOKEN_REQUEST, target.name, [fault])
        now = int(clock.now().timestamp())
        claims = {
            "aud": spec.get("audiences") or [_ISSUER],
            "exp": now + seconds,
            "iat": now,
            "iss": _ISSUER,
            "jti": str(uuid.uuid4()),
            "kubernetes.io": {
                "namespace": target.namespace,
                "serviceaccount": {"name": target.name, "uid": account["uid"]},
            },
            "sub": f"system:serviceaccount:{target.namespace}:{target.name}",
        }
        head = _packed(msgspec.json.encode({"alg": "HS256", "typ": "JWT"}))
        signed = f"{head}.{_packed(msgspec.json.encode(claims))}"
        token = f"{signed}.{_packed(self._signature(signed))}"
        spec |= {"audiences": claims["aud"], "expirationSeconds": seconds}
        expires = clock.stamp(datetime.fromtimestamp(now + seconds, UTC))
        body["metadata"] = {
            "name": target.name,
            "namespace": target.namespace,
            "creationTimestamp": clock.stamp(clock.now()),
        }
        return {**body, "status": {"token": token, "expirationTimestamp": expires}}

    def _token_review(self, body: Json) -> Json:
        spec = _spec_of(body)
        token = spec.get("token", "")
        if not token:
            raise bad_request("token is required for TokenReview in authentication")
        user = self.user(token)
        claims = self._claims(token) or {"aud": [_ISSUER]}
        wanted = spec.get("audiences") or [_ISSUER]
        shared = [each for each in wanted if each in claims["aud"]]
        if user is None or not shared:
            return {**body, "status": {"user": {}, "error": "[invalid bearer token]"}}
        return {**body, "status": {"authenticated": True, "user": user, "audiences": shared}}

    def _access_review(self, body: Json) -> Json:
        spec = _spec_of(body)
        faults = []
        one = spec.get("resourceAttributes") or {}
        other = spec.get("nonResourceAttributes") or {}
        if bool(one) == bool(other):
            why = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
            faults.append(Fault("spec.resourceAttributes", "Invalid value", why, None))
        if not spec.get("user") and not spec.get("groups"):
            faults.append(Fault("spec.user", "Invalid value", "at least one of user or group must be specified", ""))
        if faults:
            raise invalid(SUBJECT_REVIEW, "", faults)
        return {**body, "status": {"allowed": self.may_do_everything({"groups": spec.get("groups") or []})}}

    def _claims(self, token: str) -> Json | None:
        """The claims of a token; None if this cluster did not sign it."""
        signed, _, signature = token.rpartition(".")
        if not secrets.compare_digest(
            signature.encode(errors="surrogateescape"), _packed(self._signature(signed)).encode()
        ):
            return None
        claims: Json = msgspec.json.decode(_unpacked(signed.partition(".")[2]))
        return claims

    def _signature(self, signed: str) -> bytes:
        return hmac.digest(self._key, signed.encode(errors="surrogateescape"), hashlib.sha256)


def _spec_of(body: Json) -> Json:
    """The spec of a review; refused if it, or a text in it, has the wrong type."""
    spec = body.setdefault("spec", {})
    if not isinstance(spec, dict):
        raise bad_request("spec must be an object")
    for key in ("token", "user"):
        if not isinstance(spec.get(key) or "", str):
            raise bad_request(f"spec.{key} must be a string")
    return spec


def _packed(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _unpacked(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))
