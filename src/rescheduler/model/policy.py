"""What the operator wants, as plain values: the result of reading a configuration.

`config` makes a Policy out of a file and flags; the planner and the guards read it. It knows nothing of files, and
holds the strategies' settings only as data, because strategies are found and built by `app`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from rescheduler.model.selector import Labels, Selector
from rescheduler.model.windows import ALWAYS, Schedule

POD_GROUP = "scheduling.x-k8s.io/pod-group"


class Approval(StrEnum):
    """Whether plans are carried out as they are made, or wait until somebody approves."""

    AUTOMATIC = "automatic"
    REQUIRED = "required"


class MigrationMethod(StrEnum):
    """How pods are moved; `auto` picks the gentlest way that fits each pod."""

    AUTO = "auto"
    HANDOFF = "handoff"
    EVICT = "evict"


@dataclass(frozen=True, slots=True)
class Limits:
    """How many pods one plan may move; None is no limit."""

    total: int | None = 10
    per_node_in: int | None = None
    per_node_out: int | None = None
    per_namespace: int | None = None
    per_workload: int | None = None


@dataclass(frozen=True, slots=True)
class Concurrency:
    """How many migrations may be under way at once; None is no limit. A node counts as source and as target."""

    total: int | None = 20
    per_node: int | None = 4
    per_namespace: int | None = None
    per_workload: int | str | None = 1
    """A number, or per cent of the replicas that the workload should have, such as `10%`."""

    def of_workload(self, replicas: int | None) -> int | None:
        """How many of a workload with so many replicas; one where that many are not known, or the share is less."""
        if not isinstance(self.per_workload, str):
            return self.per_workload
        return max(1, (replicas or 0) * int(self.per_workload.removesuffix("%")) // 100)


@dataclass(frozen=True, slots=True)
class Allowances:
    """What is left alone unless the operator says that it may be moved."""

    jobs: bool = False
    local_storage: bool = False
    single_replica: bool = False


class Utilization(StrEnum):
    """What a node's use is reckoned by: what its pods request, what is measured, or the larger of the two."""

    REQUESTS = "requests"
    USAGE = "usage"
    MAX = "max"


class ThresholdMode(StrEnum):
    """What thresholds are: per cent of allocatable, or points above the mean of the pool's nodes."""

    ABSOLUTE = "absolute"
    DEVIATION = "deviation"


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


@dataclass(frozen=True, slots=True)
class Pool:
    """Nodes with thresholds and strategies of their own. A node belongs to the first pool that selects it."""

    name: str
    nodes: Selector
    thresholds: Thresholds = Thresholds()
    hot_after: int = 1
    enabled_strategies: tuple[str, ...] = ()
    strategy_settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


class NoEviction(StrEnum):
    """What the mark prefer-no-eviction means: not by choice, or not at all."""

    PREFERRED = "preferred"
    MANDATORY = "mandatory"


@dataclass(frozen=True, slots=True)
class Filters:
    """Which pods strategies may move at all; whoever orders a move by hand is not bound by them."""

    namespaces: frozenset[str] = frozenset()
    """Only these; all where there is none."""
    namespace_labels: Selector | None = None
    pods: Selector | None = None
    nodes: Selector | None = None
    """Only pods on these nodes."""
    priority_threshold: int | str | None = None
    """Pods of this priority, or that of the PriorityClass of this name, and above are left alone."""
    min_replicas: int = 0
    persistent_volumes: bool = True
    storage_classes: frozenset[str] = frozenset()
    """Where pods with claims are left alone: only those with claims of these classes; all where there is none."""
    without_controller: bool = True
    without_disruption_budget: bool = True
    no_eviction: NoEviction = NoEviction.PREFERRED
    honour_evict_mark: bool = True
    """Whether the mark `evict` of a pod lifts what is only a caution."""


@dataclass(frozen=True, slots=True)
class Timing:
    """When moves by choice may begin, and how many; None is no limit."""

    schedule: Schedule = ALWAYS
    moves_per_hour: int | None = None
    rest_after_scaling: float = 120.0
    """For so many seconds after its autoscaler has scaled it, a workload is left alone."""
    moves_per_hour_per_namespace: int | None = None

    @property
    def counts(self) -> bool:
        """Whether it matters how many have begun within the hour."""
        return self.moves_per_hour is not None or self.moves_per_hour_per_namespace is not None

    @property
    def limits(self) -> bool:
        """Whether there are times at which nothing may begin."""
        return bool(self.schedule.windows) or self.counts


@dataclass(frozen=True, slots=True)
class Policy:
    """Everything that planning is told by the operator."""

    enabled_strategies: tuple[str, ...] = ("LoadBalancing", "ResourceOptimization")
    strategy_settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    thresholds: Thresholds = Thresholds()
    limits: Limits = Limits()
    allow: Allowances = Allowances()
    excluded_namespaces: frozenset[str] = frozenset({"kube-system", "kube-public"})
    excluded_pods: Selector | None = None
    min_pod_age: float = 60.0
    cool_down: float = 600.0
    longest_rest: float = 86400.0
    """At the most so long a workload rests whose moves do not pay; the rest doubles from coolDown on."""
    migration_method: MigrationMethod = MigrationMethod.AUTO
    filters: Filters = Filters()
    timing: Timing = Timing()
    by_hand: bool = False
    """Whether a person has ordered what is judged: filters, autoscalers and others' marks do not bind him."""
    utilization: Utilization = Utilization.REQUESTS
    hot_after: int = 1
    """A node counts as hot when it has been over a threshold for so many cycles in a row."""
    pod_group_labels: tuple[str, ...] = (POD_GROUP,)
    """Pods of one namespace with the same value of one of these labels move together or not at all."""
    pools: tuple[Pool, ...] = ()

    @property
    def strategies(self) -> tuple[str, ...]:
        """The strategies that run for any node."""
        pools = (name for pool in self.pools for name in pool.enabled_strategies)
        return tuple(dict.fromkeys((*self.enabled_strategies, *pools)))

    def strategies_for(self, labels: Labels) -> tuple[str, ...]:
        """The strategies that run for a node with these labels."""
        pool = next((pool for pool in self.pools if pool.nodes.matches(labels)), None)
        return self.enabled_strategies if pool is None else pool.enabled_strategies
