"""The scheduler's extender: an HTTP service that filters the nodes that the scheduler found, and scores what is left.

It is called as kube-scheduler calls it: with nodes by name and the whole pod. The configuration is an entry
of the `extenders` list of a KubeSchedulerConfiguration; without TLS.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any, TypeVar

import aiohttp
import msgspec

from kubemini.errors import Json
from kubemini.kinds import POD
from kubemini.store import Key, Store
from rescheduler.model.time import parse_duration

T = TypeVar("T")
_log = logging.getLogger(__name__)
_SCALE = 10  # extenders score from 0 to 10, the scheduler from 0 to 100
_TIMEOUT = "5s"


class ExtenderError(Exception):
    """The extender could not be asked, or answered with an error."""


class _Settings(msgspec.Struct, rename="camel", frozen=True):
    url_prefix: str
    filter_verb: str = ""
    prioritize_verb: str = ""
    weight: int = 1
    http_timeout: str = _TIMEOUT
    ignorable: bool = False


class _FilterResult(msgspec.Struct):
    """ExtenderFilterResult, its field names in lower case."""

    nodenames: list[str] | None = None
    failednodes: dict[str, str] | None = None
    failedandunresolvablenodes: dict[str, str] | None = None


class _HostPriority(msgspec.Struct):
    host: str = ""
    score: int = 0


@dataclass
class Filtered:
    """The nodes that passed, and why others did not."""

    nodes: list[str]
    failed: dict[str, str] = field(default_factory=dict)


class Extender:
    """The extender, if one is configured; else every node passes, and none has a score."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._settings: _Settings | None = None
        self._session: aiohttp.ClientSession | None = None

    def configure(self, extender: Json | None) -> None:
        """Ask this one from now on, or none."""
        self._settings = msgspec.convert(extender, _Settings) if extender is not None else None

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def filter(self, pod: Key, nodes: list[str]) -> Filtered:
        """Have nodes filtered; an ignorable extender that cannot be asked lets all pass."""
        settings = self._settings
        if settings is None or not settings.filter_verb or not nodes:
            return Filtered(nodes)
        try:
            result = await self._ask(settings, settings.filter_verb, (pod, nodes), _FilterResult)
        except ExtenderError as error:
            if not settings.ignorable:
                raise
            _log.info("extender %s is skipped: %s", settings.url_prefix, error)
            return Filtered(nodes)
        passed = set(result.nodenames or ())
        failed = (result.failednodes or {}) | (result.failedandunresolvablenodes or {})
        return Filtered([node for node in nodes if node in passed], failed)

    async def scores(self, pod: Key, nodes: list[str]) -> dict[str, int]:
        """What it adds to the scores of these nodes; nothing if it cannot be asked."""
        settings = self._settings
        if settings is None or not settings.prioritize_verb:
            return {}
        try:
            found = await self._ask(settings, settings.prioritize_verb, (pod, nodes), list[_HostPriority])
        except ExtenderError as error:
            _log.info("extender %s gives no scores: %s", settings.url_prefix, error)
            return {}
        return {each.host: each.score * settings.weight * _SCALE for each in found}

    async def _ask(self, settings: _Settings, verb: str, about: tuple[Key, list[str]], form: type[T]) -> T:
        pod, nodes = about
        if self._session is None:
            self._session = aiohttp.ClientSession()
        url = f"{settings.url_prefix.rstrip('/')}/{verb}"
        body = msgspec.json.encode({"Pod": self._pod(pod), "Nodes": None, "NodeNames": nodes})
        headers, timeout = (
            {"Content-Type": "application/json"},
            aiohttp.ClientTimeout(parse_duration(settings.http_timeout)),
        )
        try:
            async with self._session.post(url, data=body, headers=headers, timeout=timeout) as response:
                if response.status != 200:
                    raise ExtenderError(f"failed {verb} with extender at URL {url}, code {response.status}")
                answer = msgspec.json.decode(await response.read())
                listed = [_lower_keys(each) for each in answer] if isinstance(answer, list) else _lower_keys(answer)
                if isinstance(listed, dict) and listed.get("error"):
                    raise ExtenderError(listed["error"])
                return msgspec.convert(listed, form)
        except (TimeoutError, aiohttp.ClientError, msgspec.DecodeError) as error:
            raise ExtenderError(f'Post "{url}": {error!r}') from error

    def _pod(self, key: Key) -> Json:
        """A pod as kube-scheduler sends it, without its kind."""
        entry = self._store.get(POD, key)
        body = entry.object() if entry is not None else {"metadata": {"namespace": key[0], "name": key[1]}}
        return {name: value for name, value in body.items() if name not in ("apiVersion", "kind")}


def _lower_keys(answer: Any) -> Any:
    """As Go reads JSON: field names match whatever their case."""
    return {key.lower(): value for key, value in answer.items()} if isinstance(answer, dict) else answer
