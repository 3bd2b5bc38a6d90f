"""An API server for the client's tests: real TLS on 127.0.0.1, its own CA, scripted answers, recorded requests.

A test scripts answers for a path, in order; the last one is repeated. A path without a script is answered 404. The
server asks for client certificates as kube-apiserver does: it takes none, and records whose it verified.
"""

import asyncio
import datetime as dt
import functools
import ipaddress
import ssl
import tempfile
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from aiohttp import web
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from multidict import CIMultiDictProxy

from tests.testbed.pki import add_identifiers


@dataclass(frozen=True)
class Issued:
    certificate: bytes
    key: bytes


class Authority:
    """A certificate authority: `pem` is what a kubeconfig trusts."""

    def __init__(self, name: str = "test-ca") -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        builder = add_identifiers(self._builder(self._name, self._key), self._key, self._key)
        builder = builder.add_extension(x509.BasicConstraints(True, None), critical=True)
        self.pem = builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def issue(self, common_name: str, *names: str, days: int = 1, password: bytes | None = None) -> Issued:
        """A certificate for a server with these names (IP addresses among them), or for a client with none."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])
        builder = add_identifiers(self._builder(subject, key, days), key, self._key)
        if names:
            builder = builder.add_extension(x509.SubjectAlternativeName([_san(name) for name in names]), critical=False)
        certificate = builder.sign(self._key, hashes.SHA256())
        protection = serialization.BestAvailableEncryption(password) if password else serialization.NoEncryption()
        private = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, protection)
        return Issued(certificate.public_bytes(serialization.Encoding.PEM), private)

    def _builder(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, days: int = 1) -> x509.CertificateBuilder:
        now = dt.datetime.now(dt.UTC)
        return (
            x509.CertificateBuilder()
            .subject_name(subject)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - dt.timedelta(days=10))
            .not_valid_after(now + dt.timedelta(days=days))
        )


def _san(name: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(name))
    except ValueError:
        return x509.DNSName(name)


@functools.cache
def authority() -> Authority:
    """The CA that tests trust."""
    return Authority()


@dataclass(frozen=True)
class Answer:
    """What the server sends. `promised` is a Content-Length larger than the body: the answer is cut off.

    `before` is done when the request has come and is not answered yet.
    """

    status: int = 200
    body: bytes = b"{}"
    headers: Mapping[str, str] = field(default_factory=dict)
    promised: int = 0
    hang_up: bool = False
    never: bool = False
    before: Callable[[], object] = lambda: None


@dataclass(frozen=True)
class Seen:
    """A request as it came in. `client` is the common name of the certificate that was verified, if any."""

    method: str
    path: str
    query: dict[str, str]
    headers: CIMultiDictProxy[str]
    body: bytes
    client: str | None


def status_answer(code: int, reason: str, message: str, headers: Mapping[str, str] | None = None) -> Answer:
    """An error as Kubernetes sends it: a Status object."""
    status = {"kind": "Status", "status": "Failure", "code": code, "reason": reason, "message": message}
    return Answer(code, msgspec.json.encode(status), headers or {})


def list_answer(items: list[Any], token: str = "") -> Answer:
    metadata = {"resourceVersion": "1", "continue": token} if token else {"resourceVersion": "1"}
    return Answer(body=msgspec.json.encode({"kind": "List", "metadata": metadata, "items": items}))


class ApiServer:
    """The running server: script it, then look at what it saw."""

    def __init__(self) -> None:
        self.url = ""
        self.seen: list[Seen] = []
        self.most_concurrent = 0
        self._concurrent = 0
        self._held_for = 0
        self._enough = asyncio.Event()
        self._scripts: dict[str, list[Answer]] = defaultdict(list)
        self._closing = asyncio.Event()

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def script(self, path: str, *answers: Answer) -> None:
        self._scripts[path].extend(answers)

    def hold_until(self, concurrent: int) -> None:
        """Answers nothing before so many requests are under way at once."""
        self._held_for = concurrent

    def close(self) -> None:
        """Lets go of the requests that are never answered."""
        self._closing.set()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        self._concurrent += 1
        self.most_concurrent = max(self.most_concurrent, self._concurrent)
        try:
            body = await request.read()
            who = _common_name(request)
            self.seen.append(Seen(request.method, request.path, dict(request.query), request.headers, body, who))
            if self._concurrent >= self._held_for:
                self._enough.set()
            await self._enough.wait()
            return await self._send(request, self._next(request.path))
        finally:
            self._concurrent -= 1

    def _next(self, path: str) -> Answer:
        script = self._scripts.get(path)
        if not script:
            return status_answer(404, "NotFound", "the server could not find the requested resource")
        return script.pop(0) if len(script) > 1 else script[0]

    async def _send(self, request: web.Request, answer: Answer) -> web.StreamResponse:
        answer.before()
        if answer.never:
            await self._closing.wait()
        if answer.hang_up:
            assert request.transport is not None
            request.transport.abort()
            return web.Response()
        if not answer.promised:
            response = web.Response(status=answer.status, body=answer.body, headers=answer.headers)
            if "gzip" in request.headers.get("Accept-Encoding", "") and len(answer.body) > 1000:
                response.enable_compression(web.ContentCoding.gzip)
            return response
        cut_off = web.StreamResponse(status=answer.status, headers=answer.headers)
        cut_off.content_length = answer.promised
        await cut_off.prepare(request)
        await cut_off.write(answer.body)
        assert request.transport is not None
        request.transport.close()
        return cut_off


def _common_name(request: web.Request) -> str | None:
    assert request.transport is not None
    certificate = request.transport.get_extra_info("peercert")
    if not certificate:
        return None
    return str(next(value for part in certificate["subject"] for key, value in part if key == "commonName"))


@asynccontextmanager
async def api_server(
    *names: str, days: int = 1, plain: bool = False, issued: Issued | None = None
) -> AsyncIterator[ApiServer]:
    """A server whose certificate has these names, 127.0.0.1 when none is given; or with a certificate of others."""
    server = ApiServer()
    application = web.Application(client_max_size=2**26)
    application.router.add_route("*", "/{path:.*}", server.handle)
    runner = web.AppRunner(application, access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    issued = issued or authority().issue("server", *(names or ("127.0.0.1",)), days=days)
    context = None if plain else server_context(issued)
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    try:
        await site.start()
        port = runner.addresses[0][1]
        server.url = f"{'http' if plain else 'https'}://127.0.0.1:{port}"
        yield server
    finally:
        server.close()
        await runner.cleanup()


def server_context(issued: Issued) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    with tempfile.TemporaryDirectory() as folder:
        certificate, key = Path(folder, "cert"), Path(folder, "key")
        certificate.write_bytes(issued.certificate)
        key.write_bytes(issued.key)
        context.load_cert_chain(certificate, key)
    context.verify_mode = ssl.CERT_OPTIONAL
    context.load_verify_locations(cadata=authority().pem.decode())
    return context
