"""Rows as sources give them, and histories that have heard of some."""

from __future__ import annotations

from collections.abc import Iterable

from rescheduler.config.schema import UsageSettings
from rescheduler.model.objects import Usage
from rescheduler.usage.history import UsageHistory
from tests.support.builders import NOW


def of_node(name: str, cpu: int | None = 1000, memory: int | None = 2**30, ago: float | None = 0.0) -> Usage:
    """What a node used some seconds ago; None is without a time."""
    return _row("NodeMetrics", "", name, cpu, memory, ago)


def of_pod(
    name: str, cpu: int | None = 100, memory: int | None = 2**20, ago: float | None = 0.0, namespace: str = "default"
) -> Usage:
    """What a pod used some seconds ago."""
    return _row("PodMetrics", namespace, name, cpu, memory, ago)


def heard(*rows: Usage, settings: UsageSettings | None = None, now: float = NOW) -> UsageHistory:
    """A history that has heard these rows in one answer."""
    history = UsageHistory(settings or UsageSettings())
    hear(history, rows, now)
    return history


def hear(history: UsageHistory, rows: Iterable[Usage], now: float = NOW) -> None:
    """A further answer, heard at this time."""
    history.begin(now)
    history.take(list(rows))
    history.end()


def _row(kind: str, namespace: str, name: str, cpu: int | None, memory: int | None, ago: float | None) -> Usage:
    used = tuple((resource, value) for resource, value in (("cpu", cpu), ("memory", memory)) if value is not None)
    return Usage(kind, namespace, name, used, None if ago is None else NOW - ago)
