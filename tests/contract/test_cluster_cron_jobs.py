"""CronJobs: when they make Jobs, what becomes of these, and what people do with them; and Secrets, as we keep ours.

Only one test waits for the clock: the least that a schedule can wait is a minute. The others make a CronJob's Jobs
themselves, as `kubectl create job --from` does, and see that the controller takes them for the CronJob's own.
"""

from __future__ import annotations

import base64
from datetime import datetime
from typing import Any

import pytest

from tests.support.both_clusters import Space, condition, name_of, names, refusal
from tests.support.manifests import job, simulated
from tests.testbed.api import Json
from tests.testbed.processes import until

SCHEDULED_FOR = "batch.kubernetes.io/cronjob-scheduled-timestamp"


def cron_job(name: str, schedule: str = "0 0 1 1 *", **spec: Any) -> Json:
    """One whose time does not come while a test runs, unless told otherwise."""
    template = {"metadata": {"labels": {"app": name}}, "spec": job(name)["spec"]}
    return {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": name},
        "spec": {"schedule": schedule, "jobTemplate": template} | spec,
    }


def made_for(owner: Json, name: str, *, controller: bool = True) -> Json:
    """A Job of a CronJob, made by hand."""
    template = owner["spec"]["jobTemplate"]
    head = {key: owner[key] for key in ("apiVersion", "kind")}
    reference = head | {"name": name_of(owner), "uid": owner["metadata"]["uid"], "controller": controller}
    metadata = {"name": name, "labels": template["metadata"]["labels"], "ownerReferences": [reference]}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": metadata, "spec": template["spec"]}


def jobs(space: Space) -> list[str]:
    return sorted(names(space.list("Job")))


def completed(space: Space, name: str) -> Json:
    def is_complete(found: Json) -> bool:
        return bool(condition(found, "Complete").get("status") == "True")

    return space.reaches("Job", name, "is complete", is_complete)


def told(space: Space, name: str, reason: str) -> Json:
    """An event about a CronJob, as soon as it is there."""
    selector = f"involvedObject.kind=CronJob,involvedObject.name={name},reason={reason}"
    return until(f"{reason} is told", lambda: space.list("Event", fieldSelector=selector))[0]


