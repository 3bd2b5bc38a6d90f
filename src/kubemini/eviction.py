"""The `eviction` of a pod: a deletion that disruption budgets may refuse.

The HTTP server calls `evict`; the embedded controllers that drain nodes may, too. It does what the real API server
does, in its order: pods that do no work any more, or not yet, go unasked; a budget is charged before the pod is
deleted; and the pod is marked, so that everybody sees why it goes.
"""

from __future__ import annotations

from kubemini import clock
from kubemini.api import Api, Deletion, Review, Target
from kubemini.kinds import BUDGET, POD
from kubemini.pods import TERMINAL, update_condition
from kubemini.refusals import Json, Refusal, bad_request, not_found
from kubemini.selectors import matcher
from kubemini.store import Entry

_ATTEMPTS = 20
_MOST_DISRUPTED = 2000
_VIOLATED = "Cannot evict pod as it would violate the pod's disruption budget."
_TWO = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
_MARK = {
    "type": "DisruptionTarget",
    "status": "True",
    "reason": "EvictionByEvictionAPI",
    "message": "Eviction API: evicting",
}


async def evict(api: Api, target: Target, eviction: Json, *, dry_run: bool = False) -> Json:
    """Evict a pod, or refuse to; the answer is a Status."""
    eviction = {"metadata": {}, **eviction}
    if eviction["metadata"].get("name") != target.name:
        raise bad_request("name in URL does not match name in Eviction object")
    wanted = _deletion(eviction.get("deleteOptions") or {}, dry_run=dry_run)
    pod = Target(POD, target.namespace, target.name, "eviction")
    asked: Json = {"apiVersion": "policy/v1", "kind": "Eviction"} | eviction
    asked["metadata"]["namespace"] = target.namespace
    await api.admission.admit(Review("CREATE", pod, asked, dry_run=wanted.dry_run))
    entry = await _without_budget(api, pod, wanted)
    if entry is None:
        return _done()
    budgets = _budgets(api, entry)
    if len(budgets) > 1:
        raise Refusal(500, "", _TWO)
    if not budgets:
        await _delete(api, pod, wanted)
        return _done()
    if _may_go_anyway(entry.object(), budgets[0]):
        # It must still be the unready pod that was looked at: one that has become ready counts.
        await _delete_as_seen(api, pod, wanted, entry, budgets[0]["metadata"]["name"])
        return _done()
    await _charge(api, target, budgets[0], dry_run=wanted.dry_run)
    await _delete(api, pod, wanted)
    return _done()


async def _without_budget(api: Api, pod: Target, wanted: Deletion) -> Entry | None:
    """Delete a pod whose going disrupts nothing; the answer is the pod, if it is not such a one."""
    for attempt in range(_ATTEMPTS):
        entry = api.store.get(POD, pod.key)
        if entry is None:
            raise not_found(POD, pod.name)
        phase = entry.fields.get("status.phase")
        if phase not in (*TERMINAL, "Pending") and not entry.deleting:
            return entry
        try:
            if phase == "Pending" and not entry.deleting and not wanted.version:
                await _delete(api, pod, _at(wanted, entry.version))
            else:
                await _delete(api, pod, wanted)
        except Refusal as refusal:
            if refusal.reason != "Conflict" or wanted.version or attempt == _ATTEMPTS - 1:
                raise
        else:
            return None
    return None


def _budgets(api: Api, entry: Entry) -> list[Json]:
    found = [each.object() for each in api.store.entries(BUDGET, entry.key[0])]
    selectors = [(budget, matcher(budget["spec"].get("selector"))) for budget in found]
    return [budget for budget, selector in selectors if selector is not None and selector.matches(entry.labels)]


def _may_go_anyway(pod: Json, budget: Json) -> bool:
    """Whether a pod is not ready, and its budget guards only those that are."""
    conditions = pod.get("status", {}).get("conditions", ())
    if any(each["type"] == "Ready" and each["status"] == "True" for each in conditions):
        return False
    if budget["spec"].get("unhealthyPodEvictionPolicy") == "AlwaysAllow":
        return True
    status = budget["status"]
    return bool(status["currentHealthy"] >= status["desiredHealthy"] > 0)


async def _charge(api: Api, target: Target, budget: Json, *, dry_run: bool) -> None:
    """Take one disruption from a budget, if it has one."""
    name = budget["metadata"]["name"]

    def charged(body: Json) -> Json:
        status = body["status"]
        _check(body)
        status["disruptionsAllowed"] -= 1
        if status["disruptionsAllowed"] == 0:
            _exhausted(body)
        status.setdefault("disruptedPods", {})[target.name] = clock.stamp(clock.now())
        return body

    if dry_run:
        _check(budget)
    else:
        await api.edit(Target(BUDGET, target.namespace, name, "status"), charged)


