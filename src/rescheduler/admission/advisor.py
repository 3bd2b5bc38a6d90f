"""Advice about new pods, from memory: where a move expects them, and which nodes they should avoid.

`PlacementAdvisor` answers the webhook and the extender. Nodes to avoid come from the failure record on the workload,
and from pods that failed just now (`RecentFailures`): their controller replaces them at once, seconds before the leader
writes the record. `NodeMatcher` says whether a pod has any other node to go to.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from msgspec import Raw

from rescheduler.decode import structs
from rescheduler.decode.cache import ClusterCache
from rescheduler.decode.pods import PodDecoder
from rescheduler.decode.sections import SectionError
from rescheduler.kube.record_owner import asks_for_retries, is_known_above, workload_of
from rescheduler.migration.lifecycle import ROLL_BACK
from rescheduler.migration.steps.evict import HOSTNAME, AwaitRebuilt, Evict
from rescheduler.model import labels
from rescheduler.model.advice import ExpectedMove, NewPod, PlacementAdvice
from rescheduler.model.json import ObjectKey
from rescheduler.model.migration import Phase, PodMigration
from rescheduler.model.objects import NOTHING, Node, Owner, Pod
from rescheduler.model.plan import Method
from rescheduler.model.shape import NodeTerm, Taint
from rescheduler.model.time import InstantError, format_instant
from rescheduler.recovery import record
from rescheduler.recovery.record import NodeFailure, Record, RecordEntry, RecordError
from rescheduler.recovery.settings import RecoverySettings, matches_reason
from rescheduler.runtime.migration_cache import MigrationCache
from rescheduler.runtime.recovery_reader import volume_terms

JUST_NOW = 60.0
"""Seconds. Older failures are recorded by now, or were not worth a record."""
_REMEMBERED = 1000  # pods per decoder
_MOST = 200_000  # requirements checked for one pod, which takes some hundredths of a second
_LONGEST_RECORD = 2**18
_RECORDS_KEPT = 128
_pods = msgspec.json.Decoder(structs.ApiPod)


class RecentFailure(NamedTuple):
    """A pod that has failed."""

    pod: str
    uid: str
    owner: ObjectKey
    """Its namespace, and its controller's UID, which counts only in the controller's namespace."""
    node: str
    reason: str
    seen: float


class RecentFailures:
    """Recently failed pods by controller. Deleted pods are remembered, too, for as long as they are recent."""

    def __init__(self, cache: ClusterCache, recovery: Callable[[], RecoverySettings], now: Callable[[], float]) -> None:
        self._cache = cache
        self._recovery = recovery
        self._now = now
        self._by_owner: dict[ObjectKey, dict[str, RecentFailure]] = {}
        self._failed: dict[ObjectKey, str] = {}
        """The UIDs of pods that have failed and still exist."""
        self._in_order: deque[RecentFailure] = deque()

    def __len__(self) -> int:
        """The number of pods that are remembered."""
        return sum(map(len, self._by_owner.values()))

    def of(self, namespace: str, owner: str) -> Iterator[RecentFailure]:
        """Yield the recent failures of a controller."""
        oldest = self._now() - JUST_NOW
        yield from (failure for failure in self._by_owner.get((namespace, owner), {}).values() if failure.seen > oldest)

    def update(self, key: ObjectKey) -> None:
        """Update a pod that has changed or gone."""
        row: Pod | None = self._cache.row("Pod", key)
        failure = self._read_failure(row) if row is not None and row.phase == "Failed" else None
        if failure is None:
            self._failed.pop(key, None)
        elif self._failed.get(key) != failure.uid:  # an update of the same failure is not newer
            self._failed[key] = failure.uid
            self._by_owner.setdefault(failure.owner, {})[failure.uid] = failure
            self._in_order.append(failure)
        self._forget_old()

    def _read_failure(self, row: Pod) -> RecentFailure | None:
        """Read what a failed pod says about its node, if anything."""
        if row.owner is None or row.ailment is None or not row.node:
            return None
        reason = row.ailment.reason
        if not self._recovery().enabled or not matches_reason(reason, self._recovery().failed_reasons):
            return None
        return RecentFailure(row.name, row.uid, (row.namespace, row.owner.uid), row.node, reason, self._now())

    def _forget_old(self) -> None:
        oldest = self._now() - JUST_NOW
        while self._in_order and self._in_order[0].seen <= oldest:
            stale = self._in_order.popleft()
            siblings = self._by_owner.get(stale.owner, {})
            if siblings.get(stale.uid) is stale:
                del siblings[stale.uid]
            if not siblings:
                self._by_owner.pop(stale.owner, None)


class FailureRecordOwner(NamedTuple):
    """The object that keeps the failure record, and its annotations."""

    kind: str
    name: str
    annotations: Mapping[str, str]
    retries: bool
    """Whether failed pods are rescheduled: pod, controller or owner has the annotation."""

    @property
    def record(self) -> str:
        """The text of the record; empty if there is none."""
        return self.annotations.get(labels.FAILURES, "")


def find_record_owner(new_pod: NewPod, cache: ClusterCache) -> FailureRecordOwner:
    """Find the record's owner: the pod itself (or the one of its name) without a controller, else its top owner."""
    asked = asks_for_retries(new_pod.annotations)
    owner = new_pod.owner
    if owner is None:
        notes = new_pod.annotations
        if labels.FAILURES not in notes:
            row: Pod | None = cache.row("Pod", (new_pod.namespace, new_pod.name)) if new_pod.name else None
            notes = row.annotations if row is not None and row.owner is None else NOTHING
        return FailureRecordOwner("Pod", new_pod.name or new_pod.generate_name, notes, asked)
    namespace = new_pod.namespace
    controller = top = workload_of(cache, namespace, owner)
    above = controller.owner if controller is not None else _guess_above(new_pod, cache)
    if controller is not None:
        asked = asked or asks_for_retries(controller.annotations)
    if above is not None and is_known_above(cache, namespace, owner.kind, above):
        top = workload_of(cache, namespace, above)  # the copy of a Deployment's record is never the record
    if top is None:
        return FailureRecordOwner(owner.kind, owner.name, NOTHING, asked)
    return FailureRecordOwner(top.kind, top.name, top.annotations, asked or asks_for_retries(top.annotations))


