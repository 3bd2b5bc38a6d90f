"""Clusters with one pod to be placed, and what the real kube-scheduler v1.37.1 says about it.

The answers were taken down from a real control plane; `test_scheduler_answers` holds the embedded scheduler to them.
An answer is the name of the node that the pod is bound to, or the message of its condition. Where several nodes would
do equally well the real one throws dice, so every case has one best node at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]
ZONE = "topology.kubernetes.io/zone"
HOSTNAME = "kubernetes.io/hostname"
NAMESPACE = "default"
UNHELPFUL = "Preemption is not helpful for scheduling"
NO_VICTIMS = "No preemption victims found for incoming pod"
DRIVER = "disk.example.com"
SELECTED = "volume.kubernetes.io/selected-node"


def node(name: str, *, zone: str = "", cpu: str = "4", pods: int = 110, **more: Any) -> Json:
    """A node of 4 CPUs and 16Gi; `labels`, `taints`, `unschedulable` and `extended` as they are."""
    resources = {"cpu": cpu, "memory": "16Gi", "pods": str(pods), "ephemeral-storage": "100Gi"}
    resources |= more.get("extended", {})
    labels = {HOSTNAME: name} | ({ZONE: zone} if zone else {}) | more.get("labels", {})
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": {"taints": list(more.get("taints", ())), "unschedulable": bool(more.get("unschedulable"))},
        "status": {"capacity": resources, "allocatable": resources},
    }


def taint(key: str, effect: str) -> Json:
    return {"key": key, "value": "yes", "effect": effect}


def pod(
    name: str, *, cpu: str = "100m", memory: str = "64Mi", labels: Mapping[str, str] | None = None, **spec: Any
) -> Json:
    """A pod; an amount that is empty is not asked for. What is left over goes into its spec."""
    requests = {key: amount for key, amount in (("cpu", cpu), ("memory", memory)) if amount} | spec.pop("asks", {})
    limits = spec.pop("limits", {})
    resources = ({"limits": limits} if limits else {}) | ({"requests": requests} if requests else {})
    container: Json = {"name": "main", "image": "hollow:1", "resources": resources}
    if ports := spec.pop("ports", ()):
        container["ports"] = [{"containerPort": port, "hostPort": port, "protocol": "TCP"} for port in ports]
    if claims := spec.pop("claims", ()):
        spec["volumes"] = [{"name": claim, "persistentVolumeClaim": {"claimName": claim}} for claim in claims]
    metadata: Json = {"name": name, "namespace": NAMESPACE, "labels": dict(labels or {})}
    if owner := spec.pop("owner", None):
        metadata["ownerReferences"] = [owner]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 30} | spec,
    }


def there(name: str, at: str, **more: Any) -> Json:
    """A pod that is on its node already."""
    return pod(name, nodeName=at, **more)


def reserving(name: str, at: str, **more: Any) -> Json:
    """A gated pod that is nominated to a node."""
    made = pod(name, schedulingGates=[{"name": "example.com/wait"}], **more)
    made["metadata"]["annotations"] = {"nominate": at}
    return made


def expression(key: str, operator: str, *values: str) -> Json:
    return {"key": key, "operator": operator} | ({"values": list(values)} if values else {})


def required(*expressions: Json, fields: tuple[Json, ...] = ()) -> Json:
    """A required node affinity of one term."""
    term = {"matchExpressions": list(expressions)} if expressions else {}
    term |= {"matchFields": list(fields)} if fields else {}
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def preferred(*wishes: tuple[int, Json]) -> Json:
    terms = [{"weight": weight, "preference": {"matchExpressions": [expression]}} for weight, expression in wishes]
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": terms}}


def near(app: str, key: str = HOSTNAME, weight: int = 0) -> Json:
    return _company("podAffinity", app, key, weight)


def away(app: str, key: str = HOSTNAME, weight: int = 0) -> Json:
    return _company("podAntiAffinity", app, key, weight)


def _company(kind: str, app: str, key: str, weight: int) -> Json:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    if not weight:
        return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {kind: {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": weight, "podAffinityTerm": term}]}}


def spread(app: str, key: str, **more: Any) -> Json:
    return {
        "maxSkew": 1,
        "topologyKey": key,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": app}},
    } | more


def app(name: str) -> Json:
    return {"app": name}


def storage_class(name: str, *, waits: bool = False, **more: Any) -> Json:
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": name},
        "provisioner": DRIVER,
        "volumeBindingMode": "WaitForFirstConsumer" if waits else "Immediate",
    } | more


def claim(name: str, storage: str, *, volume: str = "", mode: str = "ReadWriteOnce", selected: str = "") -> Json:
    """A claim; one that names a volume is bound to it."""
    metadata: Json = {"name": name, "namespace": NAMESPACE}
    if selected:
        metadata["annotations"] = {SELECTED: selected}
    spec: Json = {
        "accessModes": [mode],
        "storageClassName": storage,
        "volumeMode": "Filesystem",
        "resources": {"requests": {"storage": "1Gi"}},
    }
    status: Json = {"phase": "Pending"}
    if volume:
        spec["volumeName"] = volume
        status = {"phase": "Bound"}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": metadata,
        "spec": spec,
        "status": status,
    }


def volume(name: str, storage: str, of: str, *, mode: str = "ReadWriteOnce", **more: Any) -> Json:
    """A volume that is made for a claim; `on` is the node that alone can reach it, `zone` its label."""
    spec: Json = {
        "capacity": {"storage": "1Gi"},
        "accessModes": [mode],
        "storageClassName": storage,
        "persistentVolumeReclaimPolicy": "Retain",
        "csi": {"driver": DRIVER, "volumeHandle": name},
        "claimRef": {"kind": "PersistentVolumeClaim", "namespace": NAMESPACE, "name": of},
    }
    if at := more.get("on"):
        spec["nodeAffinity"] = {
            "required": {"nodeSelectorTerms": [{"matchExpressions": [expression(HOSTNAME, "In", at)]}]}
        }
    labels = {ZONE: more["zone"]} if "zone" in more else {}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {"phase": "Bound"},
    }


def attach_limit(name: str, count: int) -> Json:
    driver = {"name": DRIVER, "nodeID": name, "allocatable": {"count": count}}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name},
        "spec": {"drivers": [driver]},
    }


def stateful_set(name: str) -> Json:
    """A StatefulSet that wants no pods: it is there to be named as an owner, and lets be what has no number."""
    labels = app(name)
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "main", "image": "hollow:1"}]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"replicas": 0, "serviceName": name, "selector": {"matchLabels": labels}, "template": template},
    }


def priority_class(name: str, value: int, policy: str) -> Json:
    return {
        "apiVersion": "scheduling.k8s.io/v1",
        "kind": "PriorityClass",
        "metadata": {"name": name},
        "value": value,
        "preemptionPolicy": policy,
    }


def service(name: str) -> Json:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {"selector": app(name), "ports": [{"port": 80}], "clusterIP": "None"},
    }


def refused(nodes: int, reasons: str, preemption: str) -> str:
    """The whole message, from what it says of nodes and of preemption."""
    none = f"0/{nodes} nodes are available"
    return f"{none}: {reasons}. preemption: {none}: {preemption}."


@dataclass(frozen=True)
class Case:
    """One pod in one cluster."""

    name: str
    nodes: list[Json]
    pod: Json
    answer: str
    objects: list[Json] = field(default_factory=list)


THREE = [node("a", zone="x"), node("b", zone="x"), node("c", zone="y")]
FULL = [there(f"filler-{each}", each, cpu="3500m") for each in "abc"]

REFUSED = [
    Case(
        "a pod that is larger than any node",
        THREE,
        pod("p", cpu="5"),
        refused(3, "3 Insufficient cpu", f"3 {UNHELPFUL}"),
    ),
    Case(
        "a pod for which no node has room left",
        THREE,
        pod("p", cpu="1"),
        refused(3, "3 Insufficient cpu", f"3 {NO_VICTIMS}"),
        FULL,
    ),
    Case(
        "too little of two resources",
        [*THREE, node("d", cpu="8")],
        pod("p", cpu="6", memory="20Gi"),
        refused(4, "3 Insufficient cpu, 4 Insufficient memory", f"4 {UNHELPFUL}"),
    ),
    Case(
        "two resources of which one is larger than the node",
        THREE,
        pod("p", cpu="1", memory="20Gi"),
        refused(3, "3 Insufficient cpu, 3 Insufficient memory", f"3 {UNHELPFUL}"),
        FULL,
    ),
    Case(
        "every place among the pods taken",
        [node("a", pods=1)],
        pod("p"),
        refused(1, "1 Too many pods", f"1 {NO_VICTIMS}"),
        [there("one", "a")],
    ),
    Case(
        "a resource that no node has",
        THREE,
        pod("p", asks={"example.com/gpu": "1"}, limits={"example.com/gpu": "1"}),
        refused(3, "3 Insufficient example.com/gpu", f"3 {UNHELPFUL}"),
    ),
    Case(
        "too little ephemeral storage",
        THREE,
        pod("p", asks={"ephemeral-storage": "200Gi"}),
        refused(3, "3 Insufficient ephemeral-storage", f"3 {UNHELPFUL}"),
    ),
    Case(
        "taints",
        [node("a", taints=[taint("k", "NoSchedule")]), node("b", taints=[taint("k", "NoExecute")])],
        pod("p"),
        refused(2, "2 node(s) had untolerated taint(s)", f"2 {UNHELPFUL}"),
    ),
    Case(
        "a cordoned node",
        [node("a", unschedulable=True)],
        pod("p"),
        refused(1, "1 node(s) were unschedulable", f"1 {UNHELPFUL}"),
    ),
    Case(
        "a node selector",
        THREE,
        pod("p", nodeSelector={"disk": "ssd"}),
        refused(3, "3 node(s) didn't match Pod's node affinity/selector", f"3 {UNHELPFUL}"),
    ),
    Case(
        "a required node affinity",
        THREE,
        pod("p", affinity=required(expression("disk", "In", "ssd"))),
        refused(3, "3 node(s) didn't match Pod's node affinity/selector", f"3 {UNHELPFUL}"),
    ),
    Case(
        "an affinity to a node that is not there",
        THREE,
        pod("p", affinity=required(fields=(expression("metadata.name", "In", "z"),))),
        refused(3, "3 node(s) didn't satisfy plugin(s) [NodeAffinity]", f"3 {UNHELPFUL}"),
    ),
    Case(
        "an affinity to a node by name, which is full",
        THREE,
        pod("p", cpu="1", affinity=required(fields=(expression("metadata.name", "In", "a"),))),
        refused(
            3, "1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]", f"1 {NO_VICTIMS}, 2 {UNHELPFUL}"
        ),
        FULL,
    ),
    Case(
        "an affinity to two nodes at once",
        THREE,
        pod(
            "p",
            affinity=required(
                fields=(expression("metadata.name", "In", "a"), expression("metadata.name", "In", "b")),
            ),
        ),
        "0/3 nodes are available: pod affinity terms conflict. not found",
    ),
    Case(
        "host ports",
        [node("a")],
        pod("p", ports=[8080]),
        refused(1, "1 node(s) didn't have free ports for the requested pod ports", f"1 {NO_VICTIMS}"),
        [there("taker", "a", ports=[8080])],
    ),
    Case(
        "a pod affinity that nobody meets",
        THREE,
        pod("p", affinity=near("db")),
        refused(3, "3 node(s) didn't match pod affinity rules", f"3 {UNHELPFUL}"),
    ),
    Case(
        "a pod affinity that some nodes meet, which are full",
        THREE,
        pod("p", cpu="1", affinity=near("db")),
        refused(3, "1 Insufficient cpu, 2 node(s) didn't match pod affinity rules", f"1 {NO_VICTIMS}, 2 {UNHELPFUL}"),
        [there("db", "a", cpu="3500m", labels=app("db"))],
    ),
    Case(
        "its own anti-affinity",
        THREE,
        pod("p", affinity=away("web", ZONE)),
        refused(3, "3 node(s) didn't match pod anti-affinity rules", f"3 {NO_VICTIMS}"),
        [there("one", "a", labels=app("web")), there("two", "c", labels=app("web"))],
    ),
    Case(
        "the anti-affinity of those that are there",
        THREE,
        pod("p", labels=app("web")),
        refused(3, "3 node(s) didn't satisfy existing pods anti-affinity rules", f"3 {NO_VICTIMS}"),
        [there("one", "a", affinity=away("web", ZONE)), there("two", "c", affinity=away("web", ZONE))],
    ),
    Case(
        "a spread over zones",
        [*THREE[:2], node("c", zone="y", cpu="1")],
        pod("p", cpu="2", labels=app("web"), topologySpreadConstraints=[spread("web", ZONE)]),
        refused(
            3,
            "1 Insufficient cpu, 2 node(s) didn't match pod topology spread constraints",
            f"1 {UNHELPFUL}, 2 {NO_VICTIMS}",
        ),
        [there("one", "a", labels=app("web"))],
    ),
    Case(
        "a spread over a label that no node has",
        THREE,
        pod("p", labels=app("web"), topologySpreadConstraints=[spread("web", "rack")]),
        refused(3, "3 node(s) didn't match pod topology spread constraints (missing required label)", f"3 {UNHELPFUL}"),
    ),
    Case(
        "a spread over more domains than there are",
        THREE,
        pod("p", labels=app("web"), topologySpreadConstraints=[spread("web", ZONE, minDomains=5)]),
        refused(3, "3 node(s) didn't match pod topology spread constraints", f"3 {NO_VICTIMS}"),
        [there("one", "a", labels=app("web")), there("two", "c", labels=app("web"))],
    ),
    Case("no nodes at all", [], pod("p"), "no nodes available to schedule pods"),
    Case(
        "one reason for each node",
        [
            node("a", unschedulable=True),
            node("b", taints=[taint("k", "NoSchedule")]),
            node("c", labels={"disk": "ssd"}, pods=1),
            node("d"),
            node("e", labels={"disk": "ssd"}),
        ],
        pod("p", cpu="2", nodeSelector={"disk": "ssd"}, ports=[80]),
        refused(
            5,
            "1 Insufficient cpu, 1 Too many pods, 1 node(s) didn't have free ports for the requested pod ports, "
            "1 node(s) didn't match Pod's node affinity/selector, "
            "1 node(s) had untolerated taint(s), 1 node(s) were unschedulable",
            f"2 {NO_VICTIMS}, 3 {UNHELPFUL}",
        ),
        [there("one", "c", cpu="3"), there("two", "e", ports=[80])],
    ),
    Case(
        "no leave to preempt",
        THREE,
        pod("p", cpu="1", priorityClassName="meek", priority=5, preemptionPolicy="Never"),
        "0/3 nodes are available: 3 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never.",
        [priority_class("meek", 5, "Never"), *FULL],
    ),
    Case(
        "room that is reserved for a nominated pod",
        [node("a")],
        pod("p", cpu="2"),
        refused(1, "1 Insufficient cpu", f"1 {NO_VICTIMS}"),
        [reserving("nominee", "a", cpu="3")],
    ),
    Case(
        "a port that a nominated pod will take",
        [node("a")],
        pod("p", ports=[8080]),
        refused(1, "1 node(s) didn't have free ports for the requested pod ports", f"1 {NO_VICTIMS}"),
        [reserving("nominee", "a", ports=[8080])],
    ),
    Case(
        "company that is only nominated",
        [node("a")],
        pod("p", affinity=near("db")),
        refused(1, "1 node(s) didn't match pod affinity rules", f"1 {UNHELPFUL}"),
        [reserving("nominee", "a", labels=app("db"))],
    ),
    Case(
        "a claim that is not there",
        THREE,
        pod("p", claims=["data"]),
        '0/3 nodes are available: persistentvolumeclaim "data" not found. not found',
    ),
    Case(
        "a claim that should be bound by now",
        THREE,
        pod("p", claims=["data"]),
        "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
        [storage_class("now"), claim("data", "now")],
    ),
    Case(
        "a claim of a class that is not there",
        THREE,
        pod("p", claims=["data"]),
        "0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found",
        [claim("data", "absent")],
    ),
    Case(
        "a volume that only a full node reaches",
        THREE,
        pod("p", cpu="1", claims=["data"]),
        refused(
            3,
            "1 Insufficient cpu, 2 node(s) didn't match PersistentVolume's node affinity",
            f"1 {NO_VICTIMS}, 2 {UNHELPFUL}",
        ),
        [
            storage_class("now"),
            volume("v", "now", "data", on="a"),
            claim("data", "now", volume="v"),
            there("filler", "a", cpu="3500m"),
        ],
    ),
    Case(
        "a volume in another zone",
        THREE[:2],
        pod("p", claims=["data"]),
        refused(2, "2 node(s) had no available volume zone", f"2 {UNHELPFUL}"),
        [storage_class("now"), volume("v", "now", "data", zone="z"), claim("data", "now", volume="v")],
    ),
    Case(
        "a claim for one pod only",
        THREE[:2],
        pod("p", claims=["data"]),
        refused(
            2,
            "2 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode "
            "already in-use by another pod",
            f"2 {NO_VICTIMS}",
        ),
        [
            storage_class("now"),
            volume("v", "now", "data", mode="ReadWriteOncePod"),
            claim("data", "now", volume="v", mode="ReadWriteOncePod"),
            there("user", "a", claims=["data"]),
        ],
    ),
    Case(
        "more volumes than the node can attach",
        [node("a")],
        pod("p", claims=["two"]),
        refused(1, "1 node(s) exceed max volume count", f"1 {NO_VICTIMS}"),
        [
            attach_limit("a", 1),
            storage_class("now"),
            volume("v1", "now", "one"),
            claim("one", "now", volume="v1"),
            volume("v2", "now", "two"),
            claim("two", "now", volume="v2"),
            there("user", "a", claims=["one"]),
        ],
    ),
    Case(
        "a class that makes volumes elsewhere only",
        THREE,
        pod("p", claims=["data"]),
        refused(3, "3 node(s) didn't find available persistent volumes to bind", f"3 {UNHELPFUL}"),
        [
            storage_class(
                "far",
                waits=True,
                allowedTopologies=[{"matchLabelExpressions": [{"key": ZONE, "values": ["z"]}]}],
            ),
            claim("data", "far"),
        ],
    ),
    Case(
        "a class that makes no volumes",
        THREE,
        pod("p", claims=["data"]),
        refused(3, "3 node(s) didn't find available persistent volumes to bind", f"3 {UNHELPFUL}"),
        [storage_class("none", waits=True, provisioner="kubernetes.io/no-provisioner"), claim("data", "none")],
    ),
    Case(
        "a claim whose volume is being made for a full node",
        THREE,
        pod("p", cpu="1", claims=["data"]),
        refused(
            3,
            "1 Insufficient cpu, 2 node(s) didn't find available persistent volumes to bind",
            f"1 {NO_VICTIMS}, 2 {UNHELPFUL}",
        ),
        [storage_class("later", waits=True), claim("data", "later", selected="a"), there("filler", "a", cpu="3500m")],
    ),
]

OWNER = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "controller": True}

BOUND = [
    Case(
        "the emptiest node",
        THREE,
        pod("p"),
        "b",
        [there("one", "a", cpu="1"), there("two", "c", cpu="2", memory="2Gi")],
    ),
    Case(
        "the node that it makes more balanced",
        [node("a"), node("b")],
        pod("p", cpu="1", memory="512Mi"),
        "b",
        [there("one", "a", cpu="2", memory="1Gi"), there("two", "b", cpu="500m", memory="7Gi")],
    ),
    Case(
        "the node that it would rather be on, though it is fuller",
        THREE,
        pod("p", affinity=preferred((100, expression(HOSTNAME, "In", "b")))),
        "b",
        [there("one", "b", cpu="3", memory="10Gi")],
    ),
    Case(
        "the heavier of two wishes",
        THREE,
        pod(
            "p",
            affinity=preferred((60, expression(HOSTNAME, "In", "b")), (40, expression(HOSTNAME, "In", "c"))),
        ),
        "b",
        [there("one", "b", cpu="1")],
    ),
    Case(
        "a node that is not to be avoided",
        [node("a", taints=[taint("k", "PreferNoSchedule")]), node("b")],
        pod("p"),
        "b",
        [there("one", "b", cpu="3", memory="12Gi")],
    ),
    Case(
        "the node with fewer taints to be avoided",
        [
            node("a", taints=[taint("k", "PreferNoSchedule"), taint("l", "PreferNoSchedule")]),
            node("b", taints=[taint("k", "PreferNoSchedule")]),
        ],
        pod("p"),
        "b",
        [there("one", "b", cpu="3", memory="12Gi")],
    ),
    Case(
        "a taint that is tolerated",
        [node("a", taints=[taint("k", "PreferNoSchedule")]), node("b")],
        pod("p", tolerations=[{"key": "k", "operator": "Exists"}]),
        "a",
        [there("one", "b", cpu="1")],
    ),
    Case(
        "the zone with fewer of its kind",
        THREE,
        pod(
            "p", labels=app("web"), topologySpreadConstraints=[spread("web", ZONE, whenUnsatisfiable="ScheduleAnyway")]
        ),
        "c",
        [there("one", "a", labels=app("web")), there("other", "c", cpu="1500m", memory="1Gi")],
    ),
    Case(
        "company that it likes",
        THREE,
        pod("p", affinity=near("db", weight=50)),
        "b",
        [there("db", "b", cpu="1", labels=app("db"))],
    ),
    Case(
        "away from company that it dislikes",
        THREE,
        pod("p", affinity=away("db", ZONE, weight=50)),
        "c",
        [there("db", "b", labels=app("db")), there("other", "c", cpu="1")],
    ),
    Case(
        "company that likes it",
        THREE,
        pod("p", labels=app("web")),
        "b",
        [there("db", "b", cpu="1", affinity=near("web", weight=10))],
    ),
    Case(
        "away from company that dislikes it",
        [node("a"), node("b")],
        pod("p", labels=app("web")),
        "b",
        [there("db", "a", affinity=away("web", weight=10)), there("other", "b", cpu="1")],
    ),
    Case(
        "company that needs it",
        THREE,
        pod("p", labels=app("web")),
        "b",
        [there("db", "b", cpu="1", labels=app("web"), affinity=near("web"))],
    ),
    Case(
        "away from the replicas of its own StatefulSet",
        THREE,
        pod("p", labels=app("web"), owner=OWNER),
        "b",
        [
            stateful_set("web"),
            there("one", "a", labels=app("web"), owner=OWNER),
            there("two", "c", labels=app("web"), owner=OWNER),
            there("other", "b", cpu="1"),
        ],
    ),
    Case(
        "away from those that serve the same",
        [node("a"), node("b")],
        pod("p", labels=app("web")),
        "b",
        [service("web"), there("one", "a", labels=app("web")), there("other", "b", cpu="1")],
    ),
    Case(
        "room that a modest pod finds beside a nominated one",
        [node("a")],
        pod("p", cpu="500m"),
        "a",
        [reserving("nominee", "a", cpu="3")],
    ),
    Case(
        "a node although a nominated pod keeps away from it",
        [node("a")],
        pod("p", labels=app("web")),
        "a",
        [reserving("nominee", "a", affinity=away("web"))],
    ),
    Case(
        "another node than the one that is reserved",
        [node("a"), node("b")],
        pod("p", cpu="2"),
        "b",
        [reserving("nominee", "a", cpu="3"), there("other", "b", cpu="1")],
    ),
    Case(
        "reserved room, because it ranks higher",
        [node("a")],
        pod("p", cpu="3", priorityClassName="system-cluster-critical", priority=2000000000),
        "a",
        [reserving("nominee", "a", cpu="3")],
    ),
    Case(
        "the node with fewer pods that ask for nothing",
        [node("a"), node("b")],
        pod("p", cpu="", memory=""),
        "b",
        [there(f"idle-{n}", "a", cpu="", memory="") for n in range(3)],
    ),
    Case(
        "a cordoned node, by toleration",
        [node("a", unschedulable=True)],
        pod("p", tolerations=[{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}]),
        "a",
    ),
    Case(
        "the node that its volume is on",
        THREE,
        pod("p", claims=["data"]),
        "c",
        [
            storage_class("now"),
            volume("v", "now", "data", on="c"),
            claim("data", "now", volume="v"),
            there("other", "c", cpu="1"),
        ],
    ),
    Case(
        "near its own kind, as the first of it",
        [node("a"), node("b")],
        pod("p", labels=app("web"), affinity=near("web")),
        "b",
        [there("other", "a", cpu="1")],
    ),
    Case(
        "an even spread",
        THREE,
        pod("p", labels=app("web"), topologySpreadConstraints=[spread("web", ZONE)]),
        "c",
        [there("one", "a", labels=app("web"))],
    ),
]
