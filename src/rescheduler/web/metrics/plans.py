"""Metrics of node utilisation and of plans.

Utilisation covers worker nodes, as a share of allocatable: 1 is full. The figures are those of the page
(`web.node_stats`), or without a page those of the newest plan. Resources and pools come from the configuration, so
there are never many.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal, ParamSpec, TypeVar, get_args

import numpy as np

from rescheduler.model.plan import ClusterLoad, Plan
from rescheduler.planning import guards
from rescheduler.planning.columns import Floats
from rescheduler.web.metrics.catalogue import METHODS, CappedLabel, Labels, MetricCatalogue, method_value, strategies
from rescheduler.web.node_stats import COUNT, NodeStats

BOUNDS: Floats = np.array([*(share / 20 for share in range(1, 21)), 1.5, np.inf])
Values = Iterator[tuple[Labels, float]]


@dataclass(frozen=True, slots=True)
class MeasuredUtilisation:
    """The share of each node that is used, by resource, over the nodes that have the resource."""

    shares: Mapping[str, Floats]
    nodes: int
    hot: int
    pools: Mapping[str, int]
    """Hot nodes of each pool."""

    @classmethod
    def of_picture(cls, picture: ClusterLoad) -> MeasuredUtilisation:
        """From a plan, which has pods only where they count."""
        percent = np.array([(load.cpu, load.memory) for load in picture.loads], np.float64).reshape(-1, 2)
        shares = {"cpu": percent[:, 0] / 100, "memory": percent[:, 1] / 100}
        for at, name in enumerate(picture.others):
            found = [share for load in picture.loads if (share := load.others[at]) is not None]
            shares[name] = np.array(found, np.float64) / 100
        return cls(shares, len(picture.loads), picture.hot_nodes, picture.hot_nodes_by_pool)

    @classmethod
    def of_stats(cls, stats: NodeStats) -> MeasuredUtilisation:
        """From the page's statistics."""
        table, load = stats.table, stats.load
        shares = {
            name: stats.percent[row, table.workers & (table.capacity[row] > 0) if row > COUNT else table.workers] / 100
            for row, name in enumerate(table.rules.resources)
        }
        return cls(shares, int(table.workers.sum()), load.hot_nodes, load.hot_nodes_by_pool)


_STATISTICS: Mapping[str, tuple[str, Callable[[Floats], float]]] = {
    "max": ("The utilisation of the most used node.", lambda of: float(of.max())),
    "min": ("The utilisation of the least used node.", lambda of: float(of.min())),
    "mean": ("The mean utilisation of nodes.", lambda of: float(of.mean())),
    "stddev": ("The standard deviation of the utilisation of nodes.", lambda of: float(of.std())),
    "spread": ("The gap between the most and the least used node.", lambda of: float(of.max() - of.min())),
}


class UtilisationMetrics:
    """Node utilisation at each scrape."""

    def __init__(self, catalogue: MetricCatalogue, read: Callable[[], MeasuredUtilisation | None]) -> None:
        self._read = read
        catalogue.clusters_distribution(
            "rescheduler_node_utilisation_ratio",
            "How many nodes are used up to which share of what they have.",
            ("resource",),
            self._distribution,
        )
        for name, (meaning, value) in _STATISTICS.items():
            reading = self._statistic(value)
            catalogue.clusters_gauge(f"rescheduler_node_utilisation_{name}_ratio", meaning, ("resource",), reading)
        hot = "Nodes above a threshold of theirs."
        catalogue.clusters_gauge("rescheduler_hot_nodes", hot, (), lambda: self._number(lambda now: now.hot))
        of_pool = "The same of each node pool of the configuration."
        catalogue.clusters_gauge("rescheduler_pool_hot_nodes", of_pool, ("pool",), self._hot_by_pool)
        known = "Nodes that take part: all but the control plane's."
        catalogue.clusters_gauge("rescheduler_nodes", known, (), lambda: self._number(lambda now: now.nodes))

    def _distribution(self) -> Iterator[tuple[Labels, Mapping[float, int], float]]:
        if (now := self._read()) is not None:
            for resource, shares in now.shares.items():
                counts = np.bincount(np.searchsorted(BOUNDS, shares), minlength=len(BOUNDS)).cumsum().tolist()
                yield (resource,), dict(zip(BOUNDS.tolist(), counts, strict=True)), float(shares.sum())

    def _statistic(self, value: Callable[[Floats], float]) -> Callable[[], Values]:
        def read() -> Values:
            if (now := self._read()) is not None and now.nodes:
                known = ((resource, shares) for resource, shares in now.shares.items() if len(shares))
                yield from (((resource,), value(shares)) for resource, shares in known)

        return read

    def _hot_by_pool(self) -> Values:
        if (now := self._read()) is not None:
            yield from (((pool,), hot) for pool, hot in now.pools.items())

    def _number(self, value: Callable[[MeasuredUtilisation], int]) -> Values:
        if (now := self._read()) is not None:
            yield (), value(now)


