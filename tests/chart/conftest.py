"""The real helm for the tests of the chart; where it can't be had they fail, and say what would help."""

from __future__ import annotations

import pytest

from tests.testbed.helm import Helm


@pytest.fixture(scope="session")
def helm() -> Helm:
    """Helm without a cluster."""
    return Helm()
