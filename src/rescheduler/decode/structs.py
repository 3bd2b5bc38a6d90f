"""The parts of Kubernetes objects that planning needs, as msgspec structs: decoding skips everything else.

These structs are an allow-list twice over: `cluster.decode` turns them into rows, and `cluster.record` writes them
back out for `rescheduler snapshot`, so nothing that isn't named here (environment, commands, secrets) is recorded.
Sections that many pods share stay `Raw`: their bytes are looked up in a cache and parsed once per distinct text.
"""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Raw, Struct, field

Priority = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
ABSENT = Raw()
"""The default of raw sections; a struct's encoder leaves it out."""


def present(section: Raw) -> bool:
    """Whether a raw section is there; null is as good as absent, as everywhere in Kubernetes."""
    return section is not ABSENT and bytes(section) != b"null"


class Wire(Struct, rename="camel", omit_defaults=True, gc=False):
    """Base: camelCase outside, unset fields left out when written."""


class Meta(Wire):
    name: str | None = None
    namespace: str | None = None
    uid: str | None = None
    resource_version: str | None = None
    generation: int | None = None
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    labels: Raw = ABSENT
    annotations: Raw = ABSENT
    owner_references: Raw = ABSENT


class Condition(Wire):
    type: str | None = None
    status: str | None = None


class Anything(Wire):
    """An object of any kind, as far as it says what it is."""

    api_version: str | None = None
    kind: str | None = None
    metadata: Meta | None = None


class Container(Wire):
    name: str | None = None
    restart_policy: str | None = None
    resources: Raw = ABSENT
    ports: Raw = ABSENT


class ClaimSource(Wire):
    claim_name: str | None = None


class PodVolume(Wire):
    name: str | None = None
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: Raw = ABSENT
    host_path: Raw = ABSENT
    empty_dir: Raw = ABSENT
    aws_elastic_block_store: Raw = ABSENT
    gce_persistent_disk: Raw = ABSENT
    azure_disk: Raw = ABSENT
    cinder: Raw = ABSENT
    fc: Raw = ABSENT
    flex_volume: Raw = ABSENT
    iscsi: Raw = ABSENT
    portworx_volume: Raw = ABSENT
    rbd: Raw = ABSENT
    vsphere_volume: Raw = ABSENT


class PodSpec(Wire):
    node_name: str | None = None
    scheduler_name: str | None = None
    priority: Priority | None = None
    priority_class_name: str | None = None
    containers: list[Container] | None = None
    init_containers: list[Container] | None = None
    volumes: list[PodVolume] | None = None
    node_selector: Raw = ABSENT
    affinity: Raw = ABSENT
    tolerations: Raw = ABSENT
    topology_spread_constraints: Raw = ABSENT
    resources: Raw = ABSENT
    overhead: Raw = ABSENT
    resource_claims: Raw = ABSENT


class Waiting(Wire):
    reason: str | None = None


class Terminated(Wire):
    exit_code: int | None = None
    reason: str | None = None


class ContainerState(Wire):
    waiting: Waiting | None = None
    terminated: Terminated | None = None


class ContainerStatus(Wire):
    name: str | None = None
    restart_count: int | None = None
    state: ContainerState | None = None
    last_state: ContainerState | None = None
    allocated_resources: Raw = ABSENT
    resources: Raw = ABSENT


class PodCondition(Condition):
    reason: str | None = None
    last_transition_time: str | None = None


class PodStatus(Wire):
    phase: str | None = None
    reason: str | None = None
    start_time: str | None = None
    nominated_node_name: str | None = None
    conditions: list[PodCondition] | None = None
    container_statuses: list[ContainerStatus] | None = None
    init_container_statuses: list[ContainerStatus] | None = None
    ephemeral_container_statuses: list[ContainerStatus] | None = None


class Pod(Anything):
    spec: PodSpec | None = None
    status: PodStatus | None = None


class Taint(Wire):
    key: str | None = None
    value: str | None = None
    effect: str | None = None


class NodeSpec(Wire):
    unschedulable: bool | None = None
    taints: list[Taint] | None = None


class NodeCondition(Condition):
    last_transition_time: str | None = None


class NodeStatus(Wire):
    allocatable: Raw = ABSENT
    conditions: list[NodeCondition] | None = None


class Node(Anything):
    spec: NodeSpec | None = None
    status: NodeStatus | None = None


class Namespace(Anything):
    pass


class RollingUpdate(Wire):
    partition: int | None = None


class UpdateStrategy(Wire):
    type: str | None = None
    rolling_update: RollingUpdate | None = None


