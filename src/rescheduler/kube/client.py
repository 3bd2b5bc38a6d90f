"""The API client: requests, paged lists and streams, with retries, rate limit, authentication and fencing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Self

import aiohttp
import msgspec
from multidict import CIMultiDict

from rescheduler import __version__
from rescheduler.kube.auth import CredentialSource, impersonation_headers
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
    """A token bucket. It stores the time at which it will be full again, so nothing needs refilling."""

    qps: float
    burst: int
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    _full_at: float = float("-inf")

    async def wait(self) -> None:
        """Wait until a request may be sent. A cancelled caller gives its token back."""
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


_TICK = 1.0  # a Date header has whole seconds


class ServerClock:
    """The local clock, corrected by as much as it is certainly wrong."""

    def __init__(self, local: Callable[[], float] = time.time) -> None:
        self._local = local
        self.offset = 0.0
        """Seconds by which the server is ahead; 0 while the clocks may agree."""

    def now(self) -> float:
        """Return the server's time."""
        return self._local() + self.offset

    def update(self, date: str | None, sent: float, received: float) -> None:
        """Take in a `Date` header, which was written between `sent` and `received` of the local clock."""
        if not date:
            return
        try:
            server_time = parsedate_to_datetime(date).timestamp()
        except ValueError:
            return  # not an API server, which the caller will notice
        least, most = server_time - received, server_time + _TICK - sent
        self.offset = least if least > 0 else min(most, 0.0)

    def local(self) -> float:
        """Return the local time, for `sent` and `received`."""
        return self._local()


CONNECT_SECONDS = 10.0
# The API server itself gives up on a request after 60 s. A longer silence means that the server is gone.
SILENCE_SECONDS = 75.0
# A list that expires this often cannot be read at the speed at which its pages are consumed.
LIST_STARTS = 3
GIVEN_UP = "GivenUp"
"""The reported outcome of a request that was cancelled: its time was up, or the process is ending."""
Report = Callable[[str, int | str, float | None], None]
"""Called with the method of a request, the status of the answer (or the reason from `errors.py` why there was none),
and the seconds that the whole answer took. A watch is reported when it is answered, without a duration."""


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """One request. A status in `answers` is a result for the caller, and is not retried."""

    method: str
    path: str
    params: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    content_type: str = "application/json"
    answers: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class ListPage:
    """One undecoded page of a list. `first` starts a list: drop earlier pages (see `ApiClient.list_pages`)."""

    body: bytes = field(repr=False)
    first: bool
    version: str = ""
    """The resourceVersion of the whole list, from which a watch can continue."""

    def items(self) -> list[msgspec.Raw]:
        """Return the objects, undecoded."""
        return msgspec.json.decode(self.body, type=_ListItems).items or []


class _ListItems(msgspec.Struct):
    items: list[msgspec.Raw] | None = None


class _ListMeta(msgspec.Struct):
    continue_: str = msgspec.field(name="continue", default="")
    resource_version: str = msgspec.field(name="resourceVersion", default="")


class _ListHead(msgspec.Struct):
    """The part of a page that paging needs: msgspec skips the items without building them."""

    metadata: _ListMeta


