"""PodDisruptionBudget status: how many pods a budget expects, how many are healthy, how many may go now.

The Eviction API spends what this controller allows, so it follows the pods closely: each change of a pod that counts
has the budgets that select the pod reckoned anew. Which pods a budget selects is kept up to date as changes pass by
(`budget_members`), so that a change costs the budget's own pods and not the namespace's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kubemini import clock
from kubemini.api import Api, Target
from kubemini.controllers.budget_members import BudgetMembers
from kubemini.controllers.budget_scale import NoScale, expected_scale
from kubemini.controllers.conditions import condition_of, set_condition
from kubemini.controllers.percentages import scaled
from kubemini.controllers.pod_state import PodStates
from kubemini.events import EventRecorder
from kubemini.kinds import BUDGET, POD, Kind
from kubemini.refusals import Json, Refusal
from kubemini.store import Change, Entry, Key

DELETION_TIMEOUT = timedelta(minutes=2)
"""How long an evicted pod may take to be seen as deleted, before the budget counts it again."""

_UNMANAGED = (
    "Pods selected by this PodDisruptionBudget (selector: {}) were found to be unmanaged. As a result, the status of "
    "the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please "
    'set ".spec.minAvailable" field of the PDB to an integer value.'
)


@dataclass(frozen=True, slots=True)
class Pods:
    """The pods of one budget, as far as its arithmetic looks at them."""

    ready: tuple[str, ...]
    """The names of those that are Ready and not being deleted."""
    staying: frozenset[str]
    """The names of those that are not being deleted."""


@dataclass(frozen=True, slots=True)
class Reckoning:
    """What a budget's status shall say."""

    expected: int
    desired: int
    healthy: int
    disrupted: dict[str, str] = field(default_factory=dict)
    """Pods whose eviction was allowed and that are not seen as deleted yet: name and time."""
    again: float | None = None
    """In how many seconds the next of these is given up."""

    @property
    def allowed(self) -> int:
        """None while it expects no pods: then it cannot have seen those that there may be."""
        return max(self.healthy - self.desired, 0) if self.expected > 0 else 0


def reckoned(budget: Json, pods: Pods, expected: int, now: datetime) -> Reckoning:
    """The arithmetic of one budget. `expected` is the scale of its controllers, or the number of its pods."""
    spec = budget["spec"]
    if spec.get("maxUnavailable") is not None:
        desired = max(expected - scaled(spec["maxUnavailable"], expected), 0)
    else:
        desired = scaled(spec.get("minAvailable") or 0, expected)
    disrupted, again = {}, []
    for name, since in (budget.get("status", {}).get("disruptedPods") or {}).items():
        left = (clock.moment(since) + DELETION_TIMEOUT - now).total_seconds()
        if name in pods.staying and left > 0:
            disrupted[name] = since
            again.append(left)
    healthy = sum(name not in disrupted for name in pods.ready)
    return Reckoning(expected, desired, healthy, disrupted, min(again, default=None))


