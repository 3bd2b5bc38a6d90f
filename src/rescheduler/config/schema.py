"""What a configuration says about which pods strategies may move: the section `filters`, after descheduler's."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Self

from pydantic import AfterValidator, Field, PlainValidator, WithJsonSchema, field_validator, model_validator

from rescheduler.config.errors import FieldError, not_an_integer, quote, wrong_type
from rescheduler.config.fields import (
    Count,
    CountOrShare,
    Cycles,
    Duration,
    LabelName,
    LabelSelector,
    Namespace,
    ObjectName,
    OptionalNamespace,
    Percent,
    Period,
    PositiveCount,
    Section,
    Share,
    ShortPeriod,
    WholeSeconds,
    check_subdomain,
)
from rescheduler.config.sections import (
    ExtenderFields,
    RecoveryFields,
    UsageFields,
    WebFields,
    WebhookFields,
    WhenFields,
    check_listeners,
)
from rescheduler.model.policy import (
    POD_GROUP,
    Approval,
    Filters,
    MigrationMethod,
    NoEviction,
    ThresholdMode,
    Thresholds,
    Utilization,
)
from rescheduler.model.selector import EVERYTHING, Selector, parse_selector
from rescheduler.model.time import format_duration

NATIVE_KIND = "ReschedulerConfiguration"
NATIVE_VERSION = "rescheduler.io/v1alpha1"
_INT32 = 2**31
_PRIORITY = "a priority such as 10000 or the name of a PriorityClass"


def _check_priority(value: object) -> int | str | None:
    if value is None:
        return None
    if isinstance(value, float):
        raise ValueError(not_an_integer(value, _PRIORITY))  # noqa: TRY004 - pydantic wants ValueError
    if isinstance(value, str):
        return check_subdomain(value)
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(wrong_type(value, _PRIORITY))  # noqa: TRY004 - the same
    if not -_INT32 <= value < _INT32:
        raise ValueError(f"{quote(value)} is not {_PRIORITY}: it has more than 32 bits")
    return value


Priority = Annotated[
    int | str | None,
    PlainValidator(_check_priority),
    WithJsonSchema({"anyOf": [{"type": "integer"}, {"type": "string", "format": "name"}]}),
]


class FilterFields(Section):
    """Which pods strategies may move; all of it must let a pod. Moves that somebody orders by hand are not bound by it.

    `excludedNamespaces`, `excludedPodSelector`, `minPodAge` and `allow` say the rest.
    """

    namespaces: tuple[Namespace, ...] = Field(
        default=(), description="Only pods of these namespaces are moved; `[]` is all but `excludedNamespaces`."
    )
    namespace_selector: LabelSelector = Field(
        default="", description="Only pods of namespaces with such labels are moved, such as `team=shop`."
    )
    pod_selector: LabelSelector = Field(default="", description="Only pods with such labels are moved.")
    node_selector: LabelSelector = Field(
        default="", description="Only pods on nodes with such labels are moved; they may be moved to others."
    )
    priority_threshold: Priority = Field(
        default=None,
        description="Pods of this priority and above are left alone: a number, or the name of a PriorityClass.",
    )
    min_replicas: Annotated[int, Field(ge=0)] = Field(
        default=0, description="Pods of controllers with fewer replicas are left alone."
    )
    persistent_volumes: bool = Field(default=True, description="Move pods with a PersistentVolumeClaim, too.")
    protected_storage_classes: tuple[ObjectName, ...] = Field(
        default=(),
        description="With `persistentVolumes: false`: leave only those alone whose claims are of these storage "
        "classes; `[]` is all.",
    )
    without_controller: bool = Field(default=True, description="Move pods that nobody manages, too, by a copy.")
    without_disruption_budget: bool = Field(
        default=True, description="Move pods that no PodDisruptionBudget selects, too."
    )
    no_eviction_policy: NoEviction = Field(
        default=NoEviction.PREFERRED,
        description="What the annotation `descheduler.alpha.kubernetes.io/prefer-no-eviction` of a pod means: "
        "`preferred` has it moved only off a node under maintenance, `mandatory` never.",
    )
    honour_evict_mark: bool = Field(
        default=True,
        description="Whether the annotation `descheduler.alpha.kubernetes.io/evict` of a pod lifts the guards that "
        "are only cautious; see [when](when.md).",
    )

    @model_validator(mode="after")
    def _classes_are_protected_from_something(self) -> Self:
        if self.protected_storage_classes and self.persistent_volumes:
            raise FieldError("protectedStorageClasses", "says nothing unless persistentVolumes is false")
        return self

    def filters(self) -> Filters:
        """As planning takes them."""
        return Filters(
            namespaces=frozenset(self.namespaces),
            namespace_labels=_selector(self.namespace_selector),
            pods=_selector(self.pod_selector),
            nodes=_selector(self.node_selector),
            priority_threshold=self.priority_threshold,
            min_replicas=self.min_replicas,
            persistent_volumes=self.persistent_volumes,
            storage_classes=frozenset(self.protected_storage_classes),
            without_controller=self.without_controller,
            without_disruption_budget=self.without_disruption_budget,
            no_eviction=self.no_eviction_policy,
            honour_evict_mark=self.honour_evict_mark,
        )


def _selector(text: str) -> Selector | None:
    selector = parse_selector(text)
    return None if selector == EVERYTHING else selector


_FIELDS = {"cpu": "cpuThreshold", "memory": "memoryThreshold"}


def _check_resources(thresholds: dict[str, float]) -> dict[str, float]:
    for name in thresholds:
        if name in _FIELDS:
            raise ValueError(f"{quote(name)} has a field of its own: give {_FIELDS[name]} instead")
        if not name.strip():
            raise ValueError("a resource has no name: give one such as pods or nvidia.com/gpu")
    return thresholds


ResourceThresholds = Annotated[dict[str, Percent], AfterValidator(_check_resources)]
"""Per cent by the name of a resource other than CPU and memory."""


def _check_selects(selector: str) -> str:
    if not selector.strip():
        raise ValueError("selects every node: name the labels that the pool's nodes have, such as pool=gpu")
    return selector


class PoolFields(Section):
    """Nodes with thresholds and strategies of their own.

    A node belongs to the first pool whose `nodeSelector` selects it; nodes of none are under the fields at the top.
    What a pool does not say it takes from the field of the same name at the top. Strategies that go by load see only
    the nodes of their pool; every strategy takes pods only from nodes of pools in which it is enabled.
    """

    name: ObjectName = Field(description="What the pool is called, once.")
    node_selector: Annotated[LabelSelector, AfterValidator(_check_selects)] = Field(
        description="Labels of its nodes, such as `pool=gpu`."
    )
    cpu_threshold: Percent | None = Field(default=None, description="As `cpuThreshold`, for this pool.")
    memory_threshold: Percent | None = Field(default=None, description="As `memoryThreshold`, for this pool.")
    imbalance_threshold: Percent | None = Field(default=None, description="As `imbalanceThreshold`, for this pool.")
    thresholds: ResourceThresholds | None = Field(default=None, description="As `thresholds`, for this pool.")
    threshold_mode: ThresholdMode | None = Field(default=None, description="As `thresholdMode`, for this pool.")
    hot_after_cycles: Cycles | None = Field(default=None, description="As `hotAfterCycles`, for this pool.")
    enabled_strategies: tuple[str, ...] | None = Field(
        default=None, description="Strategies that run for this pool; `[]` runs none."
    )
    strategies: dict[str, dict[str, object]] | None = Field(
        default=None, description="Settings of strategies for this pool, over those at the top."
    )

    def within(self, top: Thresholds) -> Thresholds:
        """The pool's thresholds, where the top has these."""
        return Thresholds(
            cpu=top.cpu if self.cpu_threshold is None else self.cpu_threshold,
            memory=top.memory if self.memory_threshold is None else self.memory_threshold,
            others=top.others if self.thresholds is None else in_order(self.thresholds),
            mode=top.mode if self.threshold_mode is None else self.threshold_mode,
        )

    def said(self, names: Iterable[str]) -> dict[str, object]:
        """Those of these fields that the pool has a value of its own for."""
        dumped = self.model_dump(mode="json", by_alias=True)
        return {name: dumped[name] for name in names if dumped.get(name) is not None}


