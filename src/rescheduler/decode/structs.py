"""The parts of Kubernetes objects that planning needs, as msgspec structs: decoding skips everything else.

The structs are an allow-list twice: `reader` turns them into rows, and `record` writes them back for `rescheduler
snapshot`, so that no other field (environment, commands, secrets) is recorded. Sections that many pods share stay
`Raw`: their bytes are looked up in a cache and parsed once for each distinct text. Which kinds are read, and where they
are listed, is at the end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

import msgspec
from msgspec import Raw, Struct, field

Priority = Annotated[int, msgspec.Meta(ge=-(2**31), lt=2**31)]
ABSENT = Raw()
"""The default of raw sections, which is not encoded."""


def present(section: Raw) -> bool:
    """Whether a raw section is present; null counts as absent, as everywhere in Kubernetes."""
    return section is not ABSENT and bytes(section) != b"null"


class ApiStruct(Struct, rename="camel", omit_defaults=True, gc=False):
    """Base: camelCase in JSON, unset fields omitted."""


class ApiMeta(ApiStruct):
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


class ApiCondition(ApiStruct):
    type: str | None = None
    status: str | None = None


class ApiObject(ApiStruct):
    """The common fields of all objects."""

    api_version: str | None = None
    kind: str | None = None
    metadata: ApiMeta | None = None


class ApiContainer(ApiStruct):
    name: str | None = None
    restart_policy: str | None = None
    resources: Raw = ABSENT
    ports: Raw = ABSENT


class ApiClaimSource(ApiStruct):
    claim_name: str | None = None


class ApiEmptyDir(ApiStruct):
    medium: str | None = None


class ApiPodVolume(ApiStruct):
    name: str | None = None
    persistent_volume_claim: ApiClaimSource | None = None
    empty_dir: ApiEmptyDir | None = None
    ephemeral: Raw = ABSENT
    host_path: Raw = ABSENT
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


class ApiPodSpec(ApiStruct):
    node_name: str | None = None
    scheduler_name: str | None = None
    restart_policy: str | None = None
    priority: Priority | None = None
    priority_class_name: str | None = None
    containers: list[ApiContainer] | None = None
    init_containers: list[ApiContainer] | None = None
    volumes: list[ApiPodVolume] | None = None
    node_selector: Raw = ABSENT
    affinity: Raw = ABSENT
    tolerations: Raw = ABSENT
    topology_spread_constraints: Raw = ABSENT
    resources: Raw = ABSENT
    overhead: Raw = ABSENT
    resource_claims: Raw = ABSENT


class ApiWaiting(ApiStruct):
    reason: str | None = None


class ApiTerminated(ApiStruct):
    exit_code: int | None = None
    reason: str | None = None


class ApiContainerState(ApiStruct):
    waiting: ApiWaiting | None = None
    terminated: ApiTerminated | None = None


class ApiContainerStatus(ApiStruct):
    name: str | None = None
    restart_count: int | None = None
    state: ApiContainerState | None = None
    last_state: ApiContainerState | None = None
    allocated_resources: Raw = ABSENT
    resources: Raw = ABSENT


class ApiPodCondition(ApiCondition):
    reason: str | None = None
    last_transition_time: str | None = None


class ApiPodStatus(ApiStruct):
    phase: str | None = None
    reason: str | None = None
    start_time: str | None = None
    nominated_node_name: str | None = None
    conditions: list[ApiPodCondition] | None = None
    container_statuses: list[ApiContainerStatus] | None = None
    init_container_statuses: list[ApiContainerStatus] | None = None
    ephemeral_container_statuses: list[ApiContainerStatus] | None = None


class ApiPod(ApiObject):
    spec: ApiPodSpec | None = None
    status: ApiPodStatus | None = None


class ApiTaint(ApiStruct):
    key: str | None = None
    value: str | None = None
    effect: str | None = None


class ApiNodeSpec(ApiStruct):
    unschedulable: bool | None = None
    taints: list[ApiTaint] | None = None


class ApiNodeCondition(ApiCondition):
    last_transition_time: str | None = None


class ApiNodeStatus(ApiStruct):
    allocatable: Raw = ABSENT
    conditions: list[ApiNodeCondition] | None = None


class ApiNode(ApiObject):
    spec: ApiNodeSpec | None = None
    status: ApiNodeStatus | None = None


class ApiRollingUpdate(ApiStruct):
    partition: int | None = None
    max_surge: int | str | None = None


class ApiUpdateStrategy(ApiStruct):
    type: str | None = None
    rolling_update: ApiRollingUpdate | None = None


class ApiTemplateSpec(ApiStruct):
    node_selector: Raw = ABSENT
    affinity: Raw = ABSENT


class ApiTemplate(ApiStruct):
    spec: ApiTemplateSpec | None = None


class ApiWorkloadSpec(ApiStruct):
    replicas: int | None = None
    parallelism: int | None = None
    strategy: ApiUpdateStrategy | None = None
    update_strategy: ApiUpdateStrategy | None = None
    selector: Raw = ABSENT
    template: ApiTemplate | None = None


class ApiWorkloadStatus(ApiStruct):
    observed_generation: int | None = None
    replicas: int | None = None
    updated_replicas: int | None = None
    current_revision: str | None = None
    update_revision: str | None = None


class ApiWorkload(ApiObject):
    spec: ApiWorkloadSpec | None = None
    status: ApiWorkloadStatus | None = None


class ApiScaleTarget(ApiStruct):
    kind: str | None = None
    name: str | None = None


class ApiAutoscalerSpec(ApiStruct):
    scale_target_ref: ApiScaleTarget | None = None


class ApiAutoscalerStatus(ApiStruct):
    current_replicas: int | None = None
    desired_replicas: int | None = None
    last_scale_time: str | None = None
    conditions: list[ApiCondition] | None = None


class ApiHorizontalPodAutoscaler(ApiObject):
    spec: ApiAutoscalerSpec | None = None
    status: ApiAutoscalerStatus | None = None


class ApiBudgetSpec(ApiStruct):
    selector: Raw = ABSENT
    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    unhealthy_pod_eviction_policy: str | None = None


class ApiBudgetStatus(ApiStruct):
    disruptions_allowed: int | None = None
    observed_generation: int | None = None


class ApiPodDisruptionBudget(ApiObject):
    spec: ApiBudgetSpec | None = None
    status: ApiBudgetStatus | None = None


class ApiClaimSpec(ApiStruct):
    volume_name: str | None = None
    storage_class_name: str | None = None
    access_modes: list[str] | None = None


class ApiClaimStatus(ApiStruct):
    phase: str | None = None


class ApiPersistentVolumeClaim(ApiObject):
    spec: ApiClaimSpec | None = None
    status: ApiClaimStatus | None = None


class ApiCsiSource(ApiStruct):
    driver: str | None = None
    volume_handle: str | None = None


class ApiVolumeNodeAffinity(ApiStruct):
    required: Raw = ABSENT


class ApiVolumeSpec(ApiStruct):
    csi: ApiCsiSource | None = None
    local: Raw = ABSENT
    host_path: Raw = ABSENT
    node_affinity: ApiVolumeNodeAffinity | None = None


class ApiPersistentVolume(ApiObject):
    spec: ApiVolumeSpec | None = None


class ApiTopologyExpression(ApiStruct):
    key: str
    values: list[str] | None = None


class ApiTopologyTerm(ApiStruct):
    match_label_expressions: list[ApiTopologyExpression] | None = None


class ApiStorageClass(ApiObject):
    provisioner: str | None = None
    volume_binding_mode: str | None = None
    allowed_topologies: list[ApiTopologyTerm] | None = None


class ApiDriverAllocatable(ApiStruct):
    count: int | None = None


class ApiCsiDriver(ApiStruct):
    name: str | None = None
    allocatable: ApiDriverAllocatable | None = None


class ApiCsiNodeSpec(ApiStruct):
    drivers: list[ApiCsiDriver] | None = None


class ApiCsiNode(ApiObject):
    spec: ApiCsiNodeSpec | None = None


class ApiPriorityClass(ApiObject):
    value: Priority | None = None


class ApiMeasuredContainer(ApiStruct):
    usage: Raw = ABSENT


class ApiMetrics(ApiObject):
    timestamp: str | None = None
    usage: Raw = ABSENT
    containers: list[ApiMeasuredContainer] | None = None


# Sections that are parsed from Raw, once for each distinct text.


class ApiOwnerReference(ApiStruct):
    api_version: str | None = None
    kind: str | None = None
    name: str | None = None
    uid: str | None = None
    controller: bool | None = None


class ApiResources(ApiStruct):
    requests: dict[str, str | int | float] | None = None
    limits: dict[str, str | int | float] | None = None


class ApiPort(ApiStruct):
    host_port: int | None = None
    host_ip: str | None = field(default=None, name="hostIP")
    protocol: str | None = None


class ApiToleration(ApiStruct):
    key: str | None = None
    operator: str | None = None
    value: str | None = None
    effect: str | None = None


class ApiExpression(ApiStruct):
    key: str
    operator: str
    values: list[str] | None = None


class ApiLabelSelector(ApiStruct):
    match_labels: dict[str, str] | None = None
    match_expressions: list[ApiExpression] | None = None


class ApiSelectorTerm(ApiStruct):
    match_expressions: list[ApiExpression] | None = None
    match_fields: list[ApiExpression] | None = None


class ApiNodeSelector(ApiStruct):
    node_selector_terms: list[ApiSelectorTerm] | None = None


class ApiPreferredNodes(ApiStruct):
    weight: int
    preference: ApiSelectorTerm


class ApiPodAffinityTerm(ApiStruct):
    topology_key: str
    label_selector: ApiLabelSelector | None = None
    namespaces: list[str] | None = None
    namespace_selector: ApiLabelSelector | None = None


class ApiNodeAffinity(ApiStruct):
    required_during_scheduling_ignored_during_execution: ApiNodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: list[ApiPreferredNodes] | None = None


class ApiPodAffinity(ApiStruct):
    required_during_scheduling_ignored_during_execution: list[ApiPodAffinityTerm] | None = None


class ApiAffinity(ApiStruct):
    node_affinity: ApiNodeAffinity | None = None
    pod_affinity: ApiPodAffinity | None = None
    pod_anti_affinity: ApiPodAffinity | None = None


class ApiSpreadConstraint(ApiStruct):
    max_skew: int
    topology_key: str
    when_unsatisfiable: str | None = None
    label_selector: ApiLabelSelector | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: list[str] | None = None


@dataclass(frozen=True, slots=True)
class ApiResource:
    """A kind of the API. What planning reads has a struct; an `optional` kind may be missing from a cluster."""

    kind: str
    api_version: str
    plural: str
    struct: type[ApiObject] | None = None
    namespaced: bool = True
    optional: bool = False

    @property
    def group(self) -> str:
        return group_of(self.api_version)

    @property
    def path(self) -> str:
        """The path of all objects, over all namespaces."""
        return f"{'/apis' if self.group else '/api'}/{self.api_version}/{self.plural}"

    @property
    def absent_statuses(self) -> frozenset[int]:
        """404: no such API. 503: registered, but its server (metrics-server) does not run."""
        return frozenset({404, 503}) if self.optional else frozenset()


def group_of(api_version: str) -> str:
    """Return the group of an apiVersion such as `apps/v1`; empty for the core group."""
    return api_version.rpartition("/")[0]


# Pods first: they take the longest, and the others are listed meanwhile.
RESOURCES = (
    ApiResource("Pod", "v1", "pods", ApiPod),
    ApiResource("Node", "v1", "nodes", ApiNode, namespaced=False),
    ApiResource("Namespace", "v1", "namespaces", ApiObject, namespaced=False),
    ApiResource("PodDisruptionBudget", "policy/v1", "poddisruptionbudgets", ApiPodDisruptionBudget),
    ApiResource("Deployment", "apps/v1", "deployments", ApiWorkload),
    ApiResource("ReplicaSet", "apps/v1", "replicasets", ApiWorkload),
    ApiResource("StatefulSet", "apps/v1", "statefulsets", ApiWorkload),
    ApiResource("DaemonSet", "apps/v1", "daemonsets", ApiWorkload),
    ApiResource("Job", "batch/v1", "jobs", ApiWorkload),
    ApiResource("HorizontalPodAutoscaler", "autoscaling/v2", "horizontalpodautoscalers", ApiHorizontalPodAutoscaler),
    ApiResource("PersistentVolumeClaim", "v1", "persistentvolumeclaims", ApiPersistentVolumeClaim),
    ApiResource("PersistentVolume", "v1", "persistentvolumes", ApiPersistentVolume, namespaced=False),
    ApiResource("StorageClass", "storage.k8s.io/v1", "storageclasses", ApiStorageClass, namespaced=False),
    ApiResource("CSINode", "storage.k8s.io/v1", "csinodes", ApiCsiNode, namespaced=False),
    ApiResource("PriorityClass", "scheduling.k8s.io/v1", "priorityclasses", ApiPriorityClass, namespaced=False),
    ApiResource("NodeMetrics", "metrics.k8s.io/v1beta1", "nodes", ApiMetrics, namespaced=False, optional=True),
    ApiResource("PodMetrics", "metrics.k8s.io/v1beta1", "pods", ApiMetrics, optional=True),
)
"""What a plan lists."""
CRON_JOBS = ApiResource("CronJob", "batch/v1", "cronjobs", ApiWorkload)
"""Listed by the controller only: their annotations apply to the pods of their Jobs."""
READ = {resource.kind: resource for resource in (*RESOURCES, CRON_JOBS)}
"""What is made into rows, by kind."""
DECODERS = {kind: msgspec.json.Decoder(resource.struct) for kind, resource in READ.items() if resource.struct}
WORKLOADS = frozenset(kind for kind, resource in READ.items() if resource.struct is ApiWorkload)


def known_kind(api_version: str | None, kind: str | None) -> str | None:
    """Return the kind if planning reads it, else None: another group's Job is another kind."""
    if kind not in READ:
        return None
    return kind if api_version is None or group_of(api_version) == READ[kind].group else None
