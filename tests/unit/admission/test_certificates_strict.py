"""Certificates that we issue, in the product and in tests, pass checks as strict as those of Python 3.13."""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from rescheduler.admission.certificates import new_authority, new_serving
from tests.support import api_server
from tests.support.tls import handshake, serving, strict_trust
from tests.testbed import pki

NAME = "127.0.0.1"


class Made(NamedTuple):
    """An authority's certificate, and a server's that it signed."""

    authority: bytes
    certificate: bytes
    key: bytes


def by_the_webhook(folder: Path) -> Made:
    authority = new_authority("webhook", time.time())
    pair = new_serving(authority, [NAME], time.time())
    return Made(authority.certificate, pair.certificate, pair.key)


def by_the_api_server_of_tests(folder: Path) -> Made:
    authority = api_server.Authority()
    issued = authority.issue("server", NAME)
    return Made(authority.pem, issued.certificate, issued.key)


def by_the_testbed(folder: Path, *, bare: bool = False) -> Made:
    authority = pki.Authority(folder / "pki", bare=bare)
    pair = authority.server("server")
    return Made(authority.certificate.read_bytes(), pair.certificate.read_bytes(), pair.key.read_bytes())


WAYS = [by_the_webhook, by_the_api_server_of_tests, by_the_testbed]


@pytest.mark.parametrize("way", WAYS)
def test_the_strictest_client_takes_what_we_issue(way: Callable[[Path], Made], tmp_path: Path) -> None:
    made = way(tmp_path)
    handshake(strict_trust(made.authority), serving(made.certificate, made.key), NAME)


@pytest.mark.parametrize("way", WAYS)
def test_it_is_good_for_its_own_names_only(way: Callable[[Path], Made], tmp_path: Path) -> None:
    made = way(tmp_path)
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        handshake(strict_trust(made.authority), serving(made.certificate, made.key), "elsewhere.test")


@pytest.mark.parametrize("way", WAYS)
def test_another_authority_of_the_same_kind_does_not_vouch_for_it(way: Callable[[Path], Made], tmp_path: Path) -> None:
    made, other = way(tmp_path / "one"), way(tmp_path / "other")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(strict_trust(other.authority), serving(made.certificate, made.key), NAME)


def test_a_server_as_strict_takes_the_client_certificates_of_the_testbed(tmp_path: Path) -> None:
    authority = pki.Authority(tmp_path / "pki")
    server, user = authority.server("server"), authority.client("system:admin", "system:masters")
    strict = serving(server.certificate.read_bytes(), server.key.read_bytes())
    strict.load_verify_locations(authority.certificate)
    strict.verify_mode = ssl.CERT_REQUIRED
    strict.verify_flags |= ssl.VERIFY_X509_STRICT
    client = strict_trust(authority.certificate.read_bytes())
    client.load_cert_chain(user.certificate, user.key)
    handshake(client, strict, NAME)


def test_the_certificates_of_old_installers_are_refused_by_the_strictest_client(tmp_path: Path) -> None:
    made = by_the_testbed(tmp_path, bare=True)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(strict_trust(made.authority), serving(made.certificate, made.key), NAME)
