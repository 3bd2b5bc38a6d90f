"""The `eviction` of a pod: a deletion that disruption budgets may refuse.

It follows the order of the real API server. Pods that do not run need no budget. A budget is charged before the pod is
deleted. The pod gets the condition DisruptionTarget first.
"""

from __future__ import annotations

from dataclasses import replace

from kubemini import clock
from kubemini.api import Api, Deletion, Target
from kubemini.conditions import set_pod_condition
from kubemini.errors import Json, StatusError, not_found
from kubemini.kinds import BUDGET, POD
from kubemini.pods import TERMINAL
from kubemini.selectors import label_selector
from kubemini.store import Entry

_VIOLATED = "Cannot evict pod as it would violate the pod's disruption budget."
_TWO = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


async def evict(api: Api, pod: Target, deletion: Deletion) -> Json:
    """Evict a pod, or refuse to; the answer is a Status."""
    entry = api.store.get(POD, pod.key)
    if entry is None:
        raise not_found(POD, pod.name)
    budgets = [] if _needs_no_budget(entry) else _budgets_of(api, entry)
    if len(budgets) > 1:
        raise StatusError(500, "", _TWO)
    if budgets and _may_go_unready(entry.object(), budgets[0]):
        # It must still be the unready pod that was read: a pod that has become ready counts.
        deletion = replace(deletion, version=deletion.version or str(entry.version))
    elif budgets:
        await _charge(api, pod, budgets[0], dry_run=deletion.dry_run)
    await _delete(api, pod, deletion)
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def _needs_no_budget(entry: Entry) -> bool:
    return entry.deleting or entry.fields.get("status.phase") in (*TERMINAL, "Pending")


def _budgets_of(api: Api, entry: Entry) -> list[Json]:
    budgets = [each.object() for each in api.store.entries(BUDGET, entry.key[0])]
    selectors = [(budget, label_selector(budget["spec"].get("selector"))) for budget in budgets]
    return [budget for budget, selector in selectors if selector is not None and selector.matches(entry.labels)]


def _may_go_unready(pod: Json, budget: Json) -> bool:
    """Whether a pod is not ready, and its budget guards only ready pods."""
    conditions = pod.get("status", {}).get("conditions", ())
    if any(each["type"] == "Ready" and each["status"] == "True" for each in conditions):
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget["status"]
    return bool(status["currentHealthy"] >= status["desiredHealthy"] > 0)


async def _charge(api: Api, target: Target, budget: Json, *, dry_run: bool) -> None:
    """Take one disruption from a budget; refused if it allows none."""

    def charge(body: Json) -> Json:
        _check(body)
        status = body["status"]
        status["disruptionsAllowed"] -= 1
        status.setdefault("disruptedPods", {})[target.name] = clock.stamp(clock.now())
        return body

    if dry_run:
        _check(budget)
    else:
        await api.edit(Target(BUDGET, target.namespace, budget["metadata"]["name"], "status"), charge)


def _check(budget: Json) -> None:
    status = budget["status"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _violated("is still being processed by the server.", budget, retryAfterSeconds=10)
    if status["disruptionsAllowed"] <= 0:
        wanted, there = status["desiredHealthy"], status["currentHealthy"]
        raise _violated(f"needs {wanted} healthy pods and has {there} currently", budget)


def _violated(why: str, budget: Json, **details: int) -> StatusError:
    cause = {"reason": "DisruptionBudget", "message": f"The disruption budget {budget['metadata']['name']} {why}"}
    return StatusError(429, "TooManyRequests", _VIOLATED, {"causes": [cause], **details})


async def _delete(api: Api, pod: Target, deletion: Deletion) -> None:
    """Give the pod its condition and delete it. A version that the client names is the one before the condition."""
    api.check_preconditions(pod, deletion)
    if not deletion.dry_run:

        def mark(body: Json) -> Json:
            set_pod_condition(body, "DisruptionTarget", "True", "EvictionByEvictionAPI", "Eviction API: evicting")
            return body

        marked = await api.edit(Target(POD, pod.namespace, pod.name, "status"), mark)
        if deletion.version:
            deletion = replace(deletion, version=marked["metadata"]["resourceVersion"])
    await api.delete(pod, deletion)
