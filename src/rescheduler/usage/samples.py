"""Samples of usage: where they come from, and the newest ones of many nodes and pods in arrays, with their means.

The window is cut into cells of time; for each cell only the newest sample of a key is kept. So memory is bounded by the
number of keys alone (264 bytes of samples each, whatever the interval), and the order of arrival does not matter. Times
are seconds since 1970; an amount is NaN if a sample lacks a resource.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rescheduler.config.schema import UsageSettings
from rescheduler.model.json import ObjectKey
from rescheduler.model.objects import Usage
from rescheduler.model.shape import Requests
from rescheduler.model.snapshot import MEASURED
from rescheduler.model.time import format_duration

Floats = NDArray[np.float64]
Indexes = NDArray[np.int64]

CELLS = 10  # of a window
_SLOTS = CELLS + 1  # one more, because the window rarely starts with a cell
_NEVER = -np.inf
_AHEAD = 30.0  # seconds
_FEWEST = 1024  # initial capacity in keys


@dataclass(frozen=True, slots=True)
class UsageSample:
    """The usage at one time, in the order of MEASURED."""

    key: ObjectKey
    time: float
    amounts: tuple[float, ...]


class SampleStore:
    """The samples of many keys. Those of the last `window` count, if the newest is not older than `max_age`."""

    def __init__(self, settings: UsageSettings) -> None:
        self._settings = settings
        self._cell = settings.window / CELLS
        self._names: dict[str, dict[str, int]] = {}  # by namespace: a tuple for each pod would cost 8 MB
        self._used = 0
        self._times, self._amounts = _empty(_FEWEST)

    def __len__(self) -> int:
        return self._used

    def index(self, key: ObjectKey) -> int:
        """Return the index of a key's samples; -1 if there are none."""
        names = self._names.get(key[0])
        return -1 if names is None else names.get(key[1], -1)

    def names(self, namespace: str) -> Iterable[str]:
        """Return all names of a namespace."""
        return self._names.get(namespace, {})

    def put(self, samples: Iterable[UsageSample]) -> None:
        """Store samples, except where a newer one of the same cell is known."""
        newest: dict[tuple[int, int], tuple[float, tuple[float, ...]]] = {}
        for sample in samples:
            where = (self._index(sample.key), int(sample.time // self._cell) % _SLOTS)
            known = newest.get(where)
            if known is None or sample.time > known[0]:
                newest[where] = (sample.time, sample.amounts)
            elif sample.time == known[0]:  # given twice: the larger counts, in any order
                newest[where] = (sample.time, tuple(np.fmax(known[1], sample.amounts).tolist()))
        if not newest:
            return
        at = np.array(list(newest), dtype=np.int64)
        keys, slots = at[:, 0], at[:, 1]
        times = np.array([time for time, _ in newest.values()])
        amounts = np.array([amounts for _, amounts in newest.values()])
        known_times, known_amounts = self._times[keys, slots], self._amounts[keys, slots]
        later, same = times > known_times, times == known_times
        amounts = np.where(same[:, None], np.fmax(amounts, known_amounts), amounts)
        chosen = later | same
        self._times[keys[chosen], slots[chosen]] = times[chosen]
        self._amounts[keys[chosen], slots[chosen]] = amounts[chosen]

    def means(self, indexes: Indexes, now: float, since: Floats) -> Floats:
        """[K, resource]: the mean usage of each key, weighted by time; NaN where no sample is new enough.

        A sample stands for the time since the one before it, but for at most `max_age`: otherwise it would outweigh all
        others after a gap. The oldest stands for `interval`. Samples before `since` [K] belong to an earlier pod.
        """
        rows = np.maximum(indexes, 0)
        times = np.where(indexes[:, None] >= 0, self._times[rows], _NEVER)
        order = np.argsort(times, axis=1)
        times = np.take_along_axis(times, order, axis=1)
        amounts = np.take_along_axis(self._amounts[rows], order[:, :, None], axis=1)
        counts = (times > _NEVER) & (times >= since[:, None]) & (times <= latest_time(now, self._settings))
        within = counts & (times > now - self._settings.window)
        before = np.concatenate([np.full((len(times), 1), _NEVER), times[:, :-1]], axis=1)
        follows = np.concatenate([np.zeros((len(times), 1), dtype=bool), counts[:, :-1]], axis=1)
        with np.errstate(invalid="ignore"):
            span = np.where(follows, np.minimum(times - before, self._settings.max_age), self._settings.interval)
        means = np.full((len(times), len(MEASURED)), np.nan)
        for at in range(len(MEASURED)):
            column = amounts[:, :, at]
            known = counts & ~np.isnan(column)
            newest = np.where(known, times, _NEVER).max(axis=1)
            # If the window is shorter than max_age, the newest one may be before it, and counts alone.
            chosen = known & (within | (times == newest[:, None]))
            means[:, at] = _weigh(column, span, chosen, newest >= now - self._settings.max_age)
        return means

    def forget_before(self, time: float) -> None:
        """Forget keys without a sample since that time, once these are a tenth of all keys."""
        alive = self._times[: self._used].max(axis=1, initial=_NEVER) >= time
        if (self._used - np.count_nonzero(alive)) * 10 <= self._used:
            return
        moved = np.cumsum(alive) - 1
        names: dict[str, dict[str, int]] = {}
        for namespace, known in self._names.items():
            if kept := {name: int(moved[index]) for name, index in known.items() if alive[index]}:
                names[namespace] = kept
        used = int(np.count_nonzero(alive))
        times, amounts = _empty(max(_FEWEST, used + used // 8))
        times[:used] = self._times[: self._used][alive]
        amounts[:used] = self._amounts[: self._used][alive]
        self._names, self._used, self._times, self._amounts = names, used, times, amounts

    def _index(self, key: ObjectKey) -> int:
        names = self._names.get(key[0])
        if names is None:
            names = self._names[key[0]] = {}
        found = names.get(key[1])
        if found is None:
            if self._used == len(self._times):
                self._grow()
            found = names[key[1]] = self._used
            self._used += 1
        return found

    def _grow(self) -> None:
        times, amounts = _empty(self._used + max(_FEWEST, self._used // 4))
        times[: self._used] = self._times
        amounts[: self._used] = self._amounts
        self._times, self._amounts = times, amounts


def amounts_of(means: Floats) -> list[Requests]:
    """Convert each row to amounts, without unknown ones. Complete rows are the fast path: 150,000 take 60 ms."""
    whole = np.where(np.isnan(means), -1, means).astype(np.int64).tolist()
    cpu, memory = MEASURED
    return [((cpu, used), (memory, held)) if used >= 0 <= held else _drop_unknown((used, held)) for used, held in whole]


def _drop_unknown(amounts: Sequence[int]) -> Requests:
    return tuple((name, amount) for name, amount in zip(MEASURED, amounts, strict=True) if amount >= 0)


def latest_time(now: float, settings: UsageSettings) -> float:
    """Return the latest time that a sample may have: clocks of nodes differ a little."""
    return now + max(_AHEAD, settings.interval)


def _empty(keys: int) -> tuple[Floats, Any]:
    return np.full((keys, _SLOTS), _NEVER), np.full((keys, _SLOTS, len(MEASURED)), np.nan)


def _weigh(amounts: Floats, span: Floats, chosen: NDArray[np.bool_], fresh: NDArray[np.bool_]) -> Floats:
    """Return the mean of the chosen samples, rounded up like all amounts; NaN where the newest is too old."""
    weights = np.where(chosen, span, 0.0)
    total = weights.sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.where(chosen, weights * amounts, 0.0).sum(axis=1) / total
    # Rounding may take a sum of floats slightly out of its range; a mean never leaves it.
    low = np.where(chosen, amounts, np.inf).min(axis=1)
    high = np.where(chosen, amounts, -np.inf).max(axis=1)
    bounded = np.minimum(np.maximum(means, low), high)
    return np.where(fresh & (total > 0), np.ceil(bounded), np.nan)


class UsageError(Exception):
    """Usage could not be read; the message has the source and the cure."""


class QueryError(UsageError):
    """An invalid answer of a Prometheus, or a refused query."""


Take = Callable[[Sequence[Usage]], None]
"""Called with a part of an answer."""


class UsageBackend(Protocol):
    """A source of usage."""

    async def read(self, take: Take) -> tuple[str, ...]:
        """Pass the current usage on; return sentences about problems in the answer. UsageError or ClusterError says
        why there is no answer."""


_SHOWN = 3


class FirstNames:
    """The first three of any number of names, and their count."""

    def __init__(self, names: Iterable[str] = ()) -> None:
        self.count = 0
        self._first: list[str] = []
        for name in names:
            self.add(name)

    def add(self, name: str) -> None:
        """Add a name."""
        self.count += 1
        if len(self._first) < _SHOWN:
            self._first.append(name)

    def __bool__(self) -> bool:
        return self.count > 0

    def __str__(self) -> str:
        more = f" and {self.count - _SHOWN} more" if self.count > _SHOWN else ""
        return ", ".join(self._first) + more


@dataclass(frozen=True, slots=True)
class UsageGaps:
    """The nodes and pods without usage, which are counted by requests."""

    nodes: FirstNames
    of_nodes: int
    pods: FirstNames
    of_pods: int
    timeless: bool
    """Whether the snapshot has no time."""


def describe_rejected(rejected: Mapping[str, FirstNames], rows: int) -> Iterator[str]:
    """Yield a sentence for each reason to reject samples of an answer."""
    for why, names in rejected.items():
        if names:
            be = "is" if names.count == 1 else "are"
            yield f"usage: {names.count} of {rows} samples {be} {why}, and refused: {names}"


def describe_gaps(gaps: UsageGaps, others: FirstNames, max_age: float) -> Iterator[str]:
    """Yield a sentence for nodes and one for pods; `others` are node names of the source that the cluster lacks."""
    newer = f"no sample of the last {format_duration(max_age)}"
    if gaps.nodes:
        counted = "they are counted by their pods"
        yield f"usage: {newer} for {gaps.nodes.count} of {gaps.of_nodes} nodes; {counted}: {gaps.nodes}"
    if others:
        yield f"usage: the source names nodes otherwise than the cluster does: {others}"
    if gaps.pods:
        counted = "their requests count"
        yield f"usage: {newer} for {gaps.pods.count} of {gaps.of_pods} pods, nor for their like; {counted}: {gaps.pods}"
    if gaps.timeless:
        yield "usage: the input does not say when it was taken, so how old its samples are is not known (give --now)"
