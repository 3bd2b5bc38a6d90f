"""What the input doesn't say, and which check is weaker for it; and what it says in a way that cannot be understood."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

import numpy as np

from rescheduler.model.costs import LEAST, MOST, unclear_costs
from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.columns import Columns

_NAMED = 3  # pods of one template mostly have the same mistake


def about(snapshot: ClusterSnapshot, columns: Columns) -> list[str]:
    """One sentence for each kind that is missing and would have been looked at, and for each mark that says nothing."""
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
    return found + _unclear_costs(snapshot)


def unknown_resources(snapshot: ClusterSnapshot, policy: Policy) -> Iterator[str]:
    """One sentence for each resource that has a threshold and that no node has: mostly its name is wrong."""
    had = {name for node in snapshot.nodes for name, _ in node.allocatable}
    told: set[str] = set()
    for field, name in _with_thresholds(policy):
        if name not in had and name not in told:
            told.add(name)
            near = difflib.get_close_matches(name, had, n=1)
            meant = f", did you mean {near[0]}?" if near else ": it is not heeded"
            yield f"{field} names {name}, which no node has{meant}"


def _with_thresholds(policy: Policy) -> Iterator[tuple[str, str]]:
    """Field and resource, CPU and memory aside; what a pool has from the top is told of the top."""
    yield from (("thresholds", name) for name, _ in policy.thresholds.others)
    for pool in policy.pools:
        yield from ((f"thresholds of pool {pool.name}", name) for name, _ in pool.thresholds.others)


def _unclear_costs(snapshot: ClusterSnapshot) -> list[str]:
    wrong: dict[str, list[str]] = {}
    for pod in snapshot.pods:
        if pod.annotations:
            for mark, text in unclear_costs(pod.annotations):
                wrong.setdefault(mark, []).append(f"{pod.full_name} ({text[:40]!r})")
    return [
        f"annotation {mark} is ignored, because it is not a whole number from {LEAST} to {MOST}: "
        + ", ".join(pods[:_NAMED])
        + (f" and {len(pods) - _NAMED} more" if len(pods) > _NAMED else "")
        for mark, pods in sorted(wrong.items())
    ]