class DisruptionController:
    """Keeps the status of every budget."""

    name = "disruption-controller"
    kinds: tuple[Kind, ...] = (BUDGET, POD)

    def __init__(self, api: Api) -> None:
        self._api = api
        self._store = api.store
        self._members = BudgetMembers(api.store)
        self._states = PodStates()
        self._events = EventRecorder(api.store, "controllermanager")
        self._said: dict[str, tuple[str, ...]] = {}

    def concerned(self, change: Change) -> Iterable[Key]:
        """The budget itself, or those that select the pod as it is now."""
        if change.kind.name == BUDGET.name:
            self._members.budget_changed(change)
            if change.type == "DELETED":
                self._said.pop(change.entry.uid, None)
            return (change.entry.key,)
        keys = self._members.pod_changed(change)
        different = bool(keys) and self._states.is_different(change, by_phase=False)
        self._states.note(change)
        return keys if different else ()

    async def reconcile(self, key: Key) -> float | None:
        """Reckon, and write it down if it is new."""
        entry = self._store.get(BUDGET, key)
        if entry is None:
            return None
        budget = entry.object()
        pods = self._members.pods(key)
        if not pods:
            self._say(budget, "NoPods", "No matching pods found")
        try:
            expected = self._expected(budget, pods)
            result = reckoned(budget, self._counted(pods), expected, clock.now())
        except (NoScale, ValueError) as failure:
            message = f"Failed to calculate the number of expected pods: {failure}"
            self._say(budget, "CalculateExpectedPodCountFailed", message, warning=True)
            await self._write(entry, _failed(budget, str(failure)))
            return None
        await self._write(entry, _status(budget, result))
        return result.again

    def _counted(self, pods: list[Entry]) -> Pods:
        staying = [pod for pod in pods if not pod.deleting]
        ready = tuple(pod.key[1] for pod in staying if self._states.of(pod).ready)
        return Pods(ready, frozenset(pod.key[1] for pod in staying))

    def _expected(self, budget: Json, pods: list[Entry]) -> int:
        """For a plain minAvailable the number of pods; otherwise what their controllers are scaled to."""
        spec = budget["spec"]
        if spec.get("maxUnavailable") is None and isinstance(spec.get("minAvailable") or 0, int):
            return len(pods)
        unmanaged = tuple(pod.key[1] for pod in pods if pod.controller is None)
        if unmanaged:
            self._say(
                budget, "UnmanagedPods", _UNMANAGED.format(_go_text(spec.get("selector"))), *unmanaged, warning=True
            )
        return expected_scale(self._api, pods)

    def _say(self, budget: Json, reason: str, message: str, *details: str, warning: bool = False) -> None:
        """Tell it once, and again only when something else was told in between."""
        uid, said = budget["metadata"]["uid"], (reason, message, *details)
        if self._said.get(uid) != said:
            self._said[uid] = said
            self._events.say(budget, reason, message, warning=warning)

    async def _write(self, entry: Entry, status: Json) -> None:
        if status == entry.object().get("status"):
            return

        def told(newest: Json) -> Json:
            # Reckoned from this version: another writer (an eviction) may have spent something since.
            newest["metadata"]["resourceVersion"] = str(entry.version)
            return newest | {"status": status}

        namespace, name = entry.key
        try:
            await self._api.edit(Target(BUDGET, namespace, name, "status"), told)
        except Refusal as refusal:
            if refusal.code != 404:
                raise


def _status(budget: Json, result: Reckoning) -> Json:
    status: Json = {
        "currentHealthy": result.healthy,
        "desiredHealthy": result.desired,
        "disruptionsAllowed": result.allowed,
        "expectedPods": result.expected,
        "observedGeneration": budget["metadata"]["generation"],
        "conditions": (budget.get("status") or {}).get("conditions") or [],
    }
    if result.disrupted:
        status["disruptedPods"] = result.disrupted
    reason, said = ("SufficientPods", "True") if result.allowed else ("InsufficientPods", "False")
    there = condition_of({"status": status}, "DisruptionAllowed")
    if (there.get("status"), there.get("reason")) != (said, reason) or _is_old(budget):
        condition = {"type": "DisruptionAllowed", "reason": reason, "status": said, "message": ""}
        set_condition(status, condition | {"observedGeneration": status["observedGeneration"]}, clock.now())
    return status


def _is_old(budget: Json) -> bool:
    observed = (budget.get("status") or {}).get("observedGeneration")
    return bool(observed != budget["metadata"]["generation"])


def _failed(budget: Json, message: str) -> Json:
    """Nothing is allowed while nobody knows how many pods there should be; the rest stays as it was."""
    counts = dict.fromkeys(("currentHealthy", "desiredHealthy", "expectedPods"), 0)
    status: Json = counts | (budget.get("status") or {}) | {"disruptionsAllowed": 0}
    condition = {"type": "DisruptionAllowed", "reason": "SyncFailed", "status": "False", "message": message}
    if observed := status.get("observedGeneration"):
        condition["observedGeneration"] = observed
    set_condition(status, condition, clock.now())
    return status


def _go_text(selector: Json | None) -> str:
    """A selector as Go prints it: the message is what people search the web for."""
    if selector is None:
        return "nil"
    labels = "".join(f"{key}: {value}," for key, value in sorted((selector.get("matchLabels") or {}).items()))
    rules = "".join(
        f"LabelSelectorRequirement{{Key:{each['key']},Operator:{each['operator']},"
        f"Values:[{' '.join(each.get('values') or ())}],}},"
        for each in selector.get("matchExpressions") or ()
    )
    listed = f"MatchExpressions:[]LabelSelectorRequirement{{{rules}}},"
    return f"&LabelSelector{{MatchLabels:map[string]string{{{labels}}},{listed}}}"
