"""A live configuration that answers what a test wants, now or, with functions, at each question."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import cast

from rescheduler.config.live import LiveConfig
from rescheduler.model.policy import Concurrency, Policy
from rescheduler.recovery.settings import RecoverySettings


def live(
    *,
    policy: Callable[[], Policy] = Policy,
    concurrency: Callable[[], Concurrency] = Concurrency,
    recovery: Callable[[], RecoverySettings] = RecoverySettings,
    timeout: float = 600.0,
    **fields: object,
) -> LiveConfig:
    """`fields` are sections and fields of the configuration that are read as they are."""
    fields.setdefault("migration", SimpleNamespace(timeout=timeout))
    return cast(
        "LiveConfig",
        SimpleNamespace(
            policy=policy,
            concurrency=concurrency,
            recovery=recovery,
            config=SimpleNamespace(fields=SimpleNamespace(**fields)),
        ),
    )
