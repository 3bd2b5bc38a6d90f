"""Corners: worlds made by hand, each as small as a question can be, which dice hit seldom or never.

Each is a function from a world's name and its two nodes to objects and one candidate; `test_corners` asks both sides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from rescheduler.model.json import Json
from tests.contract.agreement import nodes
from tests.contract.agreement.nodes import DRIVERS
from tests.contract.agreement.storage import SELECTED_NODE, STAYS
from tests.contract.agreement.world import FATE, HOLD, HOSTNAME, World
from tests.testbed.hollow import NodeShape, node

Corner = Callable[[str, Sequence[str]], tuple[list[Json], Json]]
WEB, DB = {"role": "web"}, {"role": "db"}


def corner_world(name: str, corner: Corner, version: str) -> World:
    """The corner on two nodes of different zones."""
    hosts = [node(f"{name}-n{number}", number, NodeShape(), version) for number in range(2)]
    objects, candidate = corner(name, [host["metadata"]["name"] for host in hosts])
    return World(name, [*nodes.namespaces(name), *hosts, *objects], [candidate])


def pod(world: str, name: str, labels: dict[str, str] | None = None, **spec: object) -> Json:
    metadata = {"name": name, "namespace": f"{world}-ns0", "labels": labels or {}, "annotations": {}}
    containers = [{"name": "main", "image": "hollow:1"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": containers, **spec}}


def nominated(world: str, name: str, labels: dict[str, str], host: str) -> Json:
    made = pod(world, name, labels, schedulingGates=[{"name": "agreement.test/stays-pending"}])
    made["metadata"]["annotations"][FATE] = f"nominated {host}"
    return made


def claimant(world: str, name: str, claim: str = "mine", **spec: object) -> Json:
    return pod(world, name, None, volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": claim}}], **spec)


def claim(world: str, name: str = "mine", **spec: object) -> Json:
    asked = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}, "storageClassName": ""}
    metadata = {"namespace": f"{world}-ns0", "name": name}
    kind = "PersistentVolumeClaim"
    return {"apiVersion": "v1", "kind": kind, "metadata": metadata, "spec": {**asked, **spec}}


def volume(world: str, of_claim: str = "mine") -> Json:
    name = f"{world}-of-{of_claim}"
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": "",
        "claimRef": {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "namespace": f"{world}-ns0",
            "name": of_claim,
        },
        "csi": {"driver": DRIVERS[0], "volumeHandle": name},
    }
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def a_port_is_taken_on_the_first_node(world: str, hosts: Sequence[str]) -> tuple[list[Json], Json]:
    ports = [{"containerPort": 8080, "hostPort": 8080}]
    holder, candidate = pod(world, "p0", nodeName=hosts[0]), pod(world, "c0")
    for each in (holder, candidate):
        each["spec"]["containers"][0]["ports"] = ports
    return [holder], candidate


def a_claim_names_a_volume_that_is_another_claims(world: str, hosts: Sequence[str]) -> tuple[list[Json], Json]:
    other = volume(world, "other")
    return [other, claim(world, volumeName=other["metadata"]["name"])], claimant(world, "c0")


def a_claim_in_use_is_being_deleted(world: str, hosts: Sequence[str]) -> tuple[list[Json], Json]:
    behind = volume(world)
    leaving = claim(world, volumeName=behind["metadata"]["name"])
    leaving["metadata"]["finalizers"] = [STAYS]
    return [behind, leaving, claimant(world, "p0", nodeName=hosts[0])], claimant(world, "c0")


def a_waiting_claims_volume_is_being_made_for_the_first_node(
    world: str, hosts: Sequence[str]
) -> tuple[list[Json], Json]:
    storage_class = {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "StorageClass",
        "metadata": {"name": world},
        "provisioner": DRIVERS[0],
        "volumeBindingMode": "WaitForFirstConsumer",
    }
    waiting = claim(world, storageClassName=world)
    waiting["metadata"]["annotations"] = {SELECTED_NODE: hosts[0]}
    candidate = claimant(world, "c0")
    candidate["metadata"]["annotations"][HOLD] = "true"
    return [storage_class, waiting], candidate


def the_pod_that_it_must_be_near_to_is_only_nominated(world: str, hosts: Sequence[str]) -> tuple[list[Json], Json]:
    term = {"topologyKey": HOSTNAME, "labelSelector": {"matchLabels": DB}}
    near = {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return [nominated(world, "p0", DB, hosts[0])], pod(world, "c0", WEB, affinity=near)


def spread_would_be_even_with_a_pod_that_is_only_nominated(world: str, hosts: Sequence[str]) -> tuple[list[Json], Json]:
    even = {"maxSkew": 1, "topologyKey": HOSTNAME, "whenUnsatisfiable": "DoNotSchedule"}
    constraints = [{**even, "labelSelector": {"matchLabels": WEB}}]
    there = [pod(world, "p0", WEB, nodeName=hosts[0]), nominated(world, "p1", WEB, hosts[1])]
    return there, pod(world, "c0", WEB, topologySpreadConstraints=constraints)


CORNERS: tuple[Corner, ...] = (
    a_port_is_taken_on_the_first_node,
    a_claim_names_a_volume_that_is_another_claims,
    a_claim_in_use_is_being_deleted,
    a_waiting_claims_volume_is_being_made_for_the_first_node,
    the_pod_that_it_must_be_near_to_is_only_nominated,
    spread_would_be_even_with_a_pod_that_is_only_nominated,
)
