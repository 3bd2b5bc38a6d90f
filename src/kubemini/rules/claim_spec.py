"""What a PersistentVolumeClaim asks for: what is filled in, and what must hold.

Claims, the claim templates of StatefulSets and the ephemeral volumes of pods share it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kubemini.refusals import Fault, Json
from kubemini.rules import names
from kubemini.rules.faults import each_wrong, not_allowed, required, unsupported, wrong
from kubemini.rules.quantities import amount
from kubemini.rules.selectors import selector_faults

ACCESS_MODES = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
VOLUME_MODES = ("Block", "Filesystem")


def default_claim_spec(spec: Json) -> None:
    """Fill in what a claim leaves open; a source of data counts the same in its old and its new field."""
    spec.setdefault("volumeMode", "Filesystem")
    if "dataSource" in spec and "dataSourceRef" not in spec:
        spec["dataSourceRef"] = dict(spec["dataSource"])
    elif "dataSourceRef" in spec and "dataSource" not in spec:
        spec["dataSource"] = dict(spec["dataSourceRef"])


def claim_spec_faults(path: str, spec: Json) -> Iterator[Fault]:
    """What is wrong with a claim."""
    if not spec.get("accessModes"):
        yield required(f"{path}.accessModes", "at least 1 access mode is required")
    yield from selector_faults(f"{path}.selector", spec.get("selector"))
    yield from access_mode_faults(f"{path}.accessModes", spec.get("accessModes", ()))
    at = f"{path}.resources[storage]"
    size = spec["resources"].get("requests", {}).get("storage")
    if size is None:
        yield required(at)
    elif amount(size) <= 0:
        yield wrong(at, size, "must be greater than zero")
    if name := spec.get("storageClassName"):
        yield from each_wrong(f"{path}.storageClassName", name, names.subdomain(name))
    if spec.get("volumeMode", "Filesystem") not in VOLUME_MODES:
        yield unsupported(f"{path}.volumeMode", spec["volumeMode"], VOLUME_MODES)
    for key in ("dataSource", "dataSourceRef"):
        if key in spec:
            yield from _source(f"{path}.{key}", spec[key])
    if "dataSource" in spec and "dataSourceRef" in spec and spec["dataSource"] != spec["dataSourceRef"]:
        yield wrong(path, f"{path}.dataSource", "must match dataSourceRef")


def access_mode_faults(path: str, modes: Iterable[str]) -> Iterator[Fault]:
    """What is wrong with the ways in which a volume may be used."""
    modes = list(modes)
    for mode in modes:
        if mode not in ACCESS_MODES:
            yield unsupported(path, mode, ACCESS_MODES)
    if "ReadWriteOncePod" in modes and any(mode in ACCESS_MODES and mode != "ReadWriteOncePod" for mode in modes):
        yield not_allowed(path, "may not use ReadWriteOncePod with other access modes")


def _source(path: str, source: Json) -> Iterator[Fault]:
    for key in ("name", "kind"):
        if not source[key]:
            yield required(f"{path}.{key}")
    group = source.get("apiGroup")
    if not group and source["kind"] != "PersistentVolumeClaim":
        why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup"
        yield wrong(path, source["kind"], why)
    elif group:
        yield from each_wrong(f"{path}.apiGroup", group, names.subdomain(group))
