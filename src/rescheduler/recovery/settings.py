"""What the operator says about failed pods: the section `recovery` of a configuration, as plain values."""

from __future__ import annotations

import re
from dataclasses import dataclass

from rescheduler.migration.observation import annotations_of
from rescheduler.model import labels
from rescheduler.model.json import Json

FAILED_REASONS = (
    "Error",
    "Evicted",
    "OutOf*",
    "NodeAffinity",
    "UnexpectedAdmissionError",
    "NodeShutdown",
    "NodeLost",
    "Terminated",
)
"""Of pods that have failed as a whole: `Error` is an exit code, the others are the kubelet's words."""


@dataclass(frozen=True, slots=True)
class RecoverySettings:
    """Which failures count and how long each may last, in seconds."""

    enabled: bool = True
    crash_restarts: int = 3
    """So many restarts make a crash loop of a crash."""
    failed_reasons: tuple[str, ...] = FAILED_REASONS
    """Of pods in phase Failed; a `*` at the end stands for anything."""
    start_timeout: float = 600.0
    """A pod that is on a node and has not started for so long has failed."""
    image_pull_timeout: float = 120.0
    """An image that cannot be pulled for so long is this node's failure."""
    node_not_ready: float = 60.0
    """A node that is not ready for so long has lost its pods."""
    delay: float = 5.0
    """A failure is acted upon when it has been seen for so long."""
    same_node_delay: float = 30.0
    """A pod that came back to a node where its like had failed before was kept off it by nobody: it waits so long."""
    clear_after: float = 600.0
    """A workload that has been healthy for so long starts with a clean record."""
    forget_after: float = 3600.0
    """A failure that is older says nothing about its node any more."""
    fault_nodes: int = 4
    """Pods that failed on so many nodes, and run nowhere, fail by their workload's own fault."""


MOST = 1000
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)


class RetriesError(ValueError):
    """An annotation that gives no number of retries; its text says where, why, and what to write."""


@dataclass(frozen=True, slots=True)
class RetryBudget:
    """What somebody wants for each pod."""

    per_pod: int
    warning: str = ""
    """What people ought to know about how it is written."""


def find_retries(pod: Json, controller: Json | None, workload: Json) -> RetryBudget | None:
    """What the nearest annotation says; None if there is none."""
    copied = controller is not None and controller["kind"] == "ReplicaSet" and workload["kind"] == "Deployment"
    asked = [pod, *([] if controller is None or copied else [controller]), workload]
    return next((found for each in asked if (found := read_retries(each)) is not None), None)


def read_retries(body: Json) -> RetryBudget | None:
    """What an object's own annotation says; None if it has none."""
    notes = annotations_of(body)
    if labels.SCHEDULING_RETRIES in notes:
        return RetryBudget(_number(body, labels.SCHEDULING_RETRIES))
    if labels.MISSPELT_RETRIES in notes:
        number = _number(body, labels.MISSPELT_RETRIES)
        where, wrong, right = _title(body), labels.MISSPELT_RETRIES, labels.SCHEDULING_RETRIES
        return RetryBudget(number, f'{where}: annotation {wrong} is taken for {right}; write {right}: "{number}"')
    return None


def total_retries(each: int, workload: Json) -> int:
    """How many retries one entry of the workload's record has, if every pod has so many."""
    spec = workload.get("spec") or {}
    match workload["kind"]:
        case "Deployment" | "ReplicaSet":
            return each * max(1, _or_one(spec.get("replicas")))
        case "Job":
            return each * max(1, _or_one(spec.get("parallelism")))
        case "CronJob":
            return each * max(1, _or_one(_of_jobs(spec).get("parallelism")))
        case _:  # an entry is a single pod's, or that of a node where there is only one
            return each


def count_desired(workload: Json) -> int:
    """How many pods there should be now."""
    spec, status = workload.get("spec") or {}, workload.get("status") or {}
    match workload["kind"]:
        case "Pod":
            return 1
        case "DaemonSet":
            return int(status.get("desiredNumberScheduled") or 0)
        case "Job":
            parallelism, completions = _or_one(spec.get("parallelism")), spec.get("completions")
            missing = parallelism if completions is None else completions - (status.get("succeeded") or 0)
            return max(0, min(parallelism, missing))
        case "CronJob":
            return _or_one(_of_jobs(spec).get("parallelism"))
        case _:
            return _or_one(spec.get("replicas"))


def _of_jobs(spec: Json) -> Json:
    return (spec.get("jobTemplate") or {}).get("spec") or {}


def _or_one(number: int | None) -> int:
    return 1 if number is None else number


def _number(body: Json, key: str) -> int:
    text = str(annotations_of(body)[key])
    if _NUMBER.fullmatch(text.strip()) and (number := int(text)) <= MOST:
        return number
    raise RetriesError(
        f"{_title(body)}: annotation {key}: {text[:40]!r} is not a whole number from 0 to {MOST}, so its failed "
        f'pods are left as they are; write for example {labels.SCHEDULING_RETRIES}: "3"'
    )


def _title(body: Json) -> str:
    metadata = body["metadata"]
    return f"{body.get('kind', 'Pod')} {metadata.get('namespace', '')}/{metadata['name']}"
