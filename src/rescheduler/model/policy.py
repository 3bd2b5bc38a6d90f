"""What the operator wants of planning: the sections of the configuration that planning reads, in the shape of the file.

A field is declared once, here: `config` parses files into these types, and makes the reference, the JSON schema and the
flags from the same declarations. What planning derives from a field (a parsed selector, the thresholds of a pool) is a
cached property beside it. Policies are frozen and compared by their fields; `dataclasses.replace` makes another one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import StrEnum
from functools import cached_property
from typing import Annotated

from annotated_types import Ge

from rescheduler.model.fields import (
    ControllerKind,
    Count,
    CountOrShare,
    Cycles,
    Duration,
    FieldError,
    Flag,
    LabelName,
    LabelSelector,
    Namespace,
    NodeSelector,
    ObjectName,
    Percent,
    Period,
    PositiveCount,
    Priority,
    ResourceThresholds,
    Section,
    WindowText,
    ZoneName,
    required,
    setting,
)
from rescheduler.model.selector import EVERYTHING, Labels, Selector, parse_selector
from rescheduler.model.windows import Schedule, parse_window

POD_GROUP = "scheduling.x-k8s.io/pod-group"


class Approval(StrEnum):
    """Whether plans are carried out as they are made, or wait for approval."""

    AUTOMATIC = "automatic"
    REQUIRED = "required"


class MigrationMethod(StrEnum):
    """How pods are moved; `auto` picks the gentlest way that fits each pod."""

    AUTO = "auto"
    HANDOFF = "handoff"
    EVICT = "evict"


class Utilization(StrEnum):
    """How a node's use is counted: by what its pods request, by what is measured, or by the larger of the two."""

    REQUESTS = "requests"
    USAGE = "usage"
    MAX = "max"


class ThresholdMode(StrEnum):
    """The unit of thresholds: per cent of allocatable, or points above the mean of the pool's nodes."""

    ABSOLUTE = "absolute"
    DEVIATION = "deviation"


class NoEviction(StrEnum):
    """What the annotation prefer-no-eviction of a pod means: not by choice, or not at all."""

    PREFERRED = "preferred"
    MANDATORY = "mandatory"


@dataclass(frozen=True)
class Limits(Section):
    """How many pods one plan may move, by where they are and whose they are; `maxReschedulePods` caps them all."""

    per_node_in: PositiveCount = setting(None, "Pods that may move onto one node.", Flag("moves onto one node."))
    per_node_out: PositiveCount = setting(None, "Pods that may move away from one node.", Flag("moves off one node."))
    per_namespace: PositiveCount = setting(
        None, "Pods of one namespace that may move.", Flag("moves in one namespace.")
    )
    per_workload: PositiveCount = setting(
        None, "Pods of one workload (Deployment, StatefulSet and so on) that may move.", Flag("moves of one workload.")
    )


