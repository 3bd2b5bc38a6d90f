"""What a Prometheus answers to an instant query, from bytes to amounts by node or pod.

`prometheus` hands the bodies over. Series without the labels that name a node or a pod, and values that are no amounts
(NaN, infinite, negative), are left out one by one and counted; an answer that is no vector is refused whole.
"""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import aiohttp
import msgspec

from rescheduler import __version__
from rescheduler.config.schema import PrometheusAccess
from rescheduler.model.json import ObjectKey
from rescheduler.model.objects import Usage
from rescheduler.model.quantity import MAX
from rescheduler.model.time import format_duration
from rescheduler.usage.samples import FirstNames, QueryError, Take, UsageError, UsageFileError

_LONGEST = 200  # characters of somebody else's text within a sentence


class _Labels(msgspec.Struct, gc=False):
    node: str = ""
    instance: str = ""
    namespace: str = ""
    pod: str = ""


class _Series(msgspec.Struct, gc=False):
    metric: _Labels
    value: tuple[float, str]


class _Data(msgspec.Struct, rename="camel"):
    result_type: str
    result: msgspec.Raw


class _Answer(msgspec.Struct, rename="camel"):
    status: str
    data: _Data | None = None
    error_type: str = ""
    error: str = ""


_ANSWER = msgspec.json.Decoder(_Answer)
_VECTOR = msgspec.json.Decoder(list[_Series])
_PARTS = msgspec.json.Decoder(list[msgspec.Raw])
_ONE = msgspec.json.Decoder(_Series)


