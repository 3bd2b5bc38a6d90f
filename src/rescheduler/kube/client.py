"""The API client: requests, paged lists and streams, with retries, rate limit, authentication and fencing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Self

import aiohttp
import msgspec
from multidict import CIMultiDict

from rescheduler import __version__
from rescheduler.kube.auth import Authenticator, impersonation_headers
from rescheduler.kube.connection import Connection, Credential, TlsContexts
from rescheduler.kube.errors import READS, ApiError, Backoff, FencedError, may_retry
from rescheduler.kube.transport import (
    Connector,
    FencedBody,
    error_from_answer,
    error_from_exception,
    fenced_error,
    not_kubernetes,
    send_once,
)


@dataclass(slots=True)
class RateLimiter:
    """The bucket. It is kept as the time at which it will be full again, so there is nothing to refill."""

    qps: float
    burst: int
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _full_at: float = float("-inf")

    async def wait(self) -> None:
        """Comes back when a request may be sent. Whoever is cancelled meanwhile gives the turn back."""
        now = self.clock()
        self._full_at = max(self._full_at, now) + 1 / self.qps
        wait = self._full_at - self.burst / self.qps - now
        if wait <= 0:
            return
        try:
            await self.sleep(wait)
        except asyncio.CancelledError:
            self._full_at -= 1 / self.qps
            raise


_TICK = 1.0  # answers tell whole seconds


class ServerClock:
    """Our own clock, put right by as much as it is surely wrong."""

    def __init__(self, local: Callable[[], float] = time.time) -> None:
        self._local = local
        self.offset = 0.0
        """By how many seconds the server is ahead; 0 while the difference may be none."""

    def now(self) -> float:
        """The time there."""
        return self._local() + self.offset

    def hear(self, date: str | None, sent: float, received: float) -> None:
        """Take a `Date` header; `sent` and `received` are by our clock, and it was stamped between them."""
        if not date:
            return
        try:
            told = parsedate_to_datetime(date).timestamp()
        except ValueError:
            return  # whoever answers so is no API server, which others will find out
        least, most = told - received, told + _TICK - sent
        self.offset = least if least > 0 else min(most, 0.0)

    def local(self) -> float:
        """Our own time, for `sent` and `received`."""
        return self._local()


CONNECT_SECONDS = 10.0
# The API server itself gives up on a request after 60 s. A longer silence means that nobody is there any more.
SILENCE_SECONDS = 75.0
# A list that expires this often cannot be read at the speed its pages are consumed.
LIST_STARTS = 3
GIVEN_UP = "GivenUp"
"""What a report says of a request that we did not wait for any longer: its time was up, or we are ending."""
Report = Callable[[str, int | str, float | None], None]
"""Told the method of a request, the status of the answer or why there was none (a word of `failures.py`), and how many
seconds the whole answer took. A watch is told of when it is answered, without a time: it ends when it likes."""


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request. A failure with a status in `answers` is an answer to the caller, and is not retried."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"
    answers: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class ListPage:
    """One page of a list, undecoded. `first` opens a list: drop whatever came before (see `ApiClient.list_pages`)."""

    body: bytes = field(repr=False)
    first: bool
    version: str = ""
    """The version of the whole list: a watch goes on from it."""


class _ListMeta(msgspec.Struct):
    continue_: str = msgspec.field(name="continue", default="")
    resource_version: str = msgspec.field(name="resourceVersion", default="")


class _ListHead(msgspec.Struct):
    """Of a page, only what paging needs: msgspec skips the items without building them."""

    metadata: _ListMeta


class ApiClient:
    """One per API server; an async context manager. Safe for concurrent use.

    `may_write` is asked before each try of a request that changes anything; where it says no, FencedError is raised
    and nothing is sent. `pace` says how fast requests may follow each other; a watch is one request. `report` hears of
    every try.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        request_timeout: float | None = None,
        backoff: Backoff | None = None,
        may_write: Callable[[], bool] = lambda: True,
        pace: RateLimiter | None = None,
    ) -> None:
        self._connection = connection
        self._request_timeout = request_timeout
        self._backoff = backoff or Backoff()
        self._may_write = may_write
        self._pace = pace
        self._auth = Authenticator(connection)
        self._tls = TlsContexts(connection)
        self._headers = CIMultiDict(
            [
                ("Accept", "application/json"),
                ("Accept-Encoding", "gzip" if connection.compression else "identity"),
                ("User-Agent", f"rescheduler/{__version__}"),
                *impersonation_headers(connection.impersonation),
            ]
        )
        self._session: aiohttp.ClientSession | None = None
        self.clock = ServerClock()
        """What time it is for the API server."""
        self.report: Report = lambda method, outcome, seconds: None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=Connector(self._may_write),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=SILENCE_SECONDS),
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def get(self, path: str, params: Mapping[str, str] | None = None) -> bytes:
        return await self.request("GET", path, params=params)

    async def find(self, path: str) -> bytes | None:
        """What is there, or None where nothing is."""
        try:
            return await self.send(ApiRequest("GET", path, answers=frozenset({404})))
        except ApiError as error:
            if error.status != 404:
                raise
            return None

    async def request(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str] | None = None,
        body: bytes | None = None,
        content_type: str = "application/json",
    ) -> bytes:
        return await self.send(ApiRequest(method, path, params or {}, body, content_type))

    async def send(self, request: ApiRequest) -> bytes:
        """The body of the answer, or an ApiError. `request_timeout` bounds all tries and the waits between them."""
        credential = await self._turn()  # a login may take a person's time: it is not the server's
        last: ApiError | None = None
        failures = 0
        may_renew = True
        try:
            async with asyncio.timeout(self._request_timeout):
                while True:
                    try:
                        return await self._try(request, credential)
                    except ApiError as error:
                        last = error
                    if last.status == 401 and may_renew and (renewed := await self._auth.renewed(credential)):
                        credential, may_renew = renewed, False
                        continue
                    failures += 1
                    retry = last.status not in request.answers and may_retry(request.method, last)
                    if not retry or not self._backoff.allows(failures, last.retry_after):
                        raise last
                    await self._backoff.pause(failures, last.retry_after)
                    credential = await self._turn()
        except TimeoutError as error:
            # Where a try has failed before the time was up, its reason tells more than the clock.
            raise last or error_from_exception(error, request.path, self._connection) from error

    async def list_pages(
        self,
        path: str,
        limit: int = 500,
        params: Mapping[str, str] | None = None,
        answers: frozenset[int] = frozenset(),
    ) -> AsyncGenerator[ListPage, None]:
        """The pages of a list. A page with `first` set may come again: then forget all pages before it.

        That happens when the list expires while it is read (410: the continue token is older than etcd's history).
        The server then also offers a token to go on with at a newer state. We start again instead: going on would mix
        two states, with objects in it that are gone and changes to earlier pages that no later watch would report. A
        plan must be made on one state, and a restart is rare (tokens live for 5 minutes and more).
        """
        starts = 0
        token = ""
        while True:
            query = {**(params or {}), "limit": str(limit)} | ({"continue": token} if token else {})
            try:
                body = await self.send(ApiRequest("GET", path, query, answers=answers))
            except ApiError as error:
                if error.status != 410 or not token or starts >= LIST_STARTS:
                    raise
                token = ""
                continue
            starts += not token
            head = self._list_head(body, path)
            yield ListPage(body, not token, head.resource_version)
            token = head.continue_
            if not token:
                return

    def _list_head(self, body: bytes, path: str) -> _ListMeta:
        try:
            return msgspec.json.decode(body, type=_ListHead).metadata
        except msgspec.MsgspecError as error:
            raise not_kubernetes(path, self._connection, f"the list does not decode ({error})") from error

    async def stream(self, request: ApiRequest, silence: float) -> AsyncGenerator[bytes, None]:
        """The body of an answer that does not end, as it comes. Not retried: the caller knows where to go on from.

        The first chunk is empty: the server has agreed, and what it has to say may come much later. A server that says
        nothing at all for `silence` seconds is taken for gone.
        """
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=silence)
        credential = await self._turn()
        for may_renew in (True, False):
            answered = False
            try:
                async with self._answer(request, credential, limits) as response:
                    self.report(request.method, response.status, None)
                    answered = True
                    yield b""
                    async for chunk in response.content.iter_any():
                        yield chunk
                    return
            except ApiError as error:  # a 401 comes before the first chunk or never
                if not answered:
                    self.report(request.method, error.status or error.reason, None)
                renewed = await self._auth.renewed(credential) if may_renew and error.status == 401 else None
                if renewed is None:
                    raise
                credential = renewed

    async def _turn(self) -> Credential:
        """Waits until it is our turn; the credential is the one of then."""
        if self._pace is not None:
            await self._pace.wait()
        return await self._auth.current()

    async def _try(self, request: ApiRequest, credential: Credential) -> bytes:
        begun = time.monotonic()
        outcome: int | str = ""  # stays so for what is fenced off: it was never sent
        try:
            async with self._answer(request, credential) as response:
                body = await response.read()
                outcome = response.status
                return body
        except ApiError as error:
            outcome = error.status or error.reason
            raise
        except asyncio.CancelledError:
            outcome = GIVEN_UP
            raise
        finally:
            if outcome:
                self.report(request.method, outcome, time.monotonic() - begun)

    @asynccontextmanager
    async def _answer(
        self, request: ApiRequest, credential: Credential, limits: aiohttp.ClientTimeout | None = None
    ) -> AsyncGenerator[aiohttp.ClientResponse, None]:
        """A successful answer, whose body is still to be read; anything else is an ApiError."""
        if self._session is None:
            raise RuntimeError("ApiClient is used outside `async with`")
        headers = self._headers.copy()
        if credential.authorization is not None:
            headers["Authorization"] = credential.authorization
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        context = self._tls.context(credential.certificate)
        sent = self.clock.local()
        try:
            async with self._session.request(
                request.method,
                f"{self._connection.server}{request.path}",
                params=request.params,
                data=self._body(request),
                headers=headers,
                allow_redirects=False,
                proxy=self._connection.proxy_url,
                ssl=context if context is not None else True,
                server_hostname=self._connection.tls_server_name,
                timeout=limits or self._session.timeout,
                middlewares=() if request.method in READS else (send_once,),
            ) as response:
                self.clock.hear(response.headers.get("Date"), sent, self.clock.local())
                if response.status >= 300:
                    body = await response.read()
                    raise error_from_answer(response.status, body, response.headers, request.path, self._connection)
                yield response
        except (aiohttp.ClientError, OSError) as error:
            if isinstance(error.__cause__, FencedError):  # from its body, by way of aiohttp
                raise error.__cause__ from None
            raise error_from_exception(error, request.path, self._connection) from error

    def _body(self, request: ApiRequest) -> bytes | FencedBody | None:
        if request.body is None or request.method in READS:
            return request.body

        def ask() -> None:
            if not self._may_write():
                raise fenced_error(request.method, request.path)

        return FencedBody(request.body, request.content_type, ask)
