"""What a DaemonSet has to do: which nodes get a pod, which pods go, how far a rolling update may step now.

Pure, from what there is to what is to be done; `daemon_set` does it. One pod a node, the oldest; with a surge a second
one of the new revision beside an old one that serves, until the new one does. The rules are those of
kube-controller-manager, with nodes in the order of their names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from kubemini.controllers.daemon_nodes import GENERATION_LABEL, HASH_LABEL, Verdict
from kubemini.controllers.percentages import scaled
from kubemini.controllers.pod_state import PodState
from kubemini.refusals import Json
from kubemini.store import Entry


@dataclass(frozen=True, eq=False)
class DaemonPod:
    """One pod of a DaemonSet."""

    entry: Entry
    state: PodState
    node: str

    @property
    def active(self) -> bool:
        """Whether it runs, or will."""
        return not self.state.deleting and not self.state.finished

    @property
    def age(self) -> tuple[bool, float, str]:
        """What the pods of one node are sorted by: bound ones first, then the oldest."""
        return (not self.entry.fields["spec.nodeName"], self.state.created, self.entry.key[1])


@dataclass(frozen=True)
class Sight:
    """A DaemonSet with its pods, at one moment."""

    body: Json
    revision: str
    """The hash of its present template."""
    generation: str
    """The number of its template, for pods of before there were hashes."""
    nodes: Mapping[str, Verdict]
    pods: Mapping[str, list[DaemonPod]]
    """By the node that each is meant for, without those that have ended and are being deleted."""
    at: float

    @cached_property
    def min_ready(self) -> int:
        seconds: int = self.body["spec"].get("minReadySeconds") or 0
        return seconds

    @cached_property
    def surges(self) -> bool:
        """Whether a node may have a second pod during an update."""
        return self.limit("maxSurge", 1) > 0

    def available(self, pod: DaemonPod) -> bool:
        """Whether it has been Ready for long enough."""
        return pod.state.available(self.min_ready, self.at)

    def updated(self, pod: DaemonPod) -> bool:
        """Whether it is of the present template."""
        labels = pod.entry.labels
        of_generation = bool(self.generation) and labels.get(GENERATION_LABEL) == self.generation
        return labels.get(HASH_LABEL) == self.revision or of_generation

    def limit(self, key: str, total: int) -> int:
        """The number that a rolling update's maxSurge or maxUnavailable stands for."""
        strategy = self.body["spec"].get("updateStrategy") or {}
        rolling = strategy.get("rollingUpdate") or {}
        if strategy.get("type") != "RollingUpdate" or rolling.get(key) is None:
            return 0
        return scaled(rolling[key], total)


@dataclass
class Work:
    """What is to be done."""

    create: list[str] = field(default_factory=list)
    """Nodes that get a pod."""
    delete: list[DaemonPod] = field(default_factory=list)
    failed: list[DaemonPod] = field(default_factory=list)
    """Of those that go: the ones that failed, which must not happen too fast."""

    def __bool__(self) -> bool:
        return bool(self.create or self.delete or self.failed)


def placement(sight: Sight) -> Work:
    """Every node gets the pods that it should have, whatever their revision."""
    work = Work()
    for name, verdict in sight.nodes.items():
        pods = sight.pods.get(name, [])
        if verdict.run and not pods:
            work.create.append(name)
        elif verdict.keep and len(pods) == 1 and pods[0].active:
            pass  # as it should be, and nearly always
        elif verdict.keep:
            _keep(sight, name, pods, work)
        else:
            work.delete += [pod for pod in pods if not pod.state.deleting]
    for name, pods in sight.pods.items():
        if name not in sight.nodes:  # its node is gone: no scheduler will ever bind it, and no other controller end it
            work.delete += [pod for pod in pods if not pod.entry.fields["spec.nodeName"] and not pod.state.deleting]
    return work


def _keep(sight: Sight, node: str, pods: Iterable[DaemonPod], work: Work) -> None:
    """One node that has pods and may have them."""
    staying = [pod for pod in pods if not pod.state.deleting]
    work.failed += [pod for pod in staying if pod.state.phase == "Failed"]
    work.delete += [pod for pod in staying if pod.state.phase == "Succeeded"]
    running = sorted((pod for pod in staying if not pod.state.finished), key=lambda pod: pod.age)
    if not sight.surges:
        work.delete += running[1:]
        return
    if not running and sight.nodes[node].run:
        work.create.append(node)
        return
    new = [pod for pod in running if pod.entry.labels.get(HASH_LABEL) == sight.revision]
    old = [pod for pod in running if pod.entry.labels.get(HASH_LABEL) != sight.revision]
    work.delete += [*new[1:], *old[1:]]
    if new and old and (not old[0].state.ready or sight.available(new[0])):
        work.delete.append(old[0])


