"""The columns of storage: volumes, claims, storage classes and what drivers a node has."""

from __future__ import annotations

from collections.abc import Iterable

from kubemini.refusals import Json
from kubemini.server.columns import (
    AGE,
    NAME,
    UNSET,
    Cells,
    Printer,
    Row,
    age_of,
    dig,
    is_deleting,
    name_of,
    numbers,
    texts,
    wide,
)

_MODES = {"ReadWriteOnce": "RWO", "ReadOnlyMany": "ROX", "ReadWriteMany": "RWX", "ReadWriteOncePod": "RWOP"}
_BETA_CLASS = "volume.beta.kubernetes.io/storage-class"
_DEFAULT_CLASSES = ("storageclass.kubernetes.io/is-default-class", "storageclass.beta.kubernetes.io/is-default-class")


def _modes(modes: Iterable[str] | None) -> str:
    given = set(modes or ())
    return ",".join(short for mode, short in _MODES.items() if mode in given)


def _class(body: Json) -> str:
    annotated = (dig(body, "metadata", "annotations") or {}).get(_BETA_CLASS)
    return annotated or dig(body, "spec", "storageClassName") or ""


def _phase(body: Json) -> str:
    return "Terminating" if is_deleting(body) else dig(body, "status", "phase") or ""


def _or_unset(value: str | None) -> str:
    return UNSET if value is None else value


def _volume(body: Json) -> Cells:
    spec = body.get("spec") or {}
    claim = spec.get("claimRef")
    return [
        name_of(body),
        dig(spec, "capacity", "storage") or "0",
        _modes(spec.get("accessModes")),
        spec.get("persistentVolumeReclaimPolicy", ""),
        _phase(body),
        f"{claim.get('namespace', '')}/{claim.get('name', '')}" if claim else "",
        _class(body),
        _or_unset(spec.get("volumeAttributesClassName")),
        dig(body, "status", "reason") or "",
        age_of(body),
        _or_unset(spec.get("volumeMode")),
    ]


def _claim(body: Json) -> Cells:
    spec, status = body.get("spec") or {}, body.get("status") or {}
    volume = spec.get("volumeName") or ""
    return [
        name_of(body),
        _phase(body),
        volume,
        (dig(status, "capacity", "storage") or "0") if volume else "",
        _modes(status.get("accessModes")) if volume else "",
        _class(body),
        _or_unset(spec.get("volumeAttributesClassName")),
        age_of(body),
        _or_unset(spec.get("volumeMode")),
    ]


def _storage_class(body: Json) -> Cells:
    return [
        name_of(body),
        body.get("provisioner", ""),
        body.get("reclaimPolicy") or "Delete",
        body.get("volumeBindingMode") or "Immediate",
        bool(body.get("allowVolumeExpansion")),
        age_of(body),
    ]


def _storage_class_among(bodies: Iterable[Json]) -> Row:
    """Of several default classes the newest counts; of those, the first by name."""
    defaults = [each for each in bodies if _is_default(each)]
    newest = max((each["metadata"]["creationTimestamp"] for each in defaults), default="")
    names = [name_of(each) for each in defaults if each["metadata"]["creationTimestamp"] == newest]
    default = min(names, default="")

    def row(body: Json) -> Cells:
        name, *rest = _storage_class(body)
        return [f"{name} (default)" if default and name == default else name, *rest]

    return row


def _is_default(body: Json) -> bool:
    annotations = dig(body, "metadata", "annotations") or {}
    return any(annotations.get(each) == "true" for each in _DEFAULT_CLASSES)


def _csi_node(body: Json) -> Cells:
    return [name_of(body), len(dig(body, "spec", "drivers") or ()), age_of(body)]


VOLUMES = Printer(
    [
        NAME,
        *texts("Capacity", "Access Modes", "Reclaim Policy", "Status", "Claim"),
        *texts("StorageClass", "VolumeAttributesClass", "Reason"),
        AGE,
        *wide("VolumeMode"),
    ],
    _volume,
)
CLAIMS = Printer(
    [
        NAME,
        *texts("Status", "Volume", "Capacity", "Access Modes", "StorageClass", "VolumeAttributesClass"),
        AGE,
        *wide("VolumeMode"),
    ],
    _claim,
)
STORAGE_CLASSES = Printer(
    [NAME, *texts("Provisioner", "ReclaimPolicy", "VolumeBindingMode", "AllowVolumeExpansion"), AGE],
    _storage_class,
    among=_storage_class_among,
)
CSI_NODES = Printer([NAME, *numbers("Drivers"), AGE], _csi_node)
