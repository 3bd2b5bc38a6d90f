"""PodDisruptionBudgets: how many pods a budget expects, how many are healthy, how many may be disrupted now.

The Eviction API spends what this controller allows, so it follows the pods closely: each change of a pod that counts
has the budgets that select the pod reckoned anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kubemini import clock
from kubemini.api import Api, Target
from kubemini.conditions import set_condition
from kubemini.controllers.pods import PodStates, scale_value
from kubemini.controllers.writes import edit_if_present
from kubemini.kinds import BUDGET, DEPLOYMENT, POD, REPLICA_SET, Kind
from kubemini.refusals import Json
from kubemini.scale import scale_of
from kubemini.selectors import label_selector
from kubemini.store import Change, Entry, Key
from rescheduler.model.selector import Selector

DELETION_TIMEOUT = timedelta(minutes=2)
"""How long an evicted pod may take to be deleted before the budget counts it again."""


class NoScaleError(Exception):
    """The number of pods that there should be is unknown. The message says why, as Kubernetes does."""


@dataclass(frozen=True, slots=True)
class Pods:
    """The pods of one budget, as far as its arithmetic looks at them."""

    ready: tuple[str, ...]
    """The names of those that are Ready and not being deleted."""
    staying: frozenset[str]
    """The names of those that are not being deleted."""


@dataclass(frozen=True, slots=True)
class Numbers:
    """The numbers of a budget's status."""

    expected: int
    desired: int
    healthy: int
    disrupted: dict[str, str] = field(default_factory=dict)
    """Pods whose eviction was allowed and whose deletion has not been seen: name and time."""
    again: float | None = None
    """In how many seconds the next of these is given up."""

    @property
    def allowed(self) -> int:
        """How many pods may be disrupted; none while no pods are expected."""
        return max(self.healthy - self.desired, 0) if self.expected > 0 else 0


def reckon(budget: Json, pods: Pods, expected: int, now: datetime) -> Numbers:
    """Calculate the numbers of a budget. `expected` is the scale of its controllers, or the number of its pods."""
    spec = budget["spec"]
    if spec.get("maxUnavailable") is not None:
        desired = max(expected - scale_value(spec["maxUnavailable"], expected, up=True), 0)
    else:
        desired = scale_value(spec.get("minAvailable") or 0, expected, up=True)
    disrupted, again = {}, []
    for name, since in (budget.get("status", {}).get("disruptedPods") or {}).items():
        left = (clock.moment(since) + DELETION_TIMEOUT - now).total_seconds()
        if name in pods.staying and left > 0:
            disrupted[name] = since
            again.append(left)
    healthy = sum(name not in disrupted for name in pods.ready)
    return Numbers(expected, desired, healthy, disrupted, min(again, default=None))


