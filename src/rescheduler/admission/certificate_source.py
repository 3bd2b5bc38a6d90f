"""Which certificate is served now: from given files, or from our Secret; a new one is taken up without a restart.

`registering` looks every few seconds. What is half-written, or does not fit together, changes nothing: the pair that
was served goes on being served, and the reason is told once. Connections that exist go on as they are.
"""

from __future__ import annotations

import contextlib
import logging
import os
import ssl
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

from rescheduler.admission.certificates import CertificateError, CertificateState, KeyPair, check
from rescheduler.kube.connection import RereadFile
from rescheduler.kube.errors import ClusterError
from rescheduler.kube.secrets import SecretStore

_log = logging.getLogger(__name__)
ReadPair = Callable[[], Awaitable[KeyPair]]


class CertificateSource:
    """Serves what a source gives; `context` is for a server, and stays the same for as long as it runs.

    Each pair has a context of its own, to which a handshake is handed over when it begins (by the callback that is
    meant for server names). Loading a pair into a context in use would do too, until somebody changes from RSA to
    ECDSA: a context keeps one pair of each kind, and would go on to serve the old one to some clients.
    """

    def __init__(self, source: ReadPair) -> None:
        self._source = source
        self._told = ""
        self._served: ssl.SSLContext | None = None
        self.pair: KeyPair | None = None
        """What is served; None before the first."""
        self.context = _bare()
        self.context.sni_callback = self._hand_over

    async def refresh(self) -> bool:
        """Serve what there is to be served now; whether there is anything."""
        try:
            pair = await self._source()
            if pair != self.pair:
                self._served = _context(pair)
                again = self.pair is not None
                self.pair = pair
                _log.info("the webhook serves a new certificate" if again else "the webhook has its certificate")
        except (CertificateError, ClusterError) as error:
            self._tell(str(error))
        else:
            self._told = ""
        return self.pair is not None

    @property
    def why(self) -> str:
        """What was wrong at the last look; nothing, if all was well."""
        return self._told

    def _tell(self, why: str) -> None:
        if why == self._told:
            return
        self._told = why
        if self.pair is None:
            _log.warning("the webhook has no certificate yet: %s", why)
        else:
            _log.warning("the webhook goes on with the certificate that it has: %s", why)

    def _hand_over(self, handshake: ssl.SSLObject | ssl.SSLSocket, name: str | None, context: ssl.SSLContext) -> None:
        if self._served is not None:
            handshake.context = self._served


def from_files(certificate: Path, key: Path) -> ReadPair:
    """A pair that somebody else keeps in files, as cert-manager does."""
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
    """The pair that the leader keeps in our Secret."""

    async def read() -> KeyPair:
        found = await secrets.read()
        if found is None:
            raise CertificateError(f"{secrets} is not there; the leader makes it")
        try:
            return CertificateState.from_data(found.data).serving
        except CertificateError as error:
            raise CertificateError(f"{secrets}: {error}; the leader makes it anew") from error

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
    """A file for OpenSSL, which reads pairs from files only: in memory where that can be, for keys belong on no disk.

    A container's file system is often read-only, too.
    """
    if hasattr(os, "memfd_create"):
        with os.fdopen(os.memfd_create("rescheduler"), "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
    else:
        with tempfile.NamedTemporaryFile(prefix="rescheduler-") as private:  # nobody else may read it
            private.write(content)
            private.flush()
            yield private.name
