"""A namespace for one test: made with all that pods in it need, and cleared of them at the end.

The fixtures of the real cluster and those of the contract's two clusters use it. The namespace itself may take its
time to go. Its pods are waited for, because they would hold room on nodes that the next test uses; and what controllers
and commands look for in all namespaces is deleted at once, because those of the next test would find it.
"""

import contextlib
import re
import secrets
from collections.abc import Iterator

from tests.testbed.api import Api, ApiError
from tests.testbed.processes import until

LOOKED_FOR = (
    "/api/v1/namespaces/{}/configmaps",
    "/api/v1/namespaces/{}/secrets",
    "/apis/apps/v1/namespaces/{}/daemonsets",
    "/apis/apps/v1/namespaces/{}/deployments",
    "/apis/apps/v1/namespaces/{}/replicasets",
    "/apis/apps/v1/namespaces/{}/statefulsets",
    "/apis/batch/v1/namespaces/{}/cronjobs",
    "/apis/batch/v1/namespaces/{}/jobs",
    "/apis/coordination.k8s.io/v1/namespaces/{}/leases",
    "/apis/rescheduler.io/v1alpha1/namespaces/{}/podmigrations",
)
NOT_SERVED = (404, 429, 503)  # of PodMigrations, before and after a test that has them


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
    for path in LOOKED_FOR:
        _clear(api, path.format(name))
    api.delete(pods, {"gracePeriodSeconds": 0})
    until(f"{pods} is empty", lambda: not api.get(pods)["items"])


def _clear(api: Api, path: str) -> None:
    try:
        api.delete(path, {"propagationPolicy": "Background"})
    except ApiError as error:
        if error.code not in NOT_SERVED:
            raise
