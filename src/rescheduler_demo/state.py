"""The state of the demo's cluster: how nodes are used, what moves, and whether disruption budgets were respected.

`ClusterState` follows the embedded store and reads it with the product's own reader, so that it shows what planning
computes. `BudgetWatch` counts broken disruption budgets. `find_leftovers` and `find_incomplete` look at the objects
alone, and know nothing of how moves are made.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator

from msgspec import structs

from kubemini.kinds import BUDGET, DEPLOYMENT, NODE, POD, REPLICA_SET, STATEFUL_SET, Kind
from kubemini.store import Change, Entry, Store
from rescheduler.decode.cache import ClusterCache
from rescheduler.kube.migrations import InvalidMigrationError, decode_migration
from rescheduler.model import labels
from rescheduler.model.migration import Phase, PodMigration
from rescheduler.model.objects import Node, Pod
from rescheduler.model.plan import ClusterLoad
from rescheduler.model.policy import Policy
from rescheduler.planning.columns import Columns
from rescheduler.planning.load import Load
from rescheduler.planning.thresholds import NodeThresholds, counted_resources, make_picture
from rescheduler.planning.whatif import WhatIf

_MIGRATIONS = "podmigrations.rescheduler.io"
_RECENT = 5
_OUR_NOTES = frozenset(
    {
        *(
            labels.WITHHELD,
            labels.COST_BEFORE,
            labels.MARKS_BEFORE,
            labels.PAUSED_BY,
            labels.AFFINITY_BEFORE,
            labels.GATED,
        ),
        labels.PLACEHOLDER,
    }
)
_OUR_GATES = frozenset({labels.GATE, labels.NOMINATE_GATE})
_WITH_OUR_NOTES = (POD, NODE, DEPLOYMENT, REPLICA_SET, STATEFUL_SET, BUDGET)
_SCALED = (DEPLOYMENT, STATEFUL_SET)


class ClusterState:
    """Follows one store for as long as there is one."""

    def __init__(self, store: Store, policy: Policy) -> None:
        self.policy = policy
        self.before: ClusterLoad | None = None
        """How nodes were used when the controller started; None until then."""
        self.completed: set[str] = set()
        """All migrations that completed, by UID: the objects themselves are deleted after a while."""
        self.failed: set[str] = set()
        self.recent: deque[PodMigration] = deque(maxlen=_RECENT)
        """The migrations that ended last, the newest first."""
        self._migrations: dict[tuple[str, str], PodMigration] = {}
        self._cache = ClusterCache("the demo")
        store.subscribe(self._on_change)

    def nodes(self) -> list[Node]:
        """All nodes, in the order of their numbers."""
        return sorted(self._cache.rows("Node"), key=lambda node: by_number(node.name))

    def node(self, name: str) -> Node | None:
        """One node."""
        found: Node | None = self._cache.row("Node", name)
        return found

    def is_ready(self, name: str) -> bool:
        """Whether the node exists and is ready."""
        node = self.node(name)
        return node is not None and node.ready

    def pods(self) -> list[Pod]:
        """All pods."""
        return self._cache.rows("Pod")

    def pods_on(self, node: str) -> list[Pod]:
        """The pods on a node that have not ended."""
        return [pod for pod in self.pods() if pod.node == node and not pod.finished]

    def active_migrations(self) -> list[PodMigration]:
        """The migrations that have not ended, those in progress first."""
        found = [each for each in self._migrations.values() if not each.status.over]
        return sorted(
            found,
            key=lambda each: (each.status.phase is Phase.PENDING, each.metadata.creation_timestamp or 0.0, each.name),
        )

    def picture(self) -> ClusterLoad:
        """How nodes are used now, as planning computes it."""
        columns = Columns(self._cache.snapshot(time.time()))
        load = Load(WhatIf(columns), self.policy.utilization, counted_resources(self.policy))
        found = make_picture(columns, NodeThresholds(columns, self.policy, load), load.first, columns.used)
        return structs.replace(found, loads=tuple(sorted(found.loads, key=lambda load: by_number(load.node))))

    def gap(self) -> float:
        """Percentage points between the most and the least used open node: the wider of CPU and memory."""
        open_nodes = {node.name for node in self.nodes() if node.ready and not node.unschedulable}
        loads = [load for load in self.picture().loads if load.node in open_nodes]
        shares = ([load.cpu for load in loads], [load.memory for load in loads])
        return max((max(each) - min(each) for each in shares if each), default=0.0)

    def _on_change(self, change: Change) -> None:
        if change.kind.resource == POD.resource:
            self._update("Pod", change.entry.key, change)
        elif change.kind.resource == NODE.resource:
            self._update("Node", change.entry.key[1], change)
        elif change.kind.stored_as == _MIGRATIONS:
            self._update_migration(change)

    def _update(self, kind: str, key: object, change: Change) -> None:
        if change.type == "DELETED":
            self._cache.drop(kind, key)
        else:
            self._cache.put(kind, change.entry.raw)

    def _update_migration(self, change: Change) -> None:
        key = change.entry.key
        if change.type == "DELETED":
            self._migrations.pop(key, None)
            return
        try:
            migration = decode_migration(change.entry.object())
        except InvalidMigrationError:  # a user's own, which is malformed; the controller reports it
            return
        before = self._migrations.get(key)
        self._migrations[key] = migration
        if migration.status.over and (before is None or not before.status.over):
            completed = migration.status.phase is Phase.COMPLETED
            (self.completed if completed else self.failed).add(migration.uid)
            self.recent.appendleft(migration)


class BudgetWatch:
    """Counts moves that deleted a pod which its disruption budget needed."""

    def __init__(self, store: Store, state: ClusterState) -> None:
        self._store = store
        self._state = state
        self.broken: list[str] = []
        self.checked = 0
        """Deleted pods with a budget."""
        store.subscribe(self._on_change, POD)

    def _on_change(self, change: Change) -> None:
        entry, before = change.entry, change.before
        if before is None or before.deleting or not (entry.deleting or change.type == "DELETED"):
            return
        if before.labels.get(labels.MIGRATION_STATUS) not in labels.RUNNING_MIGRATIONS:
            return  # it goes for another reason: a rollout, a scaling, a lost node
        body = before.object()
        conditions = body.get("status", {}).get("conditions", ())
        ready = any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)
        if not ready or not self._state.is_ready(body.get("spec", {}).get("nodeName", "")):
            return  # it did not serve
        for budget in self._store.entries(BUDGET, entry.key[0]):
            self._check(budget, entry)

    def _check(self, budget: Entry, gone: Entry) -> None:
        body = budget.object()
        selected = body["spec"].get("selector", {}).get("matchLabels", {})
        if not selected or not selected.items() <= gone.labels.items():
            return
        self.checked += 1
        namespace, name = gone.key
        others = [pod for pod in self._state.pods() if pod.namespace == namespace and pod.name != name]
        serving = [pod for pod in others if pod.ready and not pod.deleting and not pod.finished]
        healthy = sum(selected.items() <= dict(pod.labels).items() for pod in serving)
        least = body.get("status", {}).get("desiredHealthy", 0)
        if healthy < least:
            self.broken.append(f"budget {budget.key[1]}: {healthy} of {least} pods when {name} was deleted")


def find_leftovers(store: Store) -> list[str]:
    """Leftovers of moves; meaningful when none is in progress."""
    return [
        f"{kind.name} {entry.key[1]}: {what}"
        for kind in _WITH_OUR_NOTES
        for entry in store.entries(kind)
        for what in _leftovers(kind, entry)
    ]


def _leftovers(kind: Kind, entry: Entry) -> Iterator[str]:
    body = entry.object()
    annotations = body["metadata"].get("annotations") or {}
    notes = {*annotations, *entry.labels}
    yield from sorted(notes & _OUR_NOTES)
    if kind is BUDGET and entry.labels.get(labels.MANAGED_BY) == labels.MANAGER:
        yield "a temporary budget"
    if kind in _SCALED and labels.MIGRATION_ID in annotations:
        yield labels.MIGRATION_ID
    if kind is POD and entry.labels.get(labels.MIGRATION_STATUS) in labels.RUNNING_MIGRATIONS:
        yield labels.MIGRATION_STATUS
    if kind is POD and _OUR_GATES & {each["name"] for each in body["spec"].get("schedulingGates", ())}:
        yield "a scheduling gate"
    if kind is NODE and labels.CORDONED in notes and entry.labels.get(labels.MAINTENANCE) != "true":
        yield "our cordon"


def find_incomplete(store: Store) -> list[str]:
    """Workloads with other pods than desired, and pods on nodes that are gone."""
    nodes = {entry.key[1] for entry in store.entries(NODE)}
    placed = [(entry.key[1], entry.object()["spec"].get("nodeName")) for entry in store.entries(POD)]
    found = [f"Pod {name} is on {node}, which is gone" for name, node in placed if node and node not in nodes]
    for kind in _SCALED:
        for entry in store.entries(kind):
            body = entry.object()
            wanted, status = body["spec"].get("replicas", 1), body.get("status", {})
            counts = [status.get(name, 0) for name in ("replicas", "readyReplicas", "updatedReplicas")]
            if any(each != wanted for each in counts):
                found.append(f"{kind.name} {entry.key[1]} has {counts[1]} of {wanted} pods ready")
    return found


def by_number(name: str) -> tuple[str, int]:
    """Sort `node-10` after `node-9`."""
    stem, _, number = name.rpartition("-")
    return (stem, int(number)) if number.isdecimal() else (name, -1)
