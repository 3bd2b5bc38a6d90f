"""Cases for all strategies together: a generated cluster and a policy for it, both rolled from one seed.

Any strategies that may run beside each other, with few settings or many; thresholds of either kind, limits, pools, pod
groups, measured use, pods that wait for room. The same seed is always the same case.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from rescheduler.model.policy import (
    Allowances,
    Limits,
    MigrationMethod,
    Policy,
    Pool,
    ThresholdMode,
    Thresholds,
    Utilization,
)
from rescheduler.model.snapshot import ClusterSnapshot, MeasuredUsage
from rescheduler.strategies import discover
from tests.support.generated import random_cluster, with_waiting_pods
from tests.support.planning import threshold_fields
from tests.support.pod_migrations import replace
from tests.support.sample_settings import MANY, SampleSettings
from tests.support.sample_settings import SETTINGS as FEW

MIB = 2**20
OPPOSITES = ("LoadBalancing", "Consolidation")
GPU = "example.com/gpu"


@dataclass(frozen=True)
class Case:
    """What is planned, and how."""

    snapshot: ClusterSnapshot
    policy: Policy


def roll_case(seed: int, given: SampleSettings | None = None) -> Case:
    """The case of this seed, or the same with other settings for strategies."""
    roll = random.Random(seed)
    snapshot = random_cluster(seed, roll.randint(4, 12), roll.choice([12, 20, 40, 70]))
    if roll.random() < 0.4:
        snapshot = with_waiting_pods(snapshot, seed)
    names, settings = _names(roll), MANY if roll.random() < 0.6 else FEW
    settings = given or settings
    thresholds, utilization = _thresholds(roll), Utilization.REQUESTS
    most, limits = _limits(roll)
    if roll.random() < 0.3:
        utilization = roll.choice([Utilization.USAGE, Utilization.MAX])
        snapshot = replace(snapshot, measured=_roll_usage(roll, snapshot))
    pools: tuple[Pool, ...] = ()
    if roll.random() < 0.3:
        nodes = roll.choice(["disk=ssd", "topology.kubernetes.io/zone=z1", "zone=z1", "!disk"])
        lower = replace(thresholds, cpu=max(thresholds.cpu - 10, 1))
        pools = (Pool("one", nodes, enabled_strategies=_names(roll), **threshold_fields(lower)),)
    policy = Policy(
        enabled_strategies=names,
        strategy_settings=settings,
        pool_settings={"one": settings},
        **threshold_fields(thresholds),
        max_reschedule_pods=most,
        limits=limits,
        allow=Allowances(jobs=True, local_storage=True, single_replica=True),
        min_pod_age=0.0,
        utilization=utilization,
        pools=pools,
        pod_group_labels=("version",) if roll.random() < 0.2 else Policy().pod_group_labels,
        migration_method=roll.choice([*[MigrationMethod.AUTO] * 3, MigrationMethod.EVICT]),
    )
    return Case(snapshot, policy)


def _names(roll: random.Random) -> tuple[str, ...]:
    """Two strategies, some or all of them; never both that are each other's opposite."""
    known, kind = [*discover()], roll.random()
    if kind < 0.75:
        known = roll.sample(known, 2 if kind < 0.45 else roll.randint(3, 6))
    if {*OPPOSITES} <= {*known}:
        known.remove(roll.choice(OPPOSITES))
    return tuple(known)


def _thresholds(roll: random.Random) -> Thresholds:
    level = roll.choice([40.0, 60.0, 80.0])
    others = roll.choice([{}, {}, {"pods": 50.0}, {GPU: 50.0}, {GPU: 50.0, "pods": 60.0}])
    mode = roll.choice([*[ThresholdMode.ABSOLUTE] * 3, ThresholdMode.DEVIATION])
    if mode is ThresholdMode.DEVIATION:
        level, others = 15.0, dict.fromkeys(others, 10.0)
    return Thresholds(level, level, tuple(others.items()), mode)


def _limits(roll: random.Random) -> tuple[int | None, Limits]:
    most = roll.choice([None, None, 10, 3])
    return most, Limits(
        per_node_in=roll.choice([None, None, None, 2]),
        per_node_out=roll.choice([None, None, None, 2]),
        per_workload=roll.choice([None, None, None, 1]),
    )


def _roll_usage(roll: random.Random, snapshot: ClusterSnapshot) -> MeasuredUsage:
    """Of most pods what they use, of most nodes what they use besides."""
    pods = {
        (pod.namespace, pod.name): (
            ("cpu", roll.choice([0, 50, 200, 800, 1500])),
            ("memory", roll.choice([0, 64, 512, 2048]) * MIB),
        )
        for pod in snapshot.pods
        if roll.random() < 0.8
    }
    besides = {
        node.name: (("cpu", roll.choice([0, 100, 500])), ("memory", 256 * MIB))
        for node in snapshot.nodes
        if roll.random() < 0.7
    }
    return MeasuredUsage(pods=pods, besides=besides)
