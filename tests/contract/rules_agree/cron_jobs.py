"""CronJobs, good and bad, with schedules of every sort, and changes to them."""

from __future__ import annotations

import random
from typing import Any

from tests.contract.rules_agree.cases import GONE, Case, Update, cases
from tests.contract.rules_agree.pods import CONTAINER
from tests.testbed.api import Json

_POD: Json = {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}
CRON_JOB: Json = {
    "metadata": {"name": "subject"},
    "spec": {"schedule": "0 3 * * *", "suspend": True, "jobTemplate": {"spec": {"template": _POD}}},
}
_JOB = "spec.jobTemplate.spec"
_FAILURES: Json = {"rules": [{"action": "FailJob", "onExitCodes": {"operator": "In", "values": [1, 2]}}]}
_CRON_JOB: dict[str, dict[str, Any]] = {
    "as plain as can be": {},
    "says nothing": {"spec": GONE},
    "has a bad name": {"metadata.name": "Sub_ject"},
    "has a name as long as can be": {"metadata.name": "x" * 52},
    "has a name that is too long for its Jobs": {"metadata.name": "x" * 53},
    "has no schedule": {"spec.schedule": GONE},
    "has no template": {"spec.jobTemplate": GONE},
    "runs": {"spec.suspend": GONE},
    "may run at the same time": {"spec.concurrencyPolicy": "Allow"},
    "replaces": {"spec.concurrencyPolicy": "Replace"},
    "runs at the same time in an unknown way": {"spec.concurrencyPolicy": "Maybe"},
    "does not say whether it may run at the same time": {"spec.concurrencyPolicy": ""},
    "keeps nothing": {"spec.successfulJobsHistoryLimit": 0, "spec.failedJobsHistoryLimit": 0},
    "keeps less than nothing": {"spec.successfulJobsHistoryLimit": -1, "spec.failedJobsHistoryLimit": -1},
    "has a deadline": {"spec.startingDeadlineSeconds": 10},
    "has a deadline before its start": {"spec.startingDeadlineSeconds": -10},
    "has a deadline that is a text": {"spec.startingDeadlineSeconds": "10"},
    "has labels and annotations for its Jobs": {
        "spec.jobTemplate.metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}}
    },
    "has bad labels for its Jobs": {"spec.jobTemplate.metadata": {"labels": {"a": "b c"}}},
    "has Jobs that restart always": {f"{_JOB}.template.spec.restartPolicy": "Always"},
    "has Jobs that do not say how they restart": {f"{_JOB}.template.spec.restartPolicy": GONE},
    "has Jobs without pods": {f"{_JOB}.template": GONE},
    "has Jobs with a bad container": {f"{_JOB}.template.spec.containers": [CONTAINER | {"name": "Main"}]},
    "has Jobs with a selector": {f"{_JOB}.selector": {"matchLabels": {"a": "b"}}},
    "has Jobs that choose their selector": {f"{_JOB}.manualSelector": True},
    "has Jobs that do not choose their selector": {f"{_JOB}.manualSelector": False},
    "has Jobs with counts": {f"{_JOB}.completions": 5, f"{_JOB}.parallelism": 2, f"{_JOB}.backoffLimit": 0},
    "has Jobs with negative counts": {f"{_JOB}.completions": -5, f"{_JOB}.parallelism": -1},
    "has indexed Jobs": {f"{_JOB}.completionMode": "Indexed", f"{_JOB}.completions": 3},
    "has indexed Jobs without an end": {f"{_JOB}.completionMode": "Indexed"},
    "has Jobs with a limit for each index, without any": {f"{_JOB}.backoffLimitPerIndex": 2},
    "has Jobs that know how to fail": {f"{_JOB}.podFailurePolicy": _FAILURES},
    "has Jobs that know how to fail by conditions": {
        f"{_JOB}.podFailurePolicy": {"rules": [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]}
    },
    "has Jobs that know how to fail, and replace pods too soon": {
        f"{_JOB}.podFailurePolicy": _FAILURES,
        f"{_JOB}.podReplacementPolicy": "TerminatingOrFailed",
    },
    "has Jobs that are managed by nobody in particular": {f"{_JOB}.managedBy": "mine"},
    "has Jobs that go when they have ended": {f"{_JOB}.ttlSecondsAfterFinished": 5},
}
_SCHEDULES = (
    "", " ", "* * * * *", "? ? ? ? ?", "*/5 * * * *", "*/0 * * * *", "*/100 * * * *", "0-59/7 * * * *", "5/10 * * * *",
    "1,2,3 * * * *", "1,,3 * * * *", ", * * * *", "1-5-7 * * * *", "5-1 * * * *", "60 * * * *", "-1 * * * *",
    "+1 * * * *", "007 * * * *", "1_0 * * * *", "1.5 * * * *", "a * * * *", "0 24 * * *", "0 0 0 * *", "0 0 32 * *",
    "0 0 31 2 *",
    "0 0 1 0 *", "0 0 1 13 *", "0 0 1 JAN *", "0 0 1 jan-mar *", "0 0 1 january *", "0 0 * * 7", "0 0 * * 0-6",
    "0 0 * * SUN", "0 0 * * mon-Fri", "0 0 * * mon/2", "0 0 * * * *", "* * * *", "*-5 * * * *", "*/2/3 * * * *",
    "* * * * L",
    "@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly", "@Hourly", "@reboot", "@hourly ",
    "@every 5m", "@every 1h30m", "@every 0s", "@every -5m", "@every x", "@every", "@every  5m", "TZ=UTC * * * * *",
    "CRON_TZ=UTC 0 3 * * *", "0 3 * * * TZ", "TZ=UTC", "\t0 3  * * *\n", "٣ * * * *", "9999999999999999999 * * * *",
)  # fmt: skip
_ZONES = (
    "", "UTC", "Etc/UTC", "Europe/Berlin", "America/Argentina/Buenos_Aires", "Asia/Kathmandu", "Etc/GMT+5", "EST5EDT",
    "GMT", "Local", "local", "Mars/Olympus", "Europe", "Europe/", "/etc/passwd", "../UTC", "./UTC", "Europe//Berlin",
    "-5",
    "Europe/-Berlin", "a" * 15, "Europe/Berlin ", "Zürich",
)  # fmt: skip
_DRAWN = 150
_PIECES = (
    "*",
    "?",
    "0",
    "1",
    "5",
    "12",
    "31",
    "59",
    "60",
    "mon",
    "JAN",
    "x",
    "",
    "*/2",
    "1-5",
    "5-1",
    "0-6/2",
    "3/4",
    "1,2",
    "-",
)


