"""The section `recovery` of a configuration, and the retries that annotations grant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

from rescheduler.model import labels
from rescheduler.model.fields import Duration, Period, Reason, Section, setting
from rescheduler.model.json import Json, annotations_of

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
"""Reasons of pods in phase Failed: `Error` is an exit code, the others are words of the kubelet."""


def matches_reason(reason: str, patterns: Iterable[str]) -> bool:
    """Whether one of the patterns is this reason; `OutOf*` matches all that begin with it."""
    return any(reason.startswith(each[:-1]) if each.endswith("*") else reason == each for each in patterns)


@dataclass(frozen=True)
class RecoverySettings(Section):
    """Recovery of pods that fail on their node, of workloads with the annotation `scheduling-retries`."""

    enabled: bool = setting(True, "Reschedule failed pods of workloads with the annotation.")
    crash_restarts: Annotated[int, Field(ge=1, le=1000)] = setting(
        3, "Restarts of a container after which a crash counts as a failure."
    )
    failed_reasons: tuple[Reason, ...] = setting(
        FAILED_REASONS,
        "Reasons of pods in phase Failed that count; `Error` is a container's exit code, and `OutOf*` "
        "matches all that begin with it.",
    )
    start_timeout: Period = setting(600.0, "A pod that has not started on its node after this time has failed.")
    image_pull_timeout: Period = setting(
        120.0, "A pod whose image cannot be pulled on its node for this time has failed."
    )
    node_not_ready: Period = setting(60.0, "A pod whose node has not been ready for this time has failed.")
    delay: Duration = setting(5.0, "How long a failure must last before the pod is rescheduled.")
    same_node_delay: Duration = setting(
        30.0,
        "How long to wait if a replacement came to a node where the pod failed before: nothing kept it off, "
        "so another try would only use up its retries.",
    )
    clear_after: Period = setting(
        600.0, "The record of a workload is cleared when all its pods have been Ready for this time."
    )
    forget_after: Period = setting(3600.0, "Older failures are forgotten, and their nodes may be tried again.")
    fault_nodes: Annotated[int, Field(ge=2, le=1000)] = setting(
        4,
        "Pods that failed on this many nodes and run on none fail because of the workload (a bad image, "
        "a bad configuration): they are not moved on.",
    )


MOST = 1000
_NUMBER = re.compile(r"[0-9]{1,9}", re.ASCII)


class RetriesError(ValueError):
    """An annotation that gives no number of retries; its text says where, why, and what to write."""


@dataclass(frozen=True, slots=True)
class RetryBudget:
    """The retries that an annotation grants."""

    per_pod: int
    warning: str = ""
    """A warning about how it is written."""


def find_retries(pod: Json, controller: Json | None, workload: Json) -> RetryBudget | None:
    """Return the retries of the nearest annotation; None if there is none."""
    copied = controller is not None and controller["kind"] == "ReplicaSet" and workload["kind"] == "Deployment"
    asked = [pod, *([] if controller is None or copied else [controller]), workload]
    return next((found for each in asked if (found := read_retries(each)) is not None), None)


def read_retries(body: Json) -> RetryBudget | None:
    """Return the retries of an object's own annotation; None if it has none."""
    notes = annotations_of(body)
    if labels.SCHEDULING_RETRIES in notes:
        return RetryBudget(_number(body, labels.SCHEDULING_RETRIES))
    if labels.MISSPELT_RETRIES in notes:
        number = _number(body, labels.MISSPELT_RETRIES)
        where, wrong, right = _title(body), labels.MISSPELT_RETRIES, labels.SCHEDULING_RETRIES
        return RetryBudget(number, f'{where}: annotation {wrong} is read as {right}; write {right}: "{number}"')
    return None


def total_retries(each: int, workload: Json) -> int:
    """How many retries one entry of the workload's record has, if every pod has so many."""
    if workload["kind"] in ("Deployment", "ReplicaSet", "Job", "CronJob"):
        return each * max(1, _planned_pods(workload))
    return each  # an entry is a single pod's, or that of a node where there is only one


def count_desired(workload: Json) -> int:
    """Return how many pods there should be now."""
    status, planned = workload.get("status") or {}, _planned_pods(workload)
    match workload["kind"]:
        case "DaemonSet":
            return int(status.get("desiredNumberScheduled") or 0)
        case "Job" if (completions := workload["spec"].get("completions")) is not None:
            return max(0, min(planned, int(completions) - int(status.get("succeeded") or 0)))
        case _:
            return planned


def _planned_pods(workload: Json) -> int:
    """How many pods its spec asks for at a time; 1 for a bare pod."""
    spec = workload.get("spec") or {}
    match workload["kind"]:
        case "Job":
            found = spec.get("parallelism")
        case "CronJob":
            found = ((spec.get("jobTemplate") or {}).get("spec") or {}).get("parallelism")
        case _:
            found = spec.get("replicas")
    return 1 if found is None else int(found)


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