def _guess_above(new_pod: NewPod, cache: ClusterCache) -> Owner | None:
    """Guess the owner of a controller that is not cached yet, by what Deployments and CronJobs add to the name."""
    owner = new_pod.owner
    if owner is None:
        return None
    name, _, ending = owner.name.rpartition("-")
    if owner.kind == "ReplicaSet" and name and ending == new_pod.labels.get(labels.TEMPLATE_HASH):
        kind = "Deployment"
    elif owner.kind == "Job" and name and ending.isdecimal():
        kind = "CronJob"
    else:
        return None
    known = cache.row(owner.kind, (owner.kind, new_pod.namespace, owner.name)) is not None
    return None if known else Owner(kind, name)  # a cached controller without this owner says nothing


class NodeMatcher:
    """Checks nodes one by one and stops at the first match, which for most pods is the very first."""

    def __init__(self, cache: ClusterCache) -> None:
        self._cache = cache
        self._decoder, self._reads = PodDecoder(), 0

    def has_any(self, pod: Raw, names: Iterable[str]) -> bool:
        """Whether a pod matches one of these nodes; if its rules cannot be read, that is left to the scheduler."""
        try:
            row = self._row(pod)
        except (msgspec.MsgspecError, UnicodeDecodeError, SectionError, InstantError):
            return True
        volumes = volume_terms(self._cache, row)
        left, cost = _MOST, _cost(row, volumes)
        for name in names:
            node: Node | None = self._cache.row("Node", name)
            if node is not None and _accepts(row, node, volumes):
                return True
            left -= cost
            if left < 0:
                return True  # a pod with such rules must not make others wait
        return False

    def _row(self, pod: Raw) -> Pod:
        """Decode a pod. The decoder caches what pods have in common, and is replaced before it grows too large."""
        self._reads += 1
        if self._reads > _REMEMBERED:
            self._decoder, self._reads = PodDecoder(), 0
        decoded = _pods.decode(pod)
        return self._decoder.row(decoded, decoded.metadata or structs.ApiMeta())


def _cost(pod: Pod, volumes: tuple[tuple[NodeTerm, ...], ...]) -> int:
    """Estimate the requirements checked for one node."""
    terms = [*(pod.shape.node_affinity or ()), *(term for each in volumes for term in each)]
    asked = sum(1 + len(each.values) for term in terms for each in (*term.expressions, *term.fields))
    return 1 + len(terms) + asked + len(pod.shape.node_selector) + len(pod.shape.tolerations)


def _accepts(pod: Pod, node: Node, volumes: tuple[tuple[NodeTerm, ...], ...]) -> bool:
    shape = pod.shape
    return (
        all(node.labels.get(key) == value for key, value in shape.node_selector)
        and (shape.node_affinity is None or _matches_any(node, shape.node_affinity))
        and all(_matches_any(node, terms) for terms in volumes)
        and not any(_repels(taint) and not shape.tolerates(taint) for taint in node.taints)
    )


def _matches_any(node: Node, terms: tuple[NodeTerm, ...]) -> bool:
    return any(term.matches(node.labels, node.name) for term in terms)