def in_order(thresholds: Mapping[str, float]) -> tuple[tuple[str, float], ...]:
    """Thresholds as the policy has them."""
    return tuple(sorted(thresholds.items()))


_PART = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_RESOURCE = re.compile(rf"({_PART}(\.{_PART})*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?")


def _named_well(thresholds: Mapping[str, float]) -> None:
    """Names of resources have the form that Kubernetes wants: `name` or `domain/name`."""
    for name in thresholds:
        if not _RESOURCE.fullmatch(name):
            raise ValueError(f"{quote(name)} is not the name of a resource, such as pods or nvidia.com/gpu")


class LimitFields(Section):
    """How many pods one plan may move, by where they are and whose they are; `maxReschedulePods` caps them all."""

    per_node_in: PositiveCount = Field(default=None, description="Pods that may move onto one node.")
    per_node_out: PositiveCount = Field(default=None, description="Pods that may move away from one node.")
    per_namespace: PositiveCount = Field(default=None, description="Pods of one namespace that may move.")
    per_workload: PositiveCount = Field(
        default=None, description="Pods of one workload (Deployment, StatefulSet and so on) that may move."
    )


class AllowFields(Section):
    """What is left alone unless it is allowed here."""

    jobs: bool = Field(default=False, description="Move pods of Jobs; their work starts again.")
    local_storage: bool = Field(
        default=False, description="Move pods with emptyDir or hostPath volumes, which do not follow the pod."
    )
    single_replica: bool = Field(
        default=False,
        description="Move the only pod of a workload even where it cannot be handed off and is gone for a while.",
    )


