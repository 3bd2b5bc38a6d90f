"""The Credential of each request: static, from a token file, or from an exec plugin (`client.authentication.k8s.io`).

An exec plugin is a command of the user (aws, gke-gcloud-auth-plugin, kubelogin, …). It reads what is wanted from
KUBERNETES_EXEC_INFO and prints an ExecCredential, which is used until it expires. When the wait for a plugin ends (its
time is up, the request is cancelled), its process is ended too.
"""

import asyncio
import base64
import os
import signal
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any
from urllib.parse import quote

import msgspec

from rescheduler.kube.connection import (
    BasicLogin,
    BearerToken,
    CertificatePair,
    Connection,
    Credential,
    ExecPlugin,
    Impersonation,
    TokenFile,
    is_token,
)
from rescheduler.kube.errors import AuthError

# Long enough for a login in a browser, short enough to notice a plugin that hangs.
PLUGIN_SECONDS = 180.0
# Renewed this long before expiry, so that no request is in flight at that time.
RENEWAL_MARGIN = timedelta(seconds=60)


class _Status(msgspec.Struct, rename="camel"):
    token: str | None = None
    client_certificate_data: str | None = None
    client_key_data: str | None = None
    expiration_timestamp: Annotated[datetime, msgspec.Meta(tz=True)] | None = None


class _ExecCredential(msgspec.Struct, rename="camel"):
    api_version: str = ""
    kind: str = ""
    status: _Status | None = None


class ExecSource:
    """The current credential of a plugin. For any number of concurrent callers, one process runs."""

    def __init__(self, plugin: ExecPlugin, connection: Connection, timeout: float = PLUGIN_SECONDS) -> None:
        self._plugin = plugin
        self._where = f"{plugin.where}: {plugin.command}"
        self._connection = connection
        self._timeout = timeout
        self._credential = Credential()
        self._renew_at: datetime | None = None
        self._running = asyncio.Lock()

    async def current(self) -> Credential:
        if self._is_due():
            async with self._running:
                if self._is_due():  # else another caller renewed it during the wait
                    await self._renew()
        return self._credential

    async def renew(self, refused: Credential) -> Credential:
        async with self._running:
            if self._credential.generation == refused.generation:
                await self._renew()
        return self._credential

    def _is_due(self) -> bool:
        never_ran = self._credential.generation == 0
        return never_ran or (self._renew_at is not None and datetime.now(UTC) >= self._renew_at)

    async def _renew(self) -> None:
        status = self._decode(await self._run())
        certificate, key = status.client_certificate_data, status.client_key_data
        self._credential = Credential(
            f"Bearer {status.token}" if status.token else None,
            CertificatePair(certificate.encode(), key.encode(), self._where) if certificate and key else None,
            self._credential.generation + 1,
        )
        self._renew_at = _renewal_time(status.expiration_timestamp, datetime.now(UTC))

    async def _run(self) -> bytes:
        interactive = self._is_interactive()
        starting = asyncio.create_task(self._start(interactive=interactive))
        try:
            process = await asyncio.shield(starting)
        except asyncio.CancelledError:
            # On cancellation asyncio would end only the command itself, then wait for the children that it left behind.
            await asyncio.wait([starting])
            if starting.exception() is None:
                await _end(starting.result(), whole_session=not interactive)
            raise
        try:
            async with asyncio.timeout(self._timeout):
                output, complaint = await process.communicate()
        except TimeoutError as error:
            await _end(process, whole_session=not interactive)
            problem = f"gave nothing in {self._timeout:g} s; run it by hand to see what it waits for"
            raise AuthError(f"{self._where} {problem}") from error
        except asyncio.CancelledError:
            await _end(process, whole_session=not interactive)
            raise
        if process.returncode != 0:
            message = (complaint or b"").decode(errors="replace").strip()[-2000:]
            problem = f"failed with exit code {process.returncode}" + (f": {message}" if message else "")
            raise AuthError(f"{self._where} {problem}")
        return output

    async def _start(self, *, interactive: bool) -> asyncio.subprocess.Process:
        wanted = self._exec_info(interactive=interactive)
        environment = {**os.environ, **dict(self._plugin.env), "KUBERNETES_EXEC_INFO": wanted}
        try:
            return await asyncio.create_subprocess_exec(
                self._plugin.command,
                *self._plugin.args,
                env=environment,
                stdin=None if interactive else asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                # An interactive plugin needs the terminal; otherwise its messages belong in the error.
                stderr=None if interactive else asyncio.subprocess.PIPE,
                start_new_session=not interactive,
            )
        except FileNotFoundError as error:
            hint = self._plugin.install_hint.strip() or "install it, or correct its path"
            raise AuthError(f"{self._plugin.where}: the command {self._plugin.command} is not found; {hint}") from error
        except OSError as error:
            raise AuthError(f"{self._where} does not start: {error.strerror}") from error

    def _is_interactive(self) -> bool:
        has_terminal = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
        if self._plugin.interactive_mode == "Always" and not has_terminal:
            raise AuthError(
                f"{self._where} needs a terminal (interactiveMode: Always), "
                "and standard input is none; run this in a terminal, or use other credentials"
            )
        return self._plugin.interactive_mode != "Never" and has_terminal

    def _exec_info(self, *, interactive: bool) -> str:
        spec: dict[str, Any] = {"interactive": interactive}
        if self._plugin.provide_cluster_info:
            spec["cluster"] = self._cluster_info()
        info = {"apiVersion": self._plugin.api_version, "kind": "ExecCredential", "spec": spec}
        return msgspec.json.encode(info).decode()

    def _cluster_info(self) -> dict[str, Any]:
        connection = self._connection
        info = {
            "server": connection.server,
            "tls-server-name": connection.tls_server_name,
            "insecure-skip-tls-verify": connection.insecure,
            "certificate-authority-data": base64.b64encode(connection.ca.read()).decode()
            if connection.ca is not None
            else None,
            "proxy-url": connection.proxy_url,
            "disable-compression": not connection.compression,
            "config": self._plugin.cluster_config,
        }
        return {name: value for name, value in info.items() if value is not None and value is not False}

    def _decode(self, output: bytes) -> _Status:
        try:
            answer = msgspec.json.decode(output, type=_ExecCredential)
        except msgspec.MsgspecError as error:
            raise AuthError(f"{self._where} did not print an ExecCredential: {error}") from error
        if answer.kind != "ExecCredential" or answer.api_version != self._plugin.api_version:
            printed = f"{answer.api_version or 'no apiVersion'} {answer.kind or 'without kind'}"
            raise AuthError(
                f"{self._where} printed {printed}, but {self._plugin.api_version} ExecCredential was asked for"
            )
        status = answer.status or _Status()
        if bool(status.client_certificate_data) != bool(status.client_key_data):
            raise AuthError(f"{self._where} printed a certificate or a key without the other")
        if not status.token and not status.client_certificate_data:
            raise AuthError(f"{self._where} printed neither a token nor a certificate")
        if status.token and not is_token(status.token):
            raise AuthError(f"{self._where} printed a token with characters that no token has, such as line breaks")
        return status


