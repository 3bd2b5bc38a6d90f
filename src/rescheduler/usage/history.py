"""Smoothed usage: samples over time, means of workloads that outlive their pods, and the overhead of nodes.

A pod that has just started has no history. Its siblings have: those that run beside it, or those that it replaced. So
the mean of a workload is kept for a day after its last measured pod is gone.

Overhead is what a node uses besides its pods. `SystemOverhead` computes it from one answer of a source, with the pods
as they stand at that time; `OverheadHistory` keeps the minimum over a window. It is the minimum, not the mean: a node's
measurement is some seconds old, and still includes pods that have left since. So the overhead can be too large for a
moment after each move, and is hardly ever too small. With means, a node would look hot for minutes after it was cooled,
and would be emptied.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice

import numpy as np

from rescheduler.config.schema import UsageSettings
from rescheduler.model import labels
from rescheduler.model.json import ObjectKey
from rescheduler.model.objects import Pod, Usage
from rescheduler.model.shape import Requests
from rescheduler.model.snapshot import MEASURED, ClusterSnapshot, MeasuredUsage, WorkloadKey
from rescheduler.model.time import format_duration
from rescheduler.planning.workloads import Workloads
from rescheduler.usage.samples import (
    CELLS,
    FirstNames,
    Floats,
    SampleStore,
    UsageGaps,
    UsageSample,
    amounts_of,
    describe_gaps,
    describe_rejected,
    latest_time,
)

_KEPT_FOR = 86400.0
_MOST = 100_000  # workloads without measured pods that are remembered


class WorkloadMeans:
    """Means by workload; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: dict[WorkloadKey, tuple[Requests, float]] = {}
        """The one refreshed last is last."""

    def learn(self, keys: Sequence[WorkloadKey], used: Floats, now: float) -> dict[WorkloadKey, Requests]:
        """Take in the usage of pods [P] of these workloads; return the current mean of every known workload."""
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
    known = ~np.isnan(used)
    sums = np.zeros((len(numbers), len(MEASURED)))
    counts = np.zeros((len(numbers), len(MEASURED)))
    np.add.at(sums, rows, np.where(known, used, 0.0))
    np.add.at(counts, rows, known)
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.ceil(sums / counts)
    found = zip(numbers, amounts_of(means), strict=True)
    return {key: amounts for key, amounts in found if amounts}


_AT_ONCE = 8192  # keys processed under one lock: a few milliseconds
_AHEAD, _TIMELESS = "from a time that has not come yet (clocks differ)", "without a time"
_OTHERS = 100  # node names of the source that are compared with the cluster's


