"""Whose requests are taken for what: sent by our own page and not by another site, and whether without a token.

`server` has every request looked at here, `actions` each that would change something. Nothing goes by cookies, so a
foreign site has nothing to ride on; these checks hold even where a browser would send a request for it:

- forms and scripts of other sites cannot send our header, a JSON body or our own origin without being asked first;
- with `--ui-insecure-local` no token is needed, so both the peer and the name that it called must be this machine's
  (a foreign name that was made to lead to 127.0.0.1 still says in `Host` what it is), with no proxy in between.
"""

from __future__ import annotations

import ipaddress
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from aiohttp import web

from rescheduler.kube.errors import ClusterError
from rescheduler.web.answers import Refusal

ACTION = "X-Rescheduler-Action"
JSON = "application/json"
_PAGES_OWN = frozenset({"same-origin", "none"})
_PROXIED = ("Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Real-Ip", "Via")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(?::([0-9]{1,5}))?")
_PORTS = {"http": "80", "https": "443"}


@dataclass(frozen=True, slots=True)
class Access:
    """How this server is reached; `local` is `--ui-insecure-local`."""

    local: bool = False

    def check_host(self, request: web.BaseRequest) -> None:
        """Refuse who called us by a foreign name, where those on this machine need no token."""
        if self.local and not _is_loopback(_host(request)):
            raise Refusal(
                403,
                f"with --ui-insecure-local this is only answered as localhost or 127.0.0.1, not as "
                f"{_shown(request.headers.get('Host', ''))}: open http://localhost with the port in your browser",
            )

    def needs_no_token(self, request: web.BaseRequest) -> bool:
        """Whether it comes from this machine, straight, and that is enough."""
        return (
            self.local
            and _is_loopback(peer(request))
            and _is_loopback(_host(request))
            and not any(header in request.headers for header in _PROXIED)
        )

    def check_sent_by_page(self, request: web.BaseRequest, action: str) -> None:
        """Refuse what another site may have had a browser send."""
        if request.headers.getall(ACTION, []) != [action]:
            raise Refusal(403, f"an action needs the header {ACTION}: {action}, which only our own page sends")
        if not set(request.headers.getall("Sec-Fetch-Site", [])) <= _PAGES_OWN:
            raise Refusal(403, "the request comes from another site (Sec-Fetch-Site): use the page that we serve")
        called = request.headers.get("Host", "")
        for origin in request.headers.getall("Origin", []):
            if not _is_same(origin, called):
                raise Refusal(
                    403,
                    f"the request comes from a page of {_shown(origin)}, and this is {_shown(called)}: use the page "
                    "that we serve; a proxy in between must leave Host as it is",
                )
        if request.headers.getall("Content-Type", []) == [] or request.content_type.lower() != JSON:
            raise Refusal(415, f"an action is asked for with Content-Type: {JSON}")
        if request.headers.get("Content-Encoding", "identity").lower() != "identity":
            raise Refusal(415, "an action's body is not compressed")


def check_insecure_local(address: str, port: int | None) -> None:
    """Refuse to serve without tokens where others than this machine's users could come in."""
    if port is None:
        raise ClusterError("--ui-insecure-local: web.port is 0, so there is no page; set web.port")
    if address.lower() != "localhost" and not _is_loopback(address):
        raise ClusterError(
            f"--ui-insecure-local: web.bindAddress is {address or 'every address'}, and whoever reaches it could press "
            "the buttons; set web.bindAddress to 127.0.0.1, or leave the flag out and sign in with a Kubernetes token"
        )


def peer(request: web.BaseRequest) -> str:
    """The address that the request comes from; empty if that is not known any more."""
    name = request.transport.get_extra_info("peername") if request.transport is not None else None
    return str(name[0]) if isinstance(name, tuple) and name else ""


def _host(request: web.BaseRequest) -> str:
    """The name that we were called by, without its port; empty where it says nothing, or two things."""
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
    """Whether pages of this origin are served under this Host."""
    try:
        parts = urlsplit(origin)
    except ValueError:
        return False
    usual = _PORTS.get(parts.scheme)
    theirs, ours = _HOST.fullmatch(parts.netloc), _HOST.fullmatch(host)
    if usual is None or theirs is None or ours is None or parts.path or parts.query or parts.fragment:
        return False
    return (theirs[1].lower(), theirs[2] or usual) == (ours[1].lower(), ours[2] or usual)


def _shown(text: str) -> str:
    """Somebody else's words in a sentence of ours: not too many, and nothing that is no letter."""
    return ascii(text[:80]) if text else "nobody"
