"""Kubernetes objects as `kubectl get -o json` prints them: most of each is of no interest to planning, as in real life.

`skewed` fills its clusters with them. A pod's text is made once a template, with marks to be filled in for each pod.
"""

from __future__ import annotations

import json
from typing import Any, Protocol

_HEARTBEAT = "2026-11-15T08:00:00Z"
_BORN = "2026-11-01T08:00:00Z"


class NodeLook(Protocol):
    """What a node's object says."""

    name: str
    zone: str
    cores: int
    tainted: bool
    ssd: bool

    @property
    def mib(self) -> int: ...


def text_of(thing: dict[str, Any]) -> str:
    return "\n".join("        " + line for line in json.dumps(thing, indent=4).splitlines())


def filled(text: str, name: str, node: str, uid: str) -> str:
    return (
        text.replace("@NAME@", name)
        .replace("@NODE@", node)
        .replace("@UID@", f"00000000-0000-4000-8000-{uid:>012s}".replace(" ", "0"))
    )


def meta(name: str, namespace: str = "") -> dict[str, Any]:
    meta: dict[str, Any] = {
        "creationTimestamp": _BORN,
        "generation": 1,
        "name": name,
        "resourceVersion": "1000",
        "uid": "00000000-0000-4000-8000-000000000000",
    }
    if namespace:
        meta["namespace"] = namespace
    return meta


def namespace(name: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Namespace",
        "metadata": {**meta(name), "labels": {"kubernetes.io/metadata.name": name}},
    }


def owner_references(kind: str, name: str) -> list[dict[str, Any]]:
    return [
        {
            "apiVersion": "apps/v1",
            "blockOwnerDeletion": True,
            "controller": True,
            "kind": kind,
            "name": name,
            "uid": "00000000-0000-4000-8000-000000000000",
        }
    ]


def node_object(node: NodeLook, number: int) -> dict[str, Any]:
    labels = {
        "beta.kubernetes.io/arch": "amd64",
        "kubernetes.io/arch": "amd64",
        "kubernetes.io/hostname": node.name,
        "kubernetes.io/os": "linux",
        "topology.kubernetes.io/region": "region-1",
        "topology.kubernetes.io/zone": node.zone,
    }
    if node.ssd:
        labels["disk"] = "ssd"
    spec: dict[str, Any] = {"podCIDR": f"10.{number // 256}.{number % 256}.0/24"}
    if node.tainted:
        spec["taints"] = [{"effect": "NoSchedule", "key": "dedicated", "value": "batch"}]
    room = {
        "cpu": str(node.cores),
        "ephemeral-storage": "95491281146",
        "hugepages-2Mi": "0",
        "memory": f"{node.mib}Mi",
        "pods": "110",
    }
    conditions = [
        {
            "lastHeartbeatTime": _HEARTBEAT,
            "lastTransitionTime": _BORN,
            "message": f"kubelet has {kind}",
            "reason": f"Kubelet{kind}",
            "status": "True" if kind == "Ready" else "False",
            "type": kind,
        }
        for kind in ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    ]
    images = [
        {
            "names": [f"registry.example/library/image-{i}@sha256:{i:064x}", f"registry.example/library/image-{i}:v1"],
            "sizeBytes": 100_000_000 + i,
        }
        for i in range(10)
    ]
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {**meta(node.name), "labels": labels},
        "spec": spec,
        "status": {
            "addresses": [{"address": "192.0.2.1", "type": "InternalIP"}],
            "allocatable": room,
            "capacity": room,
            "conditions": conditions,
            "images": images,
        },
    }


def pod_object(
    name: str, namespace: str, owner: tuple[str, str], labels: dict[str, str], size: tuple[int, int]
) -> dict[str, Any]:
    """A pod as the API server shows one: most of it is of no interest to planning, which is the point."""
    requests = {"cpu": f"{size[0]}m", "memory": f"{size[1]}Mi"}
    token = {
        "mountPath": "/var/run/secrets/kubernetes.io/serviceaccount",
        "name": "kube-api-access-@NAME@",
        "readOnly": True,
    }
    probe = {
        "failureThreshold": 3,
        "httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"},
        "periodSeconds": 10,
        "successThreshold": 1,
        "timeoutSeconds": 1,
    }
    container = {
        "env": [{"name": f"SETTING_{i}", "value": f"value-{i}"} for i in range(8)],
        "image": "registry.example/team/app:v1.2.3",
        "imagePullPolicy": "IfNotPresent",
        "livenessProbe": probe,
        "name": "app",
        "ports": [{"containerPort": 8080, "protocol": "TCP"}],
        "readinessProbe": probe,
        "resources": {"limits": {"memory": requests["memory"]}, "requests": requests},
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "volumeMounts": [token],
    }
    sources = [
        {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
        {"configMap": {"items": [{"key": "ca.crt", "path": "ca.crt"}], "name": "kube-root-ca.crt"}},
    ]
    conditions = [
        {"lastProbeTime": None, "lastTransitionTime": _BORN, "status": "True", "type": kind}
        for kind in ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    ]
    status = {
        "allocatedResources": requests,
        "containerID": "containerd://@UID@",
        "image": "registry.example/team/app:v1.2.3",
        "imageID": f"registry.example/team/app@sha256:{7:064x}",
        "lastState": {},
        "name": "app",
        "ready": True,
        "resources": {"limits": {"memory": requests["memory"]}, "requests": requests},
        "restartCount": 0,
        "started": True,
        "state": {"running": {"startedAt": _BORN}},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8080"},
            "creationTimestamp": _BORN,
            "generateName": name.replace("@NAME@", ""),
            "labels": labels,
            "name": name,
            "namespace": namespace,
            "ownerReferences": owner_references(*owner),
            "resourceVersion": "1000",
            "uid": "@UID@",
        },
        "spec": {
            "containers": [container],
            "dnsPolicy": "ClusterFirst",
            "enableServiceLinks": True,
            "nodeName": "@NODE@",
            "preemptionPolicy": "PreemptLowerPriority",
            "priority": 0,
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "serviceAccount": "default",
            "serviceAccountName": "default",
            "terminationGracePeriodSeconds": 30,
            "tolerations": [
                {
                    "effect": "NoExecute",
                    "key": f"node.kubernetes.io/{why}",
                    "operator": "Exists",
                    "tolerationSeconds": 300,
                }
                for why in ("not-ready", "unreachable")
            ],
            "volumes": [{"name": "kube-api-access-@NAME@", "projected": {"defaultMode": 420, "sources": sources}}],
        },
        "status": {
            "conditions": conditions,
            "containerStatuses": [status],
            "hostIP": "192.0.2.1",
            "phase": "Running",
            "podIP": "198.51.100.1",
            "podIPs": [{"ip": "198.51.100.1"}],
            "qosClass": "Burstable",
            "startTime": _BORN,
        },
    }
