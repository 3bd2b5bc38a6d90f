"""How to reach one API server and log in to it, as plain values; and the TLS contexts that follow from it.

`kubeconfig.py` makes a Connection from a kubeconfig or a pod's service account; `auth.py` makes the Credential of each
request. Every value that can be wrong has `where`, the file and the path in it, so that a late error (a certificate
that does not load, a missing plugin) still names the line to change. Secrets are kept out of `repr`. aiohttp pools
connections by TLS context, so a renewed certificate means new connections, while requests on old ones finish.
"""

import os
import ssl
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from yarl import URL

from rescheduler.kube.errors import AuthError

InteractiveMode = Literal["Never", "IfAvailable", "Always"]


@dataclass(slots=True)
class RereadFile:
    """A file's content, read again whenever the file was replaced or changed; checked on every use."""

    path: Path
    where: str
    _seen: tuple[int, int, int] | None = field(default=None, init=False, repr=False, compare=False)
    _content: bytes = field(default=b"", init=False, repr=False, compare=False)

    def read(self) -> bytes:
        try:
            # stat before read: a change in between only means one more read next time.
            stat = self.path.stat()
            seen = (stat.st_ino, stat.st_size, stat.st_mtime_ns)
            if seen != self._seen:
                self._content = self.path.read_bytes()
                self._seen = seen
        except OSError as error:
            raise AuthError(f"{self.where}: cannot read {self.path}: {error.strerror}") from error
        return self._content


@dataclass(frozen=True, slots=True)
class InlinePem:
    """PEM text in the kubeconfig itself."""

    where: str
    data: bytes = field(repr=False)

    def read(self) -> bytes:
        return self.data


Pem = InlinePem | RereadFile


@dataclass(frozen=True, slots=True)
class CertificatePair:
    """A client certificate and its key, as PEM. `where` is for messages and is not compared."""

    certificate: bytes
    key: bytes = field(repr=False)
    where: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    certificate: Pem
    key: Pem

    def read(self) -> CertificatePair:
        return CertificatePair(self.certificate.read(), self.key.read(), self.certificate.where)


@dataclass(frozen=True, slots=True)
class BearerToken:
    token: str = field(repr=False)


def is_token(text: str) -> bool:
    """Whether a text can be sent as a bearer token."""
    return text != "" and text.isascii() and text.isprintable()


class TokenFile(RereadFile):
    """A token file that is refreshed by others (by the kubelet, for a pod's service account)."""


@dataclass(frozen=True, slots=True)
class BasicLogin:
    username: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class ExecPlugin:
    """A command that prints credentials (`client.authentication.k8s.io`)."""

    where: str
    command: str
    api_version: str
    interactive_mode: InteractiveMode
    args: tuple[str, ...] = field(default=(), repr=False)
    env: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    install_hint: str = ""
    provide_cluster_info: bool = False
    # The cluster's `client.authentication.k8s.io/exec` extension, passed to the plugin unchanged.
    cluster_config: Any = None


Login = BearerToken | TokenFile | BasicLogin | ExecPlugin


@dataclass(frozen=True, slots=True)
class AuthInfo:
    """A user's credentials: at most one login (a header, or a plugin that makes one), and a client certificate."""

    login: Login | None = None
    certificate: ClientCertificate | None = None


@dataclass(frozen=True, slots=True)
class Impersonation:
    """The user to act as (`--as`, `--as-group`, `--as-uid`, `--as-user-extra`, or the same in the kubeconfig)."""

    user: str = ""
    groups: tuple[str, ...] = ()
    uid: str = ""
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Connection:
    """One API server, and the credentials there. `source` says where this came from, for messages."""

    server: str
    source: str
    ca: Pem | None = None
    tls_server_name: str | None = None
    insecure: bool = False
    proxy_url: str | None = field(default=None, repr=False)  # may contain a password
    compression: bool = True
    namespace: str = "default"
    credentials: AuthInfo = AuthInfo()
    impersonation: Impersonation = Impersonation()


@dataclass(frozen=True, slots=True)
class Credential:
    """The credential of one request: an Authorization header, a client certificate, both or neither.

    `generation` counts the runs of an exec plugin: after a refused token it shows whether another caller has already
    renewed it.
    """

    authorization: str | None = field(default=None, repr=False)
    certificate: CertificatePair | None = None
    generation: int = field(default=0, compare=False)


def without_password(url: str) -> str:
    """Return a URL without user and password, for messages."""
    return str(URL(url).with_user(None))


class TlsContexts:
    """The SSL context for the current CA and client certificate; None for a server without TLS."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._made_of: tuple[bytes | None, CertificatePair | None] | None = None
        self._context: ssl.SSLContext | None = None

    def context(self, pair: CertificatePair | None) -> ssl.SSLContext | None:
        if not self._connection.server.startswith("https:"):
            return None
        ca = self._connection.ca.read() if self._connection.ca is not None else None
        if self._made_of != (ca, pair):
            self._context = self._build(ca, pair)
            self._made_of = (ca, pair)
        return self._context

    def _build(self, ca: bytes | None, pair: CertificatePair | None) -> ssl.SSLContext:
        if self._connection.insecure:
            context = ssl.create_default_context()
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        else:
            context = self._verifying_context(ca)
        if pair is not None:
            _load_pair(context, pair)
        return context

    def _verifying_context(self, ca: bytes | None) -> ssl.SSLContext:
        if ca is None or self._connection.ca is None:
            context = ssl.create_default_context()  # the system's CAs
        else:
            try:
                # Bundles may have comments in any encoding around the PEM, which itself is ASCII.
                context = ssl.create_default_context(cadata=ca.decode("ascii", "ignore"))
            except (ssl.SSLError, ValueError) as error:
                source = self._connection.ca
                file = f"{source.path} " if isinstance(source, RereadFile) else ""
                raise AuthError(f"{source.where}: {file}holds no usable PEM certificate ({error})") from error
        return verify_like_go(context)


def verify_like_go(context: ssl.SSLContext) -> ssl.SSLContext:
    """Make a context verify as kubectl and the API server do, on every Python; chain and name are still checked.

    The CAs of many clusters lack extensions (authority key identifier, key usage) that Python requires by default since
    3.13 and Go does not; and an intermediate certificate may be the trusted one.
    """
    context.verify_flags &= ~ssl.VERIFY_X509_STRICT
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    return context


def _load_pair(context: ssl.SSLContext, pair: CertificatePair) -> None:
    def refuse() -> str:
        # Without this, OpenSSL would ask for a passphrase on the terminal and block the event loop.
        raise AuthError(f"{pair.where}: the client key is encrypted, which is not supported; store it decrypted")

    with private_file(pair.certificate) as certificate, private_file(pair.key) as key:
        try:
            context.load_cert_chain(certificate, key, password=refuse)
        except ssl.SSLError as error:
            problem = error.reason or error
            raise AuthError(f"{pair.where}: the client certificate and key do not load ({problem})") from error


@contextmanager
def private_file(content: bytes) -> Iterator[str]:
    """Write a file for OpenSSL, which reads certificates and keys only from files.

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