CyclePhase = Literal["snapshot", "plan", "order"]
"""A part of a cycle."""
CYCLE_PHASES: tuple[CyclePhase, ...] = get_args(CyclePhase)
_MOST_GUARDS = 60
_LONG = (0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
P = ParamSpec("P")
Result = TypeVar("Result")


class PlanMetrics:
    """Plans of this process."""

    def __init__(self, catalogue: MetricCatalogue) -> None:
        self._strategies = strategies()
        self._guards = CappedLabel(_MOST_GUARDS)
        self._newest: tuple[Plan, float] | None = None
        self.utilisation: MeasuredUtilisation | None = None
        """The utilisation when the newest plan was made."""
        self._moves = catalogue.counter(
            "rescheduler_moves_planned_total",
            "Moves in plans; what is not ordered, such as while it is paused, is planned and counted again.",
            ("strategy", "method"),
        )
        self._rejections = catalogue.counter(
            "rescheduler_rejections_total",
            "Pods that a strategy proposed and a guard refused, once for each plan that says so.",
            ("guard",),
        )
        self._seconds = catalogue.histogram(
            "rescheduler_cycle_duration_seconds",
            f"How long each part of a planning cycle took: {', '.join(CYCLE_PHASES)}.",
            ("phase",),
            _LONG,
        )
        catalogue.leaders_gauge(
            "rescheduler_plan_moves", "Moves in the newest plan, by strategy.", ("strategy",), self._now_moved
        )
        catalogue.leaders_gauge(
            "rescheduler_plan_rejections", "Rejections in the newest plan, by guard.", ("guard",), self._now_rejected
        )
        catalogue.leaders_gauge(
            "rescheduler_last_plan_timestamp_seconds", "When the newest plan was made (Unix time).", (), self._made
        )
        for strategy in self._strategies.values:
            for method in METHODS:
                self._moves.labels(strategy, method)
        for guard in guards.discover():
            self._rejections.labels(self._guards.value(guard))
        for phase in CYCLE_PHASES:
            self._seconds.labels(phase)

    def observe(self, plan: Plan) -> None:
        """Count a plan, and show it from now on."""
        self._newest = (plan, time.time())
        self.utilisation = MeasuredUtilisation.of_picture(plan.before)
        for move in plan.moves:
            self._moves.labels(self._strategies.value(move.strategy), method_value(move.method)).inc()
        for guard, count in Counter(each.guard for each in plan.rejections).items():
            self._rejections.labels(self._guards.value(guard)).inc(count)

    @contextmanager
    def phase(self, name: CyclePhase) -> Iterator[None]:
        """Time a part of a cycle, also one that ends with an error."""
        with self._seconds.labels(name).time():
            yield

    def timed(self, name: CyclePhase, work: Callable[P, Result]) -> Callable[P, Result]:
        """Wrap work so that it is timed; it may run in any thread."""

        def working(*args: P.args, **kwargs: P.kwargs) -> Result:
            with self.phase(name):
                return work(*args, **kwargs)

        return working

    def _now_moved(self) -> Values:
        if self._newest is not None:
            moves = Counter(self._strategies.value(move.strategy) for move in self._newest[0].moves)
            yield from (((strategy,), moves[strategy]) for strategy in self._strategies.values)

    def _now_rejected(self) -> Values:
        if self._newest is not None:
            found = Counter(self._guards.value(each.guard) for each in self._newest[0].rejections)
            yield from (((guard,), count) for guard, count in sorted(found.items()))

    def _made(self) -> Values:
        if self._newest is not None:
            yield (), self._newest[1]
