"""A cluster worth looking at, with the real controller on it, whose page is served on loopback.

Screenshots and the browser's story use it: an embedded cluster of three zones and two pools, the workloads of a shop on
a third of its nodes, and the others empty, so that the controller has something to do. Pods take a moment to start, so
that moves can be seen under way.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rescheduler.model.json import Json
from tests.support.both_clusters import Space, is_ready
from tests.support.controller_process import Controller, write_config
from tests.support.embedded import EmbeddedControlPlane
from tests.support.manifests import budget, daemon_set, deployment, simulated, stateful_set
from tests.support.page_answers import is_served
from tests.testbed.hollow import NodeShape
from tests.testbed.processes import free_port, until

POOL = "node.kubernetes.io/pool"
SHOP: Mapping[str, Mapping[str, tuple[int, int]]] = {
    "shop": {"web": (20, 350), "cart": (10, 250), "checkout": (8, 300)},
    "search": {"query": (14, 400), "indexer": (8, 500)},
    "payments": {"gateway": (8, 300), "ledger": (5, 450)},
}
"""By namespace and Deployment, how many pods there are, and how many thousandths of a CPU each asks for."""
CROWDED = 0.85
"""Of the first third of the nodes, all pods take this share."""
QUEUE = 3
PODS = QUEUE + sum(replicas for apps in SHOP.values() for replicas, _ in apps.values())
"""But for the DaemonSet's, of which each node has one."""


@dataclass(frozen=True)
class Scene:
    """What is there."""

    cluster: EmbeddedControlPlane
    controller: Controller
    address: str
    nodes: list[str]


@contextmanager
def scene(nodes: int = 24, **policy: Any) -> Iterator[Scene]:
    """It runs until the end of the block; fields of the configuration can be given."""
    with ExitStack() as stack:
        cluster = stack.enter_context(EmbeddedControlPlane())
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="page-scene-")))
        wanted = sum(pods * each for apps in SHOP.values() for pods, each in apps.values()) / 1000
        cores = round(wanted / CROWDED / (nodes // 3))
        crowded = _nodes(cluster, nodes // 3, "worker-a", cores)
        for name, apps in SHOP.items():
            _fill(_space(cluster, name), apps)
        _all_ready(cluster, PODS + len(crowded))
        late = _nodes(cluster, nodes - nodes // 3, "worker-b", cores)
        _all_ready(cluster, PODS + nodes)
        port = free_port()
        web = {"port": port, "bindAddress": "127.0.0.1"}
        config = write_config(folder / "config.yaml", "default", web=web, **policy)
        log = folder / "controller.log"
        controller = stack.enter_context(Controller(cluster.kubeconfig, config, log, "--ui-insecure-local"))
        address = f"http://127.0.0.1:{port}"
        until("the page is served", lambda: is_served(address, nodes), [controller])
        yield Scene(cluster, controller, address, crowded + late)


def _nodes(cluster: EmbeddedControlPlane, count: int, prefix: str, cores: int) -> list[str]:
    """Of both pools."""
    made: list[str] = []
    for pool, share, gigabytes in (("general", count - count // 3, 4), ("memory", count // 3, 8)):
        shape = NodeShape(cpu=str(cores), memory=f"{cores * gigabytes}Gi", labels={POOL: pool})
        made += cluster.add_nodes(share, shape, prefix=f"{prefix}-{pool}") if share else []
    return made


def _space(cluster: EmbeddedControlPlane, name: str) -> Space:
    cluster.api.post("/api/v1/namespaces", {"metadata": {"name": name}})
    accounts = f"/api/v1/namespaces/{name}/serviceaccounts"
    until(f"{accounts} is filled", lambda: cluster.api.get(accounts)["items"])
    return Space(cluster, name)


def _fill(space: Space, apps: Mapping[str, tuple[int, int]]) -> None:
    for app, (replicas, cpu) in apps.items():
        space.create(_slow(deployment(app, replicas, cpu=f"{cpu}m")))
    if space.name == "payments":
        space.create(_slow(stateful_set("queue", QUEUE, cpu="300m", podManagementPolicy="Parallel")))
        space.create(budget("queue", "queue", minAvailable=QUEUE))
        space.create(daemon_set("agent", cpu="50m"))


def _slow(body: Json) -> Json:
    memory = {"cpu": body["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"]["cpu"], "memory": "1Gi"}
    body["spec"]["template"]["spec"]["containers"][0]["resources"]["requests"] = memory
    return simulated(body, starts_in="3")


def _all_ready(cluster: EmbeddedControlPlane, count: int) -> None:
    def ready() -> bool:
        found = cluster.api.get("/api/v1/pods")["items"]
        return len(found) == count and all(is_ready(each) for each in found)

    until(f"{count} pods are Ready", ready)