class TemplateSpec(Wire):
    node_selector: Raw = ABSENT
    affinity: Raw = ABSENT


class Template(Wire):
    spec: TemplateSpec | None = None


class WorkloadSpec(Wire):
    replicas: int | None = None
    parallelism: int | None = None
    strategy: UpdateStrategy | None = None
    update_strategy: UpdateStrategy | None = None
    selector: Raw = ABSENT
    template: Template | None = None


class WorkloadStatus(Wire):
    observed_generation: int | None = None
    replicas: int | None = None
    updated_replicas: int | None = None
    current_revision: str | None = None
    update_revision: str | None = None


class Workload(Anything):
    spec: WorkloadSpec | None = None
    status: WorkloadStatus | None = None


class ScaleTarget(Wire):
    kind: str | None = None
    name: str | None = None


class AutoscalerSpec(Wire):
    scale_target_ref: ScaleTarget | None = None


class AutoscalerStatus(Wire):
    current_replicas: int | None = None
    desired_replicas: int | None = None
    last_scale_time: str | None = None
    conditions: list[Condition] | None = None


class HorizontalPodAutoscaler(Anything):
    spec: AutoscalerSpec | None = None
    status: AutoscalerStatus | None = None


class BudgetSpec(Wire):
    selector: Raw = ABSENT
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    unhealthy_pod_eviction_policy: str | None = None


class BudgetStatus(Wire):
    disruptions_allowed: int | None = None
    observed_generation: int | None = None


class PodDisruptionBudget(Anything):
    spec: BudgetSpec | None = None
    status: BudgetStatus | None = None


class ClaimSpec(Wire):
    volume_name: str | None = None
    storage_class_name: str | None = None
    access_modes: list[str] | None = None


class ClaimStatus(Wire):
    phase: str | None = None


class PersistentVolumeClaim(Anything):
    spec: ClaimSpec | None = None
    status: ClaimStatus | None = None


class CsiSource(Wire):
    driver: str | None = None
    volume_handle: str | None = None


class VolumeNodeAffinity(Wire):
    required: Raw = ABSENT


class VolumeSpec(Wire):
    csi: CsiSource | None = None
    local: Raw = ABSENT
    host_path: Raw = ABSENT
    node_affinity: VolumeNodeAffinity | None = None


class PersistentVolume(Anything):
    spec: VolumeSpec | None = None


class TopologyExpression(Wire):
    key: str
    values: list[str] | None = None


class TopologyTerm(Wire):
    match_label_expressions: list[TopologyExpression] | None = None


class StorageClass(Anything):
    provisioner: str | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: list[TopologyTerm] | None = None


class DriverAllocatable(Wire):
    count: int | None = None


class CsiDriver(Wire):
    name: str | None = None
    allocatable: DriverAllocatable | None = None


class CsiNodeSpec(Wire):
    drivers: list[CsiDriver] | None = None


class CSINode(Anything):
    spec: CsiNodeSpec | None = None


class PriorityClass(Anything):
    value: Priority | None = None


class MeasuredContainer(Wire):
    usage: Raw = ABSENT


class Metrics(Anything):
    timestamp: str | None = None
    usage: Raw = ABSENT
    containers: list[MeasuredContainer] | None = None


# Sections that are parsed from Raw, once per distinct text.


class OwnerReference(Wire):
    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None


class Resources(Wire):
    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class Port(Wire):
    host_port: int | None = None
    host_ip: str | None = field(default=None, name="hostIP")
    protocol: str | None = None


class Toleration(Wire):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class Expression(Wire):
    key: str
    operator: str
    values: list[str] | None = None


class LabelSelector(Wire):
    match_labels: dict[str, str] | None = None
    match_expressions: list[Expression] | None = None


class SelectorTerm(Wire):
    match_expressions: list[Expression] | None = None
    match_fields: list[Expression] | None = None


class NodeSelector(Wire):
    node_selector_terms: list[SelectorTerm] | None = None


class PreferredNodes(Wire):
    weight: int
    preference: SelectorTerm


class PodAffinityTerm(Wire):
    topology_key: str
    label_selector: LabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: LabelSelector | None = None


class NodeAffinity(Wire):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[PreferredNodes] | None = None


class PodAffinity(Wire):
    required_during_scheduling_ignored_during_execution: list[PodAffinityTerm] | None = None


class Affinity(Wire):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class SpreadConstraint(Wire):
    max_skew: int
    topology_key: str
    when_unsatisfiable: str | None = None
    label_selector: LabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None
