"""Plans of snapshots in one call, snapshots of plain objects in another, and short words for what tests ask of a plan.

    planned(cluster(node("a"), …), "ResourceOptimization", cpu=70, max_moves=3)

Strategies go by name, as an operator names them; without a name all of them run. Unlike in the product there is no
limit on moves unless a test says so, and the rest of the policy is the product's default. `read` takes objects as
kubectl prints them (`tests.support.dumps`) through the product's reader.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict, Unpack

from rescheduler.decode.dump import DumpReader
from rescheduler.decode.reader import SnapshotBuilder
from rescheduler.model.plan import Plan, Rejection
from rescheduler.model.policy import Allowances, Filters, Limits, MigrationMethod, Policy, Thresholds, Timing
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.cycle import make_plan
from rescheduler.strategies import discover
from tests.support.applied import apply_plan
from tests.support.dumps import Object, dump
from tests.support.pod_migrations import replace

MAINTENANCE, OPTIMIZATION, BALANCING = "NodeMaintenance", "ResourceOptimization", "LoadBalancing"


class PolicyOptions(TypedDict, total=False):
    """What a test may say of the policy."""

    cpu: float
    memory: float
    imbalance: float
    max_moves: int | None
    per_node_in: int
    per_node_out: int
    per_namespace: int
    per_workload: int
    allow: Iterable[str]
    excluded_namespaces: Iterable[str]
    excluded_pods: str
    min_pod_age: float
    cool_down: float
    method: str
    filters: Filters
    when: Timing
    settings: Mapping[str, Mapping[str, object]]
    """Of strategies, by their names, as a file has them."""


def threshold_fields(wanted: Thresholds) -> dict[str, Any]:
    """Thresholds as fields of a policy or of a pool."""
    return {
        "cpu_threshold": wanted.cpu,
        "memory_threshold": wanted.memory,
        "thresholds": dict(wanted.others),
        "threshold_mode": wanted.mode,
    }


def planned(snapshot: ClusterSnapshot, *strategies: str, **options: Unpack[PolicyOptions]) -> Plan:
    """The plan that these strategies make of the snapshot under this policy."""
    policy = policy_of(options)
    known = discover()
    chosen = [known[name] for name in strategies or known]
    return make_plan(
        snapshot,
        policy,
        [kind(kind.settings_type.model_validate(policy.strategy_settings.get(kind.name, {}))) for kind in chosen],
    )


def policy_of(options: PolicyOptions) -> Policy:
    """The policy that these options mean."""
    default = Policy()
    allowed = frozenset(options.get("allow", ()))
    return Policy(
        strategy_settings={
            BALANCING: {"imbalanceThreshold": options.get("imbalance", 20.0)},
            **{name: dict(found) for name, found in options.get("settings", {}).items()},
        },
        cpu_threshold=options.get("cpu", 80.0),
        memory_threshold=options.get("memory", 80.0),
        max_reschedule_pods=options.get("max_moves"),
        limits=Limits(
            per_node_in=options.get("per_node_in"),
            per_node_out=options.get("per_node_out"),
            per_namespace=options.get("per_namespace"),
            per_workload=options.get("per_workload"),
        ),
        allow=Allowances(**dict.fromkeys(allowed, True)),
        excluded_namespaces=tuple(options.get("excluded_namespaces", default.excluded_namespaces)),
        excluded_pod_selector=options.get("excluded_pods", ""),
        min_pod_age=options.get("min_pod_age", default.min_pod_age),
        cool_down=options.get("cool_down", default.cool_down),
        migration_method=MigrationMethod(options.get("method", "auto")),
        filters=options.get("filters", default.filters),
        when=options.get("when", default.when),
    )


def moves_of(plan: Plan) -> dict[str, str]:
    """Pod → target, in the plan's order."""
    return {move.pod: move.target for move in plan.moves}


def rejection_of(plan: Plan, pod: str) -> Rejection:
    """The one rejection of this pod."""
    (found,) = [rejection for rejection in plan.rejections if rejection.pod == pod]
    return found


def rejected(plan: Plan) -> dict[str, str]:
    """Pod → guard."""
    return {rejection.pod: rejection.guard for rejection in plan.rejections}


def carry_out(snapshot: ClusterSnapshot, plan: Plan) -> ClusterSnapshot:
    """The cluster when all moves are done and nothing else has happened: new pods of the same names where they go."""
    return apply_plan(snapshot, plan)


def without_clock(snapshot: ClusterSnapshot) -> ClusterSnapshot:
    """The same cluster, from an input that doesn't say when it was taken."""
    return replace(snapshot, taken_at=None)


def read(*objects: Object | Iterable[Object]) -> ClusterSnapshot:
    """The snapshot of these objects, out of a file of them."""
    return read_bytes(json.dumps(dump(*objects)).encode())


def read_bytes(*files: bytes) -> ClusterSnapshot:
    """The snapshot of files with these contents."""
    collector = SnapshotBuilder()
    reader = DumpReader(collector)
    for content in files:
        reader.read(io.BytesIO(content), "f.json")
    return collector.snapshot(reader.taken_at)
