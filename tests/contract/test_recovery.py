"""Failed pods of each kind of workload on a cluster: counted and recorded on the workload first, then made again.

Nobody steers here (neither webhook nor extender), so cordons say where replacements go.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from rescheduler.model.json import Json
from rescheduler.model.labels import MIGRATED_FROM, MIGRATION_STATUS, ORIGINAL_POD, ORIGINAL_POD_NAME, RESCHEDULING
from rescheduler.model.policy import Policy
from tests.support.both_clusters import Space, is_ready, name_of
from tests.support.failure_records import annotations_of, event_reasons, record, retried
from tests.support.manifests import daemon_set, deployment, gated, job, pod, replica_set, stateful_set
from tests.support.misbehaviour import Misbehaviour
from tests.support.recovery import QUICK, recovering
from tests.testbed.namespaces import own_namespace
from tests.testbed.processes import until


@contextlib.contextmanager
def only(space: Space, *open_nodes: str, nodes: list[str]) -> Iterator[None]:
    """New pods go to these nodes, until the end of the block."""
    closed = [node for node in nodes if node not in open_nodes]
    with contextlib.ExitStack() as stack:
        for node in closed:
            stack.enter_context(space.cordoned(node))
        for last in closed[-1:]:
            space.shunned(last)
        yield


def crashes(body: Json, *nodes: str, every: float = 0.2) -> Json:
    """The workload or pod, in a crash loop on these nodes, or everywhere."""
    return Misbehaviour("CrashLoopBackOff", on=nodes or None, restarts_every=every).of(body)


def failing_on(space: Space, node: str, nodes: list[str], body: Json, count: int = 1) -> list[Json]:
    """The pods of a new workload, all in a crash loop on this node."""
    with only(space, node, nodes=nodes):
        space.create(body)
        found = space.exactly(body["metadata"]["name"], count)
        return [space.reaches("Pod", name_of(each), "crashes", is_crashing) for each in found]


def is_crashing(found: Json) -> bool:
    statuses = found["status"].get("containerStatuses", ())
    return any(each["restartCount"] >= 1 and "waiting" in each["state"] for each in statuses)


def well(space: Space, app: str, count: int, without: list[Json]) -> list[Json]:
    """The app's pods, when so many are Ready and these are gone."""
    gone = {each["metadata"]["uid"] for each in without}

    def reached() -> list[Json] | None:
        found = space.pods(app)
        is_new = all(each["metadata"]["uid"] not in gone for each in found)
        return found if len(found) == count and is_new and all(map(is_ready, found)) else None

    return until(f"{count} new pods of {app} are Ready", reached)


def places(found: Json) -> dict[str, str]:
    """Where pods failed, and why."""
    return {node: each["reason"] for node, each in found.get("nodes", {}).items()}


def test_the_pods_of_a_deployment_that_crash_on_a_node_are_made_again_elsewhere(space: Space, nodes: list[str]) -> None:
    body = retried(crashes(deployment("web", 2), nodes[0]), "2", **{"example.com/other": "kept"})
    before = failing_on(space, nodes[0], nodes, body, 2)
    with space.cordoned(nodes[0]), recovering(space.cluster) as loop:
        well(space, "web", 2, before)
        loop.counts(rescheduled=2)
    found = record(space, "Deployment", "web")
    assert (found["count"], places(found)) == (2, {nodes[0]: "CrashLoopBackOff"})
    assert annotations_of(space, "Deployment", "web")["example.com/other"] == "kept"
    assert annotations_of(space, "Deployment", "web")["deployment.kubernetes.io/revision"] == "1"
    assert event_reasons(space, "web") == ["PodRescheduled"] * 2
    for each in before:
        assert event_reasons(space, name_of(each)) == ["PodRescheduled"]


def test_a_replica_set_of_its_own_keeps_its_own_record(space: Space, nodes: list[str]) -> None:
    before = failing_on(space, nodes[0], nodes, retried(crashes(replica_set("web", 1), nodes[0])))
    with space.cordoned(nodes[0]), recovering(space.cluster):
        well(space, "web", 1, before)
    assert record(space, "ReplicaSet", "web")["count"] == 1


