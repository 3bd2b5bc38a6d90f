"""Which template a pod was made from, so that what failed with one template is not held against the next.

The record notes it. When a workload's pods are made from another template, its record starts anew: whoever corrects a
bad image gets the whole budget again. Pods of a Deployment's older ReplicaSets are being replaced anyway and are left
to that.
"""

from __future__ import annotations

import hashlib
import json

from rescheduler.migration.commands import Json
from rescheduler.migration.observation import controller_of, labels_of, notes_of
from rescheduler.model import marks
from rescheduler.recovery.case import Case
from rescheduler.recovery.record import Record, slot

_NUMBER = "deployment.kubernetes.io/revision"
_HASH = "controller-revision-hash"


def revision_of(pod: Json, case: Case) -> str:
    """The name of a pod's template; empty where templates have none, or never change."""
    match case.holder["kind"]:
        case "Deployment" | "ReplicaSet":
            return labels_of(pod).get(marks.TEMPLATE_HASH, "")
        case "StatefulSet" | "DaemonSet":
            return labels_of(pod).get(_HASH, "")
        case "CronJob":
            return _digest(case.holder)
        case _:
            return ""


def is_outdated(pod: Json, case: Case) -> bool:
    """Whether a pod belongs to an older ReplicaSet of a Deployment."""
    newest, owner = _newest(case), controller_of(pod)
    return newest is not None and owner is not None and owner.get("uid") != newest["metadata"]["uid"]


def outdated(record: Record, case: Case) -> dict[str, str]:
    """The entries that tell of another template than the one that is in use, with the name of the latter."""
    used: dict[str, str] = {}
    newest = _newest(case)
    if newest is not None:
        used = dict.fromkeys(record, labels_of(newest).get(marks.TEMPLATE_HASH, ""))
    elif case.holder["kind"] == "CronJob":
        used = dict.fromkeys(record, _digest(case.holder))
    else:
        for pod in case.pods:
            name = slot(case.holder["kind"], pod["metadata"]["name"], pod["spec"].get("nodeName", ""))
            used[name] = revision_of(pod, case)
    return {
        name: used[name]
        for name, entry in record.items()
        if entry.revision and used.get(name) and used[name] != entry.revision
    }


def _newest(case: Case) -> Json | None:
    """The ReplicaSet that a Deployment's pods are being made by; None for other workloads."""
    if case.holder["kind"] != "Deployment":
        return None
    return max(case.controllers, key=_age, default=None)


def _age(replica_set: Json) -> tuple[int, str]:
    number = notes_of(replica_set).get(_NUMBER, "")
    return (int(number) if number.isdecimal() else 0, replica_set["metadata"].get("creationTimestamp") or "")


def _digest(cron_job: Json) -> str:
    """A CronJob's template has no name: it gets one from what it says."""
    template = (cron_job.get("spec") or {}).get("jobTemplate") or {}
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:10]
