"""A namespace for one test: made with all that pods in it need, and cleared of them at the end.

The fixtures of the real cluster and those of the contract's two clusters use it. The namespace itself may take its
time to go; its pods are waited for, because they would hold room on nodes that the next test uses.
"""

import contextlib
import re
import secrets
from collections.abc import Iterator

from tests.testbed.api import Api
from tests.testbed.processes import until


@contextlib.contextmanager
def own_namespace(api: Api, test: str) -> Iterator[str]:
    """Named after the test, and like no other."""
    words = re.sub(r"[^a-z0-9]+", "-", test.lower()).removeprefix("test-")[:40].strip("-")
    name = f"{words}-{secrets.token_hex(4)}"
    api.post("/api/v1/namespaces", {"metadata": {"name": name}})
    accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
    # Without its service account the API server refuses every pod.
    until(f"{accounts} is filled", lambda: api.get(accounts)["items"])
    yield name
    pods = f"/api/v1/namespaces/{name}/pods"
    api.delete(f"/api/v1/namespaces/{name}")  # from here on nothing new can be made in it
    api.delete(pods, {"gracePeriodSeconds": 0})
    until(f"{pods} is empty", lambda: not api.get(pods)["items"])
