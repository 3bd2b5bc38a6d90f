"""A Prometheus, asked by its HTTP API what nodes and pods use: four instant queries, and rows as files have them.

`runtime.metering` asks it every so often, `rescheduler plan` once. Whatever answers like one will do (Thanos, Mimir,
VictoriaMetrics). The token goes to the configured address and to nowhere else: redirects are not followed, because the
token would go with them, and errors name the address without what may be secret in it.
"""

from __future__ import annotations

import asyncio
import ssl
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import aiohttp

from rescheduler import __version__
from rescheduler.model.duration import format_duration
from rescheduler.model.objects import Usage
from rescheduler.model.usage import PrometheusAccess
from rescheduler.usage.answers import Question, Vector, complaint, vector
from rescheduler.usage.errors import AnswerError, UsageError
from rescheduler.usage.files import Credentials
from rescheduler.usage.samples import Key
from rescheduler.usage.source import Take

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
        self._credentials = Credentials(access)
        self._session: aiohttp.ClientSession | None = None
        self._place = _without_secrets(access.url)
        queries = access.queries
        self._questions = (
            Question("nodeCpu", queries.node_cpu, "cpu", of_pods=False, unit=1000),
            Question("nodeMemory", queries.node_memory, "memory", of_pods=False, unit=1),
            Question("podCpu", queries.pod_cpu, "cpu", of_pods=True, unit=1000),
            Question("podMemory", queries.pod_memory, "memory", of_pods=True, unit=1),
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
        found: dict[Question, Vector] = {}
        failed: list[UsageError] = []
        for question in self._questions:  # one after the other: four at once are no kinder to a Prometheus
            try:
                found[question] = await self._ask(question)
            except AnswerError as error:
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

    async def _ask(self, question: Question) -> Vector:
        body = await self._get(question)
        try:
            return await asyncio.to_thread(vector, question, body)  # at 150,000 pods it takes a good part of a second
        except AnswerError as error:
            raise AnswerError(f"{self._place}: {error}") from error

    async def _get(self, question: Question) -> bytes:
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

    async def _body(self, response: aiohttp.ClientResponse, question: Question) -> bytes:
        body = bytearray()
        async for chunk in response.content.iter_any():
            body += chunk
            if len(body) > LARGEST:
                cure = f"give a usage.prometheus.queries.{question.field} that sums by node or pod"
                raise PrometheusError(f"{self._place}: the answer exceeds {LARGEST // 2**20} MiB; {cure}")
        return bytes(body)

    def _refused(self, response: aiohttp.ClientResponse, body: bytes, question: Question) -> UsageError:
        if response.status < 400:
            target = _without_secrets(response.headers.get("Location", ""))
            cure = "redirects are not followed: give the address at which it is in usage.prometheus.url"
            return PrometheusError(f"{self._place} redirects to {target or 'nowhere'}; {cure}")
        if said := complaint(body):  # 400 and 422 are about the query, 503 about its time-out
            return AnswerError(f"{self._place} refuses usage.prometheus.queries.{question.field}: {said}")
        cure = _CURES.get(response.status, "look into its log")
        return PrometheusError(f"{self._place} answers {response.status} {response.reason}; {cure}")


async def _hand_over(kind: str, found: dict[Question, Vector], take: Take) -> None:
    """One row for each node or pod, with the earlier time where its two amounts differ in that."""
    keys: dict[Key, None] = {}
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
