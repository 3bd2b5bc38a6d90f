"""Prometheus as a source of usage: instant queries, and their answers as amounts by node or pod.

Series without the labels that identify a node or a pod, and values that are no amounts (NaN, infinite, negative), are
ignored and counted; an answer that is not a vector is an error.
"""

from __future__ import annotations

import asyncio
import math
import ssl
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import msgspec

from rescheduler import __version__
from rescheduler.config.schema import PrometheusAccess
from rescheduler.kube.connection import CertificatePair, Connection, RereadFile, TlsContexts
from rescheduler.kube.errors import AuthError
from rescheduler.model.json import ObjectKey
from rescheduler.model.objects import Usage
from rescheduler.model.quantity import MAX
from rescheduler.model.time import format_duration
from rescheduler.usage.samples import FirstNames, QueryError, Take, UsageError

_LONGEST = 200  # characters of foreign text in a sentence


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
    """One query, and what its answer means."""

    field: str
    """Its name in the configuration, such as nodeCpu."""
    query: str
    resource: str
    of_pods: bool
    unit: int
    """The factor from answers to amounts: 1000 for CPU in cores."""


@dataclass(frozen=True, slots=True)
class QueryResult:
    """Amount and time by key, and warnings about the rest."""

    amounts: dict[ObjectKey, tuple[int, float]]
    warnings: tuple[str, ...]


def parse_result(query: PrometheusQuery, body: bytes) -> QueryResult:
    """Parse an answer; QueryError if it is invalid."""
    nameless, garbled, several = FirstNames(), FirstNames(), dict[ObjectKey, None]()
    amounts: dict[ObjectKey, tuple[int, float]] = {}
    for series in _decode_series(query, body, garbled):
        key = _find_key(query, series.metric)
        if key is None:
            nameless.add(_format_labels(series.metric))
            continue
        amount = _parse_amount(series.value[1], query.unit)
        if amount is None or not math.isfinite(series.value[0]):
            garbled.add(f"{'/'.join(filter(None, key))} ({series.value[1][:_LONGEST]})")
            continue
        if key in amounts:
            several[key] = None
            amount = max(amount, amounts[key][0])
        amounts[key] = (amount, series.value[0])
    double = FirstNames("/".join(filter(None, key)) for key in several)
    labels = "namespace and pod" if query.of_pods else "node or instance"
    about = f"usage: the answer to {query.field} has"
    found = (
        (nameless, f"{about} {nameless.count} series without the labels {labels}, which are ignored: {nameless}"),
        (garbled, f"{about} {garbled.count} values that are no amounts, which are ignored: {garbled}"),
        (double, f"{about} several series for {double.count} names, of which the largest counts: {double}"),
    )
    return QueryResult(amounts, tuple(sentence for names, sentence in found if names))


def error_text(body: bytes) -> str:
    """Return the error text of a Prometheus; empty if the body has none."""
    try:
        return _ANSWER.decode(body).error[:_LONGEST]
    except msgspec.DecodeError:
        return ""


def _decode_series(query: PrometheusQuery, body: bytes, garbled: FirstNames) -> Iterator[_Series]:
    try:
        answer = _ANSWER.decode(body)
    except msgspec.DecodeError as error:
        raise QueryError(f"the answer to {query.field} does not come from a Prometheus ({error})") from error
    if answer.status != "success" or answer.data is None:
        raise QueryError(f"it refuses usage.prometheus.queries.{query.field}: {answer.error[:_LONGEST]}")
    if answer.data.result_type != "vector":
        raise QueryError(
            f"usage.prometheus.queries.{query.field} gives a {answer.data.result_type[:_LONGEST]}, "
            "not an instant vector with a value for each node or pod"
        )
    with suppress(msgspec.ValidationError):  # some are invalid: decode one by one to find them
        yield from _VECTOR.decode(answer.data.result)
        return
    try:
        parts = _PARTS.decode(answer.data.result)
    except msgspec.ValidationError as error:
        raise QueryError(f"the answer to {query.field} does not come from a Prometheus ({error})") from error
    for part in parts:
        try:
            yield _ONE.decode(part)
        except msgspec.ValidationError:
            garbled.add(bytes(part)[:40].decode("utf-8", "replace"))


def _find_key(query: PrometheusQuery, labels: _Labels) -> ObjectKey | None:
    if query.of_pods:
        return (labels.namespace, labels.pod) if labels.namespace and labels.pod else None
    name = labels.node or _strip_port(labels.instance)
    return ("", name) if name else None


