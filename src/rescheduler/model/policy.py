"""What the operator wants, as plain values: the result of reading a configuration.

`config` makes a Policy out of a file and flags; the planner and the guards read it. It knows nothing of files, and
holds the strategies' settings only as data, because strategies are found and built by `app`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from rescheduler.model.selector import Selector


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
    per_workload: int | None = 1


@dataclass(frozen=True, slots=True)
class Allowances:
    """What is left alone unless the operator says that it may be moved."""

    jobs: bool = False
    local_storage: bool = False
    single_replica: bool = False


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Per cent of allocatable above which a node is hot; no strategy fills a node beyond them by choice."""

    cpu: float = 80.0
    memory: float = 80.0


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
