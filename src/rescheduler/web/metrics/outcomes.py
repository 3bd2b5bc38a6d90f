"""Whether moves paid: what was predicted of them, what came true, and the verdict.

Gains are in percentage points (`planning.gain`): by how much the busier of the two nodes became less busy.
"""

from __future__ import annotations

from rescheduler.model.migration import OutcomeVerdict
from rescheduler.web.metrics.catalogue import Catalogue
from rescheduler.web.metrics.labels import Known, strategies

_MOST = 1000.0  # points; a prediction is text of whoever made the PodMigration, and what is absurd must not count


class Outcomes:
    """The outcomes of finished moves."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._strategies = strategies()
        self._verdicts = Known(OutcomeVerdict)
        self._assessed = catalogue.counter(
            "rescheduler_moves_assessed_total",
            "Finished moves that were judged, by verdict; one that comes back later is judged again.",
            ("strategy", "verdict"),
        )
        # What came true may be a loss. A counter must not fall, or Prometheus takes it for a restart: so there are two.
        self._predicted = catalogue.counter(
            "rescheduler_gain_predicted_total",
            "The gain that was predicted of moves, in percentage points, where what came true is known, too.",
            ("strategy",),
        )
        self._realised = catalogue.counter(
            "rescheduler_gain_realised_total",
            "The gain of these moves that came true, in percentage points.",
            ("strategy",),
        )
        self._lost = catalogue.counter(
            "rescheduler_gain_lost_total",
            "What these moves made worse, in percentage points: gains below 0.",
            ("strategy",),
        )
        for strategy in self._strategies.values:
            for counter in (self._predicted, self._realised, self._lost):
                counter.labels(strategy)
            for verdict in self._verdicts.values:
                self._assessed.labels(strategy, verdict)

    def assessed(self, strategy: str, predicted: float | None, realised: float | None, verdict: str) -> None:
        """Count a move that was judged."""
        strategy = self._strategies.value(strategy)
        self._assessed.labels(strategy, self._verdicts.value(verdict)).inc()
        if predicted is None or realised is None:
            return  # only together can they be compared
        # Else it was not made for its gain, because a node was to be emptied; or one of its nodes has nothing to give.
        if 0 < predicted <= _MOST and abs(realised) <= _MOST:
            self._predicted.labels(strategy).inc(predicted)
            self._realised.labels(strategy).inc(max(realised, 0.0))
            self._lost.labels(strategy).inc(max(-realised, 0.0))