class TemporaryBudgetFields(Section):
    """The PodDisruptionBudget that guards a workload while a pod of it is evicted, where it has none of its own.

    Give one of the two fields; `minAvailable: 1` holds where neither is given.
    """

    min_available: Share | None = Field(default=None, description="Pods that must stay available.")
    max_unavailable: Share | None = Field(default=None, description="Pods that may be unavailable.")

    @model_validator(mode="before")
    @classmethod
    def _one_at_least_stays_where_nothing_is_said(cls, data: object) -> object:
        return {"minAvailable": 1} if data == {} else data

    @model_validator(mode="after")
    def _not_both(self) -> Self:
        if self.min_available is not None and self.max_unavailable is not None:
            raise FieldError("maxUnavailable", "cannot be given beside minAvailable: leave one of them out")
        return self


class ConcurrencyFields(Section):
    """How many migrations may be under way at once; the others wait."""

    total: PositiveCount = Field(default=20, description="In the whole cluster.")
    per_node: PositiveCount = Field(default=4, description="Away from or onto one node.")
    per_namespace: PositiveCount = Field(default=None, description="In one namespace.")
    per_workload: CountOrShare = Field(
        default=1,
        description="Of one workload (Deployment, StatefulSet and so on); per cent are of the replicas that it should "
        "have, rounded down, and one at least.",
    )


class OutcomeFields(Section):
    """What moves come to: whether the gain that was predicted came true, looked at some time after each move.

    A workload whose moves do not pay, or come back, rests longer each time: twice `coolDown`, then four times, and so
    on.
    """

    assess_after: Period = Field(default=120.0, description="How long after a move its gain is looked at.")
    longest_rest: Duration = Field(
        default=86400.0, description="The longest rest of a workload whose moves do not pay; 0s is none but `coolDown`."
    )


class MigrationFields(Section):
    """How moves are carried out, and what happens when one does not come to its end."""

    timeout: Period = Field(
        default=600.0, description="A move that takes longer is rolled back; a PodMigration may say its own."
    )
    attempts: Annotated[int, Field(ge=1, le=100)] = Field(
        default=3, description="How often a move is begun before it counts as failed; 1 never retries."
    )
    retry_delay: ShortPeriod = Field(
        default=10.0, description="How long a move that was rolled back waits before it is tried again."
    )
    max_retry_delay: ShortPeriod = Field(
        default=300.0, description="That wait doubles with each attempt, up to this one."
    )
    eviction_grace_period: WholeSeconds = Field(
        default=30.0,
        description="How long an evicted pod has to end by itself, at least, in whole seconds. A pod whose own "
        "`terminationGracePeriodSeconds` are more has these.",
    )
    temporary_budget: TemporaryBudgetFields = Field(
        default=TemporaryBudgetFields(), description="The disruption budget of workloads that have none; see below."
    )
    restore_after: Period = Field(
        default=300.0,
        description="After an eviction, whatever was changed to steer the new pod is taken back when that pod is "
        "there, and at the latest after this time.",
    )
    keep_finished: Duration = Field(
        default=3600.0, description="How long a PodMigration that is over is kept, for people to look at."
    )
    shutdown_grace_period: Duration = Field(
        default=20.0,
        description="How long a controller that is told to stop goes on to bring moves to a safe point.",
    )
    concurrency: ConcurrencyFields = Field(
        default=ConcurrencyFields(), description="How many moves at once; see below."
    )

    @model_validator(mode="after")
    def _waits_do_not_shrink(self) -> Self:
        if self.max_retry_delay < self.retry_delay:
            text, than = format_duration(self.max_retry_delay), format_duration(self.retry_delay)
            raise FieldError("maxRetryDelay", f"{text} is shorter than retryDelay ({than})")
        return self


