"""What a pod of each workload uses on average, remembered beyond its pods.

A pod that has only just started has no history of its own. Its like have: those that run beside it, or those whose
place it took. So the mean of a workload is kept when the last of its measured pods has gone, for a day.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence

import numpy as np

from rescheduler.model.shape import Requests
from rescheduler.model.snapshot import WorkloadKey
from rescheduler.model.usage import RESOURCES
from rescheduler.usage.samples import Floats, amounts_of

_KEPT_FOR = 86400.0
_MOST = 100_000  # workloads without measured pods that are remembered


class WorkloadMeans:
    """Means by workload; safe for use by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[WorkloadKey, tuple[Requests, float]] = {}
        """The one that was refreshed last is the last."""

    def learn(self, keys: Sequence[WorkloadKey], used: Floats, now: float) -> dict[WorkloadKey, Requests]:
        """Learn what pods [P] of these workloads use; what is known of each workload now, old or new."""
        fresh = _means(keys, used)
        with self._lock:
            for key, amounts in fresh.items():
                self._known.pop(key, None)
                self._known[key] = (amounts, now)
            for key in list(self._known):
                if self._known[key][1] >= now - _KEPT_FOR and len(self._known) <= len(fresh) + _MOST:
                    break
                del self._known[key]
            return {key: amounts for key, (amounts, _) in self._known.items()}


def _means(keys: Sequence[WorkloadKey], used: Floats) -> dict[WorkloadKey, Requests]:
    numbers: dict[WorkloadKey, int] = {}
    rows = np.array([numbers.setdefault(key, len(numbers)) for key in keys], dtype=np.int64)
    told = ~np.isnan(used)
    sums = np.zeros((len(numbers), len(RESOURCES)))
    counts = np.zeros((len(numbers), len(RESOURCES)))
    np.add.at(sums, rows, np.where(told, used, 0.0))
    np.add.at(counts, rows, told)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.ceil(sums / counts)
    found = zip(numbers, amounts_of(means), strict=True)
    return {key: amounts for key, amounts in found if amounts}
