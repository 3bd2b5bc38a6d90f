"""Rolled nodes, with their CSINodes, namespaces and runtime classes: the ground that pods are rolled on.

Few values for everything, so that pods and nodes have much to do with each other. All nodes are healthy: what an
unhealthy node is refused for is a taint, or a rule of ours that the scheduler doesn't have.
"""

from __future__ import annotations

from rescheduler.model.json import Json
from tests.contract.agreement.world import HOSTNAME, OLD_REGION, OLD_ZONE, REGION, ZONE, Dice
from tests.testbed.hollow import NodeShape, node

DRIVERS = ("disk.example.com", "file.example.com")
ZONES = ("z1", "z2", "z3")
GUESTS = "guests"
TAINTS: tuple[Json, ...] = (
    {"key": "dedicated", "value": "db", "effect": "NoSchedule"},
    {"key": "dedicated", "value": "web", "effect": "NoExecute"},
    {"key": "spot", "effect": "NoExecute"},
    {"key": "spot", "value": "yes", "effect": "NoSchedule"},
    {"key": "old", "value": "1", "effect": "PreferNoSchedule"},
)


def roll_node(dice: Dice, name: str, number: int, version: str) -> Json:
    made = node(name, number, NodeShape(zones=()), version)
    resources = {
        "cpu": dice.pick(("1500m", "4", "4", "8", "16")),
        "memory": dice.pick(("2Gi", "8G", "8Gi", "16Gi")),
        "pods": dice.pick(("110", "110", "110", "110", "8", "5")),
        "ephemeral-storage": dice.pick(("10Gi", "100Gi")),
    }
    if dice.chance(50):
        resources["example.com/gpu"] = dice.pick(("1", "2", "4"))
    if dice.chance(40):
        resources["hugepages-2Mi"] = dice.pick(("64Mi", "128Mi"))
    made["status"] |= {"capacity": resources, "allocatable": resources}
    made["metadata"]["labels"] = _labels(dice, name)
    taints = dice.some(TAINTS, 1, 2) if dice.chance(30) else []
    made["spec"] = {"taints": taints}
    if dice.chance(8):
        made["spec"]["unschedulable"] = True  # the node controller adds the taint
    return made


def _labels(dice: Dice, name: str) -> dict[str, str]:
    labels = {"kubernetes.io/os": "linux"}
    if not dice.chance(8):
        labels[HOSTNAME] = name
    if not dice.chance(15):
        labels[ZONE] = dice.pick(ZONES)
    if dice.chance(50):
        labels[REGION] = dice.pick(("r1", "r2"))
    if dice.chance(20):
        labels[OLD_ZONE] = dice.pick(ZONES)
    if dice.chance(15):
        labels[OLD_REGION] = dice.pick(("r1", "r2"))
    if dice.chance(60):
        labels["disk"] = dice.pick(("ssd", "hdd", ""))
    if dice.chance(50):
        labels["cores"] = dice.pick(("2", "8", "16", "many", "007"))
    return labels


def roll_csinode(dice: Dice, name: str) -> Json:
    """Which storage drivers the node has, and how many volumes each can attach; a driver may have no limit."""
    drivers = []
    for driver in dice.some(DRIVERS, 1, 2):
        entry: Json = {"name": driver, "nodeID": name, "topologyKeys": None}
        if not dice.chance(15):
            entry["allocatable"] = {"count": dice.number(1, 3)}
        drivers.append(entry)
    return _object("storage.k8s.io/v1", "CSINode", name, spec={"drivers": drivers})


def runtime_classes(world: str) -> list[Json]:
    """One that adds overhead, one that picks nodes: admission writes both into the pod."""
    heavy = {"podFixed": {"cpu": "300m", "memory": "256Mi"}}
    picky = {"nodeSelector": {"disk": "ssd"}, "tolerations": [{"key": "spot", "operator": "Exists"}]}
    group = "node.k8s.io/v1"
    return [
        _object(group, "RuntimeClass", f"{world}-heavy", handler="runc", overhead=heavy),
        _object(group, "RuntimeClass", f"{world}-picky", handler="runc", scheduling=picky),
    ]


def namespaces(world: str) -> list[Json]:
    """Three for all, and one for pods that are only nominated."""
    labels: dict[str, dict[str, str]] = {
        "ns0": {"team": "shop"},
        "ns1": {"team": "bank", "stage": "live"},
        "ns2": {},
        GUESTS: {"team": "guests"},
    }
    found = []
    for name, given in labels.items():
        made = _object("v1", "Namespace", f"{world}-{name}")
        made["metadata"]["labels"] = given
        found.append(made)
    return found


def _object(api_version: str, kind: str, name: str, **fields: object) -> Json:
    return {"apiVersion": api_version, "kind": kind, "metadata": {"name": name}, **fields}
