"""Scenario: pods that fail on one node end up healthy on others, within their budget, and the record tells it.

The same with the webhook alone, with the extender alone, and with both; for every kind of workload.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.both_clusters import ClusterUnderTest, Space, is_ready, name_of
from tests.support.manifests import deployment, job, on, pod, stateful_set
from tests.support.misbehaviour import Misbehaviour
from tests.support.recovering import (
    FAILURES,
    QUICK,
    Recovering,
    copied,
    landed,
    only_open,
    reasons,
    record,
    retried,
    settled,
)
from tests.testbed.api import Json
from tests.testbed.processes import until

PATIENT = 1000
"""A Job counts restarts in place against its limit, too, and these come quickly."""
WAYS = {
    "the webhook": {"webhook": True, "extender": False},
    "the extender": {"webhook": False, "extender": True},
    "both": {"webhook": True, "extender": True},
}


@pytest.fixture
def nodes(cluster: ClusterUnderTest) -> Iterator[list[str]]:
    names = cluster.add_nodes(4, prefix="recovering")
    yield names
    cluster.remove_nodes(names)


@pytest.fixture(params=list(WAYS), ids=[name.replace(" ", "-") for name in WAYS])
def either_way(request: pytest.FixtureRequest, space: Space, tmp_path: Path) -> Recovering:
    """Steered by the webhook, by the extender, by both."""
    return Recovering(space, tmp_path, **WAYS[request.param])


@pytest.fixture
def by_webhook(space: Space, tmp_path: Path) -> Recovering:
    return Recovering(space, tmp_path, webhook=True, extender=False)


def crashing(node: str) -> Misbehaviour:
    return Misbehaviour("CrashLoopBackOff", on=[node], restarts_every=0.2)


def failing(space: Space, body: Json, node: str, nodes: list[str]) -> None:
    """The workload, whose pods are all on the bad node, and fail."""
    with only_open(space, node, nodes):
        space.create(body)
        app, wanted = body["metadata"]["labels"]["app"], body["spec"].get("replicas", 1)
        until(f"{app} is on {node}", lambda: landed_on(space, app, node) == wanted)


def landed_on(space: Space, app: str, node: str) -> int:
    return sum(each["spec"].get("nodeName") == node for each in space.pods(app))


def test_a_deployment_whose_pods_crash_on_one_node_is_healthy_elsewhere(
    space: Space, nodes: list[str], either_way: Recovering
) -> None:
    bad = nodes[0]
    web = crashing(bad).of(retried(deployment("web", 4), "3", **{"team.example/owner": "shop"}))
    failing(space, web, bad, nodes)
    with either_way.run() as controller:
        found = settled(space, "web", 4, bad)
        kept = until("it is recorded", lambda: record(space, "Deployment", "web"), [controller])
        assert controller.stop() == 0
    assert landed(found) <= set(nodes[1:])
    assert set(kept["nodes"]) == {bad}
    assert kept["nodes"][bad]["reason"] == "CrashLoopBackOff"
    assert 4 <= kept["count"] <= 12, "each pod at least once, and no more often than its budget says"
    made = space.get("Deployment", "web")
    assert made["metadata"]["annotations"]["team.example/owner"] == "shop"
    assert made["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1", "its template is not touched"


def test_each_pod_of_a_stateful_set_has_a_record_of_its_own(
    space: Space, nodes: list[str], either_way: Recovering
) -> None:
    bad = nodes[0]
    db = crashing(bad).of(retried(stateful_set("db", 2, podManagementPolicy="Parallel")))
    failing(space, db, bad, nodes)
    with either_way.run():
        settled(space, "db", 2, bad)
        kept = record(space, "StatefulSet", "db")
    assert set(kept["pods"]) == {"db-0", "db-1"}
    assert all(set(each["nodes"]) == {bad} and each["count"] <= 3 for each in kept["pods"].values())


def test_a_job_goes_on_elsewhere_and_is_never_made_anew(space: Space, nodes: list[str], either_way: Recovering) -> None:
    bad = nodes[0]
    body = retried(job("work", backoffLimit=PATIENT))
    body["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    Misbehaviour("CrashLoopBackOff", on=[bad], restarts_every=0.2, completes_in=2).of(body)
    failing(space, body, bad, nodes)
    uid, since = space.get("Job", "work")["metadata"]["uid"], space.version("Job")
    with either_way.run() as controller:
        done = space.reaches("Job", "work", "is complete", lambda found: found["status"].get("succeeded"))
        until("the record of what is done is cleared", lambda: not record(space, "Job", "work"), [controller])
    assert done["metadata"]["uid"] == uid
    recorded = space.events("Job", since, is_recorded)[-1]["object"]
    kept = json.loads(recorded["metadata"]["annotations"][FAILURES])
    assert set(kept["nodes"]) == {bad}


def is_recorded(event: Json) -> bool:
    return FAILURES in (event["object"]["metadata"].get("annotations") or {})


@pytest.mark.real_only
@pytest.mark.real_only
def test_a_cron_jobs_record_is_kept_on_the_cron_job(space: Space, nodes: list[str], either_way: Recovering) -> None:
    bad = nodes[0]
    run = job("nightly", backoffLimit=PATIENT)
    run["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    Misbehaviour("CrashLoopBackOff", on=[bad], restarts_every=0.2, completes_in=2).of(run)
    nightly = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly"},
        "spec": {
            "schedule": "0 3 1 1 *",
            "jobTemplate": {"metadata": {"labels": {"app": "nightly"}}, "spec": run["spec"]},
        },
    }
    space.create(retried(nightly))
    with only_open(space, bad, nodes):
        space.cluster.kubectl("-n", space.name, "create", "job", "by-hand", "--from=cronjob/nightly")
        until("it is on the bad node", lambda: landed_on(space, "nightly", bad) == 1)
    with either_way.run() as controller:
        kept = until("it is recorded", lambda: record(space, "CronJob", "nightly"), [controller])
        space.reaches("Job", "by-hand", "is complete", lambda found: found["status"].get("succeeded"))
    assert set(kept["nodes"]) == {bad}
    assert FAILURES not in space.get("Job", "by-hand")["metadata"].get("annotations", {})


def test_a_pod_that_nobody_manages_is_made_anew_elsewhere_under_its_marks(
    space: Space, nodes: list[str], either_way: Recovering
) -> None:
    bad = nodes[0]
    lone = crashing(bad).of(retried(pod("lone"), "2", **{"team.example/owner": "shop"}))
    failing(space, lone, bad, nodes)
    uid = space.get("Pod", "lone")["metadata"]["uid"]
    with either_way.run():
        (found,) = settled(space, "lone", 1, bad)
    notes, labels = found["metadata"]["annotations"], found["metadata"]["labels"]
    prefix = "scheduler.alpha.kubernetes.io/"
    assert name_of(found).startswith("rescheduled-lone-")
    assert notes[f"{prefix}original-pod"] == uid
    assert notes[f"{prefix}original-pod-name"] == "lone"
    assert labels[f"{prefix}migrated-from"] == bad
    assert notes["team.example/owner"] == "shop"
    assert record(space, "Pod", name_of(found))["count"] == 1


def test_a_pod_that_fails_everywhere_is_moved_as_often_as_its_budget_says_and_no_more(
    space: Space, nodes: list[str], by_webhook: Recovering
) -> None:
    space.create(Misbehaviour("CrashLoopBackOff", restarts_every=0.2).of(retried(deployment("web", 1), "2")))
    with by_webhook.run() as controller:
        until("people are told", lambda: "RetriesExhausted" in reasons(space, "web"), [controller], seconds=90)
        kept = record(space, "Deployment", "web")
        (last,) = space.exactly("web", 1)
        assert kept["count"] == 2
        # It stays where it is from now on: two more rounds of its crash loop do not have it deleted.
        restarts = last["status"]["containerStatuses"][0]["restartCount"]
        again = space.reaches(
            "Pod",
            name_of(last),
            "crashes on",
            lambda found: found["status"]["containerStatuses"][0]["restartCount"] >= restarts + 2,
        )
        assert again["metadata"]["uid"] == last["metadata"]["uid"]
    assert reasons(space, "web").count("RetriesExhausted") == 1


def test_what_fails_on_several_nodes_is_the_workloads_own_fault(
    space: Space, nodes: list[str], by_webhook: Recovering
) -> None:
    space.create(Misbehaviour("CrashLoopBackOff", restarts_every=0.2).of(retried(deployment("web", 1), "20")))
    with by_webhook.run(recovery={**QUICK, "faultNodes": 3}) as controller:
        until("people are told", lambda: "WorkloadAtFault" in reasons(space, "web"), [controller], seconds=90)
        assert record(space, "Deployment", "web")["count"] < 20


def test_when_no_node_is_left_the_list_is_cleared_and_people_are_told(
    space: Space, nodes: list[str], by_webhook: Recovering
) -> None:
    web = deployment("web", 1)
    web["spec"]["template"]["spec"]["nodeSelector"] = on(nodes[0])
    space.create(Misbehaviour("CrashLoopBackOff", restarts_every=0.2).of(retried(web, "2")))
    with by_webhook.run() as controller:
        until("people are told", lambda: "NoNodeLeft" in reasons(space, "web"), [controller], seconds=90)
        until("it is exhausted", lambda: "RetriesExhausted" in reasons(space, "web"), [controller], seconds=90)
        assert landed(space.exactly("web", 1)) == {nodes[0]}, "there is no other node, and it is still tried"


def test_a_workload_that_is_healthy_again_has_its_record_cleared_everywhere(
    space: Space, nodes: list[str], by_webhook: Recovering
) -> None:
    bad = nodes[0]
    failing(space, crashing(bad).of(retried(deployment("web", 2), "3", **{"a/b": "c"})), bad, nodes)
    with by_webhook.run(recovery={**QUICK, "clearAfter": "3s"}) as controller:
        settled(space, "web", 2, bad)
        until("people are told", lambda: "Recovered" in reasons(space, "web"), [controller], seconds=60)
        until("the record is gone", lambda: not record(space, "Deployment", "web"), [controller])
        until("so are its copies", lambda: not copied(space, "web"), [controller])
    notes = space.get("Deployment", "web")["metadata"]["annotations"]
    assert (notes["scheduling-retries"], notes["a/b"]) == ("3", "c")


def test_two_hundred_pods_are_made_although_the_webhook_is_killed_in_the_middle(
    space: Space, nodes: list[str], by_webhook: Recovering
) -> None:
    with by_webhook.run() as controller:
        space.create(deployment("many", 200, cpu="10m"))
        until("some are there", lambda: len(space.pods("many")) > 40)
        controller.kill()
        until("all are Ready", lambda: sum(map(is_ready, space.pods("many"))) == 200, seconds=180)
