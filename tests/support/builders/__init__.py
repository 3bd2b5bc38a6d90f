"""Builders of snapshots for tests, so that a test reads as a sentence.

    cluster(node("a", cpu=4), node("b", zone="z1"), deployment("web", on=["a", "a"], cpu="500m"), pdb("web", allowed=1))

Each builder makes one row, or a list of rows where an object brings others with it; `cluster` flattens them into a
ClusterSnapshot and refuses what is surely a slip of the test: duplicates, and pods on nodes that are not there.
Equal shapes and labels are one object, as readers make them. Keys of nodes and volumes may be written `zone`, `region`
and `hostname` for the real ones. Nothing is missing from a built cluster: it has all kinds that the product reads.
"""

from __future__ import annotations

from tests.support.builders.rows import (
    KINDS,
    NOW,
    Namespace,
    PodOptions,
    Row,
    TemplateOptions,
    cluster,
    namespace,
    node,
    node_called,
    pdb,
    pod,
    pod_named,
    shape_of,
    uid_of,
)
from tests.support.builders.storage import DRIVER, claim, csinode, storage_class, volume
from tests.support.builders.terms import (
    HOSTNAME,
    REGION,
    ZONE,
    Match,
    away,
    full_key,
    host_port,
    near,
    node_named,
    node_term,
    selector,
    spread,
    taint,
    toleration,
)
from tests.support.builders.workloads import daemonset, deployment, hash_of, job, replicaset, statefulset

__all__ = [
    "DRIVER",
    "HOSTNAME",
    "KINDS",
    "NOW",
    "REGION",
    "ZONE",
    "Match",
    "Namespace",
    "PodOptions",
    "Row",
    "TemplateOptions",
    "away",
    "claim",
    "cluster",
    "csinode",
    "daemonset",
    "deployment",
    "full_key",
    "hash_of",
    "host_port",
    "job",
    "namespace",
    "near",
    "node",
    "node_called",
    "node_named",
    "node_term",
    "pdb",
    "pod",
    "pod_named",
    "replicaset",
    "selector",
    "shape_of",
    "spread",
    "statefulset",
    "storage_class",
    "taint",
    "toleration",
    "uid_of",
    "volume",
]
