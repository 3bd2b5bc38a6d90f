"""Whose requests are taken for what: names, origins, peers, and where no token is needed."""

from __future__ import annotations

from unittest import mock

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request
from hypothesis import given
from hypothesis import strategies as st
from multidict import CIMultiDict

from rescheduler.kube.errors import ClusterError
from rescheduler.web.auth import RequestChecks, check_insecure_local
from rescheduler.web.responses import HttpError

LOCAL = RequestChecks(local=True)
HOSTS = ("localhost", "localhost:8080", "LOCALHOST:8080", "127.0.0.1", "127.0.0.1:8080", "127.9.9.9", "[::1]:8080")
FOREIGN = (
    "evil.example", "evil.example:8080", "localhost.evil.example", "127.0.0.1.evil.example", "10.0.0.1", "0.0.0.0",
    "[::]", "localhost:8080@evil.example", "localhost:", "localhost:x", "localhost ", "", "[::1", "2130706433",
)  # fmt: skip


def request(peer: str = "127.0.0.1", **headers: str) -> web.Request:
    """A request as it comes from an address."""
    transport = mock.Mock()
    transport.get_extra_info = lambda name, default=None: (peer, 40000) if name == "peername" else default
    given = CIMultiDict({name.replace("_", "-"): value for name, value in headers.items()})
    return make_mocked_request("POST", "/api/actions/pause", headers=given, transport=transport)


def sent_by_page(**headers: str) -> int:
    """With which status it is refused, or 200."""
    usual = {
        "Host": "page.example:8080",
        "Origin": "http://page.example:8080",
        "X_Rescheduler_Action": "pause",
        "Content_Type": "application/json",
    }
    try:
        RequestChecks().check_sent_by_page(request(**(usual | headers)), "pause")
    except HttpError as refusal:
        return refusal.status
    return 200


@pytest.mark.parametrize("host", HOSTS)
@pytest.mark.parametrize("peer", ["127.0.0.1", "127.3.2.1", "::1", "::ffff:127.0.0.1"])
def test_this_machine_by_its_own_name_needs_no_token(host: str, peer: str) -> None:
    LOCAL.check_host(request(peer, Host=host))
    assert LOCAL.needs_no_token(request(peer, Host=host))
    assert not RequestChecks().needs_no_token(request(peer, Host=host))


@pytest.mark.parametrize("peer", ["10.0.0.7", "203.0.113.5", "fe80::1", "::ffff:10.0.0.7", "", "nonsense"])
def test_another_machine_needs_a_token_whatever_name_it_calls(peer: str) -> None:
    assert not LOCAL.needs_no_token(request(peer, Host="localhost"))


@pytest.mark.parametrize("host", FOREIGN)
def test_a_foreign_name_is_not_answered(host: str) -> None:
    with pytest.raises(HttpError, match="only answered as localhost") as caught:
        LOCAL.check_host(request(Host=host))
    assert caught.value.status == 403
    assert not LOCAL.needs_no_token(request(Host=host))
    RequestChecks().check_host(request(Host=host))  # where tokens are needed, any name may lead to us


def test_two_names_are_none() -> None:
    transport = mock.Mock()
    transport.get_extra_info = lambda name, default=None: ("127.0.0.1", 1)
    given = CIMultiDict([("Host", "localhost"), ("Host", "evil.example")])
    twice = make_mocked_request("GET", "/", headers=given, transport=transport)
    assert not LOCAL.needs_no_token(twice)
    with pytest.raises(HttpError):
        LOCAL.check_host(twice)


@pytest.mark.parametrize("header", ["Forwarded", "X_Forwarded_For", "X_Forwarded_Host", "X_Real_Ip", "Via"])
def test_what_a_proxy_hands_on_is_not_from_this_machine(header: str) -> None:
    assert not LOCAL.needs_no_token(request(Host="localhost", **{header: "127.0.0.1"}))


@pytest.mark.parametrize(
    ("origin", "host", "status"),
    [
        ("http://page.example:8080", "page.example:8080", 200),
        ("http://PAGE.example:8080", "page.EXAMPLE:8080", 200),
        ("https://page.example", "page.example", 200),
        ("https://page.example", "page.example:443", 200),
        ("http://page.example:80", "page.example", 200),
        ("http://[::1]:8080", "[::1]:8080", 200),
        ("http://page.example", "page.example:443", 403),
        ("http://page.example:8081", "page.example:8080", 403),
        ("http://page.example:8080/", "page.example:8080", 403),
        ("http://page.example:8080.evil.example", "page.example:8080", 403),
        ("http://x@page.example:8080", "page.example:8080", 403),
        ("file://page.example:8080", "page.example:8080", 403),
        ("null", "page.example:8080", 403),
        ("", "page.example:8080", 403),
        ("http://[", "page.example:8080", 403),
        ("http://", "", 403),
    ],
)
def test_an_origin_must_be_this_host(origin: str, host: str, status: int) -> None:
    assert sent_by_page(Origin=origin, Host=host) == status


def test_all_of_several_headers_must_be_right() -> None:
    usual = [("Host", "a"), ("Content-Type", "application/json"), ("X-Rescheduler-Action", "pause")]
    for extra in (("Origin", "http://b"), ("Sec-Fetch-Site", "cross-site"), ("X-Rescheduler-Action", "pause")):
        ours = [("Origin", "http://a"), ("Sec-Fetch-Site", "same-origin")]
        twice = make_mocked_request("POST", "/", headers=CIMultiDict([*usual, *ours, extra]))
        with pytest.raises(HttpError):
            RequestChecks().check_sent_by_page(twice, "pause")


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "", "json"])
def test_only_json_is_taken(kind: str) -> None:
    assert sent_by_page(Content_Type=kind) == 415
    assert sent_by_page(Content_Type="application/json; charset=utf-8") == 200


@given(host=st.text(max_size=30), origin=st.text(max_size=40), peer=st.text(max_size=20))
def test_whatever_headers_say_nothing_breaks_and_only_loopback_passes(host: str, origin: str, peer: str) -> None:
    found = request(peer, Host=host, Origin=origin)
    assert sent_by_page(Host=host, Origin=origin) in (200, 403)
    if LOCAL.needs_no_token(found):
        LOCAL.check_host(found)
        assert peer == "::1" or peer.rpartition(":")[2].startswith("127.")


@pytest.mark.parametrize("address", ["127.0.0.1", "127.1.2.3", "::1", "localhost", "Localhost"])
def test_insecure_local_is_served_on_loopback(address: str) -> None:
    check_insecure_local(address, 8080)


@pytest.mark.parametrize("address", ["0.0.0.0", "::", "10.0.0.7", "", "example.com", "localhost.example.com"])
def test_insecure_local_is_not_served_to_others(address: str) -> None:
    with pytest.raises(
        ClusterError, match=r"--ui-insecure-local: web.bindAddress is .*set web.bindAddress to 127.0.0.1"
    ):
        check_insecure_local(address, 8080)


def test_insecure_local_without_a_page_says_so() -> None:
    with pytest.raises(ClusterError, match=r"web\.port is 0"):
        check_insecure_local("127.0.0.1", None)