def test_a_stateful_set_keeps_a_record_for_each_of_its_pods(space: Space, nodes: list[str]) -> None:
    body = retried(crashes(stateful_set("db", 2, podManagementPolicy="Parallel"), nodes[0]))
    with only(space, nodes[0], nodes=nodes):
        space.create(body)
        first = space.reaches("Pod", "db-0", "crashes", is_crashing)
        second = space.reaches("Pod", "db-1", "crashes", is_crashing)
    with space.cordoned(nodes[0]), recovering(space.cluster):
        well(space, "db", 2, [first, second])
    found = record(space, "StatefulSet", "db")["pods"]
    assert {name: (each["count"], places(each)) for name, each in found.items()} == {
        "db-0": (1, {nodes[0]: "CrashLoopBackOff"}),
        "db-1": (1, {nodes[0]: "CrashLoopBackOff"}),
    }


def test_a_pod_of_a_daemon_set_is_restarted_where_it_is_as_often_as_it_may(space: Space, nodes: list[str]) -> None:
    with recovering(space.cluster, QUICK) as loop:
        space.create(retried(crashes(daemon_set("agent"), nodes[0]), "2"))
        loop.counts(restarted=2, exhausted=1)
    found = record(space, "DaemonSet", "agent")["pods"]
    assert {name: each["count"] for name, each in found.items()} == {nodes[0]: 2}
    everywhere = sorted(nodes)
    until("one is on each node", lambda: sorted(space.bound(name_of(e)) for e in space.pods("agent")) == everywhere)
    assert event_reasons(space, "agent") == ["PodRestarted", "PodRestarted", "RetriesExhausted"]


def restarted(body: Json) -> Json:
    """A Job whose pods are restarted in place."""
    body["spec"]["template"]["spec"]["restartPolicy"] = "OnFailure"
    return body


def test_a_pod_of_a_job_is_made_again_as_long_as_the_job_goes_on(space: Space, nodes: list[str]) -> None:
    """Each deletion is a failure to the Job, which may have two of them; the third would end it.

    So would two restarts of one pod: they come slowly enough for us to be faster.
    """
    body = retried(crashes(restarted(job("work", backoffLimit=2)), every=6.0), "9")
    since = space.version("Pod")
    failing_on(space, nodes[0], nodes, body)
    with recovering(space.cluster) as loop:
        until("it is told", lambda: "RecoveryRefused" in event_reasons(space, "work"), seconds=120)
        assert loop.counted == {"rescheduled": 2}
    assert record(space, "Job", "work")["count"] == 2
    space.create(gated("end"))  # when the watch tells of it, it has told of all that came before
    *events, _ = space.events("Pod", since, lambda event: name_of(event["object"]) == "end")
    assert len({each["object"]["metadata"]["uid"] for each in events}) == 3


def test_a_cron_job_that_asks_keeps_the_record_of_its_jobs(space: Space, nodes: list[str]) -> None:
    template = {"spec": restarted(crashes(job("work", backoffLimit=1000), nodes[0]))["spec"]}
    cron: Json = {
        "apiVersion": "batch/v1",
        "kind": "CronJob",
        "metadata": {"name": "nightly"},
        "spec": {"schedule": "0 0 1 1 *", "jobTemplate": template},
    }
    owner = space.create(retried(cron))
    body: Json = {"apiVersion": "batch/v1", "kind": "Job", "spec": template["spec"]}
    reference = {"apiVersion": "batch/v1", "kind": "CronJob", "name": "nightly", "uid": owner["metadata"]["uid"]}
    body["metadata"] = {"name": "work", "ownerReferences": [reference | {"controller": True}]}
    (before,) = failing_on(space, nodes[0], nodes, body)
    with space.cordoned(nodes[0]), recovering(space.cluster):
        well_or_done = until("another pod runs or is done", lambda: replaced(space, before))
    found = record(space, "CronJob", "nightly")
    assert (found["count"], places(found)) == (1, {nodes[0]: "CrashLoopBackOff"})
    assert record(space, "Job", "work") == {}
    assert well_or_done["spec"]["nodeName"] != nodes[0]