def _strip_port(instance: str) -> str:
    """Return `node-1:9100` without its port; an IPv6 address has brackets."""
    if instance.startswith("["):
        return instance[1:].partition("]")[0]
    host, colon, port = instance.rpartition(":")
    return host if colon and port.isdigit() and ":" not in host else instance


def _parse_amount(text: str, unit: int) -> int | None:
    try:
        number = float(text) * unit
    except ValueError:
        return None
    return min(math.ceil(number), MAX) if math.isfinite(number) and number >= 0 else None


def _format_labels(labels: _Labels) -> str:
    given = [f"{name}={value}" for name in _Labels.__struct_fields__ if (value := getattr(labels, name))]
    return f"{{{', '.join(given)}}}"[:_LONGEST]


def _field(name: str) -> str:
    return f"usage.prometheus.{name}"


def _pem(name: str, path: str) -> RereadFile | None:
    return RereadFile(Path(path), _field(name)) if path else None


LARGEST = 256 * 2**20
"""Bytes of an answer, unpacked. 150,000 pods are about 25 MB."""
_CONNECT_SECONDS = 5.0
_AT_ONCE = 1000
_CURES = {
    401: "check bearerTokenFile or certificateFile",
    403: "the user of this token or certificate may not query it",
    404: "there is no Prometheus API: check the path in url",
}


