"""The columns of workloads and of what bounds them: Deployments, ReplicaSets, Jobs, disruption budgets and others."""

from __future__ import annotations

from kubemini.refusals import Json
from kubemini.server import ages
from kubemini.server.columns import (
    AGE,
    NAME,
    NONE,
    Cells,
    Column,
    Printer,
    age_of,
    containers_of,
    dig,
    holds,
    is_deleting,
    labels_text,
    name_of,
    numbers,
    selector_text,
    texts,
    wide,
)

_JOB_CONDITIONS = ("Suspended", "FailureTarget", "SuccessCriteriaMet")


def _number(body: Json, *steps: str) -> int:
    return dig(body, *steps) or 0


def _template(body: Json) -> tuple[str, str]:
    return containers_of(dig(body, "spec", "template"))


def _selector(body: Json) -> str:
    return selector_text(dig(body, "spec", "selector"))


def _deployment(body: Json) -> Cells:
    return [
        name_of(body),
        f"{_number(body, 'status', 'readyReplicas')}/{_number(body, 'spec', 'replicas')}",
        _number(body, "status", "updatedReplicas"),
        _number(body, "status", "availableReplicas"),
        age_of(body),
        *_template(body),
        _selector(body),
    ]


def _replica_set(body: Json) -> Cells:
    return [
        name_of(body),
        _number(body, "spec", "replicas"),
        _number(body, "status", "replicas"),
        _number(body, "status", "readyReplicas"),
        age_of(body),
        *_template(body),
        _selector(body) or NONE,
    ]


def _stateful_set(body: Json) -> Cells:
    ready = f"{_number(body, 'status', 'readyReplicas')}/{_number(body, 'spec', 'replicas')}"
    return [name_of(body), ready, age_of(body), *_template(body)]


def _daemon_set(body: Json) -> Cells:
    counts = ("desiredNumberScheduled", "currentNumberScheduled", "numberReady", "updatedNumberScheduled")
    return [
        name_of(body),
        *(_number(body, "status", each) for each in (*counts, "numberAvailable")),
        labels_text(dig(body, "spec", "template", "spec", "nodeSelector")),
        age_of(body),
        *_template(body),
        _selector(body) or NONE,
    ]


def _job(body: Json) -> Cells:
    succeeded = _number(body, "status", "succeeded")
    wanted, parallelism = dig(body, "spec", "completions"), _number(body, "spec", "parallelism")
    if wanted is not None:
        completions = f"{succeeded}/{wanted}"
    else:
        completions = f"{succeeded}/1 of {parallelism}" if parallelism > 1 else f"{succeeded}/1"
    return [
        name_of(body),
        _job_status(body),
        completions,
        ages.between(dig(body, "status", "startTime"), dig(body, "status", "completionTime")),
        age_of(body),
        *_template(body),
        _selector(body) or NONE,
    ]


def _cron_job(body: Json) -> Cells:
    last = dig(body, "status", "lastScheduleTime")
    template = dig(body, "spec", "jobTemplate", "spec")
    return [
        name_of(body),
        dig(body, "spec", "schedule") or "",
        dig(body, "spec", "timeZone") or NONE,
        str(bool(dig(body, "spec", "suspend"))),
        len(dig(body, "status", "active") or ()),
        ages.age(last) if last else NONE,
        age_of(body),
        *containers_of(dig(template, "template")),
        selector_text(dig(template, "selector")) or NONE,
    ]


def _job_status(body: Json) -> str:
    for sort in ("Complete", "Failed"):
        if holds(body, sort):
            return sort
    if is_deleting(body):
        return "Terminating"
    return next((sort for sort in _JOB_CONDITIONS if holds(body, sort)), "Running")


def _controller_revision(body: Json) -> Cells:
    owners = (each for each in dig(body, "metadata", "ownerReferences") or () if each.get("controller"))
    owner = next(owners, None)
    shown = NONE
    if owner is not None:
        group = owner["apiVersion"].rpartition("/")[0]
        shown = f"{owner['kind'].lower()}{'.' if group else ''}{group}/{owner['name']}"
    return [name_of(body), shown, body.get("revision", 0), age_of(body)]


def _budget(body: Json) -> Cells:
    bounds = (dig(body, "spec", each) for each in ("minAvailable", "maxUnavailable"))
    return [
        name_of(body),
        *("N/A" if bound is None else str(bound) for bound in bounds),
        _number(body, "status", "disruptionsAllowed"),
        age_of(body),
    ]


def _scale(body: Json) -> Cells:
    return [name_of(body), _number(body, "spec", "replicas"), _number(body, "status", "replicas"), age_of(body)]


_CONTAINERS = wide("Containers", "Images")
_SELECTOR = wide("Selector")

DEPLOYMENTS = Printer([NAME, *texts("Ready", "Up-to-date", "Available"), AGE, *_CONTAINERS, *_SELECTOR], _deployment)
REPLICA_SETS = Printer([NAME, *numbers("Desired", "Current", "Ready"), AGE, *_CONTAINERS, *_SELECTOR], _replica_set)
STATEFUL_SETS = Printer([NAME, *texts("Ready"), AGE, *_CONTAINERS], _stateful_set)
DAEMON_SETS = Printer(
    [
        NAME,
        *numbers("Desired", "Current", "Ready", "Up-to-date", "Available"),
        *texts("Node Selector"),
        AGE,
        *_CONTAINERS,
        *_SELECTOR,
    ],
    _daemon_set,
)
JOBS = Printer([NAME, *texts("Status", "Completions", "Duration"), AGE, *_CONTAINERS, *_SELECTOR], _job)
CRON_JOBS = Printer(
    [
        NAME,
        *texts("Schedule", "Timezone"),
        Column("Suspend", "boolean"),
        *numbers("Active"),
        *texts("Last Schedule"),
        AGE,
        *_CONTAINERS,
        *_SELECTOR,
    ],
    _cron_job,
)
CONTROLLER_REVISIONS = Printer([NAME, *texts("Controller", "Revision"), AGE], _controller_revision)
BUDGETS = Printer([NAME, *texts("Min Available", "Max Unavailable"), *numbers("Allowed Disruptions"), AGE], _budget)
SCALES = Printer([Column("Name"), *numbers("Desired", "Available"), AGE], _scale)
