"""The rules for storage: claims, volumes, classes, and what drivers say of nodes."""

from __future__ import annotations

import copy
from collections.abc import Iterator

from kubemini import clock
from kubemini.refusals import Fault, Json
from kubemini.rules import names
from kubemini.rules.claim_spec import (
    VOLUME_MODES,
    access_mode_faults,
    claim_spec_faults,
    default_claim_spec,
)
from kubemini.rules.faults import (
    IMMUTABLE,
    changed,
    duplicate,
    each_wrong,
    not_allowed,
    required,
    unsupported,
    wrong,
)
from kubemini.rules.quantities import amount
from kubemini.rules.selectors import node_selector_faults
from kubemini.rules.typed import TypedRules
from kubemini.rules.volumes import backstep_faults, driver_faults, host_path_faults, nfs_faults

_RECLAIM = ("Delete", "Recycle", "Retain")
_NOT_BETA_ANY_MORE = {
    "failure-domain.beta.kubernetes.io/zone": "topology.kubernetes.io/zone",
    "failure-domain.beta.kubernetes.io/region": "topology.kubernetes.io/region",
    "beta.kubernetes.io/os": "kubernetes.io/os",
    "beta.kubernetes.io/arch": "kubernetes.io/arch",
    "beta.kubernetes.io/instance-type": "node.kubernetes.io/instance-type",
}
_BINDING = ("Immediate", "WaitForFirstConsumer")
# Everything in the spec of a volume that is not its source.
_NOT_A_SOURCE = frozenset(
    (
        "capacity", "accessModes", "claimRef", "persistentVolumeReclaimPolicy", "storageClassName", "mountOptions",
        "volumeMode", "nodeAffinity", "volumeAttributesClassName",
    )
)  # fmt: skip


class ClaimRules(TypedRules):
    """What holds for PersistentVolumeClaims."""

    def default(self, body: Json) -> None:
        """Fill in what is open."""
        default_claim_spec(body["spec"])
        body["status"].setdefault("phase", "Pending")

    def faults(self, body: Json, before: Json | None, subresource: str) -> list[Fault]:
        """What is wrong with a claim: once made, it may be bound once and grow, and no more."""
        if before is not None and subresource == "status":
            return []
        spec = body["spec"]
        found = list(claim_spec_faults("spec", spec))
        if before is not None:
            found += _claim_update_faults(spec, before)
        return found


class VolumeRules(TypedRules):
    """What holds for PersistentVolumes."""

    def default(self, body: Json) -> None:
        """Fill in what is open; a new volume waits for its controller to look at it."""
        spec, status = body["spec"], body["status"]
        spec.setdefault("persistentVolumeReclaimPolicy", "Retain")
        spec.setdefault("volumeMode", "Filesystem")
        if "hostPath" in spec:
            spec["hostPath"].setdefault("type", "")
        status.setdefault("phase", "Pending")
        if "resourceVersion" not in body["metadata"]:
            status.setdefault("lastPhaseTransitionTime", clock.stamp(clock.now()))

    def prepare_update(self, body: Json, before: Json, subresource: str) -> None:
        """When the phase changes, that is when it has changed."""
        super().prepare_update(body, before, subresource)
        if subresource != "status":
            return
        status, old, key = body["status"], before["status"], "lastPhaseTransitionTime"
        if status.get("phase") == old.get("phase"):
            if key in old:
                status.setdefault(key, old[key])
        elif status.get(key) in (None, old.get(key)):
            status[key] = clock.stamp(clock.now())

    def faults(self, body: Json, before: Json | None, subresource: str) -> list[Fault]:
        """What is wrong with a volume."""
        if before is not None and subresource == "status":
            return []
        spec = body["spec"]
        found = list(_volume_faults(spec))
        if before is not None:
            old = before["spec"]
            if _source(spec) != _source(old):
                why = "spec.persistentvolumesource is immutable after creation"
                found.append(not_allowed("spec.persistentvolumesource", why))
            found += changed("volumeMode", spec["volumeMode"], old["volumeMode"])
            nodes = spec.get("nodeAffinity")
            if "nodeAffinity" in old and _renamed(old["nodeAffinity"], nodes) != nodes:
                found.append(wrong("nodeAffinity", nodes, f"{IMMUTABLE}, except for updating from beta label to GA"))
        return found


