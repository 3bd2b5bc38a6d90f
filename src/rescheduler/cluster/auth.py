"""Who we are, at this moment: turns the Credentials of a Connection into the Credential of one request.

`client.py` asks `current()` before every request and `renewed()` after a 401. Tokens and certificates in files are
read again when they change; exec plugins (`exec_auth.py`) run again before what they gave expires. Impersonation
headers never change, and are made once.
"""

import base64
from dataclasses import replace
from typing import Protocol
from urllib.parse import quote

from rescheduler.cluster.connection import (
    BasicLogin,
    BearerToken,
    CertificatePair,
    ClientCertificate,
    Connection,
    Credential,
    ExecPlugin,
    Impersonation,
    TokenFile,
)
from rescheduler.cluster.errors import AuthError
from rescheduler.cluster.exec_auth import ExecSource
from rescheduler.cluster.tls import PemSource, RereadFile


class _LoginSource(Protocol):
    async def current(self) -> Credential: ...

    async def renewed(self, refused: Credential) -> Credential: ...


class Authenticator:
    """Gives the Credential to use now. One per client; safe for concurrent callers."""

    def __init__(self, connection: Connection) -> None:
        certificate = connection.credentials.certificate
        self._login = _source_for(connection)
        self._pair = _PairSource(certificate) if certificate is not None else None

    async def current(self) -> Credential:
        return self._with_pair(await self._login.current())

    async def renewed(self, refused: Credential) -> Credential | None:
        """After a 401 for `refused`: what to try instead, or None when there is nothing else."""
        credential = self._with_pair(await self._login.renewed(refused))
        return credential if credential != refused else None

    def _with_pair(self, credential: Credential) -> Credential:
        # The kubeconfig's own certificate wins over a plugin's, as in client-go.
        return credential if self._pair is None else replace(credential, certificate=self._pair.read())


def impersonation_headers(impersonation: Impersonation) -> list[tuple[str, str]]:
    """As pairs, because the header is repeated for each group."""
    headers = [("Impersonate-User", impersonation.user), ("Impersonate-Uid", impersonation.uid)]
    headers += [("Impersonate-Group", group) for group in impersonation.groups]
    for key, values in impersonation.extra.items():
        # Keys such as example.com/scopes hold what no header name may; the server undoes percent-encoding in them.
        name = quote(key, safe="!#$&'*+^`|")
        headers += [(f"Impersonate-Extra-{name}", value) for value in values]
    return [(name, value) for name, value in headers if value]


def _source_for(connection: Connection) -> _LoginSource:
    match connection.credentials.login:
        case None:
            return _Fixed(Credential())
        case BearerToken(token):
            return _Fixed(Credential(f"Bearer {token}"))
        case BasicLogin(username, password):
            encoded = base64.b64encode(f"{username}:{password}".encode()).decode()
            return _Fixed(Credential(f"Basic {encoded}"))
        case TokenFile() as token_file:
            return _FromFile(token_file)
        case ExecPlugin() as plugin:
            return ExecSource(plugin, connection)


class _Fixed:
    """Nothing to renew: a token or password that stands in the kubeconfig, or no login at all."""

    def __init__(self, credential: Credential) -> None:
        self._credential = credential

    async def current(self) -> Credential:
        return self._credential

    async def renewed(self, refused: Credential) -> Credential:
        del refused  # there is nothing else to offer
        return self._credential


class _FromFile:
    """A token that something else writes anew: the one in the file now is the one to use, whatever was refused."""

    def __init__(self, login: TokenFile) -> None:
        self._login = login
        self._file = RereadFile(login.path, login.where)

    async def current(self) -> Credential:
        token = self._file.read().decode("ascii", "replace").strip()
        if not (token and token.isascii() and token.isprintable()):
            raise AuthError(f"{self._login.where}: {self._login.path} does not hold a token")
        return Credential(f"Bearer {token}")

    async def renewed(self, refused: Credential) -> Credential:
        del refused
        return await self.current()


class _PairSource:
    def __init__(self, certificate: ClientCertificate) -> None:
        self._where = certificate.certificate.where
        self._certificate = PemSource(certificate.certificate)
        self._key = PemSource(certificate.key)

    def read(self) -> CertificatePair:
        return CertificatePair(self._certificate.read(), self._key.read(), self._where)
