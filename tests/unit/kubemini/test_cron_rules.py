"""What holds for CronJobs and Secrets: what is filled in, what is refused, and what must not change."""

from __future__ import annotations

import copy
from datetime import timedelta
from typing import Any

import pytest

from kubemini import clock
from kubemini.api import Api
from kubemini.kinds import CRON_JOB, Kind
from kubemini.refusals import Json
from kubemini.server.tables import printer_of
from tests.unit.kubemini.rule_cases import CONTAINER, at, cluster, create, fields_of, refused

SECRET = Kind("", "v1", "Secret", "secrets")


@pytest.fixture
async def api() -> Api:
    return await cluster()


def cron_job(name: str = "a", **spec: Any) -> Json:
    pod = {"spec": {"containers": [CONTAINER], "restartPolicy": "Never"}}
    body = {
        "metadata": {"name": name},
        "spec": {"schedule": "@daily", "jobTemplate": {"spec": {"template": pod}}} | spec,
    }
    return copy.deepcopy(body)


async def test_open_fields_are_filled_in_but_not_those_of_its_jobs(api: Api) -> None:
    made = (await create(api, CRON_JOB, cron_job()))["spec"]
    assert (made["concurrencyPolicy"], made["suspend"]) == ("Allow", False)
    assert (made["successfulJobsHistoryLimit"], made["failedJobsHistoryLimit"]) == (3, 1)
    job = made["jobTemplate"]["spec"]
    assert job.keys() == {"template"}
    assert job["template"]["spec"]["dnsPolicy"] == "ClusterFirst"


@pytest.mark.parametrize(
    ("spec", "fields"),
    [
        ({"schedule": ""}, ["spec.schedule"]),
        ({"schedule": "often"}, ["spec.schedule"]),
        ({"schedule": "TZ=UTC * * * * *"}, ["spec.schedule"]),
        ({"timeZone": ""}, ["spec.timeZone"]),
        ({"timeZone": "Local"}, ["spec.timeZone"]),
        ({"timeZone": "../etc"}, ["spec.timeZone"]),
        ({"timeZone": "Mars/Olympus"}, ["spec.timeZone"]),
        ({"concurrencyPolicy": "Maybe"}, ["spec.concurrencyPolicy"]),
        ({"startingDeadlineSeconds": -1}, ["spec.startingDeadlineSeconds"]),
        ({"failedJobsHistoryLimit": -1}, ["spec.failedJobsHistoryLimit"]),
    ],
)
async def test_what_makes_no_sense_is_refused(api: Api, spec: Json, fields: list[str]) -> None:
    assert fields_of(await refused(create(api, CRON_JOB, cron_job(**spec)))) == fields


async def test_its_jobs_must_be_such_as_can_be_made(api: Api) -> None:
    body = cron_job()
    job = body["spec"]["jobTemplate"]["spec"]
    job |= {"selector": {"matchLabels": {"a": "b"}}, "manualSelector": True, "completions": -1}
    job["template"]["spec"]["restartPolicy"] = "Always"
    at_fault = fields_of(await refused(create(api, CRON_JOB, body)))
    fields = ("completions", "template.spec.restartPolicy", "selector", "manualSelector")
    assert at_fault == [f"spec.jobTemplate.spec.{each}" for each in fields]


async def test_a_name_leaves_room_for_the_names_of_its_jobs(api: Api) -> None:
    await create(api, CRON_JOB, cron_job("x" * 52))
    assert fields_of(await refused(create(api, CRON_JOB, cron_job("x" * 53)))) == ["metadata.name"]


async def test_its_status_is_taken_as_it_is_and_leaves_the_spec_alone(api: Api) -> None:
    await create(api, CRON_JOB, cron_job())
    changed = {"spec": {"schedule": "often"}, "status": {"lastScheduleTime": "2026-01-02T03:04:05Z"}}
    seen = await api.edit(at(CRON_JOB, "a", "status"), lambda body: body | changed)
    assert (seen["spec"]["schedule"], seen["status"]) == ("@daily", changed["status"])


def test_its_row_says_when_it_ran_last_and_what_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    now = clock.now()
    monkeypatch.setattr(clock, "now", lambda: now)
    last = clock.stamp(now - timedelta(minutes=5))
    body = cron_job(schedule="0 3 * * *", suspend=True) | {"status": {"active": [{}, {}], "lastScheduleTime": last}}
    printer = printer_of(CRON_JOB)
    row = dict(zip([column.name for column in printer.columns], printer.row(body), strict=True))
    assert [row[each] for each in ("Name", "Schedule", "Timezone", "Suspend", "Active", "Last Schedule")] == [
        "a", "0 3 * * *", "<none>", "True", 2, "5m",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("sort", "data", "fields"),
    [
        ("tls", {"tls.crt": "x"}, ["data[tls.key]"]),
        ("ssh-auth", {"ssh-privatekey": ""}, ["data[ssh-privatekey]"]),
        ("basic-auth", {}, ["data[username]", "data[password]"]),
        ("basic-auth", {"password": ""}, []),
        ("dockercfg", {}, ["data[.dockercfg]"]),
        ("dockercfg", {".dockercfg": "no"}, ["data[.dockercfg]"]),
        ("dockerconfigjson", {".dockerconfigjson": "{}"}, []),
        ("service-account-token", {}, ["metadata.annotations[kubernetes.io/service-account.name]"]),
    ],
)
async def test_each_type_of_secret_asks_for_its_keys(api: Api, sort: str, data: Json, fields: list[str]) -> None:
    body = {"metadata": {"name": "a"}, "type": f"kubernetes.io/{sort}", "stringData": data}
    if fields:
        assert fields_of(await refused(create(api, SECRET, body))) == fields
    else:
        assert (await create(api, SECRET, body))["data"].keys() == data.keys()