class ApiClient:
    """A client of one API server; an async context manager, safe for concurrent use.

    `may_write` is called before each attempt of a write; if it returns False, FencedError is raised and nothing is
    sent. `pace` limits the rate of requests; a watch counts as one. `report` is called for every attempt.
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
        self._auth = CredentialSource(connection)
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
        """The API server's time."""
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
        return await self.send(ApiRequest("GET", path, params or {}))

    async def find(self, path: str) -> bytes | None:
        """Return the object at a path, or None."""
        return await self.send_unless(ApiRequest("GET", path, answers=frozenset({404})))

    async def write(self, request: ApiRequest) -> bytes | None:
        """Send a write; None if another writer was faster, so that the object has changed (409) or is gone (404)."""
        # A 404 on a creation means that the namespace does not exist.
        conflicts = frozenset({409} if request.method == "POST" else {404, 409})
        return await self.send_unless(replace(request, answers=conflicts))

    async def send_unless(self, request: ApiRequest) -> bytes | None:
        """Return the body of the answer; None for a status in `answers`."""
        try:
            return await self.send(request)
        except ApiError as error:
            if error.status not in request.answers:
                raise
            return None

    async def send(self, request: ApiRequest) -> bytes:
        """Return the body of the answer, or raise ApiError. `request_timeout` covers all attempts and pauses."""
        credential = await self._wait_for_turn()  # outside the timeout: a login may wait for a person
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
                    if last.status == 401 and may_renew and (renewed := await self._auth.renew(credential)):
                        credential, may_renew = renewed, False
                        continue
                    failures += 1
                    retry = last.status not in request.answers and may_retry(request.method, last)
                    if not retry or not self._backoff.allows(failures, last.retry_after):
                        raise last
                    await self._backoff.pause(failures, last.retry_after)
                    credential = await self._wait_for_turn()
        except TimeoutError as error:
            # If an attempt failed before the time was up, its error says more than the timeout.
            raise last or error_from_exception(error, request.path, self._connection) from error

    async def list_pages(
        self,
        path: str,
        limit: int = 500,
        params: Mapping[str, str] | None = None,
        answers: frozenset[int] = frozenset(),
    ) -> AsyncGenerator[ListPage, None]:
        """Yield the pages of a list. A page with `first` set may come again: then drop all pages before it.

        This happens when the list expires while it is read (410: the continue token is older than etcd's history).
        The server then offers a token that continues at a newer state. That would mix two states: deleted objects
        would stay, and changes to earlier pages would never be reported by a watch. A plan needs one state, so the
        list starts again. This is rare (tokens live for 5 minutes and more).
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
        """Yield the chunks of an endless answer. Not retried: only the caller can tell where to continue.

        The first chunk is empty and means that the server has accepted the request; data may come much later. A server
        that sends nothing for `silence` seconds counts as gone.
        """
        limits = aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS, sock_read=silence)
        credential = await self._wait_for_turn()
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
                renewed = await self._auth.renew(credential) if may_renew and error.status == 401 else None
                if renewed is None:
                    raise
                credential = renewed

    async def _wait_for_turn(self) -> Credential:
        """Wait for the rate limiter; return the credential that is valid after that."""
        if self._pace is not None:
            await self._pace.wait()
        return await self._auth.current()

    async def _try(self, request: ApiRequest, credential: Credential) -> bytes:
        begun = time.monotonic()
        outcome: int | str = ""  # stays empty for a fenced write, which was never sent
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
        """Yield a successful answer whose body is still unread; raise ApiError for anything else."""
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
                data=self._fence_body(request),
                headers=headers,
                allow_redirects=False,
                proxy=self._connection.proxy_url,
                ssl=context if context is not None else True,
                server_hostname=self._connection.tls_server_name,
                timeout=limits or self._session.timeout,
                middlewares=() if request.method in READS else (send_once,),
            ) as response:
                self.clock.update(response.headers.get("Date"), sent, self.clock.local())
                if response.status >= 300:
                    body = await response.read()
                    raise error_from_answer(response.status, body, response.headers, request.path, self._connection)
                yield response
        except (aiohttp.ClientError, OSError) as error:
            if isinstance(error.__cause__, FencedError):  # from its body, by way of aiohttp
                raise error.__cause__ from None
            raise error_from_exception(error, request.path, self._connection) from error

    def _fence_body(self, request: ApiRequest) -> bytes | FencedBody | None:
        if request.body is None or request.method in READS:
            return request.body

        def check() -> None:
            if not self._may_write():
                raise fenced_error(request.method, request.path)

        return FencedBody(request.body, request.content_type, check)
