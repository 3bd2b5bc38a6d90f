"""Scenario: pods that fail on one node end up healthy on others, within their budget, and the record shows it.

The same with the webhook alone, with the extender alone, and with both; for every kind of workload.
"""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from rescheduler.model.json import Json
from rescheduler.model.labels import FAILURES
from tests.support.both_clusters import Space, name_of, nodes_fixture
from tests.support.failure_records import event_reasons, record, retried
from tests.support.manifests import deployment, job, on, pod, stateful_set
from tests.support.misbehaviour import Misbehaviour
from tests.support.recovering import QUICK, Recovering, find_copies, nodes_of, only_open, wait_until_elsewhere
from tests.testbed.processes import until

PATIENT = 1000
"""A Job counts restarts in place against its limit, too, and these come quickly."""
WAYS = {
    "the webhook": {"webhook": True, "extender": False},
    "the extender": {"webhook": False, "extender": True},
    "both": {"webhook": True, "extender": True},
}


nodes = nodes_fixture(5, prefix="recovering")


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
        place(space, body, node)


def place(space: Space, body: Json, node: str) -> None:
    """Create the workload, and wait for its pods on the only node that is open."""
    space.create(body)
    app, wanted = body["metadata"]["labels"]["app"], body["spec"].get("replicas", 1)
    until(f"{app} is on {node}", lambda: nodes_of_pods(space, app, node) == wanted)


def nodes_of_pods(space: Space, app: str, node: str) -> int:
    return sum(each["spec"].get("nodeName") == node for each in space.pods(app))


def test_pods_of_every_kind_that_crash_on_one_node_are_healthy_elsewhere(
    space: Space, nodes: list[str], either_way: Recovering
) -> None:
    bad = nodes[0]
    owned = {"team.example/owner": "shop"}
    lone = crashing(bad).of(retried(pod("lone"), "2", **owned))
    with only_open(space, bad, nodes):
        for body in (
            crashing(bad).of(retried(deployment("web", 4), "3", **owned)),
            crashing(bad).of(retried(stateful_set("db", 2, podManagementPolicy="Parallel"))),
            finishing_elsewhere(retried(job("work", backoffLimit=PATIENT)), bad),
            lone,
        ):
            place(space, body, bad)
    uids = {kind: space.get(kind, name)["metadata"]["uid"] for kind, name in (("Pod", "lone"), ("Job", "work"))}
    since = space.version("Job")
    with either_way.run() as controller:
        pods = wait_until_elsewhere(space, "web", 4, bad)
        wait_until_elsewhere(space, "db", 2, bad)
        (copy,) = wait_until_elsewhere(space, "lone", 1, bad)
        space.reaches("Job", "work", "is complete", lambda found: found["status"].get("succeeded"))
        until("the record of what is done is cleared", lambda: not record(space, "Job", "work"), [controller])
        until("it is recorded", lambda: record(space, "Deployment", "web"), [controller])
        assert controller.stop() == 0
    of_the_deployment(space, pods, bad)
    of_the_stateful_set(space, bad)
    of_the_job(space, since, uids["Job"], bad)
    of_the_copy(space, copy, uids["Pod"], bad)