def _check(budget: Json) -> None:
    name, status = budget["metadata"]["name"], budget["status"]
    if status.get("observedGeneration", 0) < budget["metadata"].get("generation", 0):
        raise _still_processed(name)
    if len(status.get("disruptedPods", ())) > _MOST_DISRUPTED:
        why = "DisruptedPods map too big - too many evictions not confirmed by PDB controller"
        refusing = f"The disruption budget {name} does not allow evicting pods currently"
        cause = _cause(f"{refusing}: too many pending evictions not confirmed by PDB controller")
        message = f'poddisruptionbudget.policy "{name}" is forbidden: {why}'
        raise Refusal(403, "Forbidden", message, {"name": name, "group": "policy", "causes": [cause]})
    if status["disruptionsAllowed"] <= 0:
        raise Refusal(429, "TooManyRequests", _VIOLATED, {"causes": [_cause(_why_not(name, status))]})


def _why_not(name: str, status: Json) -> str:
    refusing = f"The disruption budget {name} does not allow evicting pods currently"
    conditions = [each for each in status.get("conditions", ()) if each["type"] == "DisruptionAllowed"]
    refused = next((each for each in conditions if each["status"] == "False" and each["message"]), None)
    if refused and refused["reason"] == "SyncFailed":
        return f"{refusing} because it failed sync: {refused['message']}"
    wanted, there = status["desiredHealthy"], status["currentHealthy"]
    if there <= wanted:
        return f"The disruption budget {name} needs {wanted} healthy pods and has {there} currently"
    return f"{refusing} ({refused['reason']}): {refused['message']}" if refused else refusing


def _exhausted(budget: Json) -> None:
    """Say in a budget's conditions that nothing more is allowed."""
    status = budget["status"]
    fresh = {
        "type": "DisruptionAllowed",
        "status": "False",
        "reason": "InsufficientPods",
        "message": "",
        "observedGeneration": status.get("observedGeneration", 0),
        "lastTransitionTime": clock.stamp(clock.now()),
    }
    conditions: list[Json] = status.setdefault("conditions", [])
    for number, was in enumerate(conditions):
        if was["type"] == "DisruptionAllowed":
            kept = {"lastTransitionTime": was["lastTransitionTime"]} if was["status"] == "False" else {}
            conditions[number] = fresh | kept
            return
    conditions.append(fresh)


async def _delete_as_seen(api: Api, pod: Target, wanted: Deletion, entry: Entry, budget: str) -> None:
    try:
        await _delete(api, pod, _at(wanted, entry.version))
    except Refusal as refusal:
        if refusal.reason == "Conflict" and not wanted.version:
            raise _still_processed(budget) from refusal
        raise


async def _delete(api: Api, pod: Target, wanted: Deletion) -> None:
    """Mark the pod and delete it; a version that is asked for is the one before the mark."""
    if not wanted.dry_run:
        _check_identity(api, pod, wanted)

        def marked(body: Json) -> Json:
            update_condition(body["status"], _MARK)
            return body

        seen = await api.edit(Target(POD, pod.namespace, pod.name, "status"), marked)
        if wanted.version:
            wanted = _at(wanted, int(seen["metadata"]["resourceVersion"]))
    await api.delete(pod, wanted)


def _check_identity(api: Api, pod: Target, wanted: Deletion) -> None:
    there = api.get(pod)["metadata"]
    for what, asked, found, how in (
        ("UID", wanted.uid, there["uid"], "deleted and then recreated"),
        ("ResourceVersion", wanted.version, there["resourceVersion"], "modified"),
    ):
        if asked and asked != found:
            why = f"the {what} in the precondition ({asked}) does not match the {what} in record ({found})."
            message = f'Operation cannot be fulfilled on Pod "{pod.name}": {why} The object might have been {how}'
            raise Refusal(409, "Conflict", message, {"name": pod.name, "kind": "Pod"})


def _deletion(options: Json, *, dry_run: bool) -> Deletion:
    preconditions = options.get("preconditions") or {}
    inner = options.get("dryRun", [])
    if inner not in ([], ["All"]):
        raise bad_request(f'dryRun: Unsupported value: {inner}: supported values: "All"')
    return Deletion(
        options.get("gracePeriodSeconds"),
        preconditions.get("uid", ""),
        preconditions.get("resourceVersion", ""),
        options.get("propagationPolicy") or "Background",
        dry_run or bool(inner),
    )


def _at(wanted: Deletion, version: int) -> Deletion:
    return Deletion(wanted.grace, wanted.uid, str(version), wanted.propagation, wanted.dry_run)


def _still_processed(budget: str) -> Refusal:
    cause = _cause(f"The disruption budget {budget} is still being processed by the server.")
    return Refusal(429, "TooManyRequests", _VIOLATED, {"causes": [cause], "retryAfterSeconds": 10})


def _cause(message: str) -> Json:
    return {"reason": "DisruptionBudget", "message": message}


def _done() -> Json:
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