class DisruptionController:
    """Keeps the status of every budget."""

    name = "disruption-controller"
    kinds: tuple[Kind, ...] = (BUDGET, POD)

    def __init__(self, api: Api) -> None:
        self._api = api
        self._store = api.store
        self._states = PodStates()
        self._selectors: dict[str, dict[Key, Selector]] = {}
        """By namespace: what each budget selects."""
        self._members: dict[Key, set[Key]] = {}
        """The pods of each budget, kept up to date with changes."""

    def keys_for(self, change: Change) -> Iterable[Key]:
        """The budget itself, or those that select or selected a pod."""
        if change.kind.name == BUDGET.name:
            self._note_budget(change)
            return (change.entry.key,)
        keys = self._note_pod(change)
        different = bool(keys) and self._states.is_different(change)
        self._states.note(change)
        return keys if different else ()

    async def reconcile(self, key: Key) -> float | None:
        """Calculate the status, and write it if it is new."""
        budget = self._api.find(BUDGET, key)
        if budget is None:
            return None
        found = (self._store.get(POD, each) for each in sorted(self._members.get(key, ())))
        pods = [pod for pod in found if pod is not None]
        try:
            numbers = reckon(budget, self._count(pods), self._expected(budget, pods), clock.now())
        except (NoScaleError, ValueError) as failure:
            await self._write(budget, _failed_status(budget, str(failure)))
            return None
        await self._write(budget, _status(budget, numbers))
        return numbers.again

    def _note_budget(self, change: Change) -> None:
        key = change.entry.key
        selectors = self._selectors.setdefault(key[0], {})
        selector = None if change.type == "DELETED" else label_selector(change.entry.object()["spec"].get("selector"))
        if selector is None:
            selectors.pop(key, None)
            self._members.pop(key, None)
        elif selectors.get(key) != selector:
            selectors[key] = selector
            pods = self._store.entries(POD, key[0])
            self._members[key] = {pod.key for pod in pods if selector.matches(pod.labels)}

    def _note_pod(self, change: Change) -> list[Key]:
        """The budgets that select a pod, or did until now."""
        pod, before = change.entry, change.before
        selectors = self._selectors.get(pod.key[0], {})
        selected = [key for key in selectors if pod.key in self._members[key]]
        selecting: list[Key] = []
        if change.type != "DELETED":
            if before is not None and before.labels == pod.labels:
                return selected  # most changes are of this kind, and matching all selectors is slow
            selecting = [key for key, selector in selectors.items() if selector.matches(pod.labels)]
        for key in selected:
            self._members[key].discard(pod.key)
        for key in selecting:
            self._members[key].add(pod.key)
        return list(dict.fromkeys([*selected, *selecting]))

    def _count(self, pods: Sequence[Entry]) -> Pods:
        staying = [pod for pod in pods if not pod.deleting]
        ready = tuple(pod.key[1] for pod in staying if self._states.of(pod).ready)
        return Pods(ready, frozenset(pod.key[1] for pod in staying))

    def _expected(self, budget: Json, pods: Sequence[Entry]) -> int:
        """For an integer minAvailable the number of pods; otherwise the scale of all controllers of these pods."""
        spec = budget["spec"]
        if spec.get("maxUnavailable") is None and isinstance(spec.get("minAvailable") or 0, int):
            return len(pods)
        first = {pod.controller.uid: pod for pod in pods if pod.controller is not None}
        return sum(dict(self._controller_scale(pod) for pod in first.values()).values())

    def _controller_scale(self, pod: Entry) -> tuple[str, int]:
        """The uid and the scale of a pod's controller; a Deployment counts instead of its ReplicaSets."""
        owner = next(each for each in pod.object()["metadata"]["ownerReferences"] if each.get("controller"))
        kind = self._api.kinds.named(owner["apiVersion"], owner["kind"])
        if kind is None:
            raise NoScaleError(f'no matches for kind "{owner["kind"]}" in version "{owner["apiVersion"]}"')
        if "scale" not in kind.subresources:
            raise NoScaleError(f"{kind.resource} does not implement the scale subresource")
        namespace = pod.key[0] if kind.namespaced else ""
        entry = self._store.get(kind, (namespace, owner["name"]))
        if entry is None or entry.uid != owner["uid"]:
            raise NoScaleError(f'found no controllers for pod "{pod.key[1]}"')
        above = entry.controller
        if kind.resource == REPLICA_SET.resource and above is not None and above.kind == DEPLOYMENT.name:
            deployment = self._store.get(DEPLOYMENT, (namespace, above.name))
            if deployment is not None and deployment.uid == above.uid:
                entry = deployment
        return entry.uid, scale_of(entry.object())["spec"].get("replicas", 0)

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


def _status(budget: Json, numbers: Numbers) -> Json:
    status: Json = {
        "currentHealthy": numbers.healthy,
        "desiredHealthy": numbers.desired,
        "disruptionsAllowed": numbers.allowed,
        "expectedPods": numbers.expected,
        "observedGeneration": budget["metadata"]["generation"],
        "conditions": [dict(each) for each in (budget.get("status") or {}).get("conditions") or ()],
    }
    if numbers.disrupted:
        status["disruptedPods"] = numbers.disrupted
    reason, said = ("SufficientPods", "True") if numbers.allowed else ("InsufficientPods", "False")
    condition = {"type": "DisruptionAllowed", "reason": reason, "status": said, "message": ""}
    set_condition(status, condition | {"observedGeneration": status["observedGeneration"]})
    return status


def _failed_status(budget: Json, message: str) -> Json:
    """Nothing is allowed while the expected number of pods is unknown; the other numbers stay as they were."""
    counts = dict.fromkeys(("currentHealthy", "desiredHealthy", "expectedPods"), 0)
    before = budget.get("status") or {}
    status: Json = counts | before | {"disruptionsAllowed": 0}
    status["conditions"] = [dict(each) for each in before.get("conditions") or ()]
    condition = {"type": "DisruptionAllowed", "reason": "SyncFailed", "status": "False", "message": message}
    if observed := before.get("observedGeneration"):
        condition["observedGeneration"] = observed
    set_condition(status, condition)
    return status
