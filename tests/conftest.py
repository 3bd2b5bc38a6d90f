"""What all tests share: hypothesis without deadlines (machines are shared and noisy) and without a database on disk.

And an interrupt that counts: a shell that starts tests in the background has it ignored, by the tests and by the
programs that they start and want to interrupt.
"""

from __future__ import annotations

import signal

import pytest
from hypothesis import HealthCheck, settings

from tests.support.examples import default_examples

pytest_plugins = ["tests.testbed.fixtures"]

settings.register_profile(
    "project",
    max_examples=default_examples(),
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("project")

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Drop the embedded variant of tests that are marked `real_only`."""
    dropped = [item for item in items if item.get_closest_marker("real_only") and _is_embedded(item)]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item not in set(dropped)]


def _is_embedded(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    return callspec is not None and "embedded" in callspec.params.values()