@dataclass(frozen=True)
class Concurrency(Section):
    """How many migrations may run at once. The others wait."""

    total: PositiveCount = setting(20, "In the whole cluster.")
    per_node: PositiveCount = setting(4, "Away from or onto one node.")
    per_namespace: PositiveCount = setting(None, "In one namespace.")
    per_workload: CountOrShare = setting(
        1,
        "Of one workload (Deployment, StatefulSet and so on). A percentage is of its desired replicas, rounded "
        "down, and at least one.",
    )

    def of_workload(self, replicas: int | None) -> int | None:
        """The limit for a workload with so many replicas; at least one, also where the number is not known."""
        if not isinstance(self.per_workload, str):
            return self.per_workload
        return max(1, (replicas or 0) * int(self.per_workload.removesuffix("%")) // 100)


@dataclass(frozen=True)
class Allowances(Section):
    """Pods that are not moved unless allowed here."""

    jobs: bool = setting(
        False,
        "Move pods of Jobs, and pods without a controller that run to completion. Their work starts again.",
        Flag("also move pods that run to completion; their work starts again."),
    )
    local_storage: bool = setting(
        False,
        "Move pods with emptyDir or hostPath volumes. Their data is lost.",
        Flag("also move pods that lose their local data."),
    )
    single_replica: bool = setting(
        False,
        "Move the only pod of a workload even if it cannot be handed off and is down for a while.",
        Flag("also move single replicas that are down for a while."),
    )


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Above which a node is hot; no strategy fills a node beyond them by choice."""

    cpu: float = 80.0
    memory: float = 80.0
    others: tuple[tuple[str, float], ...] = ()
    """Of other resources, such as pods and extended ones, sorted by name; those not named here do not count."""
    mode: ThresholdMode = ThresholdMode.ABSOLUTE

    def named(self) -> dict[str, float]:
        """Resource → threshold; CPU and memory come first."""
        return {"cpu": self.cpu, "memory": self.memory, **dict(self.others)}


@dataclass(frozen=True)
class Pool(Section):
    """Nodes with thresholds and strategies of their own.

    A node belongs to the first pool whose `nodeSelector` selects it. Nodes of no pool use the fields at the top. A
    field that a pool does not set has the value of the field of the same name at the top. Strategies that balance load
    see only the nodes of their pool. Every strategy takes pods only from nodes of pools in which it is enabled.
    """

    name: ObjectName = required("Name of the pool; unique.")
    node_selector: NodeSelector = required("Labels of its nodes, such as `pool=gpu`.")
    cpu_threshold: Percent | None = setting(None, "As `cpuThreshold`, for this pool.")
    memory_threshold: Percent | None = setting(None, "As `memoryThreshold`, for this pool.")
    imbalance_threshold: Percent | None = setting(None, "As `imbalanceThreshold`, for this pool.")
    thresholds: ResourceThresholds | None = setting(None, "As `thresholds`, for this pool.")
    threshold_mode: ThresholdMode | None = setting(None, "As `thresholdMode`, for this pool.")
    hot_after_cycles: Cycles | None = setting(None, "As `hotAfterCycles`, for this pool.")
    enabled_strategies: tuple[str, ...] | None = setting(None, "Strategies that run for this pool; `[]` runs none.")
    strategies: dict[str, dict[str, object]] | None = setting(
        None, "Settings of strategies for this pool, over those at the top."
    )


@dataclass(frozen=True, slots=True)
class NodePool:
    """A pool with all that it inherits: what planning reads."""

    name: str
    nodes: Selector
    thresholds: Thresholds
    hot_after: int
    enabled_strategies: tuple[str, ...]
    strategy_settings: Mapping[str, Mapping[str, object]]

    @classmethod
    def of(cls, pool: Pool, policy: Policy) -> NodePool:
        """The pool under this policy."""
        shared = {each.name for each in fields(pool)} & {each.name for each in fields(policy)}
        own = {name: value for name in shared if (value := getattr(pool, name)) is not None}
        whole = replace(policy, **own)
        return cls(
            name=pool.name,
            nodes=parse_selector(pool.node_selector),
            thresholds=whole.node_thresholds,
            hot_after=whole.hot_after_cycles,
            enabled_strategies=whole.enabled_strategies,
            strategy_settings=policy.pool_settings.get(pool.name, {}),
        )


@dataclass(frozen=True)
class Filters(Section):
    """Which pods strategies may move. A pod must pass every filter. Moves ordered by hand are not filtered.

    See also `excludedNamespaces`, `excludedPodSelector`, `minPodAge` and `allow`.
    """

    namespaces: tuple[Namespace, ...] = setting(
        (), "Only pods of these namespaces are moved; `[]` means all but `excludedNamespaces`."
    )
    namespace_selector: LabelSelector = setting(
        "", "Only pods of namespaces with these labels are moved, such as `team=shop`."
    )
    pod_selector: LabelSelector = setting("", "Only pods with these labels are moved.")
    node_selector: LabelSelector = setting(
        "", "Only pods on nodes with these labels are moved. The target may be any node."
    )
    priority_threshold: Priority = setting(
        None, "Pods of this priority or a higher one are not moved: a number, or the name of a PriorityClass."
    )
    min_replicas: Annotated[int, Ge(0)] = setting(0, "Pods of controllers with fewer replicas are not moved.")
    persistent_volumes: bool = setting(True, "Also move pods with a PersistentVolumeClaim.")
    protected_storage_classes: tuple[ObjectName, ...] = setting(
        (),
        "With `persistentVolumes: false`: only pods with claims of these storage classes are not moved; `[]` means "
        "all classes.",
    )
    controllers: tuple[ControllerKind, ...] = setting(
        (),
        "Also move pods of these controllers, by eviction: kinds with their API groups, such as "
        "`CloneSet.apps.kruise.io`, or `*` for all. Pods of ReplicaSets, StatefulSets and Jobs need no entry.",
    )
    schedulers: tuple[str, ...] = setting(
        ("default-scheduler", "rescheduler-scheduler"),
        "Only pods with one of these as `schedulerName` are moved; `[]` means all. Name those that honour "
        "`status.nominatedNodeName`, as kube-scheduler does with every profile.",
    )
    without_controller: bool = setting(True, "Also move pods without a controller, by a copy.")
    without_disruption_budget: bool = setting(
        True,
        "Also move pods that no PodDisruptionBudget selects.",
    )
    no_eviction_policy: NoEviction = setting(
        NoEviction.PREFERRED,
        "What the annotation `descheduler.alpha.kubernetes.io/prefer-no-eviction` of a pod means: "
        "with `preferred` it is moved only off a node under maintenance, with `mandatory` never.",
    )
    honour_evict_mark: bool = setting(
        True,
        "Whether the annotation `descheduler.alpha.kubernetes.io/evict` of a pod lifts the guards that "
        "are only a precaution; see [when](when.md).",
    )

    def __post_init__(self) -> None:
        if self.protected_storage_classes and self.persistent_volumes:
            raise FieldError("protectedStorageClasses", "says nothing unless persistentVolumes is false")

    @cached_property
    def namespace_labels(self) -> Selector | None:
        """Labels that namespaces must have; None where any will do."""
        return _narrowing(self.namespace_selector)

    @cached_property
    def pods(self) -> Selector | None:
        """Labels that pods must have; None where any will do."""
        return _narrowing(self.pod_selector)

    @cached_property
    def nodes(self) -> Selector | None:
        """Labels that the nodes of pods must have; None where any will do."""
        return _narrowing(self.node_selector)


def _narrowing(text: str) -> Selector | None:
    """A selector, or None if it selects everything."""
    selector = parse_selector(text)
    return None if selector == EVERYTHING else selector


@dataclass(frozen=True)
class Timing(Section):
    """When optional moves may begin. Moves that a person ordered do not wait. See [when](when.md)."""

    windows: tuple[WindowText, ...] = setting(
        (),
        "Time windows in which moves may begin, such as `Mon-Fri 22:00-05:00`, `Sat,Sun`, `* 02:00-04:00` "
        "or `Fri 22:00-Mon 05:00`. Outside of them plans are made and shown, but not carried out; `[]` means always.",
    )
    time_zone: ZoneName = setting("UTC", "Time zone of the windows, such as `Europe/Berlin`.")
    moves_per_hour: PositiveCount = setting(
        None, "How many moves may begin within any 60 minutes, across changes of the leader."
    )
    moves_per_hour_per_namespace: PositiveCount = setting(
        None, "The same for one namespace. Other namespaces are not held up."
    )
    rest_after_scaling: Duration = setting(
        120.0, "How long a workload is not moved after its HorizontalPodAutoscaler has scaled it."
    )

    @cached_property
    def schedule(self) -> Schedule:
        """The windows in their time zone."""
        return Schedule.of(tuple(parse_window(text) for text in self.windows), self.time_zone)

    @property
    def counts(self) -> bool:
        """Whether it matters how many moves have begun within the hour."""
        return self.moves_per_hour is not None or self.moves_per_hour_per_namespace is not None

    @property
    def limits(self) -> bool:
        """Whether there are times at which nothing may begin."""
        return bool(self.windows) or self.counts


@dataclass(frozen=True)
class OutcomeSettings(Section):
    """Outcomes of moves: whether a move brought the predicted gain, measured some time after it.

    A workload whose moves do not pay off, are undone, or fail after the eviction of their pod, rests longer each time:
    twice `coolDown`, then four times, and so on.
    """

    assess_after: Period = setting(120.0, "How long after a move its gain is measured.")
    longest_rest: Duration = setting(
        86400.0, "The longest rest of a workload whose moves do not pay off; with 0s it rests only for `coolDown`."
    )


@dataclass(frozen=True)
class Policy(Section):
    """Everything that planning reads of the configuration."""

    rescheduling_interval: Period = setting(30.0, "How often to plan.")
    enabled_strategies: tuple[str, ...] = setting(
        ("LoadBalancing", "ResourceOptimization"),
        "Strategies to run, by name, each once; their order does not matter. `[]` runs none.",
        Flag("Run this strategy instead of enabledStrategies; may be repeated.", name="--strategy", metavar="NAME"),
    )
    cpu_threshold: Percent = setting(
        80.0, "Per cent of a node's allocatable CPU above which the node is hot.", Flag("above it a node is hot.")
    )
    memory_threshold: Percent = setting(
        80.0, "Per cent of a node's allocatable memory above which the node is hot.", Flag("above it a node is hot.")
    )
    imbalance_threshold: Percent = setting(
        20.0,
        "The gap between the most and the least used node that counts as balanced, in percentage points.",
        Flag("the gap between nodes that LoadBalancing accepts.", metavar="POINTS"),
    )
    thresholds: ResourceThresholds = setting(
        {},
        "Thresholds of other resources, in per cent, such as `{pods: 90, nvidia.com/gpu: 95}`. CPU and "
        "memory always have one. Any other resource of nodes, including pod count and extended resources, counts only "
        "if it is named here: otherwise it makes no node hot and is not balanced.",
    )
    threshold_mode: ThresholdMode = setting(
        ThresholdMode.ABSOLUTE,
        "The unit of thresholds: `absolute` is per cent of allocatable, `deviation` is percentage points above the "
        "mean utilisation of the pool's nodes.",
    )
    utilization: Utilization = setting(
        Utilization.REQUESTS,
        "How a node's use is counted: by what its pods request, by measured `usage`, or by the `max` of both for each "
        "pod. Whether a pod fits on a node always depends on requests.",
        Flag("how a node's use is counted: what pods request, or what is measured."),
    )
    hot_after_cycles: Cycles = setting(
        1, "A node counts as hot after it was over a threshold in so many cycles in a row."
    )
    pod_group_labels: tuple[LabelName, ...] = setting(
        (),
        f"Labels of pod groups besides `{POD_GROUP}`: pods of one namespace with the same value of one of "
        "them move together or not at all.",
    )
    pools: tuple[Pool, ...] = setting((), "Node pools with thresholds and strategies of their own; see below.")
    max_reschedule_pods: Count = setting(
        10, "Pods that one plan may move in total; 0 moves none.", Flag("moves in one plan.")
    )
    excluded_namespaces: tuple[Namespace, ...] = setting(
        ("kube-system", "kube-public"),
        "Namespaces whose pods are never moved.",
        Flag(
            "Never move pods of this namespace; may be repeated, and replaces excludedNamespaces "
            "(kube-system, kube-public).",
            name="--excluded-namespace",
            metavar="NAMESPACE",
        ),
    )
    excluded_pod_selector: LabelSelector = setting(
        "",
        "Labels of pods that are never moved, such as `app=db,tier in (cache)`. Empty excludes no pods.",
        Flag("never move these pods."),
    )
    limits: Limits = setting(Limits(), "Finer limits; see below.")
    min_pod_age: Duration = setting(60.0, "Younger pods are not moved.", Flag("do not move younger pods."))
    cool_down: Duration = setting(
        600.0,
        "How long a pod and its workload rest after a move.",
        Flag("how long a workload rests after a move."),
    )
    allow: Allowances = setting(Allowances(), "What else may be moved; see below.")
    filters: Filters = setting(Filters(), "Which pods may be moved; see below.")
    when: Timing = setting(Timing(), "When moves may begin; see below.")
    migration_method: MigrationMethod = setting(
        MigrationMethod.AUTO,
        "How pods are moved: `handoff` starts the replacement first, `evict` evicts the pod first, "
        "`auto` picks the least disruptive way for each pod.",
        Flag("how pods are moved."),
    )
    approval: Approval = setting(
        Approval.AUTOMATIC,
        "`required`: moves wait for approval on the page, with `rescheduler approve`, or by an annotation of the "
        "PodMigrations. `automatic`: moves begin without approval.",
    )
    approval_timeout: Period = setting(
        3600.0, "How long a move may wait for approval before it is dropped (and replanned)."
    )
    outcomes: OutcomeSettings = setting(OutcomeSettings(), "Outcomes of moves; see below.")

    by_hand: bool = False
    """Not of the file: whether a person has ordered what is judged. Filters, autoscalers and annotations of other tools
    do not apply then."""
    pod_groups: bool = True
    """Not of the file: whether pods of a group move only together."""
    strategy_settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    """Not of the file: all settings of strategies by their Python names, inherited ones and defaults too; only data,
    since `app` finds and builds strategies."""
    pool_settings: Mapping[str, Mapping[str, Mapping[str, object]]] = field(default_factory=dict)
    """Not of the file: the same for each pool, by the pool's name."""

    @cached_property
    def excluded_pods(self) -> Selector | None:
        """Pods that are never moved. To a selector of Kubernetes empty is everything; an empty exclusion is none."""
        return _narrowing(self.excluded_pod_selector)

    @cached_property
    def group_labels(self) -> tuple[str, ...]:
        """Pods of one namespace with the same value of one of these labels move together or not at all."""
        return (POD_GROUP, *self.pod_group_labels) if self.pod_groups else ()

    @cached_property
    def node_thresholds(self) -> Thresholds:
        """The thresholds of nodes that belong to no pool."""
        return Thresholds(
            self.cpu_threshold, self.memory_threshold, tuple(sorted(self.thresholds.items())), self.threshold_mode
        )

    @cached_property
    def node_pools(self) -> tuple[NodePool, ...]:
        """The pools, with what they inherit from the fields at the top."""
        return tuple(NodePool.of(pool, self) for pool in self.pools)

    @property
    def strategies_anywhere(self) -> tuple[str, ...]:
        """The strategies that run for any node."""
        pools = (name for pool in self.node_pools for name in pool.enabled_strategies)
        return tuple(dict.fromkeys((*self.enabled_strategies, *pools)))

    def strategies_for(self, labels: Labels) -> tuple[str, ...]:
        """The strategies that run for a node with these labels."""
        pool = next((pool for pool in self.node_pools if pool.nodes.matches(labels)), None)
        return self.enabled_strategies if pool is None else pool.enabled_strategies
