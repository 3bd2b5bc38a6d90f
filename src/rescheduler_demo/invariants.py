"""What must be true whatever happens, counted while the demo runs: budgets that were broken, and what is left behind.

It goes by the objects alone and knows nothing of how moves are made. `Watch` hears of every change of a pod;
`leftovers` looks through the cluster once nothing is under way; `incomplete` names the workloads that lack pods.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kubemini.kinds import BUDGET, DEPLOYMENT, NODE, POD, REPLICA_SET, STATEFUL_SET, Kind
from kubemini.store import Change, Entry, Store
from rescheduler.model import marks
from rescheduler.model.objects import Pod
from rescheduler_demo.scenery import Scenery

_LEFT = frozenset(
    {
        marks.WITHHELD, marks.COST_BEFORE, marks.MARKS_BEFORE, marks.PAUSED_BY, marks.AFFINITY_BEFORE, marks.GATED,
        marks.PLACEHOLDER,
    }
)  # fmt: skip
_GATES = frozenset({marks.GATE, marks.NOMINATE_GATE})
_LOOKED_AT = (POD, NODE, DEPLOYMENT, REPLICA_SET, STATEFUL_SET, BUDGET)
_WORKLOADS = (DEPLOYMENT, STATEFUL_SET)


class Watch:
    """Counts the times that one of our moves took a pod that its disruption budget needed."""

    def __init__(self, store: Store, scenery: Scenery) -> None:
        self._store = store
        self._scenery = scenery
        self.broken: list[str] = []
        self.checked = 0
        """How often such a pod had a budget at all."""
        self.close: Callable[[], None] = store.subscribe(self._heard, POD)

    def _heard(self, change: Change) -> None:
        entry, before = change.entry, change.before
        if before is None or before.deleting or not (entry.deleting or change.type == "DELETED"):
            return
        if before.labels.get(marks.MIGRATION_STATUS) not in marks.RUNNING_MIGRATIONS:
            return  # it goes for a reason of somebody else: a rollout, a scaling, a lost node
        body = before.object()
        node = self._scenery.node(body.get("spec", {}).get("nodeName", ""))
        if node is None or not node.ready or not _is_ready(body):
            return  # it served nobody
        for budget in self._store.entries(BUDGET, entry.key[0]):
            self._check(budget, entry)

    def _check(self, budget: Entry, gone: Entry) -> None:
        wanted = budget.object()
        selected = wanted["spec"].get("selector", {}).get("matchLabels", {})
        if not selected or not selected.items() <= gone.labels.items():
            return
        self.checked += 1
        pods = [pod for pod in self._scenery.pods() if pod.namespace == gone.key[0] and pod.name != gone.key[1]]
        healthy = sum(_serves(pod) for pod in pods if selected.items() <= dict(pod.labels).items())
        least = wanted.get("status", {}).get("desiredHealthy", 0)
        if healthy < least:
            self.broken.append(f"budget {budget.key[1]}: {healthy} of {least} when {gone.key[1]} went")


def leftovers(store: Store) -> list[str]:
    """What of our moves is still there; to be asked when none is under way."""
    return [f"{kind.name} {entry.key[1]}: {what}" for kind in _LOOKED_AT for entry, what in _left(store, kind)]


def _left(store: Store, kind: Kind) -> Iterator[tuple[Entry, str]]:
    for entry in store.entries(kind):
        body = entry.object()
        metadata = body["metadata"]
        notes = {*(metadata.get("annotations") or {}), *entry.labels}
        yield from ((entry, key) for key in sorted(notes & _LEFT))
        if kind is BUDGET and entry.labels.get(marks.MANAGED_BY) == marks.OURSELVES:
            yield entry, "a temporary budget"
        if kind in _WORKLOADS and marks.MIGRATION_ID in (metadata.get("annotations") or {}):
            yield entry, marks.MIGRATION_ID
        if kind is POD and entry.labels.get(marks.MIGRATION_STATUS) in marks.RUNNING_MIGRATIONS:
            yield entry, marks.MIGRATION_STATUS
        if kind is POD and _GATES & {each["name"] for each in body["spec"].get("schedulingGates", ())}:
            yield entry, "a scheduling gate"
        if kind is NODE and marks.CORDONED in notes and entry.labels.get(marks.MAINTENANCE) != "true":
            yield entry, "our cordon"


def incomplete(store: Store) -> list[str]:
    """The workloads that lack pods, or have other pods than wanted; and pods that nobody can run any more."""
    nodes = {entry.key[1] for entry in store.entries(NODE)}
    placed = [(entry.key[1], entry.fields["spec.nodeName"]) for entry in store.entries(POD)]
    found = [f"Pod {name} is on {node}, which is gone" for name, node in placed if node and node not in nodes]
    for kind in _WORKLOADS:
        for entry in store.entries(kind):
            body = entry.object()
            wanted, status = body["spec"].get("replicas", 1), body.get("status", {})
            counts = [status.get(name, 0) for name in ("replicas", "readyReplicas", "updatedReplicas")]
            if any(each != wanted for each in counts):
                found.append(f"{kind.name} {entry.key[1]} has {counts[1]} of {wanted} pods ready")
    return found


def _is_ready(body: dict[str, object]) -> bool:
    status = body.get("status")
    conditions = status.get("conditions", ()) if isinstance(status, dict) else ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _serves(pod: Pod) -> bool:
    return pod.ready and not pod.deleting and not pod.finished