def test_every_minute_it_makes_a_job_that_runs_and_is_told_of(space: Space, nodes: list[str]) -> None:
    body = cron_job("tick", "* * * * *")
    body["spec"]["jobTemplate"]["spec"] = simulated(job("tick"), completes_in="5")["spec"]
    made = space.create(body)
    space.create(cron_job("tock", "* * * * *", suspend=True))
    running = until("it has made a Job", lambda: space.get("CronJob", "tick")["status"].get("active"), seconds=150)[0]
    born = space.get("Job", running["name"])
    scheduled = datetime.fromisoformat(born["metadata"]["annotations"][SCHEDULED_FOR])
    assert name_of(born) == f"tick-{int(scheduled.timestamp()) // 60}"
    assert scheduled.second == 0
    (owner,) = born["metadata"]["ownerReferences"]
    assert owner == {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "name": "tick",
        "uid": made["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    assert running.keys() == {"apiVersion", "kind", "namespace", "name", "uid", "resourceVersion"}
    assert running["uid"] == born["metadata"]["uid"]
    assert born["metadata"]["labels"]["app"] == "tick"
    done = completed(space, name_of(born))

    def is_noticed(found: Json) -> bool:
        status = found["status"]
        gone = name_of(born) not in [each["name"] for each in status.get("active", ())]
        return bool(gone and status.get("lastSuccessfulTime") == done["status"]["completionTime"])

    seen = space.reaches("CronJob", "tick", "notices that it ended", is_noticed)
    assert datetime.fromisoformat(seen["status"]["lastScheduleTime"]) >= scheduled
    assert told(space, "tick", "SuccessfulCreate")["message"] == f"Created job {name_of(born)}"
    assert (
        told(space, "tick", "SawCompletedJob")["message"] == f"Saw completed job: {name_of(born)}, condition: Complete"
    )
    assert space.get("CronJob", "tock")["status"] == {}
    assert [name for name in jobs(space) if name.startswith("tock")] == []


def test_a_job_that_was_made_for_it_by_hand_counts_as_its_success(space: Space, nodes: list[str]) -> None:
    made = space.create(cron_job("nightly"))
    space.create(made_for(made, "by-hand"))
    done = completed(space, "by-hand")["status"]["completionTime"]
    found = space.reaches("CronJob", "nightly", "notices", lambda found: found["status"].get("lastSuccessfulTime"))
    assert found["status"] == {"lastSuccessfulTime": done}
    assert "by-hand" in told(space, "nightly", "UnexpectedJob")["message"]


def test_a_job_that_it_owns_without_managing_it_is_not_its_own(space: Space, nodes: list[str]) -> None:
    made = space.create(cron_job("nightly", successfulJobsHistoryLimit=0))
    space.create(made_for(made, "loose", controller=False))
    space.create(made_for(made, "own"))
    space.gone("Job", "own")
    completed(space, "loose")
    assert jobs(space) == ["loose"]


def test_of_those_that_have_succeeded_the_newest_stay(space: Space, nodes: list[str]) -> None:
    made = space.create(cron_job("nightly", successfulJobsHistoryLimit=1))
    for name in ("first", "second"):
        space.create(made_for(made, name))
        completed(space, name)
    space.gone("Job", "first")
    assert jobs(space) == ["second"]
    assert told(space, "nightly", "SuccessfulDelete")["message"] == "Deleted job first"


def test_its_jobs_and_their_pods_go_with_it(space: Space, nodes: list[str]) -> None:
    made = space.create(cron_job("nightly"))
    space.create(made_for(made, "by-hand"))
    completed(space, "by-hand")
    space.delete("CronJob", "nightly")
    space.gone("Job", "by-hand")
    until("its pods are gone", lambda: not space.list("Pod"))


def test_its_jobs_stay_where_they_are_orphaned(space: Space, nodes: list[str]) -> None:
    made = space.create(cron_job("nightly"))
    space.create(made_for(made, "by-hand"))
    space.dependents_known(job("later", suspend=True))
    space.delete("CronJob", "nightly", propagationPolicy="Orphan")
    space.gone("CronJob", "nightly")
    assert "ownerReferences" not in space.get("Job", "by-hand")["metadata"]


def test_open_fields_are_filled_in_and_its_generation_counts_changes_of_its_spec(space: Space) -> None:
    made = space.create(cron_job("nightly"))
    filled = {key: made["spec"][key] for key in ("concurrencyPolicy", "suspend", "failedJobsHistoryLimit")}
    assert filled == {"concurrencyPolicy": "Allow", "suspend": False, "failedJobsHistoryLimit": 1}
    assert (made["metadata"]["generation"], made["status"]) == (1, {})
    labelled = space.patch("CronJob", "nightly", {"metadata": {"labels": {"a": "b"}}})
    assert labelled["metadata"]["generation"] == 1
    suspended = space.patch("CronJob", "nightly", {"spec": {"suspend": True}})
    assert suspended["metadata"]["generation"] == 2


def test_its_status_is_written_by_itself(space: Space) -> None:
    space.create(cron_job("nightly", suspend=True))
    stamped = {"lastScheduleTime": "2026-01-02T03:04:05Z"}
    assert space.patch("CronJob", "nightly", {"status": stamped})["status"] == {}
    assert space.patch_status("CronJob", "nightly", stamped)["status"] == stamped


@pytest.fixture
def kubectl(request: pytest.FixtureRequest, space: Space) -> Any:
    """kubectl is built with the real cluster; where that can't be had, this skips or fails by the same rules."""
    request.getfixturevalue("control_plane")
    return lambda *args: space.cluster.kubectl("-n", space.name, *args)


@pytest.mark.cluster
def test_kubectl_makes_a_job_of_it_at_once(space: Space, nodes: list[str], kubectl: Any) -> None:
    body = cron_job("nightly")
    pod = body["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    pod["volumes"] = [{"name": "scratch", "emptyDir": {}}, {"name": "given", "configMap": {"name": "x"}}]
    pod["containers"][0]["volumeMounts"] = [{"name": "scratch", "mountPath": "/scratch"}]
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [nodes[0]]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    pod["affinity"] = {"nodeAffinity": required}
    made = space.create(body)
    kubectl("create", "job", "now", "--from=cronjob/nightly")
    born = completed(space, "now")
    (owner,) = born["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["uid"], owner["controller"]) == ("CronJob", made["metadata"]["uid"], True)
    assert born["metadata"]["annotations"]["cronjob.kubernetes.io/instantiate"] == "manual"
    wanted = made["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    assert born["spec"]["template"]["spec"] == wanted
    assert [pod["spec"]["nodeName"] for pod in space.list("Pod")] == [nodes[0]]


@pytest.mark.cluster
def test_kubectl_makes_shows_and_suspends_it(space: Space, kubectl: Any) -> None:
    kubectl("create", "cronjob", "nightly", "--image=hollow:1", "--schedule=0 3 * * *", "--", "sleep", "1")
    kubectl("patch", "cj", "nightly", "-p", '{"spec":{"suspend":true,"timeZone":"Europe/Berlin"}}')
    heading, row = (line.split("   ") for line in kubectl("get", "cronjobs").splitlines())
    assert [each.strip() for each in heading if each.strip()] == [
        "NAME", "SCHEDULE", "TIMEZONE", "SUSPEND", "ACTIVE", "LAST SCHEDULE", "AGE",
    ]  # fmt: skip
    shown = [each.strip() for each in row if each.strip()]
    assert shown[:-1] == ["nightly", "0 3 * * *", "Europe/Berlin", "True", "0", "<none>"]
    described = kubectl("describe", "cronjob", "nightly")
    assert "Schedule:" in described
    assert "Concurrency Policy:" in described
    assert kubectl("get", "all", "-o", "name").split() == ["cronjob.batch/nightly"]


def test_a_secret_keeps_what_it_is_given_in_base64_and_hides_nothing(space: Space) -> None:
    plain = {"tls.crt": "certificate", "tls.key": "key"}
    encoded = {key: base64.b64encode(text.encode()).decode() for key, text in plain.items()}
    metadata = {"name": "pair"}
    body = {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": metadata,
        "type": "kubernetes.io/tls",
        "stringData": plain,
    }
    made = space.create(body)
    assert (made["data"], "stringData" in made) == (encoded, False)
    since = space.version("Secret")
    changed = space.patch("Secret", "pair", {"data": {"ca.crt": encoded["tls.crt"]}})
    assert changed["data"] == encoded | {"ca.crt": encoded["tls.crt"]}
    space.delete("Secret", "pair")
    seen = space.events("Secret", since, lambda event: event["type"] == "DELETED")
    assert [event["type"] for event in seen] == ["MODIFIED", "DELETED"]


def test_of_two_who_change_a_secret_at_once_one_is_told_so(space: Space) -> None:
    made = space.create({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "shared"}})
    space.patch("Secret", "shared", {"stringData": {"a": "first"}})
    with refusal(409, "Conflict"):
        space.api.put(space.path("Secret", "shared"), made | {"stringData": {"a": "second"}})
