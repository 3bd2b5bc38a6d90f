"""Authentication and authorisation of the page's requests, by the API server, and checks against other sites.

`server` checks every request here, `actions` each one that changes something. There are no cookies, so a foreign site
has no session to abuse. The checks hold even where a browser would send a request for it:

- forms and scripts of other sites cannot send our header, a JSON body or our own origin without being asked first;
- with `--ui-insecure-local` no token is needed, so both the peer and the name that it called must be this machine's
  (a foreign name that was made to lead to 127.0.0.1 still says in `Host` what it is), with no proxy in between.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import re
import secrets
import time
from collections import OrderedDict, deque
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Generic, TypeVar
from urllib.parse import urlsplit

import structlog
from aiohttp import web

from rescheduler.kube.errors import ApiError, ClusterError
from rescheduler.kube.reviews import ResourceAttributes, ReviewClient, User
from rescheduler.web.responses import HttpError

ACTION = "X-Rescheduler-Action"
JSON = "application/json"
_PAGES_OWN = frozenset({"same-origin", "none"})
_PROXIED = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_PORTS = {"http": "80", "https": "443"}
_REMEMBERED = 5.0  # seconds; a revoked token counts for so long
_MOST = 1000  # tokens, and answers
_PEERS = 10_000
_WRONG = 10  # wrong tokens of a peer
_WITHIN = 60.0  # seconds
_AT_ONCE = 8  # questions to the API server
_WAITING = 100  # more than that
_PATIENCE = 10.0  # seconds for its answers
_UNKNOWN = User("")
_log = structlog.stdlib.get_logger(__name__)
Key = TypeVar("Key")
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class RequestChecks:
    """Checks where a request comes from; `local` is `--ui-insecure-local`."""

    local: bool = False

    def check_host(self, request: web.BaseRequest) -> None:
        """Refuse requests to a foreign host name, where this machine needs no token."""
        if self.local and not _is_loopback(_host(request)):
            raise HttpError(
                403,
                f"with --ui-insecure-local this is only answered as localhost or 127.0.0.1, not as "
                f"{_quote(request.headers.get('Host', ''))}: open http://localhost with the port in your browser",
            )

    def needs_no_token(self, request: web.BaseRequest) -> bool:
        """Whether it comes directly from this machine, and that is enough."""
        return (
            self.local
            and _is_loopback(peer(request))
            and _is_loopback(_host(request))
            and not any(header in request.headers for header in _PROXIED)
        )

    def check_sent_by_page(self, request: web.BaseRequest, action: str) -> None:
        """Refuse requests that another site may have made a browser send."""
        if request.headers.getall(ACTION, []) != [action]:
            raise HttpError(403, f"an action needs the header {ACTION}: {action}, which only our own page sends")
        if not set(request.headers.getall("Sec-Fetch-Site", [])) <= _PAGES_OWN:
            raise HttpError(403, "the request comes from another site (Sec-Fetch-Site): use the page that we serve")
        called = request.headers.get("Host", "")
        for origin in request.headers.getall("Origin", []):
            if not _is_same(origin, called):
                raise HttpError(
                    403,
                    f"the request comes from a page of {_quote(origin)}, and this is {_quote(called)}: use the page "
                    "that we serve; a proxy in between must leave Host as it is",
                )
        if request.headers.getall("Content-Type", []) == [] or request.content_type.lower() != JSON:
            raise HttpError(415, f"an action is asked for with Content-Type: {JSON}")
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise HttpError(415, "an action's body is not compressed")


def check_insecure_local(address: str, port: int | None) -> None:
    """Refuse to serve without tokens at an address that other machines can reach."""
    if port is None:
        raise ClusterError("--ui-insecure-local: web.port is 0, so there is no page; set web.port")
    if address.lower() != "localhost" and not _is_loopback(address):
        raise ClusterError(
            f"--ui-insecure-local: web.bindAddress is {address or 'every address'}, and anyone who reaches it could "
            "press the buttons; set web.bindAddress to 127.0.0.1, or leave the flag out and sign in with a Kubernetes "
            "token"
        )


def peer(request: web.BaseRequest) -> str:
    """Get the address of the client; empty if the connection is gone."""
    name = request.transport.get_extra_info("peername") if request.transport is not None else None
    return str(name[0]) if isinstance(name, tuple) and name else ""


def _host(request: web.BaseRequest) -> str:
    """Get the host name of the request without its port; empty if there is none, or two."""
    given = request.headers.getall("Host", [])
    found = _HOST.fullmatch(given[0]) if len(given) == 1 else None
    return found[1].strip("[]").lower() if found else ""


def _is_loopback(name: str) -> bool:
    if name == "localhost":
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def _is_same(origin: str, host: str) -> bool:
    """Whether an origin is this host."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    usual = _PORTS.get(parts.scheme)
    theirs, ours = _HOST.fullmatch(parts.netloc), _HOST.fullmatch(host)
    if usual is None or theirs is None or ours is None or parts.path or parts.query or parts.fragment:
        return False
    return (theirs[1].lower(), theirs[2] or usual) == (ours[1].lower(), ours[2] or usual)


def _quote(text: str) -> str:
    """Foreign text for a sentence of ours: shortened, and as ASCII."""
    return ascii(text[:80]) if text else "no name"


