"""The objects that fill a hollow cluster: nodes without machines, and workloads that run nothing.

`cluster.ControlPlane.add_nodes` and `python -m tests.testbed up` make them; KWOK plays the kubelets of all nodes, by
the stages in `stages/`. A node comes with its capacity, addresses and labels, as a kubelet registers it; being Ready
is KWOK's part.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from rescheduler.model.json import Json

IMAGE = "hollow:1"  # never pulled: there is no container runtime


@dataclass(frozen=True)
class NodeShape:
    """What nodes are made of; the zones are dealt out in turn."""

    cpu: str = "4"
    memory: str = "16Gi"
    pods: int = 110
    zones: Sequence[str] = ("zone-a", "zone-b", "zone-c")
    labels: Mapping[str, str] = field(default_factory=dict)
    taints: Sequence[Mapping[str, str]] = ()
    extended: Mapping[str, str] = field(default_factory=dict)
    kubelet_port: int = 0
    """Where KWOK serves what kubelets measure (`ControlPlane.kubelet_port`); 0 for nodes without measuring."""


def node(name: str, number: int, shape: NodeShape, version: str) -> Json:
    resources = {
        "cpu": shape.cpu,
        "memory": shape.memory,
        "pods": str(shape.pods),
        "ephemeral-storage": "100Gi",
        **shape.extended,
    }
    labels = {
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "topology.kubernetes.io/region": "region-1",
    }
    if shape.zones:
        labels["topology.kubernetes.io/zone"] = shape.zones[number % len(shape.zones)]
    annotations, served = _kubelet(name, shape.kubelet_port)
    address = f"10.{64 + number // 65536 % 64}.{number // 256 % 256}.{number % 256}"
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels | dict(shape.labels), "annotations": annotations},
        "spec": {"taints": [dict(taint) for taint in shape.taints]},
        "status": {
            "capacity": resources,
            "allocatable": resources,
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": name},
                *([{"type": "ExternalIP", "address": "127.0.0.1"}] if served else []),
            ],
            "nodeInfo": _node_info(version),
            **served,
        },
    }


def _kubelet(name: str, port: int) -> tuple[Json, Json]:
    """Annotations and a part of the status, by which metrics-server finds a node's kubelet: all are one KWOK."""
    if not port:
        return {}, {}
    path = f"/metrics/nodes/{name}/metrics/resource"
    return {"metrics.k8s.io/resource-metrics-path": path}, {"daemonEndpoints": {"kubeletEndpoint": {"Port": port}}}


def deployment(name: str, replicas: int, *, cpu: str = "100m", memory: str = "64Mi") -> Json:
    """A Deployment whose pods ask for this much each."""
    labels = {"app": name}
    container = {"name": "main", "image": IMAGE, "resources": {"requests": {"cpu": cpu, "memory": memory}}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def is_ready(node: Json) -> bool:
    """Ready, and the node controller has taken its taints for new nodes off: pods can be bound now."""
    taints = [taint["key"] for taint in node["spec"].get("taints", ())]
    conditions = {each["type"]: each["status"] for each in node["status"].get("conditions", ())}
    return conditions.get("Ready") == "True" and not any(key == "node.kubernetes.io/not-ready" for key in taints)


def _node_info(version: str) -> Json:
    """All of these are required by the API; none of them is looked at."""
    return {
        "architecture": "amd64",
        "bootID": "",
        "containerRuntimeVersion": "kwok",
        "kernelVersion": "kwok",
        "kubeProxyVersion": "",
        "kubeletVersion": version,
        "machineID": "",
        "operatingSystem": "linux",
        "osImage": "kwok",
        "systemUUID": "",
    }
