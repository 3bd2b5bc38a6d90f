"""All strategies together, beside the first three: what the reasons to move that were added later cost.

`python -m tests.bench.together` generates a large skewed cluster (the one of `tests.bench`), reads it once, and plans
it with the first three strategies and with all of them that can run beside each other, in turn, several times: tidy,
as it was generated, and disturbed, so that every strategy finds something to put right. Times are CPU time of this
process. Settings are the defaults, with every option that asks for more turned on.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import tempfile
import time
from pathlib import Path

from rescheduler.app import planning as app
from rescheduler.model.plan import Plan
from rescheduler.model.policy import Policy, Thresholds
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.api import Strategy
from rescheduler.planning.cycle import make_plan
from rescheduler.planning.settings import StrategySettings
from rescheduler.strategies import discover
from tests.bench.disturbed import disturbed
from tests.bench.skewed import write_cluster

FIRST = ("NodeMaintenance", "ResourceOptimization", "LoadBalancing")
MORE: dict[str, dict[str, object]] = {
    "NodeAffinity": {"includePreferred": True},
    "NodeTaints": {"includePreferNoSchedule": True},
    "TopologySpread": {"constraints": ("DoNotSchedule", "ScheduleAnyway")},
    "Topology": {"groupLabel": "tight"},
}
THRESHOLDS = Thresholds(70.0, 80.0)
GOAL = 2.0


def main() -> None:
    """Generate, measure, print."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench.together", description=__doc__)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--nodes", type=int, default=5_000)
    parser.add_argument("--pods", type=int, default=150_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--limit", type=int, help="maxReschedulePods; none without it")
    options = parser.parse_args()
    print(f"{platform.machine()}, Python {platform.python_version()}, seed {options.seed}")
    with tempfile.TemporaryDirectory(prefix="rescheduler-bench-") as folder:
        path = Path(folder) / "cluster.json"
        with path.open("wb") as out:
            write_cluster(out, options.nodes, options.pods, options.seed)
        snapshot = app.read(app.DumpFiles((str(path),)), None, lambda count: None)
    print(f"{len(snapshot.nodes):,} nodes, {len(snapshot.pods):,} pods")
    policy = Policy(cpu_threshold=THRESHOLDS.cpu, memory_threshold=THRESHOLDS.memory, max_reschedule_pods=options.limit)
    for title, each in (("tidy", snapshot), ("disturbed", disturbed(snapshot, options.seed))):
        print(f"{title}:")
        compare(each, policy, options.rounds)


def compare(snapshot: ClusterSnapshot, policy: Policy, rounds: int) -> None:
    """The first three beside all, in turn, and then each strategy alone."""
    together = [name for name in discover() if "LoadBalancing" not in discover()[name].settings_type.conflicts_with]
    seconds: dict[tuple[str, ...], list[float]] = {FIRST: [], tuple(together): []}
    for _ in range(rounds):
        for names, taken in seconds.items():
            plan, took = timed(snapshot, policy, names)
            taken.append(took)
            _tell(names, plan, took)
    first, every = (statistics.median(taken) for taken in seconds.values())
    verdict = "met" if every / first <= GOAL else "MISSED"
    print(
        f"all {len(together)} ÷ first three: {every:.2f} s ÷ {first:.2f} s = {every / first:.2f}  (goal ≤ 2: {verdict})"
    )
    for name in discover():
        plan, took = timed(snapshot, policy, (name,))
        print(f"  {name:<22} alone {took:6.2f} s, {len(plan.moves):6d} moves, {len(plan.rejections):6d} rejections")


def timed(snapshot: ClusterSnapshot, policy: Policy, names: tuple[str, ...]) -> tuple[Plan, float]:
    """The plan of these strategies, and the CPU seconds that it took."""
    started = time.process_time()
    plan = make_plan(snapshot, policy, [_strategy(name) for name in names])
    return plan, time.process_time() - started


def _strategy(name: str) -> Strategy[StrategySettings]:
    found = discover()[name]
    return found(found.settings_type.model_validate(MORE.get(name, {})))


def _tell(names: tuple[str, ...], plan: Plan, took: float) -> None:
    print(f"  {len(names):2d} strategies: {took:6.2f} s, {len(plan.moves)} moves, {len(plan.rejections)} rejections")


if __name__ == "__main__":
    main()
