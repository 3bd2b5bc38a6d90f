"""Measured usage, put together: who is asked, for the controller's loop or once for a plan.

With `utilization: requests` nobody is asked. A plan of a live cluster has what metrics.k8s.io said when it was listed,
or asks Prometheus once; a plan of a file has what the file holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from rescheduler.model.objects import Pod
from rescheduler.model.policy import Utilization
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.model.usage import UsageSettings, UsageSource
from rescheduler.usage.errors import UsageError
from rescheduler.usage.history import History
from rescheduler.usage.remainder import Remainder

if TYPE_CHECKING:
    from rescheduler.kube.client import ApiClient
    from rescheduler.runtime.metering import Metering
    from rescheduler.usage.source import Source

_NO_FILE = "usage: a file has nothing of Prometheus; what it has of metrics.k8s.io counts"


def metering_of(
    utilization: Utilization, settings: UsageSettings, client: ApiClient, pods: Callable[[], Sequence[Pod]] = tuple
) -> Metering | None:
    """The loop that measures; None where only requests count. `pods` gives those that are known at a moment."""
    from rescheduler.runtime.metering import Metering  # noqa: PLC0415 - the same
    from rescheduler.usage.metrics_api import MetricsApi  # noqa: PLC0415 - aiohttp takes long, and files need none of it
    from rescheduler.usage.prometheus import Prometheus  # noqa: PLC0415 - the same

    if utilization is Utilization.REQUESTS:
        return None
    by_prometheus = settings.source is UsageSource.PROMETHEUS
    source: Source = Prometheus(settings.prometheus) if by_prometheus else MetricsApi(client)
    return Metering(source, History(settings), settings.interval, client.clock.now, pods)


def measured_once(
    snapshot: ClusterSnapshot, utilization: Utilization, settings: UsageSettings, *, live: bool
) -> ClusterSnapshot:
    """The snapshot of a plan that is made once, with what is used now. Samples are single ones: nothing is smoothed."""
    if utilization is Utilization.REQUESTS:
        return snapshot
    history = History(settings)
    if settings.source is UsageSource.PROMETHEUS and live:
        asyncio.run(_ask(history, settings, snapshot))  # as of when the snapshot was taken, however long that took
    else:
        _take(history, settings, snapshot)
    return replace(snapshot, measured=history.measured(snapshot))


def _take(history: History, settings: UsageSettings, snapshot: ClusterSnapshot) -> None:
    times = [row.timestamp for row in snapshot.usage if row.timestamp is not None]
    asked = snapshot.taken_at if snapshot.taken_at is not None else max(times, default=0.0)
    history.begin(asked, Remainder(snapshot.pods))
    history.take(snapshot.usage)
    if not snapshot.usage:
        history.failed("there is nothing of metrics.k8s.io: install metrics-server, or set usage.source: prometheus")
    else:
        history.end((_NO_FILE,) if settings.source is UsageSource.PROMETHEUS else ())


async def _ask(history: History, settings: UsageSettings, snapshot: ClusterSnapshot) -> None:
    from rescheduler.usage.prometheus import Prometheus  # noqa: PLC0415 - aiohttp takes long, and files need none of it

    history.begin(snapshot.taken_at or 0.0, Remainder(snapshot.pods))
    try:
        async with Prometheus(settings.prometheus, snapshot.taken_at) as prometheus:
            history.end(await prometheus.read(history.take))
    except UsageError as error:
        history.failed(str(error))
