"""Informers for tests that fill the caches themselves."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

from rescheduler.decode.cache import ClusterCache
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.runtime.informers import Informers
from rescheduler.runtime.migration_cache import MigrationCache


def informers(
    *,
    cache: ClusterCache | None = None,
    migrations: MigrationCache | None = None,
    now: Callable[[], float] = lambda: 0.0,
    capture: Callable[[], Callable[[], ClusterSnapshot]] | None = None,
    stale: Callable[[], str] = lambda: "",
) -> Informers:
    """With these caches, and nothing that fills them."""
    found = SimpleNamespace(
        cache=cache or ClusterCache("test"),
        migrations=migrations if migrations is not None else MigrationCache(),
        now=now,
        capture=capture,
        stale=stale,
    )
    return cast("Informers", found)
