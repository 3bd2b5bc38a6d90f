"""What all tests share: hypothesis without deadlines (machines are shared and noisy) and without a database on disk.

Tiers: a test marked `release` runs in `make test-release`, else one marked `cluster` in `make test-real`, else in
`make test`, where no program may be used that Python packages don't bring.

And an interrupt that counts: a shell that starts tests in the background has it ignored, by the tests and by the
programs that they start and want to interrupt.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from rescheduler import strategies
from tests.support.examples import default_examples
from tests.testbed import forbid_tools

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
strategies.discover()  # what they declare is known wherever a test begins

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

TESTS = Path(__file__).parent
RELEASE_FOLDERS = ("browser", "chart", "docs", "packaging")
QUICK_MODULES = (
    "chart/test_config_schema.py",
    "docs/test_blocks.py",
    "docs/test_in_step.py",
    "docs/test_links.py",
    "docs/test_paths.py",
    "docs/test_texts.py",
    "docs/test_writing_a_rule.py",
    "docs/test_writing_a_strategy.py",
    "packaging/test_lock.py",
    "packaging/test_tag.py",
    "packaging/test_workflows.py",
)
"""Modules of these folders that need only Python packages and a few seconds: they stay in the fast tier."""


@pytest.hookimpl(tryfirst=True)  # before `-m` selects
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what is of the release tier, and drop the embedded variant of tests that are marked `real_only`."""
    for item in items:
        module = item.path.relative_to(TESTS)
        if module.parts[0] in RELEASE_FOLDERS and module.as_posix() not in QUICK_MODULES:
            item.add_marker(pytest.mark.release)
    dropped = [item for item in items if item.get_closest_marker("real_only") and _is_embedded(item)]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in items if item not in set(dropped)]


def _is_embedded(item: pytest.Item) -> bool:
    callspec = getattr(item, "callspec", None)
    return callspec is not None and "embedded" in callspec.params.values()


@pytest.hookimpl(tryfirst=True)  # before fixtures, which are what asks for tools
def pytest_runtest_setup(item: pytest.Item) -> None:
    """Keep builds and downloads out of the fast tier."""
    marked = any(item.get_closest_marker(name) for name in ("cluster", "release", "chaos"))
    forbid_tools(None if marked else item.nodeid)


@pytest.fixture(autouse=True)
def log_levels_restored() -> Iterator[None]:
    """A command that runs in the test's process sets levels of loggers; the next test finds them as they were."""
    loggers = [logging.getLogger(), logging.getLogger("rescheduler")]
    levels = [logger.level for logger in loggers]
    yield
    for logger, level in zip(loggers, levels, strict=True):
        logger.setLevel(level)
