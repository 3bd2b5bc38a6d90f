"""Rows of all kinds except pods: one small function a kind, called by `reader`."""

from __future__ import annotations

from rescheduler.decode import sections, structs
from rescheduler.decode.pods import select_annotations
from rescheduler.decode.sections import SectionError
from rescheduler.model.labels import CORDONED, MANAGED_BY, MANAGER, MIGRATION_ID, SELECTED_NODE
from rescheduler.model.objects import (
    AttachLimits,
    Autoscaler,
    Claim,
    DisruptionBudget,
    Node,
    RolloutProgress,
    StorageClass,
    Usage,
    Volume,
    Workload,
)
from rescheduler.model.selector import Labels, Operator, Requirement
from rescheduler.model.shape import NodeTerm, Taint


def node(found: structs.ApiNode, meta: structs.ApiMeta) -> Node:
    """Make a node's row. Without a Ready condition it counts as ready: taints show if it is not."""
    spec = found.spec or structs.ApiNodeSpec()
    status = found.status or structs.ApiNodeStatus()
    ready = [c for c in status.conditions or () if c.type == "Ready"]
    unready = next((c for c in ready if c.status != "True"), None)
    annotations = select_annotations(meta.annotations)
    return Node(
        name=meta.name or "",
        labels=sections.string_map(meta.labels, "metadata.labels"),
        allocatable=sections.quantity_map(status.allocatable, "status.allocatable"),
        taints=tuple(sorted(Taint(t.key or "", t.value or "", t.effect or "") for t in spec.taints or ())),
        unschedulable=bool(spec.unschedulable),
        ready=unready is None,
        unready_since=sections.instant(unready.last_transition_time if unready is not None else None),
        deleting=meta.deletion_timestamp is not None,
        cordoned=CORDONED in annotations,
        annotations=annotations,
    )


def namespace_labels(meta: structs.ApiMeta) -> Labels:
    """Return a namespace's labels, with the one that the API server sets on each."""
    return {"kubernetes.io/metadata.name": meta.name or "", **sections.string_map(meta.labels, "metadata.labels")}


def workload(kind: str, found: structs.ApiWorkload, meta: structs.ApiMeta) -> Workload:
    """Make the row of a Deployment, ReplicaSet, StatefulSet, DaemonSet, Job or CronJob."""
    spec = found.spec or structs.ApiWorkloadSpec()
    template = (spec.template and spec.template.spec) or structs.ApiTemplateSpec()
    strategy = spec.strategy or structs.ApiUpdateStrategy()
    replicas = spec.parallelism if kind == "Job" else spec.replicas
    if replicas is None and kind not in ("DaemonSet", "CronJob"):
        replicas = 1  # the API's default
    return Workload(
        kind=kind,
        namespace=meta.namespace or "default",
        name=meta.name or "",
        uid=meta.uid or "",
        owner=sections.owner(meta.owner_references, "metadata.ownerReferences"),
        replicas=replicas,
        recreate=strategy.type == "Recreate",
        no_surge=(strategy.rolling_update or structs.ApiRollingUpdate()).max_surge in (0, "0", "0%"),
        selector=sections.raw_label_selector(spec.selector, "spec.selector"),
        annotations=select_annotations(meta.annotations),
        node_selector=tuple(
            sorted(sections.string_map(template.node_selector, "spec.template.spec.nodeSelector").items())
        ),
        node_affinity=sections.affinity(template.affinity, "spec.template.spec.affinity").node,
        changing=_changing(kind, found, meta, replicas or 0),
    )


def _changing(kind: str, found: structs.ApiWorkload, meta: structs.ApiMeta, wanted: int) -> str:
    """Describe a rollout or scaling in progress. An object without a status counts as unchanging."""
    status = found.status
    if status is None or kind not in ("Deployment", "ReplicaSet", "StatefulSet"):
        return ""
    strategy = (found.spec and found.spec.update_strategy) or structs.ApiUpdateStrategy()
    rolling = strategy.rolling_update or structs.ApiRollingUpdate()
    change = RolloutProgress(
        kind,
        observed=meta.generation is None or (status.observed_generation or 0) >= meta.generation,
        wanted=wanted,
        replicas=status.replicas,
        updated=status.updated_replicas or 0,
        kept=None if strategy.type == "OnDelete" else rolling.partition or 0,
        revised=status.current_revision != status.update_revision,
    )
    return str(change)


