"""Which volume suits which claim, and what a new volume for a claim looks like. Pure; `volumes` does what it says.

A volume suits if it is free, or kept for this very claim, and its class, size, modes, labels and node affinity are
what the claim asks for; of several the smallest is taken.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction

from kubemini.controllers.selectors import label_selector, node_terms, terms_match
from kubemini.refusals import Json
from rescheduler.model.quantity import parse_quantity
from rescheduler.model.selector import Labels

PROVISIONER = "embedded.rescheduler.io"
"""The provisioner of storage classes whose volumes this cluster makes; it is also the name of their driver."""


def is_for(volume: Json, claim: Json) -> bool:
    """Whether a volume is bound to a claim, or kept for it by name."""
    reference = volume["spec"].get("claimRef") or {}
    metadata = claim["metadata"]
    named = (reference.get("namespace"), reference.get("name")) == (metadata["namespace"], metadata["name"])
    return named and reference.get("uid") in (None, "", metadata["uid"])


def class_of(spec: Json) -> str:
    """The storage class of a claim or a volume; none is the empty text."""
    return spec.get("storageClassName") or ""


def objection(volume: Json, claim: Json) -> str:
    """Why a volume that the claim asks for by name cannot be had; empty if it can."""
    spec, wanted = volume["spec"], claim["spec"]
    if _size(spec) < _asked(wanted):
        return "requested PV is too small"
    if class_of(spec) != class_of(wanted):
        return "storageClassName does not match"
    if _mode(spec) != _mode(wanted):
        return "incompatible volumeMode"
    if not set(wanted.get("accessModes") or ()) <= set(spec.get("accessModes") or ()):
        return "incompatible accessMode"
    return ""


def best(volumes: Iterable[Json], claim: Json, node: tuple[Labels, str] | None) -> Json | None:
    """The volume to bind: one that is kept for the claim, else the smallest that suits it and the node."""
    selector = label_selector(claim["spec"].get("selector"))
    suitable: list[tuple[Fraction, str, Json]] = []
    for volume in volumes:
        metadata = volume["metadata"]
        if "deletionTimestamp" in metadata or (volume["spec"].get("claimRef") and not is_for(volume, claim)):
            continue
        if objection(volume, claim) or not _is_on(volume, node):
            continue
        if is_for(volume, claim):
            return volume
        if selector is None or selector.matches(metadata.get("labels") or {}):
            suitable.append((_size(volume["spec"]), metadata["name"], volume))
    return min(suitable, key=lambda each: each[:2])[2] if suitable else None


def provisioned(claim: Json, storage_class: Json, node: Json | None) -> Json:
    """A new volume that is what the claim asks for; where the class speaks of topology, it is tied to the node's."""
    metadata, spec = claim["metadata"], claim["spec"]
    name = f"pvc-{metadata['uid']}"
    volume: Json = {
        "metadata": {"name": name, "annotations": {"pv.kubernetes.io/provisioned-by": storage_class["provisioner"]}},
        "spec": {
            "accessModes": spec.get("accessModes") or [],
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "claimRef": reference_to(claim),
            "csi": {"driver": storage_class["provisioner"], "volumeHandle": name},
            "persistentVolumeReclaimPolicy": storage_class.get("reclaimPolicy") or "Delete",
            "storageClassName": storage_class["metadata"]["name"],
            "volumeMode": _mode(spec),
        },
    }
    if terms := _topology(storage_class.get("allowedTopologies") or (), node):
        volume["spec"]["nodeAffinity"] = {"required": {"nodeSelectorTerms": terms}}
    return volume


def reference_to(claim: Json) -> Json:
    """How a volume names its claim."""
    metadata = claim["metadata"]
    same = {key: metadata[key] for key in ("namespace", "name", "uid", "resourceVersion")}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim"} | same


def _topology(allowed: Iterable[Json], node: Json | None) -> list[Json]:
    terms = [term.get("matchLabelExpressions") or [] for term in allowed]
    if node is None:
        return [{"matchExpressions": [_one_of(rule["key"], rule["values"]) for rule in rules]} for rules in terms]
    labels = node["metadata"].get("labels") or {}
    for rules in terms:
        if all(labels.get(rule["key"]) in rule["values"] for rule in rules):
            return [{"matchExpressions": [_one_of(rule["key"], [labels[rule["key"]]]) for rule in rules]}]
    return []


def _one_of(key: str, values: list[str]) -> Json:
    return {"key": key, "operator": "In", "values": values}


def _is_on(volume: Json, node: tuple[Labels, str] | None) -> bool:
    terms = node_terms((volume["spec"].get("nodeAffinity") or {}).get("required"))
    return node is None or terms_match(terms, *node)


def _size(spec: Json) -> Fraction:
    return parse_quantity((spec.get("capacity") or {}).get("storage", 0))


def _asked(spec: Json) -> Fraction:
    return parse_quantity(((spec.get("resources") or {}).get("requests") or {}).get("storage", 0))


def _mode(spec: Json) -> str:
    return spec.get("volumeMode") or "Filesystem"
