"""The certificate of the webhook, from given files or from our Secret, reloaded without a restart.

`WebhookServer` refreshes it every few seconds. Files that are half-written, or do not belong together, change nothing:
the pair that is served stays, and the reason is logged once. Open connections are not affected.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import structlog

from rescheduler.admission.certificates import CertificateError, CertificateState, KeyPair, check
from rescheduler.kube.connection import RereadFile
from rescheduler.kube.errors import ClusterError
from rescheduler.kube.secrets import SecretStore

_log = structlog.stdlib.get_logger(__name__)
ReadPair = Callable[[], Awaitable[KeyPair]]


class CertificateSource:
    """Serves the pair that `read` returns; `context` is for a server, and stays the same while it runs.

    Each pair has a context of its own, to which a handshake is handed over when it begins (by the callback for server
    names). Loading a new pair into the context in use would fail after a change from RSA to ECDSA: a context keeps one
    pair of each kind, and would serve the old one to some clients.
    """

    def __init__(self, read: ReadPair) -> None:
        self._read = read
        self._why = ""
        self._served: ssl.SSLContext | None = None
        self.pair: KeyPair | None = None
        """The pair that is served; None before the first."""
        self.context = _bare()
        self.context.sni_callback = self._hand_over

    async def refresh(self) -> bool:
        """Read the pair and serve it if it is new; False while there is none."""
        try:
            pair = await self._read()
            if pair != self.pair:
                self._served = _context(pair)
                again = self.pair is not None
                self.pair = pair
                _log.info("webhook certificate reloaded" if again else "webhook certificate loaded")
        except (CertificateError, ClusterError) as error:
            self._warn(str(error))
        else:
            self._why = ""
        return self.pair is not None

    @property
    def why(self) -> str:
        """What was wrong at the last refresh; empty if nothing was."""
        return self._why

    def _warn(self, why: str) -> None:
        if why == self._why:
            return
        self._why = why
        _log.warning(
            "webhook certificate missing" if self.pair is None else "webhook certificate not reloaded", why=why
        )

    def _hand_over(self, handshake: ssl.SSLObject | ssl.SSLSocket, name: str | None, context: ssl.SSLContext) -> None:
        if self._served is not None:
            handshake.context = self._served


def from_files(certificate: Path, key: Path) -> ReadPair:
    """Read a pair from files that, for example, cert-manager keeps."""
    files = RereadFile(certificate, "the webhook's certificate"), RereadFile(key, "the webhook's key")

    async def read() -> KeyPair:
        pair = KeyPair(files[0].read(), files[1].read())
        try:
            check(pair)
        except CertificateError as error:
            cure = "both must be PEM and belong together; they are read again in a moment"
            raise CertificateError(f"{certificate} and {key}: {error}; {cure}") from error
        return pair

    return read


def from_secret(secrets: SecretStore) -> ReadPair:
    """Read the pair that the leader keeps in our Secret."""

    async def read() -> KeyPair:
        found = await secrets.read()
        if found is None:
            raise CertificateError(f"{secrets} does not exist yet; the leader creates it")
        try:
            return CertificateState.from_data(found.data).serving
        except CertificateError as error:
            raise CertificateError(f"{secrets}: {error}; the leader replaces it") from error

    return read


def _bare() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _context(pair: KeyPair) -> ssl.SSLContext:
    context = _bare()
    with _in_file(pair.certificate) as certificate, _in_file(pair.key) as key:
        try:
            # A password is never asked for on a terminal: `check` has refused encrypted keys.
            context.load_cert_chain(certificate, key, password="")
        except ssl.SSLError as error:
            raise CertificateError(f"OpenSSL does not take the webhook's certificate ({error.reason})") from error
    return context


@contextlib.contextmanager
def _in_file(content: bytes) -> Iterator[str]:
    """Write a file for OpenSSL, which reads pairs only from files.

    The file is in memory where possible: keys belong on no disk, and a container's file system is often read-only.
    """
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("rescheduler"), "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile(prefix="rescheduler-") as private:  # readable for this user only
            private.write(content)
            private.flush()
            yield private.name
