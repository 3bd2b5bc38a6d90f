"""What all tests share: hypothesis without deadlines (machines are shared and noisy) and without a database on disk."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

pytest_plugins = ["tests.testbed.fixtures"]

settings.register_profile(
    "project",
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("project")
