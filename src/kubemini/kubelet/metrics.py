"""What pods and nodes use, as metrics-server would report it: NodeMetrics and PodMetrics, computed on request.

A container uses what the annotations of its pod say (`simulation`), else what it requests; a node uses what its pods do
and a little more. Pods that are not Running, and nodes whose kubelet is dead, are not measured.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from kubemini import clock
from kubemini.errors import Json
from kubemini.kinds import NODE_METRICS, POD_METRICS, Kind
from kubemini.simulation import CPU_USAGE, MEMORY_USAGE, PREFIX, Kubelet, kubelet_of
from rescheduler.model.quantity import QuantityError, amount

_WINDOW = "10s"
_ANNOTATIONS = {"cpu": f"{PREFIX}{CPU_USAGE}", "memory": f"{PREFIX}{MEMORY_USAGE}"}
Used = dict[str, int]
_SYSTEM = {"cpu": 10, "memory": 16 * 2**20}
"""What a node uses besides its pods; the test bed's nodes do, too."""


def pod_metrics(pods: Iterable[Json], nodes: Iterable[Json], now: datetime) -> Iterator[Json]:
    """What each pod uses, container by container."""
    alive = set(_alive(nodes))
    for pod in pods:
        if _is_measured(pod, alive):
            containers = [{"name": each["name"], "usage": _written(used)} for each, used in _containers(pod)]
            yield _measured(POD_METRICS, pod["metadata"], now) | {"containers": containers}


def node_metrics(nodes: Iterable[Json], pods: Iterable[Json], now: datetime) -> Iterator[Json]:
    """What each node uses."""
    nodes = list(nodes)
    totals: dict[str, Used] = {name: dict(_SYSTEM) for name in _alive(nodes)}
    for pod in pods:
        if _is_measured(pod, totals):
            total = totals[pod["spec"]["nodeName"]]
            for _, used in _containers(pod):
                for resource, number in used.items():
                    total[resource] += number
    for node in nodes:
        if node["metadata"]["name"] in totals:
            yield _measured(NODE_METRICS, node["metadata"], now) | {"usage": _written(totals[node["metadata"]["name"]])}


def _alive(nodes: Iterable[Json]) -> Iterator[str]:
    for node in nodes:
        if kubelet_of(node["metadata"].get("labels") or {}) is not Kubelet.DEAD:
            yield node["metadata"]["name"]


def _is_measured(pod: Json, alive: Iterable[str]) -> bool:
    return (pod.get("status") or {}).get("phase") == "Running" and pod["spec"].get("nodeName") in alive


def _containers(pod: Json) -> Iterator[tuple[Json, Used]]:
    annotations = pod["metadata"].get("annotations") or {}
    for container in pod["spec"]["containers"]:
        requests = (container.get("resources") or {}).get("requests") or {}
        yield container, {resource: _used(resource, annotations, requests) for resource in _ANNOTATIONS}


def _used(resource: str, annotations: Mapping[str, str], requests: Mapping[str, str]) -> int:
    try:
        return amount(resource, annotations[_ANNOTATIONS[resource]])
    except (KeyError, QuantityError):  # a value that cannot be read counts as not given
        return amount(resource, requests.get(resource, "0"))


def _written(used: Used) -> dict[str, str]:
    return {"cpu": f"{used['cpu']}m", "memory": str(used["memory"])}


def _measured(kind: Kind, metadata: Json, now: datetime) -> Json:
    """The head of a measurement: it carries the labels of what is measured, and is as old as itself."""
    named = {key: metadata[key] for key in ("name", "namespace", "labels") if metadata.get(key)}
    return {
        "kind": kind.name,
        "apiVersion": kind.api_version,
        "metadata": {**named, "creationTimestamp": clock.stamp(now)},
        "timestamp": clock.stamp(now),
        "window": _WINDOW,
    }