@dataclass(frozen=True, slots=True)
class PrometheusQuery:
    """One query, and what its answer tells of."""

    field: str
    """As the configuration calls it: nodeCpu."""
    query: str
    resource: str
    of_pods: bool
    unit: int
    """How many of what is counted are in one of what is answered: 1000 for CPU in cores."""


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Amount and time by key, and what is to be said about the rest."""

    amounts: dict[ObjectKey, tuple[int, float]]
    warnings: tuple[str, ...]


def parse_result(question: PrometheusQuery, body: bytes) -> QueryResult:
    """What the answer tells; AnswerError if it is none."""
    nameless, garbled, several = FirstNames(), FirstNames(), dict[ObjectKey, None]()
    amounts: dict[ObjectKey, tuple[int, float]] = {}
    for series in _series(question, body, garbled):
        key = _key(question, series.metric)
        if key is None:
            nameless.add(_shown(series.metric))
            continue
        amount = _amount(series.value[1], question.unit)
        if amount is None or not math.isfinite(series.value[0]):
            garbled.add(f"{'/'.join(filter(None, key))} ({series.value[1][:_LONGEST]})")
            continue
        if key in amounts:
            several[key] = None
            amount = max(amount, amounts[key][0])
        amounts[key] = (amount, series.value[0])
    double = FirstNames("/".join(filter(None, key)) for key in several)
    labels = "namespace and pod" if question.of_pods else "node or instance"
    about = f"usage: the answer to {question.field} has"
    told = (
        (nameless, f"{about} {nameless.count} series without the labels {labels}, and they are left out: {nameless}"),
        (garbled, f"{about} {garbled.count} values that are no amounts, and they are left out: {garbled}"),
        (double, f"{about} several series for {double.count} names, of which the largest counts: {double}"),
    )
    return QueryResult(amounts, tuple(sentence for names, sentence in told if names))


def error_text(body: bytes) -> str:
    """What a Prometheus says about a question that it refuses; empty if it is not its way of saying so."""
    try:
        return _ANSWER.decode(body).error[:_LONGEST]
    except msgspec.DecodeError:
        return ""


def _series(question: PrometheusQuery, body: bytes, garbled: FirstNames) -> Iterator[_Series]:
    try:
        answer = _ANSWER.decode(body)
    except msgspec.DecodeError as error:
        raise QueryError(f"the answer to {question.field} is not one of a Prometheus ({error})") from error
    if answer.status != "success" or answer.data is None:
        raise QueryError(f"it refuses usage.prometheus.queries.{question.field}: {answer.error[:_LONGEST]}")
    if answer.data.result_type != "vector":
        raise QueryError(
            f"usage.prometheus.queries.{question.field} gives a {answer.data.result_type[:_LONGEST]}, "
            "and not an instant vector with a value for each node or pod"
        )
    with suppress(msgspec.ValidationError):  # some of them are garbled: which, is found out one by one
        yield from _VECTOR.decode(answer.data.result)
        return
    try:
        parts = _PARTS.decode(answer.data.result)
    except msgspec.ValidationError as error:
        raise QueryError(f"the answer to {question.field} is not one of a Prometheus ({error})") from error
    for part in parts:
        try:
            yield _ONE.decode(part)
        except msgspec.ValidationError:
            garbled.add(bytes(part)[:40].decode("utf-8", "replace"))


def _key(question: PrometheusQuery, labels: _Labels) -> ObjectKey | None:
    if question.of_pods:
        return (labels.namespace, labels.pod) if labels.namespace and labels.pod else None
    name = labels.node or _host(labels.instance)
    return ("", name) if name else None


def _host(instance: str) -> str:
    """`node-1:9100` without its port; an IPv6 address comes in brackets."""
    if instance.startswith("["):
        return instance[1:].partition("]")[0]
    host, colon, port = instance.rpartition(":")
    return host if colon and port.isdigit() and ":" not in host else instance


def _amount(text: str, unit: int) -> int | None:
    try:
        number = float(text) * unit
    except ValueError:
        return None
    return min(math.ceil(number), MAX) if math.isfinite(number) and number >= 0 else None


def _shown(labels: _Labels) -> str:
    given = [f"{name}={value}" for name in _Labels.__struct_fields__ if (value := getattr(labels, name))]
    return f"{{{', '.join(given)}}}"[:_LONGEST]


_Stamp = tuple[int, int, int]


class PrometheusCredentials:
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
                raise UsageFileError(
                    f"usage.prometheus.bearerTokenFile: {path} does not hold a token, in one line of ASCII"
                )
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
                raise UsageFileError(f"{where} holds no usable PEM certificate ({error})") from error
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
            raise UsageFileError(f"usage.prometheus.keyFile: {access.key_file} is encrypted; store it decrypted")

        for path, name in ((access.certificate_file, "certificateFile"), (access.key_file, "keyFile")):
            _read(Path(path), name)  # a file that cannot be read is told of by its name
        try:
            context.load_cert_chain(access.certificate_file, access.key_file, password=refuse)
        except ssl.SSLError as error:
            where = f"usage.prometheus.certificateFile: {access.certificate_file} and {access.key_file}"
            raise UsageFileError(
                f"{where} do not load as a certificate and its key ({error.reason or error})"
            ) from error


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


def _unreadable(path: Path, field: str, error: OSError) -> UsageFileError:
    return UsageFileError(f"usage.prometheus.{field}: cannot read {path}: {error.strerror or error}")


LARGEST = 256 * 2**20
"""Bytes of an answer, unpacked. 150,000 pods are about 25 MB."""
_CONNECT_SECONDS = 5.0
_AT_ONCE = 1000
_CURES = {
    401: "check bearerTokenFile or certificateFile",
    403: "whose token or certificate this is may not query it",
    404: "no Prometheus API is there: check the path in url",
}


class PrometheusError(UsageError):
    """It cannot be reached, or refuses; the message names it and the cure."""


class Prometheus:
    """A source of usage; an async context manager."""

    def __init__(self, access: PrometheusAccess, at: float | None = None) -> None:
        """`at`: as of which time it is asked; None for now."""
        self._access = access
        self._at = at
        self._credentials = PrometheusCredentials(access)
        self._session: aiohttp.ClientSession | None = None
        self._place = _without_secrets(access.url)
        queries = access.queries
        self._questions = (
            PrometheusQuery("nodeCpu", queries.node_cpu, "cpu", of_pods=False, unit=1000),
            PrometheusQuery("nodeMemory", queries.node_memory, "memory", of_pods=False, unit=1),
            PrometheusQuery("podCpu", queries.pod_cpu, "cpu", of_pods=True, unit=1000),
            PrometheusQuery("podMemory", queries.pod_memory, "memory", of_pods=True, unit=1),
        )

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def read(self, take: Take) -> tuple[str, ...]:
        """Hand all rows to `take`; what there is to say about the answers.

        A single query that is refused costs only what it would have told; if none is answered, that is an error.
        """
        warnings: list[str] = []
        found: dict[PrometheusQuery, QueryResult] = {}
        failed: list[UsageError] = []
        for question in self._questions:  # one after the other: four at once are no kinder to a Prometheus
            try:
                found[question] = await self._ask(question)
            except QueryError as error:
                failed.append(error)
            else:
                warnings += found[question].warnings
                if not found[question].amounts:
                    cure = f"check usage.prometheus.queries.{question.field}"
                    warnings.append(f"usage: {self._place} knows nothing of {question.field}; {cure}")
        if not found:
            raise failed[0]
        for kind, of_pods in (("NodeMetrics", False), ("PodMetrics", True)):
            await _hand_over(kind, {q: v for q, v in found.items() if q.of_pods is of_pods}, take)
        return (*(f"usage: {error}" for error in failed), *warnings)

    async def _ask(self, question: PrometheusQuery) -> QueryResult:
        body = await self._get(question)
        try:
            return await asyncio.to_thread(
                parse_result, question, body
            )  # at 150,000 pods it takes a good part of a second
        except QueryError as error:
            raise QueryError(f"{self._place}: {error}") from error

    async def _get(self, question: PrometheusQuery) -> bytes:
        if self._session is None:
            raise RuntimeError("Prometheus is used outside `async with`")
        token, context = self._credentials.token(), self._credentials.context()
        headers = {"Accept": "application/json", "User-Agent": f"rescheduler/{__version__}"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        try:
            # GET and not POST: proxies in front of it take a POST for a right to write.
            async with self._session.get(
                f"{self._access.url}/api/v1/query",
                params={"query": question.query} | ({"time": repr(self._at)} if self._at is not None else {}),
                headers=headers,
                allow_redirects=False,
                ssl=context if context is not None else True,
                timeout=aiohttp.ClientTimeout(total=self._access.timeout, sock_connect=_CONNECT_SECONDS),
            ) as response:
                body = await self._body(response, question)
                if response.status >= 300:
                    raise self._refused(response, body, question)
                return body
        except TimeoutError as error:
            waited = format_duration(self._access.timeout)
            cure = "raise usage.prometheus.timeout, or give a query that asks for less"
            raise PrometheusError(f"{self._place} does not answer {question.field} in {waited}; {cure}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise PrometheusError(f"{self._place} {_cause(error)}") from error

    async def _body(self, response: aiohttp.ClientResponse, question: PrometheusQuery) -> bytes:
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > LARGEST:
                cure = f"give a usage.prometheus.queries.{question.field} that sums by node or pod"
                raise PrometheusError(f"{self._place}: the answer exceeds {LARGEST // 2**20} MiB; {cure}")
        return bytes(body)

    def _refused(self, response: aiohttp.ClientResponse, body: bytes, question: PrometheusQuery) -> UsageError:
        if response.status < 400:
            target = _without_secrets(response.headers.get("Location", ""))
            cure = "redirects are not followed: give the address at which it is in usage.prometheus.url"
            return PrometheusError(f"{self._place} redirects to {target or 'nowhere'}; {cure}")
        if said := error_text(body):  # 400 and 422 are about the query, 503 about its time-out
            return QueryError(f"{self._place} refuses usage.prometheus.queries.{question.field}: {said}")
        cure = _CURES.get(response.status, "look into its log")
        return PrometheusError(f"{self._place} answers {response.status} {response.reason}; {cure}")


async def _hand_over(kind: str, found: dict[PrometheusQuery, QueryResult], take: Take) -> None:
    """One row for each node or pod, with the earlier time where its two amounts differ in that."""
    keys: dict[ObjectKey, None] = {}
    for known in found.values():
        keys |= dict.fromkeys(known.amounts)
    rows: list[Usage] = []
    for namespace, name in keys:
        told = [(q.resource, *v.amounts[namespace, name]) for q, v in found.items() if (namespace, name) in v.amounts]
        used = tuple(sorted((resource, amount) for resource, amount, _ in told))
        rows.append(Usage(kind, namespace, name, used, min(time for _, _, time in told)))
        if len(rows) >= _AT_ONCE:
            take(rows)
            rows = []
            await asyncio.sleep(0)
    take(rows)


def _without_secrets(url: str) -> str:
    """The address without user, password and query."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port is not None else ""
    except ValueError:
        return "an address that is none"
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}" if parts.scheme else parts.path


def _cause(error: Exception) -> str:
    """What went wrong with the connection, and the cure where one is known."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        why = getattr(error.certificate_error, "verify_message", "") or str(error.certificate_error)
        return f"shows a certificate that is not trusted ({why}); give the CA that signed it in usage.prometheus.caFile"
    if isinstance(error, aiohttp.ClientSSLError) or isinstance(getattr(error, "os_error", None), ssl.SSLError):
        return "speaks no TLS, or wants another certificate of us; check the scheme of url, and certificateFile"
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot be reached ({error.os_error.strerror or error.os_error}); check usage.prometheus.url"
    return f"hung up ({type(error).__name__}); look into its log"  # without its text, which may hold the address