def _renewal_time(expiry: datetime | None, now: datetime) -> datetime | None:
    """Return when to renew: a margin before expiry, but at most a tenth of a short lifetime."""
    if expiry is None:
        return None
    return expiry - min(RENEWAL_MARGIN, max(expiry - now, timedelta(0)) / 10)


async def _end(process: asyncio.subprocess.Process, *, whole_session: bool) -> None:
    """End the plugin and its children: a child that keeps the output open would block the wait."""
    try:
        if whole_session:
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
    except ProcessLookupError:
        pass  # it has ended by itself
    await process.wait()


class CredentialSource:
    """Provides the current Credential of a client; safe for concurrent callers."""

    def __init__(self, connection: Connection) -> None:
        self._login = connection.credentials.login
        self._certificate = connection.credentials.certificate
        self._plugin = ExecSource(self._login, connection) if isinstance(self._login, ExecPlugin) else None

    async def current(self) -> Credential:
        return self._with_pair(await self._plugin.current() if self._plugin is not None else self._read_login())

    async def renew(self, refused: Credential) -> Credential | None:
        """Return another credential after a 401 for `refused`, or None if there is none."""
        renewed = await self._plugin.renew(refused) if self._plugin is not None else self._read_login()
        credential = self._with_pair(renewed)
        return credential if credential != refused else None

    def _read_login(self) -> Credential:
        match self._login:
            case BearerToken(token):
                return Credential(f"Bearer {token}")
            case BasicLogin(username, password):
                encoded = base64.b64encode(f"{username}:{password}".encode()).decode()
                return Credential(f"Basic {encoded}")
            case TokenFile() as file:  # others refresh it: its current content counts, also after it was refused
                token = file.read().decode("ascii", "replace").strip()
                if not is_token(token):
                    raise AuthError(f"{file.where}: {file.path} does not hold a token")
                return Credential(f"Bearer {token}")
        return Credential()

    def _with_pair(self, credential: Credential) -> Credential:
        # The kubeconfig's own certificate wins over a plugin's, as in client-go.
        if self._certificate is None:
            return credential
        return replace(credential, certificate=self._certificate.read())


def impersonation_headers(impersonation: Impersonation) -> list[tuple[str, str]]:
    """Return headers as pairs, because one is repeated for each group."""
    headers = [("Impersonate-User", impersonation.user), ("Impersonate-Uid", impersonation.uid)]
    headers += [("Impersonate-Group", group) for group in impersonation.groups]
    for key, values in impersonation.extra.items():
        # Keys such as example.com/scopes have characters that headers may not; the server decodes percent-encoding.
        name = quote(key, safe="!#$&'*+^`|")
        headers += [(f"Impersonate-Extra-{name}", value) for value in values]
    return [(name, value) for name, value in headers if value]