class Prometheus:
    """A source of usage: one Prometheus."""

    def __init__(self, access: PrometheusAccess, at: float | None = None) -> None:
        """`at` is the time of the queries; None for now."""
        self._access = access
        self._at = at
        self._token = RereadFile(Path(access.bearer_token_file), _field("bearerTokenFile"))
        ca, certificate = _pem("caFile", access.ca_file), _pem("certificateFile", access.certificate_file)
        key = _pem("keyFile", access.key_file)
        # As lower case, because TlsContexts asks whether this is https.
        connection = Connection(access.url.lower(), "usage.prometheus.url", ca=ca, insecure=access.insecure_skip_verify)
        self._tls = TlsContexts(connection)
        self._pair = (certificate, key) if certificate and key else None
        self._place = _without_secrets(access.url)
        queries = access.queries
        self._queries = (
            PrometheusQuery("nodeCpu", queries.node_cpu, "cpu", of_pods=False, unit=1000),
            PrometheusQuery("nodeMemory", queries.node_memory, "memory", of_pods=False, unit=1),
            PrometheusQuery("podCpu", queries.pod_cpu, "cpu", of_pods=True, unit=1000),
            PrometheusQuery("podMemory", queries.pod_memory, "memory", of_pods=True, unit=1),
        )

    async def read(self, take: Take) -> tuple[str, ...]:
        """Pass all rows to `take`; return warnings about the answers.

        A refused query only costs its own amounts; if no query is answered, that is an error.
        """
        warnings: list[str] = []
        found: dict[PrometheusQuery, QueryResult] = {}
        failed: list[UsageError] = []
        async with aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar()) as session:
            for query in self._queries:  # one after the other, to spare the Prometheus
                try:
                    found[query] = await self._ask(session, query)
                except QueryError as error:
                    failed.append(error)
                else:
                    warnings += found[query].warnings
                    if not found[query].amounts:
                        cure = f"check usage.prometheus.queries.{query.field}"
                        warnings.append(f"usage: {self._place} has no data for {query.field}; {cure}")
        if not found:
            raise failed[0]
        for kind, of_pods in (("NodeMetrics", False), ("PodMetrics", True)):
            await _make_rows(kind, {q: v for q, v in found.items() if q.of_pods is of_pods}, take)
        return (*(f"usage: {error}" for error in failed), *warnings)

    async def _ask(self, session: aiohttp.ClientSession, query: PrometheusQuery) -> QueryResult:
        body = await self._get(session, query)
        try:
            return await asyncio.to_thread(parse_result, query, body)  # with 150,000 pods this takes most of a second
        except QueryError as error:
            raise QueryError(f"{self._place}: {error}") from error

    async def _get(self, session: aiohttp.ClientSession, query: PrometheusQuery) -> bytes:
        try:
            token, context = self._read_token(), self._tls_context()
        except AuthError as error:
            raise UsageError(str(error)) from error
        headers = {"Accept": "application/json", "User-Agent": f"rescheduler/{__version__}"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        try:
            # GET, not POST: proxies in front of it may require a right to write for POST.
            async with session.get(
                f"{self._access.url}/api/v1/query",
                params={"query": query.query} | ({"time": repr(self._at)} if self._at is not None else {}),
                headers=headers,
                allow_redirects=False,
                ssl=context if context is not None else True,
                timeout=aiohttp.ClientTimeout(total=self._access.timeout, sock_connect=_CONNECT_SECONDS),
            ) as response:
                body = await self._body(response, query)
                if response.status >= 300:
                    raise self._make_error(response, body, query)
                return body
        except TimeoutError as error:
            waited = format_duration(self._access.timeout)
            cure = "raise usage.prometheus.timeout, or give a query that asks for less"
            raise UsageError(f"{self._place} does not answer {query.field} in {waited}; {cure}") from error
        except (aiohttp.ClientError, OSError) as error:
            raise UsageError(f"{self._place} {_explain(error)}") from error

    def _read_token(self) -> str:
        """Read the bearer token, from its file as it is now; empty if none is configured."""
        path = self._access.bearer_token_file
        if not path:
            return ""
        token = self._token.read().decode("utf-8", "replace").strip()
        if not token or not token.isascii() or not token.isprintable() or " " in token:
            raise AuthError(f"{_field('bearerTokenFile')}: {path} does not hold a token, in one line of ASCII")
        return token

    def _tls_context(self) -> ssl.SSLContext | None:
        """Return the TLS context, of the files as they are now; None for a server without TLS."""
        pair = self._pair
        return self._tls.context(CertificatePair(pair[0].read(), pair[1].read(), _field("keyFile")) if pair else None)

    async def _body(self, response: aiohttp.ClientResponse, query: PrometheusQuery) -> bytes:
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > LARGEST:
                cure = f"give a usage.prometheus.queries.{query.field} that sums by node or pod"
                raise UsageError(f"{self._place}: the answer exceeds {LARGEST // 2**20} MiB; {cure}")
        return bytes(body)

    def _make_error(self, response: aiohttp.ClientResponse, body: bytes, query: PrometheusQuery) -> UsageError:
        if response.status < 400:
            target = _without_secrets(response.headers.get("Location", ""))
            cure = "redirects are not followed: set usage.prometheus.url to its real address"
            return UsageError(f"{self._place} redirects to {target or 'nowhere'}; {cure}")
        if message := error_text(body):  # 400 and 422 concern the query, 503 its timeout
            return QueryError(f"{self._place} refuses usage.prometheus.queries.{query.field}: {message}")
        cure = _CURES.get(response.status, "look at its log")
        return UsageError(f"{self._place} answers {response.status} {response.reason}; {cure}")


async def _make_rows(kind: str, found: dict[PrometheusQuery, QueryResult], take: Take) -> None:
    """Make one row for each node or pod; of two different times the earlier counts."""
    keys: dict[ObjectKey, None] = {}
    for known in found.values():
        keys |= dict.fromkeys(known.amounts)
    rows: list[Usage] = []
    for namespace, name in keys:
        parts = [(q.resource, *v.amounts[namespace, name]) for q, v in found.items() if (namespace, name) in v.amounts]
        used = tuple(sorted((resource, amount) for resource, amount, _ in parts))
        rows.append(Usage(kind, namespace, name, used, min(time for _, _, time in parts)))
        if len(rows) >= _AT_ONCE:
            take(rows)
            rows = []
            await asyncio.sleep(0)
    take(rows)


def _without_secrets(url: str) -> str:
    """Return an address without user, password and query."""
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port is not None else ""
    except ValueError:
        return "an invalid address"
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname or ""
    return f"{parts.scheme}://{host}{port}{parts.path.rstrip('/')}" if parts.scheme else parts.path


def _explain(error: Exception) -> str:
    """Describe a connection error, with a cure where one is known."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        why = getattr(error.certificate_error, "verify_message", "") or str(error.certificate_error)
        return f"shows a certificate that is not trusted ({why}); give the CA that signed it in usage.prometheus.caFile"
    if isinstance(error, aiohttp.ClientSSLError) or isinstance(getattr(error, "os_error", None), ssl.SSLError):
        return (
            "does not speak TLS, or requires another client certificate; check the scheme of url, and certificateFile"
        )
    if isinstance(error, aiohttp.ClientConnectorError):
        return f"cannot be reached ({error.os_error.strerror or error.os_error}); check usage.prometheus.url"
    # Without the text of the error, which may have the address.
    return f"closed the connection ({type(error).__name__}); look at its log"
