"""Builders of claims and of what is behind them: volumes, classes, and how many of them a node can hold."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rescheduler.model.objects import AttachLimits, Claim, StorageClass, Volume
from rescheduler.model.shape import NodeTerm
from tests.support.builders.terms import full_keys, node_term

DRIVER = "csi.example.com"


def claim(
    name: str,
    volume: str = "",
    *,
    storage_class: str = "",
    modes: Sequence[str] = ("ReadWriteOnce",),
    namespace: str = "default",
) -> Claim:
    """A PersistentVolumeClaim: bound if a volume is named."""
    return Claim(namespace, name, volume, storage_class, tuple(modes))


def volume(
    name: str,
    *,
    labels: Mapping[str, str] | None = None,
    node_affinity: Sequence[str | NodeTerm] | None = None,
    driver: str = DRIVER,
    handle: str | None = None,
    local: bool = False,
) -> Volume:
    """A PersistentVolume; its handle is its name unless said otherwise."""
    terms = None if node_affinity is None else tuple(node_term(term) for term in node_affinity)
    return Volume(name, full_keys(labels or {}), terms, driver, name if handle is None else handle, local)


def storage_class(
    name: str, *, provisioner: str = DRIVER, wait: bool = True, topologies: Sequence[str | NodeTerm] = ()
) -> StorageClass:
    """A StorageClass; it waits for the first consumer unless said otherwise."""
    return StorageClass(name, provisioner, wait, tuple(node_term(term) for term in topologies))


def csinode(node: str, limits: Mapping[str, int] | int) -> AttachLimits:
    """How many volumes a node can hold, for each driver (a bare number is for DRIVER)."""
    return AttachLimits(node, tuple(sorted(({DRIVER: limits} if isinstance(limits, int) else limits).items())))
