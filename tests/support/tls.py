"""TLS in tests: a handshake in memory, and what Python 3.13 verifies by default, on every Python.

Python 3.13 made `ssl.create_default_context` strict: a certificate must have all the extensions that RFC 5280 asks
for, which those of many clusters lack. Python 3.11 and 3.12 can be as strict, if set so.
"""

from __future__ import annotations

import ssl
import tempfile
from pathlib import Path
from typing import Any

import pytest


def strict_by_default(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on default contexts are those of Python 3.13, whichever Python this is."""
    made = ssl.create_default_context

    def strict(*args: Any, **named: Any) -> ssl.SSLContext:
        context = made(*args, **named)
        context.verify_flags |= ssl.VERIFY_X509_STRICT | ssl.VERIFY_X509_PARTIAL_CHAIN
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)


def strict_trust(authority: bytes) -> ssl.SSLContext:
    """A client's context that trusts this authority, and takes only what has all extensions."""
    context = ssl.create_default_context(cadata=authority.decode())
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    return context


def serving(certificate: bytes, key: bytes) -> ssl.SSLContext:
    """A server's context."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        files = Path(folder, "certificate"), Path(folder, "key")
        files[0].write_bytes(certificate)
        files[1].write_bytes(key)
        context.load_cert_chain(*files)
    return context


def handshake(client: ssl.SSLContext, server: ssl.SSLContext, name: str) -> None:
    """Both sides of a handshake, with a server of this name; the first that either side refuses is raised."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(to_client, to_server, server_hostname=name),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    while sides:
        for side in list(sides):
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
            sides.remove(side)
