"""Tokens and certificates for a Prometheus, from files that others rotate without telling us.

Every file is looked at before each use and read again if it has changed. aiohttp pools connections by context, so a
new certificate simply means new connections.
"""

from __future__ import annotations

import ssl
from pathlib import Path

from rescheduler.model.usage import PrometheusAccess
from rescheduler.usage.errors import FileError

_Stamp = tuple[int, int, int]


class Credentials:
    """What is shown to a Prometheus, and whom we take for it."""

    def __init__(self, access: PrometheusAccess) -> None:
        self._access = access
        self._token = ""
        self._token_stamp: _Stamp | None = None
        self._context: ssl.SSLContext | None = None
        self._context_stamps: tuple[_Stamp, ...] | None = None

    def token(self) -> str:
        """The bearer token of now; empty where none is to be sent."""
        if not self._access.bearer_token_file:
            return ""
        path = Path(self._access.bearer_token_file)
        stamp = _stamp(path, "bearerTokenFile")
        if stamp != self._token_stamp:
            token = _read(path, "bearerTokenFile").decode("utf-8", "replace").strip()
            if not token or not token.isascii() or not token.isprintable() or " " in token:
                raise FileError(f"usage.prometheus.bearerTokenFile: {path} does not hold a token, in one line of ASCII")
            self._token, self._token_stamp = token, stamp
        return self._token

    def context(self) -> ssl.SSLContext | None:
        """How the connection is secured; None for a server without TLS."""
        access = self._access
        if not access.url.lower().startswith("https:"):
            return None
        named = (
            ("caFile", access.ca_file),
            ("certificateFile", access.certificate_file),
            ("keyFile", access.key_file),
        )
        stamps = tuple(_stamp(Path(path), name) for name, path in named if path)
        if self._context is None or stamps != self._context_stamps:
            self._context, self._context_stamps = self._built(), stamps
        return self._context

    def _built(self) -> ssl.SSLContext:
        access = self._access
        context = ssl.create_default_context()
        if access.insecure_skip_verify:
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
        elif access.ca_file:
            pem = _read(Path(access.ca_file), "caFile").decode("ascii", "ignore")
            try:
                context = ssl.create_default_context(cadata=pem)
            except (ssl.SSLError, ValueError) as error:
                where = f"usage.prometheus.caFile: {access.ca_file}"
                raise FileError(f"{where} holds no usable PEM certificate ({error})") from error
        # As Prometheus' own clients, written in Go, verify, and on every Python alike: CAs of older installers lack
        # extensions that Python 3.13's default flags insist on, and an intermediate certificate can be the trusted one.
        context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        if access.certificate_file:
            self._show(context)
        return context

    def _show(self, context: ssl.SSLContext) -> None:
        access = self._access

        def refuse() -> str:
            # Without this OpenSSL would ask for a passphrase on the terminal, and block everything.
            raise FileError(f"usage.prometheus.keyFile: {access.key_file} is encrypted; store it decrypted")

        for path, name in ((access.certificate_file, "certificateFile"), (access.key_file, "keyFile")):
            _read(Path(path), name)  # a file that cannot be read is told of by its name
        try:
            context.load_cert_chain(access.certificate_file, access.key_file, password=refuse)
        except ssl.SSLError as error:
            where = f"usage.prometheus.certificateFile: {access.certificate_file} and {access.key_file}"
            raise FileError(f"{where} do not load as a certificate and its key ({error.reason or error})") from error


def _stamp(path: Path, field: str) -> _Stamp:
    """Looked at before it is read: if it changes in between, it is only read once more the next time."""
    try:
        found = path.stat()
    except OSError as error:
        raise _unreadable(path, field, error) from error
    return (found.st_ino, found.st_size, found.st_mtime_ns)


def _read(path: Path, field: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise _unreadable(path, field, error) from error


def _unreadable(path: Path, field: str, error: OSError) -> FileError:
    return FileError(f"usage.prometheus.{field}: cannot read {path}: {error.strerror or error}")
