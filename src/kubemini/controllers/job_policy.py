"""The policies of a Job: which failures of its pods count or end it, and which successes are enough.

Pure. A pod that was evicted carries the condition DisruptionTarget, and a Job may say that such failures do not count:
whoever moves pods of Jobs relies on it.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import NamedTuple

from kubemini.controllers.job_indexes import parse_indexes
from kubemini.controllers.job_pods import JobPod
from kubemini.refusals import Json


class Judgement(NamedTuple):
    """What a policy says about a failed pod."""

    counts: bool = True
    """Whether the failure counts against the backoff limit."""
    fails_job: str = ""
    """Why the whole Job fails with it; empty if it does not."""


def judged(policy: Json | None, pod: JobPod) -> Judgement:
    """The first rule that matches decides; without any the failure counts."""
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        matched = _match(rule, pod)
        if not matched:
            continue
        match rule["action"]:
            case "Ignore":
                return Judgement(counts=False)
            case "FailJob":
                return Judgement(fails_job=f"{matched} matching FailJob rule at index {number}")
            case _:
                return Judgement()
    return Judgement()


def _match(rule: Json, pod: JobPod) -> str:
    """What of a pod a rule matches, in words; empty if nothing."""
    name = "/".join(pod.entry.key)
    if codes := rule.get("onExitCodes"):
        for container, code in pod.exits:
            asked = codes.get("containerName") in (None, container)
            if asked and code != 0 and (code in codes["values"]) == (codes["operator"] == "In"):
                return f"Container {container} for pod {name} failed with exit code {code}"
        return ""
    patterns = {(each["type"], each.get("status") or "True") for each in rule.get("onPodConditions") or ()}
    found = next((kind for kind, status in pod.conditions if (kind, status) in patterns), "")
    return f"Pod {name} has condition {found}" if found else ""


def enough(policy: Json | None, succeeded: AbstractSet[int], completions: int) -> str:
    """Why an Indexed Job has succeeded before all its indexes have; empty if it has not."""
    for number, rule in enumerate((policy or {}).get("rules") or ()):
        needed = rule.get("succeededCount")
        among = succeeded
        if rule.get("succeededIndexes") is not None:
            asked = parse_indexes(rule["succeededIndexes"], completions)
            among = succeeded & asked
            needed = len(asked) if needed is None else min(needed, len(asked))
            if not asked:
                continue
        if needed is not None and len(among) >= needed:
            return f"Matched rules at index {number}"
    return ""