class UsageHistory:
    """Samples over time; safe for one writer and any number of reading threads."""

    def __init__(self, settings: UsageSettings) -> None:
        self._settings = settings
        self._too_old = f"older than {format_duration(settings.max_age)}"
        self._samples = SampleStore(settings)
        self._overheads = OverheadHistory(settings.window)
        self._workloads = WorkloadMeans()
        self._lock = threading.Lock()
        self._asked = 0.0
        """The time of the newest answer's request."""
        self._rows = 0
        self._rejected: dict[str, FirstNames] = {}
        """The rejected samples of the answer, by reason."""
        self._overhead = SystemOverhead()
        self._warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self._samples)

    def begin(self, now: float, overhead: SystemOverhead | None = None) -> None:
        """Start a new answer; `overhead` has the pods as they stand now."""
        self._asked, self._rows = now, 0
        self._rejected = {why: FirstNames() for why in (self._too_old, _AHEAD, _TIMELESS)}
        self._overhead = overhead or SystemOverhead()

    def take(self, rows: Iterable[Usage]) -> None:
        """Take in a part of the answer."""
        samples = [sample for row in rows if (sample := self._sample(row)) is not None]
        self._overhead.take(samples)
        with self._lock:
            self._samples.put(samples)

    def end(self, warnings: Iterable[str] = ()) -> None:
        """Finish the answer, with the warnings of the source."""
        oldest = self._asked - max(self._settings.max_age, self._settings.window)
        besides = list(self._overhead.found())
        self._overhead = SystemOverhead()
        with self._lock:
            self._overheads.put(besides, self._asked)
            self._samples.forget_before(oldest)
            self._warnings = (*warnings, *describe_rejected(self._rejected, self._rows))

    def failed(self, why: str) -> None:
        """Note that there is no complete answer. Known samples stay until they are too old."""
        with self._lock:
            self._warnings = (f"what is used could not be read: {why}",)

    def measured(self, snapshot: ClusterSnapshot) -> MeasuredUsage:
        """Return the usage of the snapshot's nodes and pods at the time of the snapshot."""
        now = snapshot.taken_at if snapshot.taken_at is not None else self._asked
        names = [node.name for node in snapshot.nodes]
        used = self._means([("", name) for name in names], np.full(len(names), -np.inf), now)
        nodes = {name: amounts for name, amounts in zip(names, amounts_of(used), strict=True) if amounts}
        placed = [pod for pod in snapshot.pods if pod.node and not pod.finished]
        keys = [(pod.namespace, pod.name) for pod in placed]
        used = self._means(keys, np.array([_start_of(pod) for pod in placed]), now)
        pods = {key: amounts for key, amounts in zip(keys, amounts_of(used), strict=True) if amounts}
        owners = Workloads(snapshot)
        owned = [owners.key(pod) for pod in placed]
        workloads = self._workloads.learn(owned, used, now)
        if not nodes and not pods:
            workloads = {}  # nothing is measured any more, so these means are as old as the rest
        _inherit(snapshot, owners, workloads)
        measured = MeasuredUsage(nodes, pods, workloads)
        gaps = _find_gaps(snapshot, measured, list(zip(placed, owned, strict=True)))
        with self._lock:
            others = FirstNames(islice(self._samples.names(""), _OTHERS) if gaps.nodes and not nodes else ())
            besides = self._overheads.least(nodes, now)
            sentences = (*self._warnings, *describe_gaps(gaps, others, self._settings.max_age))
        return MeasuredUsage(nodes, pods, workloads, sentences, besides)

    def _sample(self, row: Usage) -> UsageSample | None:
        self._rows += 1
        if row.timestamp is None:
            self._rejected[_TIMELESS].add(_format_title(row))
        elif row.timestamp < self._asked - self._settings.max_age:
            self._rejected[self._too_old].add(_format_title(row))
        elif row.timestamp > latest_time(self._asked, self._settings):
            self._rejected[_AHEAD].add(_format_title(row))
        else:
            known = dict(row.usage)
            amounts = tuple(float(known[each]) if each in known else np.nan for each in MEASURED)
            key = ("", row.name) if row.kind == "NodeMetrics" else (row.namespace, row.name)
            return UsageSample(key, row.timestamp, amounts)
        return None

    def _means(self, keys: Sequence[ObjectKey], since: Floats, now: float) -> Floats:
        means = np.empty((len(keys), len(MEASURED)))
        for first in range(0, len(keys), _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            with self._lock:
                indexes = np.array([self._samples.index(key) for key in keys[part]], dtype=np.int64)
                means[part] = self._samples.means(indexes, now, since[part])
        return means


def _start_of(pod: Pod) -> float:
    """Return the creation time of a pod: earlier samples belong to a pod of the same name."""
    return pod.created if pod.created is not None else -np.inf


def _format_title(row: Usage) -> str:
    return row.name if row.kind == "NodeMetrics" else f"{row.namespace}/{row.name}"


def _inherit(snapshot: ClusterSnapshot, owners: Workloads, workloads: dict[WorkloadKey, Requests]) -> None:
    """Give an unmanaged or not yet adopted copy the usage of its original."""
    marked = (pod for pod in snapshot.pods if labels.ORIGINAL_POD_NAME in pod.annotations)
    copies = {
        key: (pod.namespace, pod.annotations[labels.ORIGINAL_POD_NAME])
        for pod in marked
        if (key := owners.key(pod))[0] == "Pod"
    }
    if not copies:
        return
    originals = {*copies.values()}
    known = {name: owners.key(pod) for pod in snapshot.pods if (name := (pod.namespace, pod.name)) in originals}
    for key, original in copies.items():
        own, like = workloads.get(key, ()), workloads.get(known.get(original, ("Pod", *original)), ())
        if like and len(own) < len(MEASURED):
            workloads[key] = tuple((dict(like) | dict(own)).items())


def _find_gaps(
    snapshot: ClusterSnapshot, measured: MeasuredUsage, placed: Sequence[tuple[Pod, WorkloadKey]]
) -> UsageGaps:
    """Return the nodes and pods without usage; pods that are starting or ending need none."""
    ready = [node.name for node in snapshot.nodes if node.ready]
    running = [(pod, key) for pod, key in placed if pod.phase == "Running" and not pod.deleting]
    unknown = FirstNames(
        pod.full_name
        for pod, key in running
        if (pod.namespace, pod.name) not in measured.pods and key not in measured.workloads
    )
    return UsageGaps(
        nodes=FirstNames(name for name in ready if name not in measured.nodes),
        of_nodes=len(ready),
        pods=unknown,
        of_pods=len(running),
        timeless=snapshot.taken_at is None,
    )


_SHORTEST = 300.0  # seconds: a move and its measurement take most of a minute
Amounts = tuple[float, ...]


class SystemOverhead:
    """The overhead from one answer: what each node uses, minus what its pods use.

    A node with a pod that was not measured, such as one that has just started, is skipped: the usage of that pod would
    count as the node's.
    """

    def __init__(self, pods: Iterable[Pod] = ()) -> None:
        self._unseen: dict[str, dict[str, str]] = {}
        """Namespace → pod → node, of running pods without a sample in this answer so far."""
        self._waiting: Counter[str] = Counter()
        self._nodes: dict[str, UsageSample] = {}
        self._used: dict[str, Amounts] = {}
        self.place(pods)

    def place(self, pods: Iterable[Pod]) -> None:
        """Add pods and their nodes."""
        for pod in pods:
            if pod.node and pod.phase == "Running":
                self._unseen.setdefault(pod.namespace, {})[pod.name] = pod.node
                self._waiting[pod.node] += 1

    def take(self, samples: Iterable[UsageSample]) -> None:
        """Take in a part of the answer."""
        if not self._waiting:
            return
        for sample in samples:
            namespace, name = sample.key
            if not namespace:
                self._nodes[name] = sample
                continue
            node = self._unseen.get(namespace, {}).pop(name, None)
            if node is not None:
                self._waiting[node] -= 1
                so_far = self._used.get(node)
                added = sample.amounts if so_far is None else tuple(map(float.__add__, so_far, sample.amounts))
                self._used[node] = added

    def found(self) -> Iterable[tuple[str, float, Amounts]]:
        """Yield node, time and amounts of nodes whose pods were all measured; unknown amounts are NaN."""
        for name, whole in self._nodes.items():
            if self._waiting[name] == 0:
                used = self._used.get(name, (0.0,) * len(whole.amounts))
                rest = np.maximum(np.subtract(whole.amounts, used), 0.0)
                yield name, whole.time, tuple(rest.tolist())


class OverheadHistory:
    """The minimum overhead of each node over a window, which is cut into cells like that of samples."""

    def __init__(self, window: float) -> None:
        self._window = max(window, _SHORTEST)
        self._cell = self._window / CELLS
        self._known: dict[str, dict[int, Amounts]] = {}

    def put(self, found: Iterable[tuple[str, float, Amounts]], now: float) -> None:
        """Add values, and forget those older than the window."""
        oldest = self._oldest(now)
        for name, time, amounts in found:
            cells = self._known.setdefault(name, {})
            cell = int(time // self._cell)
            before = cells.get(cell)
            cells[cell] = amounts if before is None else tuple(np.fmin(before, amounts).tolist())
        for name in list(self._known):
            kept = {cell: amounts for cell, amounts in self._known[name].items() if cell >= oldest}
            if kept:
                self._known[name] = kept
            else:
                del self._known[name]

    def least(self, names: Iterable[str], now: float) -> Mapping[str, Requests]:
        """Return the minimum overhead of each of these nodes."""
        oldest = self._oldest(now)
        known = {name: self._known[name] for name in names if name in self._known}
        counted = {name: [row for cell, row in cells.items() if cell >= oldest] for name, cells in known.items()}
        least = {name: np.fmin.reduce(np.array(rows)) for name, rows in counted.items() if rows}
        amounts = amounts_of(np.array(list(least.values()))) if least else []
        return {name: found for name, found in zip(least, amounts, strict=True) if found}

    def _oldest(self, now: float) -> int:
        return int((now - self._window) // self._cell)