def _drawn(number: int) -> str:
    """A schedule that nobody thought of, the same for the same number."""
    rng = random.Random(number)
    count = rng.choice((5, 5, 5, 5, 4, 6))
    return " ".join(",".join(rng.choice(_PIECES) for _ in range(rng.choice((1, 1, 1, 2)))) for _ in range(count))


def _of_a_sort(sort: str, field: str, texts: tuple[str, ...]) -> dict[str, dict[str, Any]]:
    return {f"has the {sort} {text!r}": {field: text} for text in texts}


CRON_JOB_CASES: list[Case] = cases(
    "CronJob",
    CRON_JOB,
    _CRON_JOB
    | _of_a_sort("schedule", "spec.schedule", (*_SCHEDULES, *(_drawn(number) for number in range(_DRAWN))))
    | _of_a_sort("time zone", "spec.timeZone", _ZONES),
)
_STATUS: Json = {
    "active": [{"kind": "Job", "name": "a", "uid": "u", "namespace": "elsewhere"}],
    "lastScheduleTime": "2026-01-02T03:04:05Z",
}
_CHANGES: dict[str, tuple[Json, str]] = {
    "its schedule": ({"spec": {"schedule": "@hourly"}}, ""),
    "a schedule that is none": ({"spec": {"schedule": "often"}}, ""),
    "its time zone": ({"spec": {"timeZone": "Europe/Berlin"}}, ""),
    "a time zone that there is not": ({"spec": {"timeZone": "Mars/Olympus"}}, ""),
    "it runs": ({"spec": {"suspend": False}}, ""),
    "whether it runs, as nobody said": ({"spec": {"suspend": None}}, ""),
    "its template": ({"spec": {"jobTemplate": {"spec": {"completions": 4}}}}, ""),
    "its template's containers": ({"spec": {"jobTemplate": {"spec": {"template": {"spec": {"containers": []}}}}}}, ""),
    "its status, where it can't be": ({"status": _STATUS}, ""),
    "what runs": ({"status": _STATUS}, "status"),
    "its schedule, where it can't be": ({"spec": {"schedule": "@hourly"}}, "status"),
    "a label through the status": ({"metadata": {"labels": {"x": "y"}, "annotations": {"x": "y"}}}, "status"),
}
CRON_JOB_UPDATES: list[Update] = [
    Update(about, "CronJob", CRON_JOB, patch, subresource) for about, (patch, subresource) in _CHANGES.items()
]