def of_the_deployment(space: Space, pods: list[Json], bad: str) -> None:
    assert bad not in nodes_of(pods)
    kept = record(space, "Deployment", "web")
    assert set(kept["nodes"]) == {bad}
    assert kept["nodes"][bad]["reason"] == "CrashLoopBackOff"
    assert 4 <= kept["count"] <= 12, "each pod at least once, and no more often than its budget says"
    made = space.get("Deployment", "web")
    assert made["metadata"]["annotations"]["team.example/owner"] == "shop"
    assert made["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1", "its template is not touched"


def of_the_stateful_set(space: Space, bad: str) -> None:
    """Each of its pods has a record of its own."""
    kept = record(space, "StatefulSet", "db")
    assert set(kept["pods"]) == {"db-0", "db-1"}
    assert all(set(each["nodes"]) == {bad} and each["count"] <= 3 for each in kept["pods"].values())


def of_the_job(space: Space, since: str, uid: str, bad: str) -> None:
    """It went on, and was never created again."""
    recorded = space.events("Job", since, is_recorded)[-1]["object"]
    assert space.get("Job", "work")["metadata"]["uid"] == recorded["metadata"]["uid"] == uid
    assert set(json.loads(recorded["metadata"]["annotations"][FAILURES])["nodes"]) == {bad}


def of_the_copy(space: Space, found: Json, original: str, bad: str) -> None:
    """It carries the labels and annotations of the pod that no controller manages, and says where it comes from."""
    notes, labels = found["metadata"]["annotations"], found["metadata"]["labels"]
    prefix = "scheduler.alpha.kubernetes.io/"
    assert name_of(found).startswith("rescheduled-lone-")
    assert notes[f"{prefix}original-pod"] == original
    assert notes[f"{prefix}original-pod-name"] == "lone"
    assert labels[f"{prefix}migrated-from"] == bad
    assert notes["team.example/owner"] == "shop"
    assert record(space, "Pod", name_of(found))["count"] == 1


def finishing_elsewhere(body: Json, bad: str) -> Json:
    """The Job, whose pods crash on the bad node and are done in two seconds on others."""
    body["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    return Misbehaviour("CrashLoopBackOff", on=[bad], restarts_every=0.2, completes_in=2).of(body)


def is_recorded(event: Json) -> bool:
    return FAILURES in (event["object"]["metadata"].get("annotations") or {})


@pytest.mark.real_only  # the embedded cluster runs no CronJobs
def test_a_cron_jobs_record_is_kept_on_the_cron_job(space: Space, nodes: list[str], by_webhook: Recovering) -> None:
    bad = nodes[0]
    run = finishing_elsewhere(job("nightly", backoffLimit=PATIENT), bad)
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
        until("it is on the bad node", lambda: nodes_of_pods(space, "nightly", bad) == 1)
    with by_webhook.run() as controller:
        kept = until("it is recorded", lambda: record(space, "CronJob", "nightly"), [controller])
        space.reaches("Job", "by-hand", "is complete", lambda found: found["status"].get("succeeded"))
    assert set(kept["nodes"]) == {bad}
    assert FAILURES not in space.get("Job", "by-hand")["metadata"].get("annotations", {})


def test_what_cannot_be_helped_is_reported_and_left_as_it_is(
    space: Space, nodes: list[str], by_webhook: Recovering
) -> None:
    """One workload spends its retries, one fails on several nodes, and one may run on a single node only."""
    hopeless = Misbehaviour("CrashLoopBackOff", restarts_every=0.2)
    pinned = deployment("pinned", 1)
    pinned["spec"]["template"]["spec"]["nodeSelector"] = on(nodes[0])
    for body in (retried(deployment("spent", 1), "2"), retried(deployment("faulty", 1), "20"), retried(pinned, "2")):
        space.create(hopeless.of(body))
    with by_webhook.run(recovery={**QUICK, "faultNodes": 4}) as controller:
        for app, reason in (
            ("faulty", "WorkloadAtFault"),
            ("pinned", "NoNodeLeft"),
            ("pinned", "RetriesExhausted"),
            ("spent", "RetriesExhausted"),
        ):
            # A new pod that has not crashed yet may prove that its workload can run: the verdict waits a minute for it.
            until(f"{app}: {reason}", partial(is_told, space, app, reason), [controller], seconds=240)
        assert record(space, "Deployment", "faulty")["count"] < 20
        assert nodes_of(space.exactly("pinned", 1)) == {nodes[0]}, "there is no other node, and it is still tried"
        assert record(space, "Deployment", "spent")["count"] == 2
        stays_where_it_is(space, "spent")
    assert event_reasons(space, "spent").count("RetriesExhausted") == 1


def is_told(space: Space, app: str, reason: str) -> bool:
    return reason in event_reasons(space, app)


def stays_where_it_is(space: Space, app: str) -> None:
    """Two more rounds of its crash loop do not have its pod deleted."""
    (last,) = space.exactly(app, 1)
    restarts = last["status"]["containerStatuses"][0]["restartCount"]
    again = space.reaches(
        "Pod",
        name_of(last),
        "crashes on",
        lambda found: found["status"]["containerStatuses"][0]["restartCount"] >= restarts + 2,
    )
    assert again["metadata"]["uid"] == last["metadata"]["uid"]


def test_a_workload_that_is_healthy_again_has_its_record_cleared_everywhere(
    space: Space, nodes: list[str], by_webhook: Recovering
) -> None:
    bad = nodes[0]
    failing(space, crashing(bad).of(retried(deployment("web", 2), "3", **{"a/b": "c"})), bad, nodes)
    with by_webhook.run(recovery={**QUICK, "clearAfter": "3s"}) as controller:
        wait_until_elsewhere(space, "web", 2, bad)
        until("there is an Event", lambda: "Recovered" in event_reasons(space, "web"), [controller], seconds=60)
        until("the record is gone", lambda: not record(space, "Deployment", "web"), [controller])
        until("so are its copies", lambda: not find_copies(space, "web"), [controller])
    notes = space.get("Deployment", "web")["metadata"]["annotations"]
    assert (notes["scheduling-retries"], notes["a/b"]) == ("3", "c")