class StorageClassRules(TypedRules):
    """What holds for StorageClasses."""

    def default(self, body: Json) -> None:
        """Fill in what is open."""
        body.setdefault("reclaimPolicy", "Delete")
        body.setdefault("volumeBindingMode", "Immediate")

    def faults(self, body: Json, before: Json | None, subresource: str) -> list[Fault]:
        """What is wrong with a class."""
        found = list(_class_faults(body))
        if before is not None:
            for key in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
                found += changed(key, body.get(key), before.get(key))
        return found


class CSINodeRules(TypedRules):
    """What holds for CSINodes."""

    def faults(self, body: Json, before: Json | None, subresource: str) -> list[Fault]:
        """What is wrong with what drivers say of a node."""
        found = list(_driver_faults(body["spec"]["drivers"] or []))
        old = {each["name"]: each for each in before["spec"]["drivers"] or ()} if before else {}
        for driver in body["spec"]["drivers"] or ():
            was = old.get(driver["name"], driver)
            if {**driver, "allocatable": None} != {**was, "allocatable": None}:
                found += changed("spec.drivers", driver, was)
        return found


def _claim_update_faults(spec: Json, before: Json) -> Iterator[Fault]:
    old, bound = before["spec"], before["status"].get("phase") == "Bound"
    was = dict(old)
    if not old.get("volumeName"):
        was["volumeName"] = spec.get("volumeName", "")
    if "storageClassName" not in old and "storageClassName" in spec:
        was["storageClassName"] = spec["storageClassName"]
    if bound:
        for key in ("resources", "volumeAttributesClassName"):
            was[key] = spec.get(key)
    if {key: value for key, value in was.items() if value} != {key: value for key, value in spec.items() if value}:
        why = (
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims"
        )
        yield not_allowed("spec", why)
    size, earlier = spec["resources"].get("requests", {}).get("storage", "0"), old["resources"]["requests"]["storage"]
    there = before["status"].get("capacity", {}).get("storage", "0")
    if amount(size) < amount(earlier) and amount(size) <= amount(there):
        yield not_allowed("spec.resources.requests.storage", "field can not be less than status.capacity")
    yield from changed("volumeMode", spec["volumeMode"], old["volumeMode"])


def _volume_faults(spec: Json) -> Iterator[Fault]:
    if not spec.get("accessModes"):
        yield required("spec.accessModes")
    yield from access_mode_faults("spec.accessModes", spec.get("accessModes", ()))
    capacity = spec.get("capacity", {})
    if not capacity:
        yield required("spec.capacity")
    if set(capacity) != {"storage"}:
        yield unsupported("spec.capacity", capacity, ("storage",))
    for name, quantity in capacity.items():
        if amount(quantity) <= 0:
            yield wrong(f"spec.capacity[{name}]", quantity, "must be greater than zero")
    if spec["persistentVolumeReclaimPolicy"] not in _RECLAIM:
        yield unsupported("spec.persistentVolumeReclaimPolicy", spec["persistentVolumeReclaimPolicy"], _RECLAIM)
    nodes = (spec.get("nodeAffinity") or {}).get("required")
    if nodes is not None:
        yield from node_selector_faults("spec.nodeAffinity.required", nodes)
    elif "nodeAffinity" in spec:
        yield required("spec.nodeAffinity.required", "must specify required node constraints")
    yield from _source_faults(spec)
    if name := spec.get("storageClassName"):
        yield from each_wrong("spec.storageClassName", name, names.subdomain(name))
    if spec["volumeMode"] not in VOLUME_MODES:
        yield unsupported("spec.volumeMode", spec["volumeMode"], VOLUME_MODES)


