"""The real cluster as pytest fixtures: `control_plane` for the whole run, `namespace` for one test.

`tests/conftest.py` names this module in `pytest_plugins`. Where the cluster can't be had, tests that ask for it are
skipped with the reason, or failed where CI=true, since there a skip would go unseen. Under pytest-xdist each worker
that runs such a test starts a control plane of its own, about 1.5 GB of memory.
"""

import contextlib
import os
from collections.abc import Iterator

import pytest

from tests.testbed import TestbedUnavailable
from tests.testbed.binaries import Binaries, binaries
from tests.testbed.cluster import ControlPlane
from tests.testbed.namespaces import own_namespace


@pytest.fixture(scope="session")
def control_plane(request: pytest.FixtureRequest) -> Iterator[ControlPlane]:
    """One real cluster for all tests of this run, without nodes; its logs are kept if any of them failed."""
    with _output_shown(request.config):
        programs = _binaries_or_why_not()
    if isinstance(programs, str):
        if os.environ.get("CI") == "true":
            pytest.fail(f"the real cluster is needed where CI=true: {programs}", pytrace=False)
        pytest.skip(f"no real cluster: {programs}")
    cluster = ControlPlane(programs)
    yield cluster
    with _output_shown(request.config):
        cluster.stop(keep_logs=request.session.testsfailed > 0)


@pytest.fixture
def namespace(request: pytest.FixtureRequest, control_plane: ControlPlane) -> Iterator[str]:
    """A namespace of this test's own; its pods are gone from the nodes when the next test starts."""
    with own_namespace(control_plane.api, request.node.name) as name:
        yield name


def _binaries_or_why_not() -> Binaries | str:
    try:
        return binaries()
    except TestbedUnavailable as reason:
        return str(reason)


@contextlib.contextmanager
def _output_shown(config: pytest.Config) -> Iterator[None]:
    """A first build takes minutes: its progress goes to the terminal, not into pytest's capture."""
    capture = config.pluginmanager.getplugin("capturemanager")
    with capture.global_and_fixture_disabled() if capture else contextlib.nullcontext():
        yield
