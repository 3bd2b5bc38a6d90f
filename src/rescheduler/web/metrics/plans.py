"""What planning costs and gives: how long each part of a cycle took, what the newest plan holds, what guards refuse.

Only a leader's plans are counted. What the newest plan holds is shown until the next one takes its place.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, ParamSpec, TypeVar, get_args

from rescheduler.model.plan import Plan
from rescheduler.planning.guards import GUARDS
from rescheduler.web.metrics.catalogue import Catalogue, Labels
from rescheduler.web.metrics.labels import METHODS, Few, method_value, strategies
from rescheduler.web.metrics.nodes import Utilisation

Phase = Literal["snapshot", "plan", "order"]
"""A part of a cycle."""
PHASES: tuple[Phase, ...] = get_args(Phase)
_MOST_GUARDS = 60
_LONG = (0.001, 0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
P = ParamSpec("P")
Result = TypeVar("Result")
Values = Iterator[tuple[Labels, float]]


class Plans:
    """The plans of this process."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._strategies = strategies()
        self._guards = Few(_MOST_GUARDS)
        self._newest: tuple[Plan, float] | None = None
        self.utilisation: Utilisation | None = None
        """How the nodes stood when the newest plan was made."""
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
            f"How long each part of a planning cycle took: {', '.join(PHASES)}.",
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
        for guard, _ in GUARDS:
            self._rejections.labels(self._guards.value(guard))
        for phase in PHASES:
            self._seconds.labels(phase)

    def planned(self, plan: Plan) -> None:
        """Count a plan, and show it from now on."""
        self._newest = (plan, time.time())
        self.utilisation = Utilisation.of_picture(plan.before)
        for move in plan.moves:
            self._moves.labels(self._strategies.value(move.strategy), method_value(move.method)).inc()
        for guard, count in Counter(each.guard for each in plan.rejections).items():
            self._rejections.labels(self._guards.value(guard)).inc(count)

    @contextmanager
    def phase(self, name: Phase) -> Iterator[None]:
        """Time a part of a cycle, also one that ends with an error."""
        with self._seconds.labels(name).time():
            yield

    def timed(self, name: Phase, work: Callable[P, Result]) -> Callable[P, Result]:
        """The same work, whose time is taken; it may be done in any thread."""

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