def _source_faults(spec: Json) -> Iterator[Fault]:
    sources = list(_source(spec))
    if not sources:
        yield required("spec", "must specify a volume type")
        return
    for more in sources[1:]:
        yield not_allowed(f"spec.{more}", "may not specify more than 1 volume type")
    sort = sources[0]
    path, source = f"spec.{sort}", spec[sort]
    match sort:
        case "hostPath":
            yield from host_path_faults(path, source)
        case "nfs":
            yield from nfs_faults(path, source)
        case "local":
            if not source["path"]:
                yield required(f"{path}.path")
            else:
                yield from backstep_faults(f"{path}.path", source["path"])
            if "required" not in (spec.get("nodeAffinity") or {}):
                yield required("spec.nodeAffinity", "Local volume requires node affinity")
        case "csi":
            yield from driver_faults(f"{path}.driver", source["driver"])
            if not source["volumeHandle"]:
                yield required(f"{path}.volumeHandle")
        case _:
            return


def _renamed(old: Json, new: Json | None) -> Json:
    """An old node affinity whose beta labels are called as in the new one: that much of it may change."""
    old = copy.deepcopy(old)
    was, now = (((each or {}).get("required") or {}).get("nodeSelectorTerms") or [] for each in (old, new))
    for old_term, new_term in zip(was, now, strict=False):
        pairs = zip(old_term.get("matchExpressions", ()), new_term.get("matchExpressions", ()), strict=False)
        for before, after in pairs:
            if _NOT_BETA_ANY_MORE.get(before["key"], "") == after["key"]:
                before["key"] = after["key"]
    return old


def _source(spec: Json) -> Json:
    return {key: value for key, value in spec.items() if key not in _NOT_A_SOURCE}


def _class_faults(body: Json) -> Iterator[Fault]:
    provisioner = body["provisioner"]
    if not provisioner:
        yield required("provisioner")
    else:
        yield from each_wrong("provisioner", provisioner.lower(), names.label_key(provisioner.lower()))
    if body["reclaimPolicy"] not in ("Delete", "Retain", ""):
        yield unsupported("reclaimPolicy", body["reclaimPolicy"], ("Delete", "Retain"))
    if body["volumeBindingMode"] not in _BINDING:
        yield unsupported("volumeBindingMode", body["volumeBindingMode"], _BINDING)
    for number, term in enumerate(body.get("allowedTopologies", ())):
        seen: set[str] = set()
        for index, each in enumerate(term.get("matchLabelExpressions", ())):
            at = f"allowedTopologies[{number}].matchLabelExpressions[{index}]"
            if not each["values"]:
                yield required(f"{at}.values")
            for place, value in enumerate(each["values"] or ()):
                if value in each["values"][:place]:
                    yield duplicate(f"{at}.values[{place}]", value)
            yield from each_wrong(f"{at}.key", each["key"], names.label_key(each["key"]))
            if each["key"] in seen:
                yield duplicate(f"{at}.key", each["key"])
            seen.add(each["key"])


def _driver_faults(drivers: list[Json]) -> Iterator[Fault]:
    seen: set[str] = set()
    for number, driver in enumerate(drivers):
        at = f"spec.drivers[{number}]"
        yield from driver_faults(f"{at}.name", driver["name"])
        if not driver["nodeID"]:
            yield required(f"{at}.nodeID")
        if len(driver["nodeID"]) > 256:
            yield wrong(f"{at}.nodeID", driver["nodeID"], "must be 256 characters or less")
        count = (driver.get("allocatable") or {}).get("count")
        if count is not None and count < 0:
            yield wrong(f"{at}.allocatable.count", count, "must be greater than or equal to 0")
        if driver["name"] in seen:
            yield duplicate(f"{at}.name", driver["name"])
        seen.add(driver["name"])
        for index, key in enumerate(driver["topologyKeys"] or ()):
            if not key:
                yield required(at)
            if key in driver["topologyKeys"][:index]:
                yield duplicate(at, key)
            yield from each_wrong(at, key, names.label_key(key))
