"""Scheduler extenders: HTTP services that strike nodes off the scheduler's list, and score those that stay.

The scheduler asks them after its own rules, as kube-scheduler does it: one after the other for the list, all together
for the scores. The configuration is the `extenders` list of a KubeSchedulerConfiguration. Not taken over, and refused
at once, are extenders that bind pods themselves or hide resources from the scheduler; preemptVerb is never called.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import ssl
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

import aiohttp
import msgspec

from kubemini.refusals import Json
from rescheduler.cluster.tls import verifying_as_go
from rescheduler.model.duration import DurationError, parse_duration

T = TypeVar("T")
_log = logging.getLogger(__name__)
_SCALE = 10  # extenders score from 0 to 10, the scheduler from 0 to 100
_TIMEOUT = 5.0


class ExtenderError(Exception):
    """An extender could not be asked, or answered with an error."""


class _Resource(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    name: str
    ignored_by_scheduler: bool = False


class _Tls(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    insecure: bool = False
    ca_file: str = msgspec.field(default="", name="caFile")
    ca_data: str = msgspec.field(default="", name="caData")


class ExtenderSettings(msgspec.Struct, rename="camel", forbid_unknown_fields=True, frozen=True):
    """One entry of the list, under the names of the configuration file."""

    url_prefix: str = msgspec.field(name="urlPrefix")
    filter_verb: str = ""
    prioritize_verb: str = ""
    preempt_verb: str = ""
    bind_verb: str = ""
    weight: int = 0
    enable_https: bool = msgspec.field(default=False, name="enableHTTPS")
    tls_config: _Tls | None = msgspec.field(default=None, name="tlsConfig")
    http_timeout: str = msgspec.field(default="", name="httpTimeout")
    node_cache_capable: bool = False
    managed_resources: list[_Resource] = []
    ignorable: bool = False


class _Metadata(msgspec.Struct):
    name: str


class _Node(msgspec.Struct):
    metadata: _Metadata


class _NodeList(msgspec.Struct):
    items: list[_Node] | None = None


class _Result(msgspec.Struct):
    """ExtenderFilterResult, its names in small letters."""

    nodes: _NodeList | None = None
    nodenames: list[str] | None = None
    failednodes: dict[str, str] | None = None
    failedandunresolvablenodes: dict[str, str] | None = None
    error: str | None = None


class _Score(msgspec.Struct):
    """HostPriority, the same."""

    host: str = ""
    score: int = 0


class Asked(Protocol):
    """What extenders may be told of the cluster, when they are asked about a pod."""

    def pod(self) -> Json:
        """The pod that is to be placed."""

    def node(self, name: str) -> Json:
        """One of the nodes."""


@dataclass
class Struck:
    """What is left of a list of nodes, and why others are struck off it."""

    nodes: list[str]
    for_now: dict[str, str] = field(default_factory=dict)
    for_good: dict[str, str] = field(default_factory=dict)
    """Preemption would not help there."""


class Extenders:
    """All extenders, in the order of the configuration."""

    def __init__(self) -> None:
        self._extenders: list[_Extender] = []
        self._session: aiohttp.ClientSession | None = None

    def __bool__(self) -> bool:
        return bool(self._extenders)

    def configure(self, extenders: list[Json]) -> None:
        """Ask these from now on; ValueError says which field of which one is wrong."""
        self._extenders = [_Extender(_settings(each, number)) for number, each in enumerate(extenders)]

    async def close(self) -> None:
        """Hang up."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def strike(self, asked: Asked, nodes: list[str]) -> Struck:
        """Have nodes struck off the list; an extender that is down is passed over if its settings say so."""
        struck = Struck(nodes)
        for extender in self._extenders:
            if not struck.nodes:
                break
            if not extender.settings.filter_verb or not extender.is_interested(asked):
                continue
            try:
                answer = await extender.strike(self._open(), asked, struck.nodes)
            except ExtenderError as error:
                if not extender.settings.ignorable:
                    raise
                _log.info("extender %s is passed over: %s", extender.settings.url_prefix, error)
                continue
            struck.nodes = answer.nodes
            struck.for_good |= answer.for_good
            struck.for_now |= answer.for_now
        struck.for_now = {node: why for node, why in struck.for_now.items() if node not in struck.for_good}
        return struck

    async def scores(self, asked: Asked, nodes: list[str]) -> dict[str, int]:
        """What they add to the scores of these nodes; one that cannot be asked adds nothing."""
        scoring = [each for each in self._extenders if each.settings.prioritize_verb and each.is_interested(asked)]
        answers = await asyncio.gather(*(each.scores(self._open(), asked, nodes) for each in scoring))
        total: dict[str, int] = {}
        for answer in answers:
            for node, score in answer:
                total[node] = total.get(node, 0) + score
        return total

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession()
        return self._session


