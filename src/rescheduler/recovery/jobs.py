"""Whether a pod of a Job may be deleted: only if the Job goes on and creates another one.

A Job's controller replaces pods that have failed as a whole. Any other pod that we delete is a failure for the Job,
which counts against its limits and is judged by its policy. The rules are those of the Job controller of Kubernetes
1.34 to 1.37.
"""

from __future__ import annotations

from collections.abc import Iterable

from rescheduler.migration.observation import container_statuses, find_condition, is_terminating
from rescheduler.model.json import Json, annotations_of

INDEX_FAILURES = "batch.kubernetes.io/job-index-failure-count"
TRACKING = "batch.kubernetes.io/job-tracking"
_USUAL_LIMIT = 6
_OUR_MANAGERS = (None, "", "kubernetes.io/job-controller")
_ENDS = ("Complete", "Failed", "SuccessCriteriaMet", "FailureTarget")
_KILLED = frozenset({137, 143})
"""Exit codes of containers that are stopped: SIGKILL, SIGTERM. One that was never started has the first, too."""
_CHANGING = ("Ready", "ContainersReady", "PodReadyToStartContainers")
"""Conditions that become False when a pod ends."""


def why_stopped(job: Json) -> str:
    """Return why a Job creates no new pods; empty if it does."""
    spec, status = job["spec"], job.get("status") or {}
    if is_terminating(job):
        return "its Job is being deleted"
    if any(find_condition(job, kind).get("status") == "True" for kind in _ENDS):
        return "its Job is over"
    if spec.get("suspend"):
        return "its Job is suspended"
    if spec.get("managedBy") not in _OUR_MANAGERS:
        return f"its Job is managed by {spec['managedBy']}, whose ways are not known"
    if spec.get("parallelism") == 0:
        return "its Job has no parallelism"
    if spec.get("completions") is None and status.get("succeeded"):
        return "its Job has succeeded with another pod already and makes no new ones"
    return ""


def count_failures(job: Json, pods: Iterable[Json]) -> int:
    """Count a Job's failures, including those that its controller has yet to count; `pods` are the Job's."""
    status = job.get("status") or {}
    uncounted = set((status.get("uncountedTerminatedPods") or {}).get("failed") or ())
    return (status.get("failed") or 0) + len(uncounted) + sum(_is_new_failure(each, uncounted) for each in pods)


def why_keep(job: Json, pod: Json, failed: int) -> str:
    """Return why a pod that has not ended is not deleted; empty if its Job, with so many failures, replaces it."""
    if stopped := why_stopped(job):
        return stopped
    spec = job["spec"]
    rule = _find_rule(spec, pod)
    if rule is not None and rule["action"] in ("FailJob", "FailIndex"):
        return f"the failure policy of its Job has a rule {rule['action']} that its deletion may meet"
    if rule is not None and rule["action"] == "Ignore":
        return ""
    per_index, index_failures = spec.get("backoffLimitPerIndex"), _parse_number(annotations_of(pod).get(INDEX_FAILURES))
    if per_index is not None and index_failures + 1 > per_index:
        return f"its index of the Job has failed {index_failures} times, and may fail {per_index} times"
    limit = spec.get("backoffLimit")
    if limit is None:
        limit = _USUAL_LIMIT if per_index is None else 2**31 - 1
    return f"{failed} pods of its Job have failed, and its backoffLimit is {limit}" if failed + 1 > limit else ""


def _is_new_failure(pod: Json, uncounted: set[str]) -> bool:
    """Whether the Job's controller will count this pod as failed and has not done so: it is still tracked.

    Pods that are being deleted count as failures in any case; if the Job waits for them to end (a failure policy,
    `podReplacementPolicy: Failed`), they will be.
    """
    metadata = pod["metadata"]
    if TRACKING not in (metadata.get("finalizers") or ()) or metadata["uid"] in uncounted:
        return False
    phase = (pod.get("status") or {}).get("phase")
    return phase == "Failed" or (is_terminating(pod) and phase != "Succeeded")


def _find_rule(spec: Json, pod: Json) -> Json | None:
    """Return the rule of the failure policy that applies to the pod when it is deleted; the worst of those that may."""
    codes, conditions = _list_exit_codes(pod), _list_conditions(pod)
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or ():
        surely, perhaps = _meets(rule, codes, conditions)
        if rule["action"] in ("FailJob", "FailIndex"):
            if perhaps:
                return dict(rule)
        elif surely:
            return dict(rule)
    return None


_Codes = list[tuple[str, frozenset[int], bool]]
"""By container, the exit codes it may end with, and whether it is sure to end with one of them."""


def _list_exit_codes(pod: Json) -> _Codes:
    found: _Codes = []
    for each in container_statuses(pod):
        state, last = each.get("state") or {}, each.get("lastState") or {}
        ended = state.get("terminated") or (last.get("terminated") if state.get("waiting") else None)
        if ended:
            found.append((each["name"], frozenset({ended.get("exitCode") or 0}), True))
        else:
            found.append((each["name"], _KILLED, False))
    if not found:
        found = [(each["name"], _KILLED, False) for each in pod["spec"].get("containers") or ()]
    return found


def _list_conditions(pod: Json) -> dict[tuple[str, str], bool]:
    """Return the conditions that it may have in the end, and whether it is sure to."""
    now = [(each["type"], each.get("status", "")) for each in (pod.get("status") or {}).get("conditions") or ()]
    found = dict.fromkeys((each for each in now if each[0] not in _CHANGING), True)
    # What deletes the pods of nodes that are gone says so on them.
    found.setdefault(("DisruptionTarget", "True"), False)
    return found | dict.fromkeys(((kind, "False") for kind in _CHANGING), False)


def _meets(rule: Json, codes: _Codes, conditions: dict[tuple[str, str], bool]) -> tuple[bool, bool]:
    """Return whether a rule is sure to match, and whether it may."""
    if asked := rule.get("onExitCodes"):
        among = [each for each in codes if asked.get("containerName") in (None, each[0])]
        return (
            any(sure and all(_matches(asked, code) for code in may) for _, may, sure in among),
            any(_matches(asked, code) for _, may, _ in among for code in may),
        )
    patterns = {(each["type"], each.get("status") or "True") for each in rule.get("onPodConditions") or ()}
    met = [sure for each, sure in conditions.items() if each in patterns]
    return any(met), bool(met)


def _matches(asked: Json, code: int) -> bool:
    return code != 0 and (code in asked["values"]) == (asked["operator"] == "In")


def _parse_number(text: str | None) -> int:
    return int(text) if text and text.isdecimal() else 0
