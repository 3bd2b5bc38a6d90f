"""What the input doesn't say, and which check is weaker for it."""

from __future__ import annotations

import numpy as np

from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.columns import Columns


def about(snapshot: ClusterSnapshot, columns: Columns) -> list[str]:
    """One sentence for each kind that is missing and would have been looked at."""
    found: list[str] = []
    if "PodDisruptionBudget" not in snapshot.kinds:
        found.append("the input has no PodDisruptionBudget: if the cluster has any, their headroom is not checked")
    owners = {owner.kind for owner in {id(pod.owner): pod.owner for pod in snapshot.pods}.values() if owner is not None}
    uncounted = sorted(owners & {"ReplicaSet", "StatefulSet"} - snapshot.kinds)
    found.extend(f"the input has no {kind}s: replicas are counted by their pods" for kind in uncounted)
    if "ReplicaSet" in owners and "Deployment" not in snapshot.kinds:
        found.append("the input has no Deployments: the strategy Recreate is not seen")
    by_namespace = [
        term
        for shape in columns.shapes
        for term in (*shape.affinity, *shape.anti_affinity)
        if term.namespace_selector is not None and term.namespace_selector.requirements
    ]
    if by_namespace and "Namespace" not in snapshot.kinds:
        found.append("the input has no Namespaces: namespace selectors see only the names of namespaces")
    claiming = any(shape.claims for shape in columns.shapes)
    for kind, check in (
        ("StorageClass", "unbound claims keep their pods where they are"),
        ("CSINode", "attach limits of volumes are not checked"),
    ):
        if claiming and kind not in snapshot.kinds:
            found.append(f"the input has no {kind}s: {check}")
    if snapshot.taken_at is None and bool(np.any(columns.pod_at >= 0)):
        found.append("the input does not say when it was taken: minPodAge and coolDown are not checked (give --now)")
    return found