class _Extender:
    def __init__(self, settings: ExtenderSettings) -> None:
        self.settings = settings
        self._managed = {resource.name for resource in settings.managed_resources}
        self._timeout = (parse_duration(settings.http_timeout) if settings.http_timeout else 0.0) or _TIMEOUT
        self._ssl = _tls(settings)

    def is_interested(self, asked: Asked) -> bool:
        """Whether it wants to hear of the pod: all of them, or those that ask for a resource that it manages."""
        if not self._managed:
            return True
        spec = asked.pod()["spec"]
        containers = [*spec.get("containers", ()), *spec.get("initContainers", ())]
        resources = [container.get("resources") or {} for container in containers]
        return any(self._managed & {*(r.get("requests") or ()), *(r.get("limits") or ())} for r in resources)

    async def strike(self, session: aiohttp.ClientSession, asked: Asked, nodes: list[str]) -> Struck:
        """What it leaves of a list of nodes."""
        answer = await self._ask(session, self.settings.filter_verb, asked, nodes)
        result = self._read(_small_letters(answer), _Result)
        if result.error:
            raise ExtenderError(result.error)
        left: list[str] = []
        if self.settings.node_cache_capable and result.nodenames is not None:
            left = result.nodenames
        elif result.nodes is not None:
            left = [item.metadata.name for item in result.nodes.items or ()]
        for name in left:
            if name not in nodes:
                prefix = self.settings.url_prefix
                raise ExtenderError(
                    f'extender "{prefix}" claims a filtered node "{name}" which is not found in the input node list'
                )
        return Struck(left, result.failednodes or {}, result.failedandunresolvablenodes or {})

    async def scores(self, session: aiohttp.ClientSession, asked: Asked, nodes: list[str]) -> list[tuple[str, int]]:
        """What it adds to the score of each node."""
        try:
            answer = await self._ask(session, self.settings.prioritize_verb, asked, nodes)
            listed = [_small_letters(each) for each in answer] if isinstance(answer, list) else answer
            found = self._read([] if listed is None else listed, list[_Score])
        except ExtenderError as error:
            _log.info("extender %s gives no scores: %s", self.settings.url_prefix, error)
            return []
        return [(each.host, each.score * self.settings.weight * _SCALE) for each in found]

    def _read(self, answer: object, form: type[T]) -> T:
        try:
            return msgspec.convert(answer, form)
        except msgspec.ValidationError as error:
            raise ExtenderError(f"the answer of extender {self.settings.url_prefix} cannot be read: {error}") from None

    async def _ask(self, session: aiohttp.ClientSession, verb: str, asked: Asked, nodes: list[str]) -> Any:
        by_name = self.settings.node_cache_capable
        body = {
            "Pod": asked.pod(),
            "Nodes": None if by_name else {"metadata": {}, "items": [asked.node(name) for name in nodes]},
            "NodeNames": nodes if by_name else None,
        }
        url = f"{self.settings.url_prefix.rstrip('/')}/{verb}"
        try:
            async with session.post(
                url,
                data=msgspec.json.encode(body),
                headers={"Content-Type": "application/json"},
                timeout=aiohttp.ClientTimeout(self._timeout),
                ssl=self._ssl,
            ) as response:
                if response.status != 200:
                    raise ExtenderError(f"failed {verb} with extender at URL {url}, code {response.status}")
                return msgspec.json.decode(await response.read())
        except TimeoutError:
            raise ExtenderError(f'Post "{url}": context deadline exceeded') from None
        except aiohttp.ClientError as error:
            raise ExtenderError(f'Post "{url}": {error}') from error
        except msgspec.DecodeError as error:
            raise ExtenderError(f"the answer of {url} is not JSON: {error}") from error


def _settings(extender: Json, number: int) -> ExtenderSettings:
    where = f"extenders[{number}]"
    try:
        settings = msgspec.convert(extender, ExtenderSettings)
        parse_duration(settings.http_timeout or "0")
    except msgspec.ValidationError as error:
        raise ValueError(f"{where}: {error}") from None
    except DurationError as error:
        raise ValueError(f"{where}.httpTimeout: {error}") from None
    if settings.prioritize_verb and settings.weight <= 0:
        raise ValueError(f"{where}.weight: an extender that scores must have a positive weight")
    if settings.bind_verb:
        raise ValueError(f"{where}.bindVerb: the embedded scheduler binds pods itself")
    if any(resource.ignored_by_scheduler for resource in settings.managed_resources):
        raise ValueError(f"{where}.managedResources: the embedded scheduler looks at every resource")
    return settings


def _tls(settings: ExtenderSettings) -> ssl.SSLContext | bool:
    tls = settings.tls_config or _Tls()
    if tls.ca_file or tls.ca_data:
        data = base64.b64decode(tls.ca_data).decode() if tls.ca_data else None
        return verifying_as_go(ssl.create_default_context(cafile=tls.ca_file or None, cadata=data))
    return not (tls.insecure or settings.enable_https)


def _small_letters(answer: Any) -> Any:
    """As Go reads JSON: the names of fields match whatever their case."""
    return {key.lower(): value for key, value in answer.items()} if isinstance(answer, dict) else answer