class LeaderElectionFields(Section):
    """Which of several replicas acts. `leaseDuration` must exceed `renewDeadline`, and that one `retryPeriod`."""

    leader_elect: bool = Field(default=True, description="Take part in leader election; false is for a single replica.")
    lease_duration: Period = Field(
        default=15.0, description="How long the others wait after the leader's last renewal before one takes over."
    )
    renew_deadline: Period = Field(
        default=10.0, description="How long the leader tries to renew before it gives up and exits."
    )
    retry_period: ShortPeriod = Field(default=2.0, description="How long between tries to take or to renew the lease.")
    resource_name: ObjectName = Field(default="kube-rescheduler", description="Name of the Lease.")
    resource_namespace: OptionalNamespace = Field(
        default="", description="Namespace of the Lease; empty is the namespace that the rescheduler runs in."
    )

    @model_validator(mode="after")
    def _each_fits_in_the_one_before(self) -> Self:
        longer = ("leaseDuration", self.lease_duration)
        for name, value in (("renewDeadline", self.renew_deadline), ("retryPeriod", self.retry_period)):
            if value >= longer[1]:
                text, than = format_duration(value), format_duration(longer[1])
                raise FieldError(name, f"{text} is not shorter than {longer[0]} ({than})")
            longer = (name, value)
        return self


class ClientConnectionFields(Section):
    """How to reach the API server."""

    kubeconfig: str = Field(
        default="",
        description="Path of a kubeconfig; empty finds one as kubectl does, or takes the pod's own service account.",
    )
    qps: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = Field(
        default=None, description="Requests of the controller a second, on average; no limit if not given."
    )
    burst: Annotated[int, Field(ge=1)] | None = Field(
        default=None, description="Requests at once, where `qps` is given; as many as a second has if not given."
    )