def _repels(taint: Taint) -> bool:
    return taint.effect in ("NoSchedule", "NoExecute")


NO_ADVICE = PlacementAdvice()
_WAITING = frozenset({Evict.name, AwaitRebuilt.name})
"""Steps in which the controller may make the new pod at any moment."""


class PlacementAdvisor:
    """Advises on new pods from the caches."""

    def __init__(
        self,
        cache: ClusterCache,
        migrations: MigrationCache,
        recovery: Callable[[], RecoverySettings],
        now: Callable[[], float],
        *,
        gate: bool,
    ) -> None:
        """`gate` holds expected pods back until room is reserved for them (`steering: nominate`)."""
        self._cache = cache
        self._cached_migrations = migrations
        self._recovery = recovery
        self._now = now
        self._gate = gate
        self._matcher = NodeMatcher(cache)
        self._open: set[str] = set()
        self._recent = RecentFailures(cache, recovery, now)
        self._labelled: dict[ObjectKey, dict[ObjectKey, str]] = {}
        """By migration, the pods with its labels, and their UIDs."""
        self._migrations: dict[ObjectKey, ObjectKey] = {}
        for node in cache.rows("Node"):
            self._update("Node", node.name, "")
        for pod in cache.rows("Pod"):
            self._update("Pod", (pod.namespace, pod.name), "")
        cache.listen(self._update)

    def advise(self, new_pod: NewPod) -> PlacementAdvice:
        """Say where a pod is expected and which nodes it should avoid; nothing about pods that we place ourselves."""
        if labels.PLACEHOLDER in new_pod.labels or labels.WITHHELD in new_pod.annotations:
            return NO_ADVICE
        expected, avoid = self._find_expected(new_pod), self._find_avoided(new_pod)
        return PlacementAdvice(expected, avoid) if expected is not None or avoid else NO_ADVICE

    def leaves_any(self, avoid: Collection[str], pod: Raw) -> bool:
        """Whether a pod that avoids these nodes matches any other node, with or without room now."""
        return self._matcher.has_any(pod, (name for name in self._open if name not in avoid))

    def _find_expected(self, new_pod: NewPod) -> ExpectedMove | None:
        owner = new_pod.owner
        if owner is None or not owner.uid:
            return None
        known = [
            each
            for key in self._cached_migrations.by_owner(owner.uid)
            if (each := self._cached_migrations.get(key)) is not None
        ]
        # A pod anywhere may name this owner's UID; only in the owner's namespace it can be true.
        near = (each for each in known if each.namespace == new_pod.namespace)
        under_way = [each for each in near if _steers(each, owner.uid)]
        found = next((each for each in under_way if _is_its_pod(each, new_pod)), None)
        if found is None:
            waiting = (each for each in under_way if self._waits_for(each, new_pod))
            found = min(waiting, key=lambda each: (each.status.start_time or 0.0, each.name), default=None)
        if found is None:
            return None
        progress, order = found.status, found.spec
        return ExpectedMove(
            migration=found.name,
            source=progress.source,
            target=progress.target,
            target_host=self._find_host(progress.target),
            source_host=self._find_host(progress.source),
            strategy=order.strategy,
            original_uid=progress.pod_uid,
            original_name=order.pod.name,
            gate=self._gate and progress.replacement is None,
        )

    def _find_host(self, name: str) -> str:
        """Get a node's hostname label, which preferences use; it may differ from its name."""
        row: Node | None = self._cache.row("Node", name)
        return row.labels.get(HOSTNAME, "") if row is not None else ""

    def _waits_for(self, migration: PodMigration, new_pod: NewPod) -> bool:
        """Whether a migration waits for a pod like this one, as far as can be known before it exists."""
        progress = migration.status
        if progress.step not in _WAITING or progress.replacement is not None:
            return False
        if new_pod.owner is not None and new_pod.owner.kind == "StatefulSet":
            return new_pod.name == migration.spec.pod.name
        # If a newer pod is labelled already, that is the replacement, and this pod comes from a scale-up.
        others = self._labelled.get((migration.namespace, migration.name), {})
        mine = (new_pod.namespace, new_pod.name)
        return all(uid == progress.pod_uid or key == mine for key, uid in others.items())

    def _find_avoided(self, new_pod: NewPod) -> Mapping[str, str]:
        if new_pod.labels.get(labels.RESCHEDULING) == "disabled":
            return {}
        holder = find_record_owner(new_pod, self._cache)
        if holder.kind == "DaemonSet":
            return {}
        failures: dict[str, NodeFailure] = {}
        if holder.record:
            known = _parse_record(holder.record).get(record.entry_name(holder.kind, new_pod.name, ""))
            if known is not None and not _is_of_another_template(known, holder, new_pod):
                failures = known.recent_failures(self._now(), self._recovery().forget_after)
        if holder.retries and new_pod.owner is not None:
            for failure in self._recent.of(new_pod.namespace, new_pod.owner.uid):
                if new_pod.owner.kind != "StatefulSet" or failure.pod == new_pod.name:
                    failures.setdefault(failure.node, NodeFailure(failure.seen, failure.reason))
        # Only existing nodes are avoided: an annotation may name anything.
        failures = {node: each for node, each in failures.items() if self._cache.row("Node", node) is not None}
        if not failures or self._open <= failures.keys():
            return {}  # rather none than all; the leader clears the record then
        return _format_reasons(holder, failures)

    def _update(self, kind: str, key: Any, _version: str) -> None:
        if kind == "Pod":
            self._recent.update(key)
            self._update_label(key)
        elif kind == "Node":
            row: Node | None = self._cache.row("Node", key)
            if row is not None and _is_open(row):
                self._open.add(key)
            else:
                self._open.discard(key)

    def _update_label(self, key: ObjectKey) -> None:
        row: Pod | None = self._cache.row("Pod", key)
        before, now = self._migrations.pop(key, None), _find_migration(row)
        if before is not None:
            self._labelled[before].pop(key)
            if not self._labelled[before]:
                del self._labelled[before]
        if row is not None and now is not None:
            self._migrations[key] = now
            self._labelled.setdefault(now, {})[key] = row.uid


