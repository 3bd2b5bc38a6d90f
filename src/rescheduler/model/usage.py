"""Measured use: what nodes and pods really take, besides what pods request; and where it shall come from.

`usage` makes a Measured of the samples that it has; the snapshot carries it to planning, which counts by it where
`utilization` says so. Amounts are as everywhere: CPU in thousandths, the rest in whole units.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from rescheduler.model.shape import Requests

RESOURCES = ("cpu", "memory")
"""What is measured. Everything else that a node has is counted by requests alone."""


@dataclass(frozen=True, slots=True)
class MeasuredUsage:
    """What is used, smoothed. Whoever is missing here, or a resource of his, is counted by his requests."""

    nodes: Mapping[str, Requests] = field(default_factory=dict)
    """By name; with everything that runs on the node, pods or not."""
    pods: Mapping[tuple[str, str], Requests] = field(default_factory=dict)
    """By namespace and name; from the pod's own history alone."""
    workloads: Mapping[tuple[str, str, str], Requests] = field(default_factory=dict)
    """By kind, namespace and name: what a pod of it uses on average. It stands for pods without a history."""
    warnings: tuple[str, ...] = ()
    """What is missing or was refused, in a few sentences however much it is."""
    besides: Mapping[str, Requests] = field(default_factory=dict)
    """By node: what it uses besides its pods, at the least. `nodes` is a mean, and still has pods in it that have left:
    less the pods of now, it would call them the node's own, and the node would look hot when it no longer is."""


class UsageSource(StrEnum):
    """Who is asked what is used."""

    METRICS_API = "metrics.k8s.io"
    PROMETHEUS = "prometheus"


@dataclass(frozen=True, slots=True)
class PrometheusQueries:
    """What a Prometheus is asked: CPU in cores, memory in bytes.

    The ready ones go by what every kubelet tells of its containers (cAdvisor); `id="/"` is the whole node. `irate`
    takes the newest two samples: `rate` would divide what a young pod used by the whole range, and we smooth ourselves.
    The inner `max` is for those who have their kubelets scraped twice, and would else be told double.
    """

    node_cpu: str = 'max by (node, instance) (irate(container_cpu_usage_seconds_total{id="/"}[5m]))'
    node_memory: str = 'max by (node, instance) (container_memory_working_set_bytes{id="/"})'
    pod_cpu: str = (
        "sum by (namespace, pod) (max by (namespace, pod, container) "
        '(irate(container_cpu_usage_seconds_total{container!="",container!="POD"}[5m])))'
    )
    pod_memory: str = (
        "sum by (namespace, pod) (max by (namespace, pod, container) "
        '(container_memory_working_set_bytes{container!="",container!="POD"}))'
    )


@dataclass(frozen=True, slots=True)
class PrometheusAccess:
    """How to reach a Prometheus, and what to ask it. Files are read again when they change."""

    url: str = ""
    bearer_token_file: str = ""
    ca_file: str = ""
    certificate_file: str = ""
    key_file: str = ""
    insecure_skip_verify: bool = False
    timeout: float = 10.0
    queries: PrometheusQueries = PrometheusQueries()


@dataclass(frozen=True, slots=True)
class UsageSettings:
    """How usage is measured; seconds."""

    source: UsageSource = UsageSource.METRICS_API
    interval: float = 30.0
    window: float = 300.0
    max_age: float = 180.0
    prometheus: PrometheusAccess = PrometheusAccess()