def replaced(space: Space, before: Json) -> Json | None:
    found = [each for each in space.pods("work") if name_of(each) != name_of(before)]
    done = [each for each in found if each["status"]["phase"] in ("Running", "Succeeded")]
    return done[0] if done else None


def test_a_single_pod_is_made_again_under_the_marks_of_a_move(space: Space, nodes: list[str]) -> None:
    body = retried(crashes(pod("web", labels={"tier": "gold"}), nodes[0]), **{"example.com/other": "kept"})
    (before,) = failing_on(space, nodes[0], nodes, body)
    with recovering(space.cluster) as loop:
        (after,) = well(space, "web", 1, [before])
        space.gone("Pod", "web")
        loop.counts(rescheduled=1)
    assert name_of(after).startswith("rescheduled-web-")
    assert after["spec"]["nodeName"] != nodes[0], "it avoids the node by itself, without webhook and cordon"
    labels, said = after["metadata"]["labels"], after["metadata"]["annotations"]
    assert labels["tier"] == "gold"
    assert (labels[MIGRATION_STATUS], labels[MIGRATED_FROM]) == ("completed", nodes[0])
    assert said[ORIGINAL_POD] == before["metadata"]["uid"]
    assert (said[ORIGINAL_POD_NAME], said["example.com/other"]) == ("web", "kept")
    found = record(space, "Pod", name_of(after))
    assert (found["count"], places(found)) == (1, {nodes[0]: "CrashLoopBackOff"})


def test_a_pod_that_its_kubelet_evicted_is_recorded_and_cleared_away(space: Space, nodes: list[str]) -> None:
    body = Misbehaviour("Failed", on=nodes[:1], starts_in=0.5).of(deployment("web", 1))
    with only(space, nodes[0], nodes=nodes):
        space.create(retried(body, "1000"))
        failed = until("one has failed", lambda: space.list("Pod", fieldSelector="status.phase=Failed"))
    with space.cordoned(nodes[0]), recovering(space.cluster):
        well(space, "web", 1, failed)
        until("failed ones are gone", lambda: not space.list("Pod", fieldSelector="status.phase=Failed"))
    assert places(record(space, "Deployment", "web")) == {nodes[0]: "Evicted"}


def test_pods_that_nobody_asked_for_or_that_opted_out_are_left_alone(space: Space, nodes: list[str]) -> None:
    opted_out = retried(crashes(deployment("out", 1)))
    opted_out["spec"]["template"]["metadata"]["labels"][RESCHEDULING] = "disabled"
    for body in (opted_out, crashes(deployment("quiet", 1)), retried(crashes(deployment("web", 1)), "1")):
        space.create(body)
    before = {name: space.exactly(name, 1)[0]["metadata"]["uid"] for name in ("out", "quiet")}
    with recovering(space.cluster) as loop:
        loop.counts(rescheduled=1, exhausted=1)
        until("it is told", lambda: "RecoveryRefused" in event_reasons(space, "out"))
    for name, uid in before.items():
        assert record(space, "Deployment", name) == {}
        assert [each["metadata"]["uid"] for each in space.pods(name)] == [uid]
    assert set(event_reasons(space, "out")) == {"RecoveryRefused"}
    assert event_reasons(space, "quiet") == []


@pytest.fixture
def second_space(space: Space) -> Iterator[Space]:
    with own_namespace(space.api, "second") as name:
        yield Space(space.cluster, name)


def test_excluded_namespaces_are_left_alone(space: Space, nodes: list[str], second_space: Space) -> None:
    for each in (space, second_space):
        failing_on(each, nodes[0], nodes, retried(crashes(deployment("web", 1)), "1"))
    untouched = space.pods("web")[0]["metadata"]["uid"]
    with recovering(space.cluster, policy=Policy(excluded_namespaces=(space.name,))) as loop:
        loop.counts(rescheduled=1, exhausted=1)
    assert record(second_space, "Deployment", "web")["count"] == 1
    assert record(space, "Deployment", "web") == {}
    assert space.pods("web")[0]["metadata"]["uid"] == untouched