def autoscaler(found: structs.ApiHorizontalPodAutoscaler, meta: structs.ApiMeta) -> Autoscaler:
    """Make an autoscaler's row; without a status it wants no change."""
    target = (found.spec and found.spec.scale_target_ref) or structs.ApiScaleTarget()
    status = found.status or structs.ApiAutoscalerStatus()
    hindered = {c.type for c in status.conditions or () if c.status == "False"}
    return Autoscaler(
        namespace=meta.namespace or "default",
        name=meta.name or "",
        kind=target.kind or "",
        target=target.name or "",
        current=status.current_replicas or 0,
        desired=status.desired_replicas or 0,
        active=not hindered & {"AbleToScale", "ScalingActive"},
        scaled=sections.instant(status.last_scale_time),
    )


def budget(found: structs.ApiPodDisruptionBudget, meta: structs.ApiMeta) -> DisruptionBudget:
    """Make a disruption budget's row. If its status lags behind its spec it allows nothing, as in the Eviction API."""
    spec = found.spec or structs.ApiBudgetSpec()
    status = found.status or structs.ApiBudgetStatus()
    labels = sections.string_map(meta.labels, "metadata.labels")
    allowed = status.disruptions_allowed
    if allowed is not None and (status.observed_generation or 0) < (meta.generation or 0):
        allowed = 0
    if allowed is not None and allowed < 0:
        raise SectionError(f"status.disruptionsAllowed: {allowed} is negative")
    return DisruptionBudget(
        namespace=meta.namespace or "default",
        name=meta.name or "",
        selector=sections.raw_label_selector(spec.selector, "spec.selector"),
        min_available=spec.min_available,
        max_unavailable=spec.max_unavailable,
        allowed=allowed,
        always_evict_unhealthy=spec.unhealthy_pod_eviction_policy == "AlwaysAllow",
        migration=labels.get(MIGRATION_ID, "") if labels.get(MANAGED_BY) == MANAGER else "",
    )


def claim(found: structs.ApiPersistentVolumeClaim, meta: structs.ApiMeta) -> Claim:
    """Make a claim's row."""
    spec = found.spec or structs.ApiClaimSpec()
    return Claim(
        namespace=meta.namespace or "default",
        name=meta.name or "",
        volume=spec.volume_name or "",
        storage_class=spec.storage_class_name or "",
        access_modes=tuple(spec.access_modes or ()),
        bound=((found.status and found.status.phase) or "Bound") == "Bound",
        deleting=meta.deletion_timestamp is not None,
        selected_node=select_annotations(meta.annotations).get(SELECTED_NODE, ""),
    )


def volume(found: structs.ApiPersistentVolume, meta: structs.ApiMeta) -> Volume:
    """Make a volume's row."""
    spec = found.spec or structs.ApiVolumeSpec()
    required, path = spec.node_affinity.required if spec.node_affinity else structs.ABSENT, "spec.nodeAffinity.required"
    return Volume(
        name=meta.name or "",
        labels=sections.string_map(meta.labels, "metadata.labels"),
        node_affinity=sections.node_terms(sections.decode(required, structs.ApiNodeSelector, path), path),
        driver=(spec.csi and spec.csi.driver) or "",
        handle=(spec.csi and spec.csi.volume_handle) or "",
        local=structs.present(spec.local) or structs.present(spec.host_path),
    )


def storage_class(found: structs.ApiStorageClass, meta: structs.ApiMeta) -> StorageClass:
    """Make a storage class's row; each allowed topology is a term, of which one must match."""
    topologies = tuple(
        NodeTerm(
            tuple(
                Requirement(e.key, Operator.IN, tuple(sorted(e.values or ())))
                for e in term.match_label_expressions or ()
            ),
            (),
        )
        for term in found.allowed_topologies or ()
    )
    return StorageClass(
        name=meta.name or "",
        provisioner=found.provisioner or "",
        wait_for_consumer=found.volume_binding_mode == "WaitForFirstConsumer",
        topologies=topologies,
    )


def attach_limits(found: structs.ApiCsiNode, meta: structs.ApiMeta) -> AttachLimits:
    """Return how many volumes of each driver fit on a node; drivers without a limit are omitted."""
    drivers = (found.spec and found.spec.drivers) or ()
    limits = ((d.name or "", d.allocatable.count) for d in drivers if d.allocatable is not None)
    return AttachLimits(meta.name or "", tuple(sorted((name, count) for name, count in limits if count is not None)))


def usage(kind: str, found: structs.ApiMetrics, meta: structs.ApiMeta) -> Usage:
    """Make the row of a node's measured usage, or of a pod's: the sum of its containers."""
    total: dict[str, int] = {}
    parts = [found.usage, *(c.usage for c in found.containers or ())]
    for part in parts:
        for resource, number in sections.quantity_map(part, "usage"):
            total[resource] = total.get(resource, 0) + number
    return Usage(
        kind=kind,
        namespace=meta.namespace or "",
        name=meta.name or "",
        usage=tuple(sorted(total.items())),
        timestamp=sections.instant(found.timestamp),
    )
