"""A real Kubernetes for the tests: the control plane of upstream, kubectl, and KWOK in the place of kubelets.

`toolchain` finds Go, `binaries` builds the programs once into a cache, `cluster` runs them as one ControlPlane on
loopback, `fixtures` hands it to tests, and `python -m tests.testbed` to people. Nothing here is product code, and
nothing here depends on it: whatever the product believes about Kubernetes is checked against this one.
"""

from __future__ import annotations


class TestbedUnavailable(Exception):  # noqa: N818 - it is a state of the machine, which tests report as a skip
    """The real control plane can't be had on this machine; the message says why and what would help."""

    __test__ = False  # so that pytest doesn't take it for a test class


class ToolRefused(AssertionError):  # noqa: N818 - it fails the test that asked
    """A test of the fast tier asked for a program that Python packages don't bring; the message says the cure."""


_WITHOUT_TOOLS: list[str] = []
"""The running test, if it may use Python packages only."""


def forbid_tools(test: str | None) -> None:
    """Let `require_tool` fail for this test; None lets it pass. `tests/conftest.py` calls it before each test."""
    _WITHOUT_TOOLS[:] = [] if test is None else [test]


def require_tool(tool: str) -> None:
    """Fail if a test of the fast tier is running: it would build or download something on a fresh machine."""
    for test in _WITHOUT_TOOLS:
        raise ToolRefused(f"{test} uses {tool}, which `make test` does not have: mark it `cluster` or `release`")