class PlanningFields(Section):
    """What to move and what not; the args of the scheduler form."""

    rescheduling_interval: Period = Field(default=30.0, description="How often to look at the cluster and plan.")
    enabled_strategies: tuple[str, ...] = Field(
        default=("LoadBalancing", "ResourceOptimization"),
        description="Strategies that run, by name, each once; the order given does not matter. `[]` runs none.",
    )
    cpu_threshold: Percent = Field(
        default=80.0, description="Per cent of a node's allocatable CPU above which the node is hot."
    )
    memory_threshold: Percent = Field(
        default=80.0, description="Per cent of a node's allocatable memory above which the node is hot."
    )
    imbalance_threshold: Percent = Field(
        default=20.0,
        description="Percentage points between the most and the least used node that are accepted as balanced.",
    )
    thresholds: ResourceThresholds = Field(
        default={},
        description="Thresholds of other resources, in per cent, such as `{pods: 90, nvidia.com/gpu: 95}`. CPU and "
        "memory always have one; any other resource that nodes have, pod count and extended ones too, counts as soon "
        "as it is named here. One that is not named makes no node hot and is not balanced.",
    )
    threshold_mode: ThresholdMode = Field(
        default=ThresholdMode.ABSOLUTE,
        description="What thresholds are: `absolute` is per cent of allocatable, `deviation` points above what "
        "all nodes of the pool use together, in per cent of what they have together.",
    )
    utilization: Utilization = Field(
        default=Utilization.REQUESTS,
        description="What a node's use is reckoned by: what its pods request, `usage` as it is measured, or the `max` "
        "of both, pod by pod. Whether a pod fits on a node always goes by requests.",
    )
    hot_after_cycles: Cycles = Field(
        default=1, description="A node counts as hot when it has been so for this many cycles in a row."
    )
    pod_group_labels: tuple[LabelName, ...] = Field(
        default=(),
        description=f"Labels of pod groups besides `{POD_GROUP}`: pods of one namespace with the same value of one of "
        "them move together or not at all.",
    )
    pools: tuple[PoolFields, ...] = Field(
        default=(), description="Node pools with thresholds and strategies of their own; see below."
    )
    max_reschedule_pods: Count = Field(default=10, description="Pods that one plan may move in all; 0 moves none.")
    excluded_namespaces: tuple[Namespace, ...] = Field(
        default=("kube-system", "kube-public"), description="Namespaces whose pods are never moved."
    )
    excluded_pod_selector: LabelSelector = Field(
        default="",
        description="Labels of pods that are never moved, such as `app=db,tier in (cache)`; empty excludes none.",
    )
    limits: LimitFields = Field(default=LimitFields(), description="Finer limits; see below.")
    min_pod_age: Duration = Field(default=60.0, description="Younger pods are left alone.")
    cool_down: Duration = Field(
        default=600.0, description="How long a moved pod and its workload rest before a next move."
    )
    allow: AllowFields = Field(default=AllowFields(), description="What may be moved besides; see below.")
    filters: FilterFields = Field(default=FilterFields(), description="Which pods may be moved; see below.")
    when: WhenFields = Field(default=WhenFields(), description="When moves may begin; see below.")
    migration_method: MigrationMethod = Field(
        default=MigrationMethod.AUTO,
        description="How pods are moved: `handoff` starts the replacement first, `evict` evicts the pod first, "
        "`auto` picks the gentlest way that fits each pod.",
    )
    approval: Approval = Field(
        default=Approval.AUTOMATIC,
        description="`required`: plans wait until somebody approves on the page, with `rescheduler approve`, or by "
        "annotating the PodMigrations; `automatic` carries them out as they are made.",
    )
    approval_timeout: Period = Field(
        default=3600.0, description="A move that nobody approves of for so long is given up, and planned anew."
    )
    outcomes: OutcomeFields = Field(default=OutcomeFields(), description="What moves come to; see below.")
    migration: MigrationFields = Field(default=MigrationFields(), description="How moves are carried out; see below.")
    usage: UsageFields = Field(default=UsageFields(), description="Where measured usage comes from; see below.")
    recovery: RecoveryFields = Field(default=RecoveryFields(), description="Pods that fail on their node; see below.")
    webhook: WebhookFields = Field(default=WebhookFields(), description="The admission webhook; see below.")
    extender: ExtenderFields = Field(default=ExtenderFields(), description="The scheduler extender; see below.")
    web: WebFields = Field(default=WebFields(), description="The page, metrics and health; see below.")
    strategies: dict[str, dict[str, object]] = Field(
        default={}, description="Settings of single strategies, by the strategy's name; see below."
    )

    @field_validator("thresholds")
    @classmethod
    def _thresholds_are_of_resources(cls, thresholds: dict[str, float]) -> dict[str, float]:
        _named_well(thresholds)
        return thresholds

    @field_validator("pools")
    @classmethod
    def _thresholds_of_pools_are_of_resources(cls, pools: tuple[PoolFields, ...]) -> tuple[PoolFields, ...]:
        for pool in pools:
            _named_well(pool.thresholds or {})
        return pools

    @model_validator(mode="after")
    def _an_extender_is_served_somewhere(self) -> Self:
        served = self.webhook.enabled or self.webhook.certificates.certificate_file or self.extender.insecure_port
        if self.extender.enabled and not served:
            cure = "enable the webhook, give webhook.certificates, or give extender.insecurePort"
            raise FieldError("extender", f"has no certificate to be served with: {cure}")
        return self

    @model_validator(mode="after")
    def _each_server_has_a_port_of_its_own(self) -> Self:
        check_listeners(self.web, self.webhook, self.extender)
        return self


class Fields(PlanningFields):
    """The native form's top level, in the order in which it is printed and documented."""

    leader_election: LeaderElectionFields = Field(
        default=LeaderElectionFields(), description="Leader election; see below."
    )
    client_connection: ClientConnectionFields = Field(
        default=ClientConnectionFields(), description="The connection to the API server; see below."
    )


INHERITED = ("cpuThreshold", "memoryThreshold", "imbalanceThreshold")
"""Fields whose value is the default of a strategy's setting of the same name."""

OUTSIDE_ARGS = ("leaderElection", "clientConnection")
"""Fields that the scheduler form has at the top of its file, not among the plugin's args."""
