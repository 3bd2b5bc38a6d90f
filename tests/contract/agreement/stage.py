"""Puts a world on a real cluster, waits until everything has settled, and clears it away.

Fates are carried out once the pods run: `terminating` is being deleted and doesn't end, `Succeeded` and `Failed` have
ended, `pending` is bound but never starts, `nominated` stays gated and has a nomination, `resized` holds more than it
asks.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from rescheduler.model.json import Json
from tests.contract.agreement.world import FATE, World, name_of, namespace_of
from tests.testbed.api import Api, ApiError
from tests.testbed.cluster import ControlPlane
from tests.testbed.hollow import is_ready
from tests.testbed.processes import until

GATE = {"name": "agreement.test/wait"}
UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
PATHS = {
    "Namespace": "/api/v1/namespaces",
    "Node": "/api/v1/nodes",
    "PersistentVolume": "/api/v1/persistentvolumes",
    "PersistentVolumeClaim": "/api/v1/namespaces/{}/persistentvolumeclaims",
    "Pod": "/api/v1/namespaces/{}/pods",
    "RuntimeClass": "/apis/node.k8s.io/v1/runtimeclasses",
    "StorageClass": "/apis/storage.k8s.io/v1/storageclasses",
    "VolumeAttachment": "/apis/storage.k8s.io/v1/volumeattachments",
    "CSINode": "/apis/storage.k8s.io/v1/csinodes",
}
CLEARED = ("VolumeAttachment", "Node", "CSINode", "PersistentVolume", "StorageClass", "RuntimeClass", "Namespace")
_FOREVER = "3600"


def path_of(made: Json) -> str:
    """Where objects of this kind and namespace are."""
    path = PATHS[made["kind"]]
    return path.format(namespace_of(made)) if "{}" in path else path


@contextmanager
def staged(control_plane: ControlPlane, world: World) -> Iterator[None]:
    """The world is there and at rest, its candidates gated; afterwards it is gone."""
    api = control_plane.api
    try:
        _make(api, world)
        yield
    finally:
        _clear(api, world)


def _make(api: Api, world: World) -> None:
    until(f"an earlier {world.name} is gone", lambda: _gone(api, world, "Namespace", "PersistentVolume"), seconds=240)
    for made in world.of_kind("Namespace", "RuntimeClass", "Node", "CSINode", "StorageClass", "VolumeAttachment"):
        api.post(path_of(made), made)
    # Without its service account the API server refuses every pod of a namespace.
    accounts = [f"/api/v1/namespaces/{namespace}/serviceaccounts" for namespace in world.namespaces]
    until("namespaces have accounts", lambda: all(_items(api, path) for path in accounts))
    for made in world.of_kind("PersistentVolume", "PersistentVolumeClaim"):
        api.post(path_of(made), made)
    until("nodes have settled", lambda: _nodes_settled(api, world))
    for made in world.of_kind("Pod"):
        api.post(path_of(made), _as_fated(made))
    until("claims are bound", lambda: _claims_settled(api, world))
    until("pods run", lambda: _pods_settled(api, world))
    for made in world.of_kind("Pod"):
        _carry_out(api, made)
    for claim in _leaving(world):
        api.delete(f"{path_of(claim)}/{name_of(claim)}")
    for candidate in world.candidates:
        gated = copy.deepcopy(candidate)
        gated["spec"]["schedulingGates"] = [GATE]
        api.post(path_of(gated), gated)


def _nodes_settled(api: Api, world: World) -> bool:
    mine = [node for node in _items(api, PATHS["Node"]) if name_of(node) in world.nodes]
    return all(is_ready(node) and _cordoned(node) == _tainted(node) for node in mine)


def _cordoned(node: Json) -> bool:
    return bool(node["spec"].get("unschedulable"))


def _tainted(node: Json) -> bool:
    return UNSCHEDULABLE in [taint["key"] for taint in node["spec"].get("taints", ())]


def _claims_settled(api: Api, world: World) -> bool:
    """Each claim that a volume waits for is bound; a claim whose volume is not there is lost."""
    waited = {
        (volume["spec"]["claimRef"]["namespace"], volume["spec"]["claimRef"]["name"])
        for volume in world.of_kind("PersistentVolume")
        if "claimRef" in volume["spec"]
    }
    mine = [c for namespace in world.namespaces for c in _items(api, PATHS["PersistentVolumeClaim"].format(namespace))]
    return all(c["status"].get("phase") == "Bound" for c in mine if (namespace_of(c), name_of(c)) in waited)


def _items(api: Api, path: str) -> list[Json]:
    found: list[Json] = api.get(path)["items"]
    return found


def _pods_settled(api: Api, world: World) -> bool:
    waits = {(namespace_of(p), name_of(p)) for p in world.of_kind("Pod") if _fate(p) not in ("pending", "nominated")}
    found = [pod for namespace in world.namespaces for pod in _items(api, PATHS["Pod"].format(namespace))]
    running = {(namespace_of(p), name_of(p)) for p in found if p["status"]["phase"] == "Running"}
    return waits <= running


def _leaving(world: World) -> list[Json]:
    """Claims that are deleted and stay, because a finalizer holds them."""
    return [claim for claim in world.of_kind("PersistentVolumeClaim") if "finalizers" in claim["metadata"]]


def _fate(pod: Json) -> str:
    return str(pod["metadata"]["annotations"].get(FATE, "")).partition(" ")[0]


def _as_fated(pod: Json) -> Json:
    made = copy.deepcopy(pod)
    paces = {"pending": "starts-in", "terminating": "ends-in"}
    if _fate(pod) in paces:
        made["metadata"]["annotations"][f"simulate.rescheduler.io/{paces[_fate(pod)]}"] = _FOREVER
    return made


def _carry_out(api: Api, pod: Json) -> None:
    where = f"{path_of(pod)}/{name_of(pod)}"
    match _fate(pod):
        case "terminating":
            api.delete(where, {"gracePeriodSeconds": int(_FOREVER)})
        case "Succeeded" | "Failed" as phase:
            api.patch(f"{where}/status", {"status": {"phase": phase}})
        case "nominated":
            node = pod["metadata"]["annotations"][FATE].partition(" ")[2]
            api.patch(f"{where}/status", {"status": {"nominatedNodeName": node}})
        case "resized":
            statuses = api.get(where)["status"]["containerStatuses"]
            statuses[0]["resources"] = {"requests": {"cpu": "700m", "memory": "300Mi"}}
            statuses[0]["allocatedResources"] = {"cpu": "600m", "memory": "400Mi"}
            api.patch(f"{where}/status", {"status": {"containerStatuses": statuses}})


def _clear(api: Api, world: World) -> None:
    at_once = {"gracePeriodSeconds": 0}
    for claim in _leaving(world):
        with suppress(ApiError):
            api.patch(f"{path_of(claim)}/{name_of(claim)}", {"metadata": {"finalizers": None}})
    for namespace in world.namespaces:
        with suppress(ApiError):
            api.delete(PATHS["Pod"].format(namespace), at_once)
            api.delete(PATHS["PersistentVolumeClaim"].format(namespace))
    for kind in CLEARED:
        for made in world.of_kind(kind):
            with suppress(ApiError):
                api.delete(f"{PATHS[kind]}/{name_of(made)}")

    def cleared() -> bool:
        """Pods and nodes of one world would count in the next; what else there is may go meanwhile."""
        pods = any(_items(api, PATHS["Pod"].format(namespace)) for namespace in world.namespaces)
        return not pods and _gone(api, world, "Node")

    until(f"world {world.name} is cleared away", cleared)


def _gone(api: Api, world: World, *kinds: str) -> bool:
    return all(
        not {name_of(found) for found in _items(api, PATHS[kind])} & {name_of(made) for made in world.of_kind(kind)}
        for kind in kinds
    )