def _steers(migration: PodMigration, controller: str) -> bool:
    """Whether a migration steers a pod of this controller now."""
    progress = migration.status
    return (
        progress.phase is Phase.IN_PROGRESS
        and progress.method is Method.EVICT
        and progress.step != ROLL_BACK
        and bool(progress.target)
        and progress.controller is not None
        and progress.controller.uid == controller
    )


def _is_its_pod(migration: PodMigration, new_pod: NewPod) -> bool:
    """Whether the pod is labelled for the migration, or recorded in it."""
    if new_pod.labels.get(labels.MIGRATION_ID) == migration.name:
        return new_pod.uid != migration.status.pod_uid
    known = migration.status.replacement
    if known is None or not new_pod.name:
        return False
    return known.uid == new_pod.uid if known.uid and new_pod.uid else known.name == new_pod.name


def _is_of_another_template(entry: RecordEntry, holder: FailureRecordOwner, new_pod: NewPod) -> bool:
    """Whether the failures are of another template revision: a corrected template starts without failures."""
    revision = new_pod.labels.get(record.REVISION_LABELS.get(holder.kind, ""), "")
    return bool(entry.revision) and bool(revision) and entry.revision != revision


def _is_open(node: Node) -> bool:
    # Control plane nodes count: where nothing keeps pods off them, as on a laptop, pods run there.
    shut = node.unschedulable or node.maintenance or node.deleting
    return node.ready and not node.problem and not shut


def _find_migration(row: Pod | None) -> ObjectKey | None:
    """Get the running migration that a pod is labelled for."""
    if row is None or row.deleting or row.finished or labels.MIGRATION_ID not in row.labels:
        return None
    if row.labels.get(labels.MIGRATION_STATUS) not in labels.RUNNING_MIGRATIONS:
        return None
    return row.namespace, row.labels[labels.MIGRATION_ID]


def _parse_record(text: str) -> Record:
    """Parse a record; one that is longer than an annotation may be is never ours."""
    return _parse_cached(text) if len(text) <= _LONGEST_RECORD else {}


@lru_cache(maxsize=_RECORDS_KEPT)
def _parse_cached(text: str) -> Record:
    """Parse the record in an annotation; an invalid one is reported by the leader and ignored here."""
    try:
        return record.parse_record(text)
    except RecordError:
        return {}


def _format_reasons(holder: FailureRecordOwner, failures: Mapping[str, NodeFailure]) -> dict[str, str]:
    """Format why each node is avoided.

    kube-scheduler prepends the number of nodes with the same reason: "3 node(s) where …". So the time is left out
    where several nodes share a reason.
    """
    shared = Counter(failure.reason for failure in failures.values())
    return {
        node: _format_reason(holder, failure, alone=shared[failure.reason] == 1) for node, failure in failures.items()
    }


def _format_reason(holder: FailureRecordOwner, failure: NodeFailure, *, alone: bool) -> str:
    details: Iterable[str] = filter(None, (failure.reason, f"at {format_instant(failure.at)}" if alone else ""))
    said = " ".join(details)
    whose = f"pod {holder.name}" if holder.kind == "Pod" else f"pods of {holder.kind} {holder.name}"
    return f"node(s) where {whose} failed" + (f" ({said})" if said else "")