class ExpiringCache(Generic[Key, Value]):
    """A cache whose entries expire; the oldest are dropped first."""

    def __init__(self, seconds: float, most: int, now: Callable[[], float]) -> None:
        self._seconds, self._most, self._now = seconds, most, now
        self._kept: OrderedDict[Key, tuple[float, Value]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Key) -> Value | None:
        """Get a value; None if there is none, or it has expired."""
        found = self._kept.get(key)
        return found[1] if found is not None and self._now() < found[0] else None

    def put(self, key: Key, value: Value) -> None:
        """Store a value."""
        self._kept.pop(key, None)
        self._kept[key] = (self._now() + self._seconds, value)
        if len(self._kept) > self._most:
            self._kept.popitem(last=False)


class TokenRateLimit:
    """Counts wrong tokens of each peer; after too many the peer has to wait."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._peers: OrderedDict[str, deque[float]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._peers)

    def wait(self, peer: str) -> float:
        """Get the seconds that the peer has to wait."""
        times = self._peers.get(_neighbourhood(peer))
        return max(0.0, times[0] + _WITHIN - self._now()) if times and len(times) == _WRONG else 0.0

    def count(self, peer: str) -> None:
        """Count a wrong token."""
        key = _neighbourhood(peer)
        times = self._peers.pop(key, None) or deque(maxlen=_WRONG)
        times.append(self._now())
        self._peers[key] = times
        if len(self._peers) > _PEERS:
            self._peers.popitem(last=False)
        if self.wait(peer) and len(times) == _WRONG:
            _log.warning("too many wrong tokens on the page", peer=peer, times=_WRONG, seconds=_WITHIN)


class PageAccess:
    """Asks the API server for the user of a token and the rights of that user, and caches the answers."""

    def __init__(self, reviews: ReviewClient, now: Callable[[], float] = time.monotonic) -> None:
        self._reviews = reviews
        self._key = secrets.token_bytes(32)
        self._people: ExpiringCache[bytes, User] = ExpiringCache(_REMEMBERED, _MOST, now)
        self._accepted: ExpiringCache[bytes, User] = ExpiringCache(3600.0, _MOST, now)
        self._rights: ExpiringCache[tuple[User, ResourceAttributes], bool] = ExpiringCache(_REMEMBERED, _MOST, now)
        self._wrong = TokenRateLimit(now)
        self._turns = asyncio.Semaphore(_AT_ONCE)
        self._asking = 0

    async def authenticate(self, token: str, peer: str) -> User:
        """Find the user of a token; HttpError if it is not accepted, or this peer sent too many wrong ones."""
        digest = hmac.digest(self._key, token.encode("utf-8", "surrogateescape"), hashlib.sha256)
        # A token that was accepted before is never held up: behind a proxy, all users are one peer.
        if self._accepted.get(digest) is None and (seconds := self._wrong.wait(peer)):
            raise HttpError(
                429,
                f"too many tokens from {peer} were not accepted: try again in {seconds:.0f} s",
                **{"Retry-After": f"{seconds + 1:.0f}"},
            )
        found = self._people.get(digest)
        if found is None:
            async with self._question("who you are", "create tokenreviews.authentication.k8s.io"):
                found = await self._reviews.authenticate(token) or _UNKNOWN
            self._people.put(digest, found)
        if found is _UNKNOWN:
            self._wrong.count(peer)
            raise HttpError(
                401,
                "Kubernetes does not accept this token, or not any more: get a new one, for example with "
                "`kubectl create token NAME`",
                **{"WWW-Authenticate": "Bearer"},
            )
        self._accepted.put(digest, found)
        return found

    async def authorize(self, person: User, question: ResourceAttributes) -> bool:
        """Ask whether a user may do something now."""
        async with self._question("what you may do", "create subjectaccessreviews.authorization.k8s.io"):
            allowed = await self._reviews.is_allowed(person, question)
        self._rights.put((person, question), allowed)
        return allowed

    async def was_authorized(self, person: User, question: ResourceAttributes) -> bool:
        """Get a recent answer, for display only."""
        known = self._rights.get((person, question))
        return await self.authorize(person, question) if known is None else known

    @asynccontextmanager
    async def _question(self, what: str, right: str) -> AsyncGenerator[None]:
        """Bound the questions to the API server; failures become error responses."""
        if self._asking >= _WAITING:
            raise HttpError(503, "too many sign-ins at once: try again", **{"Retry-After": "1"})
        self._asking += 1
        try:
            async with asyncio.timeout(_PATIENCE), self._turns:
                yield
        except TimeoutError:
            raise HttpError(503, f"the API server did not say in time {what}: try again") from None
        except ClusterError as error:
            _log.warning("review request failed", about=what, error=str(error))
            if isinstance(error, ApiError) and error.status == 403:
                why = (
                    f"the controller may not ask the API server {what}: give it the right to {right} (deploy/rbac.yaml)"
                )
                raise HttpError(503, why) from None
            raise HttpError(503, f"the API server could not be asked {what}: try again; the log says more") from None
        finally:
            self._asking -= 1


def _neighbourhood(peer: str) -> str:
    """Get the network of a client: with IPv6 one client has 2⁶⁴ addresses."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is None:
        return str(ipaddress.ip_network((address, 64), strict=False))
    return str(address)
