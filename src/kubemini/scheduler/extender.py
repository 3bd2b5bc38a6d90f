"""Scheduler extenders: HTTP services that filter the nodes that the scheduler found, and score those that stay.

They are asked as kube-scheduler asks them: one after the other for filtering, all together for scores. The
configuration is the `extenders` list of a KubeSchedulerConfiguration. Fields that this scheduler cannot honour
(bindVerb, managedResources) are refused.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import ssl
from dataclasses import dataclass, field
from typing import Any, TypeVar

import aiohttp
import msgspec

from kubemini.kinds import NODE, POD, Kind
from kubemini.refusals import Json
from kubemini.store import Key, Store
from rescheduler.cluster.tls import verifying_as_go
from rescheduler.model.duration import DurationError, parse_duration

T = TypeVar("T")
_log = logging.getLogger(__name__)
_SCALE = 10  # extenders score from 0 to 10, the scheduler from 0 to 100
_TIMEOUT = 5.0


class ExtenderError(Exception):
    """An extender could not be asked, or answered with an error."""


class _Tls(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    insecure: bool = False
    ca_file: str = msgspec.field(default="", name="caFile")
    ca_data: str = msgspec.field(default="", name="caData")


class ExtenderSettings(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """One entry of the list, under the names of the configuration file."""

    url_prefix: str = msgspec.field(name="urlPrefix")
    filter_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 0
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: _Tls | None = msgspec.field(default=None, name="tlsConfig")
    http_timeout: str = msgspec.field(default="", name="httpTimeout")
    node_cache_capable: bool = False
    ignorable: bool = False


class _Metadata(msgspec.Struct):
    name: str


class _Node(msgspec.Struct):
    metadata: _Metadata


class _NodeList(msgspec.Struct):
    items: list[_Node] | None = None


class _FilterResult(msgspec.Struct):
    """ExtenderFilterResult, its field names in lower case."""

    nodes: _NodeList | None = None
    nodenames: list[str] | None = None
    failednodes: dict[str, str] | None = None
    failedandunresolvablenodes: dict[str, str] | None = None
    error: str | None = None


class _HostPriority(msgspec.Struct):
    host: str = ""
    score: int = 0


@dataclass
class Filtered:
    """The nodes that passed, and why others did not."""

    nodes: list[str]
    failed: dict[str, str] = field(default_factory=dict)


class Extenders:
    """All extenders, in the order of the configuration."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._extenders: list[_Extender] = []
        self._session: aiohttp.ClientSession | None = None

    def __bool__(self) -> bool:
        return bool(self._extenders)

    def configure(self, extenders: list[Json]) -> None:
        """Ask these from now on; a ValueError names the wrong field."""
        self._extenders = [_Extender(_read_settings(each, number)) for number, each in enumerate(extenders)]

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def filter(self, pod: Key, nodes: list[str]) -> Filtered:
        """Have nodes filtered; an ignorable extender that cannot be asked is skipped."""
        filtered = Filtered(nodes)
        for extender in self._extenders:
            if not extender.settings.filter_verb or not filtered.nodes:
                continue
            try:
                answer = await extender.filter(self._connect(), self._arguments(extender, pod, filtered.nodes))
            except ExtenderError as error:
                if not extender.settings.ignorable:
                    raise
                _log.info("extender %s is skipped: %s", extender.settings.url_prefix, error)
                continue
            filtered = Filtered(answer.nodes, filtered.failed | answer.failed)
        return filtered

    async def scores(self, pod: Key, nodes: list[str]) -> dict[str, int]:
        """What extenders add to the scores of these nodes; one that cannot be asked adds nothing."""
        session = self._connect()
        answers = await asyncio.gather(
            *(
                extender.scores(session, self._arguments(extender, pod, nodes))
                for extender in self._extenders
                if extender.settings.prioritize_verb
            )
        )
        total: dict[str, int] = {}
        for answer in answers:
            for node, score in answer.items():
                total[node] = total.get(node, 0) + score
        return total

    def _arguments(self, extender: _Extender, pod: Key, nodes: list[str]) -> Json:
        """ExtenderArgs: nodes by name if the extender has a cache of its own, else as whole objects."""
        by_name = extender.settings.node_cache_capable
        items = [] if by_name else [self._object(NODE, ("", name)) for name in nodes]
        return {
            "Pod": self._object(POD, pod),
            "Nodes": None if by_name else {"metadata": {}, "items": items},
            "NodeNames": nodes if by_name else None,
        }

    def _object(self, kind: Kind, key: Key) -> Json:
        """An object as kube-scheduler sends it, without its kind."""
        entry = self._store.get(kind, key)
        body = entry.object() if entry is not None else {"metadata": {"name": key[1]}}
        body["metadata"].pop("managedFields", None)
        return {name: value for name, value in body.items() if name not in ("apiVersion", "kind")}

    def _connect(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession()
        return self._session


class _Extender:
    def __init__(self, settings: ExtenderSettings) -> None:
        self.settings = settings
        self._timeout = aiohttp.ClientTimeout(parse_duration(settings.http_timeout or "0") or _TIMEOUT)
        self._ssl = _tls_context(settings)

    async def filter(self, session: aiohttp.ClientSession, arguments: Json) -> Filtered:
        """The nodes that it lets pass."""
        answer = await self._post(session, self.settings.filter_verb, arguments)
        result = self._convert(_lower_keys(answer), _FilterResult)
        if result.error:
            raise ExtenderError(result.error)
        nodes = [item.metadata.name for item in (result.nodes and result.nodes.items) or ()]
        if self.settings.node_cache_capable and result.nodenames is not None:
            nodes = result.nodenames
        asked = arguments["NodeNames"] or [item["metadata"]["name"] for item in arguments["Nodes"]["items"]]
        if unknown := set(nodes) - set(asked):
            raise ExtenderError(f"extender {self.settings.url_prefix} names nodes that were not asked about: {unknown}")
        return Filtered(nodes, (result.failednodes or {}) | (result.failedandunresolvablenodes or {}))

    async def scores(self, session: aiohttp.ClientSession, arguments: Json) -> dict[str, int]:
        """What it adds to the score of each node."""
        try:
            answer = await self._post(session, self.settings.prioritize_verb, arguments)
            listed = [_lower_keys(each) for each in answer] if isinstance(answer, list) else answer or []
            found = self._convert(listed, list[_HostPriority])
        except ExtenderError as error:
            _log.info("extender %s gives no scores: %s", self.settings.url_prefix, error)
            return {}
        return {each.host: each.score * self.settings.weight * _SCALE for each in found}

    def _convert(self, answer: object, form: type[T]) -> T:
        try:
            return msgspec.convert(answer, form)
        except msgspec.ValidationError as error:
            raise ExtenderError(f"the answer of extender {self.settings.url_prefix} is malformed: {error}") from None

    async def _post(self, session: aiohttp.ClientSession, verb: str, arguments: Json) -> Any:
        url = f"{self.settings.url_prefix.rstrip('/')}/{verb}"
        body, headers = msgspec.json.encode(arguments), {"Content-Type": "application/json"}
        try:
            async with session.post(url, data=body, headers=headers, timeout=self._timeout, ssl=self._ssl) as response:
                if response.status != 200:
                    raise ExtenderError(f"failed {verb} with extender at URL {url}, code {response.status}")
                return msgspec.json.decode(await response.read())
        except TimeoutError:
            raise ExtenderError(f'Post "{url}": context deadline exceeded') from None
        except aiohttp.ClientError as error:
            raise ExtenderError(f'Post "{url}": {error}') from error
        except msgspec.DecodeError as error:
            raise ExtenderError(f"the answer of {url} is not JSON: {error}") from error


def _read_settings(extender: Json, number: int) -> ExtenderSettings:
    path = f"extenders[{number}]"
    try:
        settings = msgspec.convert(extender, ExtenderSettings)
        parse_duration(settings.http_timeout or "0")
    except msgspec.ValidationError as error:
        raise ValueError(f"{path}: {error}") from None
    except DurationError as error:
        raise ValueError(f"{path}.httpTimeout: {error}") from None
    if settings.prioritize_verb and settings.weight <= 0:
        raise ValueError(f"{path}.weight: an extender that scores must have a positive weight")
    return settings


def _tls_context(settings: ExtenderSettings) -> ssl.SSLContext | bool:
    tls = settings.tls_config or _Tls()
    if tls.ca_file or tls.ca_data:
        data = base64.b64decode(tls.ca_data).decode() if tls.ca_data else None
        return verifying_as_go(ssl.create_default_context(cafile=tls.ca_file or None, cadata=data))
    return not (tls.insecure or settings.enable_https)


def _lower_keys(answer: Any) -> Any:
    """As Go reads JSON: field names match whatever their case."""
    return {key.lower(): value for key, value in answer.items()} if isinstance(answer, dict) else answer
