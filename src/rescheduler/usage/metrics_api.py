"""metrics.k8s.io, asked for what nodes and pods use now: rows as files have them, a few hundred at a time.

Called by `runtime.metering` every so often. The API is an optional one: whoever lacks it is told what to install. It
is served from memory and knows no pages, so an answer is whole; it is cut into objects without being decoded whole,
and others get their turn between the parts of it.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Callable, Sequence

import msgspec

from rescheduler.decode.reader import ObjectReader
from rescheduler.decode.split import split
from rescheduler.decode.structs import RESOURCES, ApiResource
from rescheduler.kube.client import ApiClient
from rescheduler.kube.errors import ApiError, ClusterError
from rescheduler.model.objects import Usage
from rescheduler.model.quantity import QuantityError, amount
from rescheduler.model.time import InstantError, parse_instant

METRICS = tuple(resource for resource in RESOURCES if resource.group == "metrics.k8s.io")
_AT_ONCE = 500
_SHOWN = 3  # warnings about single objects
_INSTALL = "install metrics-server (https://github.com/kubernetes-sigs/metrics-server), or set usage.source: prometheus"

Take = Callable[[Sequence[Usage]], None]


class _Meta(msgspec.Struct, gc=False):
    name: str
    namespace: str = ""


class _Container(msgspec.Struct, gc=False):
    usage: dict[str, str]


class _Measurement(msgspec.Struct, gc=False):
    """One that is as it should be; whatever else comes is read by `reading`, which says what is wrong with it."""

    metadata: _Meta
    timestamp: str
    usage: dict[str, str] = {}
    containers: tuple[_Container, ...] = ()


_MEASUREMENT = msgspec.json.Decoder(_Measurement)


class MetricsMissingError(ClusterError):
    """The cluster does not serve metrics.k8s.io now; the message says what to do."""


class MetricsApi:
    """A source of usage: metrics.k8s.io of one cluster."""

    def __init__(self, client: ApiClient, source: str = "metrics.k8s.io") -> None:
        self._client = client
        self._source = source

    async def read(self, take: Take) -> tuple[str, ...]:
        """Hand all rows to `take`; what there is to say about objects that could not be read."""
        warnings: list[str] = []
        for resource in METRICS:
            try:
                await self._list(resource, take, warnings)
            except ApiError as error:
                raise _explained(error, resource) from error
        more = len(warnings) - _SHOWN
        return (*warnings[:_SHOWN], *((f"{self._source}: {more} more objects could not be read",) if more > 0 else ()))

    async def _list(self, resource: ApiResource, take: Take, warnings: list[str]) -> None:
        reader = ObjectReader()
        async for page in self._client.list_pages(resource.path, answers=resource.absent_statuses):
            rows: list[Usage] = []
            for part in split(io.BytesIO(page.body)):
                if not isinstance(part, memoryview):
                    continue
                try:
                    rows.append(_row(resource.kind, part))
                except (msgspec.ValidationError, QuantityError, InstantError):
                    reading = reader.read(resource.kind, part, self._source)
                    rows += [reading.row] if isinstance(reading.row, Usage) else []
                    warnings += [reading.warning] if reading.warning else []
                if len(rows) >= _AT_ONCE:
                    take(rows)
                    rows = []
                    await asyncio.sleep(0)
            take(rows)


def _row(kind: str, part: memoryview) -> Usage:
    """As `objects.usage` makes it, four times as fast: of these there are 150,000 every half minute."""
    found = _MEASUREMENT.decode(part)
    total: dict[str, int] = {}
    for usage in (found.usage, *(each.usage for each in found.containers)):
        for resource, text in usage.items():
            total[resource] = total.get(resource, 0) + amount(resource, text)
    meta = found.metadata
    return Usage(kind, meta.namespace, meta.name, tuple(sorted(total.items())), parse_instant(found.timestamp))


def _explained(error: ApiError, resource: ApiResource) -> ClusterError:
    if error.status == 404:
        return MetricsMissingError(f"the cluster has no metrics.k8s.io; {_INSTALL}")
    if error.status == 503:
        return MetricsMissingError(f"metrics.k8s.io is registered, but who serves it does not answer ({error.message})")
    if error.status == 403:
        rule = f'{{apiGroups: ["{resource.group}"], resources: ["nodes", "pods"], verbs: ["list"]}}'
        return MetricsMissingError(f"you may not list {resource.kind} ({error.message}); ask for the rule {rule}")
    return error
