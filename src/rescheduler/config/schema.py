"""Everything that a configuration file may say, with its defaults: the native form's fields, as pydantic models.

The seed's form is brought to the same fields by `forms`. A field's description is its documentation, from which
docs/configuration.md is generated. Fields are camelCase in files and snake_case inside; durations are seconds, and
None is "unlimited" for a count.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Self

from pydantic import Field, field_validator, model_validator

from rescheduler.config.errors import FieldError, shown
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
)
from rescheduler.config.filter_fields import FilterFields
from rescheduler.config.pool_fields import PoolFields, ResourceThresholds
from rescheduler.config.recovery_fields import RecoveryFields
from rescheduler.config.serving_fields import ExtenderFields, WebFields, WebhookFields, check_listeners
from rescheduler.config.usage_fields import UsageFields
from rescheduler.config.when_fields import WhenFields
from rescheduler.model.duration import format_duration
from rescheduler.model.policy import POD_GROUP, Approval, MigrationMethod, ThresholdMode, Utilization

_PART = r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?"
_RESOURCE = re.compile(rf"({_PART}(\.{_PART})*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{{0,61}}[A-Za-z0-9])?")


def _named_well(thresholds: Mapping[str, float]) -> None:
    """Names of resources have the form that Kubernetes wants: `name` or `domain/name`."""
    for name in thresholds:
        if not _RESOURCE.fullmatch(name):
            raise ValueError(f"{shown(name)} is not the name of a resource, such as pods or nvidia.com/gpu")


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
    """What to move and what not; the args of the seed's form."""

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
"""Fields that the seed's form has at the top of its file, not among the plugin's args."""