def rolling_update(sight: Sight) -> Work:
    """The next step from old pods to new ones."""
    if all(sight.updated(pod) for pods in sight.pods.values() for pod in pods):
        return Work()
    desired = sum(verdict.run for verdict in sight.nodes.values())
    surge, unavailable = sight.limit("maxSurge", desired), sight.limit("maxUnavailable", desired)
    if desired and not surge and not unavailable:
        unavailable = 1
    wanted = {name for name, verdict in sight.nodes.items() if verdict.run}
    pods = {name: sight.pods.get(name, []) for name in sorted({*sight.pods, *wanted})}
    return _surging(sight, pods, surge, desired) if surge else _replacing(sight, pods, unavailable)


def _new_and_old(sight: Sight, pods: Iterable[DaemonPod]) -> tuple[list[DaemonPod], list[DaemonPod]]:
    staying = [pod for pod in pods if not pod.state.deleting]
    return [pod for pod in staying if sight.updated(pod)], [pod for pod in staying if not sight.updated(pod)]


def _replacing(sight: Sight, pods: Mapping[str, list[DaemonPod]], unavailable: int) -> Work:
    """Old pods are deleted, as many as may be unavailable; `placement` then makes new ones in their place."""
    work, candidates, missing = Work(), [], 0
    for on_node in pods.values():
        new, old = _new_and_old(sight, on_node)
        if len(new) + len(old) != 1:
            missing += 1  # `placement` has to do with this node first
        elif new:
            missing += not sight.available(new[0])
        elif not sight.available(old[0]):
            work.delete.append(old[0])
            missing += 1
        else:
            candidates.append(old[0])
    work.delete += candidates[: max(unavailable - missing, 0)]
    return work


def _surging(sight: Sight, pods: Mapping[str, list[DaemonPod]], surge: int, desired: int) -> Work:
    """New pods are made beside old ones; an old one goes when its new one is available."""
    work, candidates, leaving = Work(), [], []
    surging = available = 0
    for name, on_node in pods.items():
        new, old = _new_and_old(sight, on_node)
        if len(new) > 1 or len(old) > 1:
            surging += 1
            continue
        available += any(sight.available(pod) for pod in old or new)
        if not old:
            continue
        runs = name in sight.nodes and sight.nodes[name].run
        if new:
            if sight.available(new[0]):
                work.delete += old
            else:
                surging += 1
        elif not sight.available(old[0]):
            work.create += [name] if runs else []
            work.delete += [] if runs else old
        elif runs:
            candidates.append(name)
        else:
            leaving.append(old[0])
    # A pod where none should be any more goes only when there are enough without it.
    work.delete += leaving[: max(available - desired, 0)]
    work.create += candidates[: max(surge - surging, 0)]
    return work


def status_of(sight: Sight) -> Json:
    """The numbers that a DaemonSet's status shows."""
    counts = dict.fromkeys(("desired", "current", "ready", "available", "updated", "misplaced"), 0)
    for name, verdict in sight.nodes.items():
        pods = sight.pods.get(name, ())
        counts["desired"] += verdict.run
        if not pods:
            continue
        if not verdict.run:
            counts["misplaced"] += 1
            continue
        oldest = pods[0] if len(pods) == 1 else min(pods, key=lambda pod: pod.age)
        counts["current"] += 1
        counts["ready"] += oldest.state.ready
        counts["available"] += sight.available(oldest)
        counts["updated"] += sight.updated(oldest)
    status: Json = {
        "currentNumberScheduled": counts["current"],
        "desiredNumberScheduled": counts["desired"],
        "numberMisscheduled": counts["misplaced"],
        "numberReady": counts["ready"],
    }
    more = {
        "numberAvailable": counts["available"],
        "numberUnavailable": counts["desired"] - counts["available"],
        "updatedNumberScheduled": counts["updated"],
    }
    return status | {key: count for key, count in more.items() if count}
