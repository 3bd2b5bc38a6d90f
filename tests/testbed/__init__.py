"""A real Kubernetes for the tests: the control plane of upstream, kubectl, and KWOK in the place of kubelets.

`toolchain` finds Go, `binaries` builds the programs once into a cache, `cluster` runs them as one ControlPlane on
loopback, `fixtures` hands it to tests, and `python -m tests.testbed` to people. Nothing here is product code, and
nothing here depends on it: whatever the product believes about Kubernetes is checked against this one.
"""


class TestbedUnavailable(Exception):  # noqa: N818 - it is a state of the machine, which tests report as a skip
    """The real control plane can't be had on this machine; the message says why and what would help."""

    __test__ = False  # so that pytest doesn't take it for a test class
