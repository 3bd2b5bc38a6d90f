"""PodDisruptionBudgets: how many pods a budget expects, how many are healthy, how many may be disrupted now.

The Eviction API spends what this controller allows, so each relevant change of a pod recalculates the budgets that
select it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta

from kubemini import clock
from kubemini.api import Api, Target
from kubemini.conditions import set_condition
from kubemini.controllers.pods import PodStates, scale_value
from kubemini.controllers.writes import edit_if_present
from kubemini.errors import Json
from kubemini.kinds import BUDGET, DEPLOYMENT, POD, REPLICA_SET, Kind
from kubemini.selectors import label_selector
from kubemini.store import Change, Entry, Key
from rescheduler.model.selector import Selector

DELETION_TIMEOUT = timedelta(minutes=2)
"""How long an evicted pod may take to be deleted before the budget counts it again."""


def calculate_disruptions(spec: Json, expected: int, healthy: int) -> tuple[int, int]:
    """How many pods must stay healthy, and how many may be disrupted: none while no pods are expected.

    `expected` is the scale of the pods' controllers, or the number of pods.
    """
    if spec.get("maxUnavailable") is not None:
        desired = max(expected - scale_value(spec["maxUnavailable"], expected, up=True), 0)
    else:
        desired = scale_value(spec.get("minAvailable") or 0, expected, up=True)
    return desired, max(healthy - desired, 0) if expected > 0 else 0


class DisruptionController:
    """Keeps the status of every budget."""

    name = "disruption-controller"
    kinds: tuple[Kind, ...] = (BUDGET, POD)

    def __init__(self, api: Api) -> None:
        self._api = api
        self._store = api.store
        self._states = PodStates()

    def keys_for(self, change: Change) -> Iterable[Key]:
        """The budget itself, or those that select or selected a pod."""
        entry, before = change.entry, change.before
        if change.kind.name == BUDGET.name:
            return (entry.key,)
        if not self._states.is_different(change):
            return ()
        labels = [entry.labels, *([before.labels] if before else [])]
        budgets = [(each.key, _selector(each)) for each in self._store.entries(BUDGET, entry.key[0])]
        return [key for key, selector in budgets if selector and any(map(selector.matches, labels))]

    async def reconcile(self, key: Key) -> float | None:
        """Calculate the status, and write it if it is new. Returns when the next evicted pod is given up."""
        entry = self._store.get(BUDGET, key)
        if entry is None:
            return None
        budget, selector, now = entry.object(), _selector(entry), clock.now()
        pods = [pod for pod in self._store.entries(POD, key[0]) if selector and selector.matches(pod.labels)]
        staying = {pod.key[1]: pod for pod in pods if not pod.deleting}
        waits: dict[str, float] = {}
        disrupted: dict[str, str] = budget.get("status", {}).get("disruptedPods") or {}
        for name, since in disrupted.items():
            left = (clock.moment(since) + DELETION_TIMEOUT - now).total_seconds()
            if name in staying and left > 0:
                waits[name] = left
        healthy = sum(name not in waits and self._states.of(pod).ready for name, pod in staying.items())
        status = _status(budget, self._expected(budget["spec"], pods), healthy)
        if waits:
            status["disruptedPods"] = {name: disrupted[name] for name in waits}
        await self._write(budget, status)
        return min(waits.values(), default=None)

    def _expected(self, spec: Json, pods: Sequence[Entry]) -> int | None:
        """For an integer minAvailable the number of pods; otherwise the scale of all controllers of these pods.

        None if a controller has no scale or is gone.
        """
        if spec.get("maxUnavailable") is None and isinstance(spec.get("minAvailable") or 0, int):
            return len(pods)
        first = {pod.controller.uid: pod for pod in pods if pod.controller is not None}
        scales: dict[str, int] = {}
        for pod in first.values():
            controller = self._scaled_controller(pod)
            if controller is None:
                return None
            scales[controller.uid] = controller.object()["spec"].get("replicas", 1)
        return sum(scales.values())

    def _scaled_controller(self, pod: Entry) -> Entry | None:
        """The controller of a pod, if it has a scale; a Deployment counts instead of its ReplicaSets."""
        owner = next(each for each in pod.object()["metadata"]["ownerReferences"] if each.get("controller"))
        kind = self._api.kinds.named(owner["apiVersion"], owner["kind"])
        if kind is None or "scale" not in kind.subresources:
            return None
        entry = self._store.get(kind, (pod.key[0], owner["name"]))
        if entry is None or entry.uid != owner["uid"]:
            return None
        above = entry.controller if kind.resource == REPLICA_SET.resource else None
        deployment = self._store.get(DEPLOYMENT, (pod.key[0], above.name)) if above else None
        return deployment if deployment and above and deployment.uid == above.uid else entry

    async def _write(self, budget: Json, status: Json) -> None:
        """Write the status to the version that it was calculated from: an eviction may have spent something since."""
        if status == budget.get("status"):
            return
        metadata = budget["metadata"]

        def set_status(newest: Json) -> Json:
            newest["metadata"]["resourceVersion"] = metadata["resourceVersion"]
            return newest | {"status": status}

        target = Target(BUDGET, metadata["namespace"], metadata["name"], "status")
        await edit_if_present(self._api, target, metadata["uid"], set_status)


def _selector(budget: Entry) -> Selector | None:
    return label_selector(budget.object()["spec"].get("selector"))


def _status(budget: Json, expected: int | None, healthy: int) -> Json:
    """The status without its disrupted pods. Nothing is allowed while the expected number of pods is unknown."""
    desired, allowed = calculate_disruptions(budget["spec"], expected or 0, healthy)
    status: Json = {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "disruptionsAllowed": allowed,
        "expectedPods": expected or 0,
        "observedGeneration": budget["metadata"]["generation"],
        "conditions": [dict(each) for each in (budget.get("status") or {}).get("conditions") or ()],
    }
    reason = "SyncFailed" if expected is None else "SufficientPods" if allowed else "InsufficientPods"
    condition = {"type": "DisruptionAllowed", "reason": reason, "status": "True" if allowed else "False", "message": ""}
    set_condition(status, condition | {"observedGeneration": status["observedGeneration"]})
    return status
