"""Recovery against hindrances: kills, people who write meanwhile, spent budgets, lost nodes; and how it ends well."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

from rescheduler.migration.commands import Command, Verb
from rescheduler.model import labels
from rescheduler.model.json import Json
from tests.support.both_clusters import ClusterUnderTest, Space, is_ready, name_of
from tests.support.failure_records import annotations_of, event_reasons, record, retried
from tests.support.manifests import deployment, on, pod, stateful_set
from tests.support.migrations import Fuse
from tests.support.misbehaviour import Misbehaviour, kubelet_dies, kubelet_recovers, misbehaves
from tests.support.pod_migrations import replace
from tests.support.recovery import QUICK, recovering
from tests.testbed.hollow import NodeShape
from tests.testbed.processes import until

CRASHING = Misbehaviour("CrashLoopBackOff", restarts_every=0.2)
MINUTES = 180.0  # until a kubelet that is silent is given up, and its pods are


def is_crashing(found: Json) -> bool:
    return restarts(found) >= 1 and not is_ready(found)


def restarts(found: Json) -> int:
    return sum(each["restartCount"] for each in found["status"].get("containerStatuses", ()))


def crashing(space: Space, body: Json) -> Json:
    """The one pod of a new workload, when it is in a crash loop."""
    space.create(CRASHING.of(body))
    (found,) = space.exactly(body["metadata"]["name"], 1)
    return space.reaches("Pod", name_of(found), "crashes", is_crashing)


def another(space: Space, before: Json, seconds: float = 60.0) -> Json:
    """The pod that has taken its place."""

    def found() -> list[Json]:
        app = before["metadata"]["labels"]["app"]
        return [each for each in space.pods(app) if each["metadata"]["uid"] != before["metadata"]["uid"]]

    return until("another has taken its place", found, seconds=seconds)[0]


def falls_ill(space: Space, body: Json) -> Json:
    """The one pod of a new workload, when it is in a crash loop; those that take its place are well."""
    space.create(body)
    (found,) = space.exactly(body["metadata"]["name"], 1)
    space.ready(name_of(found))
    misbehaves(space.api, space.path("Pod", name_of(found)), CRASHING)
    return space.reaches("Pod", name_of(found), "crashes", is_crashing)


@pytest.mark.parametrize("after", ["patch Deployment", "delete Pod"])
def test_who_is_killed_in_between_has_counted_once(space: Space, nodes: list[str], after: str) -> None:
    before = falls_ill(space, retried(deployment("web", 1)))
    with recovering(space.cluster, fuse=Fuse(after=after)) as loop:
        loop.is_killed()
    assert record(space, "Deployment", "web")["pending"] == [before["metadata"]["uid"]]
    with recovering(space.cluster) as successor:
        space.ready(name_of(another(space, before)))
        space.gone("Pod", name_of(before))
        until("nobody is awaited any more", lambda: "pending" not in record(space, "Deployment", "web"))
    assert record(space, "Deployment", "web")["count"] == 1
    assert successor.counted == {}


@pytest.mark.parametrize("writes", [1, 2, 3, 4])
def test_whoever_comes_after_a_kill_counts_each_pod_once(space: Space, nodes: list[str], writes: int) -> None:
    """Three pods fall ill at once: one record, then three deletions."""
    space.create(retried(deployment("web", 3)))
    before = [space.ready(name_of(each)) for each in space.exactly("web", 3)]
    for each in before:
        misbehaves(space.api, space.path("Pod", name_of(each)), CRASHING)
    for each in before:
        space.reaches("Pod", name_of(each), "crashes", is_crashing)
    with recovering(space.cluster, fuse=Fuse(writes)) as loop:
        loop.is_killed()
    with recovering(space.cluster):
        for each in before:
            space.gone("Pod", name_of(each))
        until("nobody is awaited any more", lambda: "pending" not in record(space, "Deployment", "web"))
    assert len([each for each in space.exactly("web", 3) if space.ready(name_of(each))]) == 3
    assert record(space, "Deployment", "web")["count"] == 3
    assert event_reasons(space, "web").count("PodRescheduled") <= 3


@pytest.mark.parametrize("after", ["patch Pod", "create Pod", "delete Pod"])
def test_who_is_killed_while_a_single_pod_is_made_again_leaves_one_pod(
    space: Space, nodes: list[str], after: str
) -> None:
    sick = Misbehaviour("CrashLoopBackOff", on=nodes[:1], restarts_every=0.2)
    with contextlib.ExitStack() as stack:
        for node in nodes[1:]:
            stack.enter_context(space.cordoned(node))
        space.shunned(nodes[-1])
        space.create(retried(sick.of(pod("web"))))
        before = space.reaches("Pod", "web", "crashes", is_crashing)
    with recovering(space.cluster, fuse=Fuse(after=after)) as loop:
        loop.is_killed()
    with recovering(space.cluster):
        found = another(space, before)
        space.gone("Pod", "web")
        space.ready(name_of(found))
    assert len(space.pods("web")) == 1
    assert record(space, "Pod", name_of(found))["count"] == 1


def test_whatever_others_write_meanwhile_stays_and_the_failure_is_counted(space: Space, nodes: list[str]) -> None:
    before = falls_ill(space, retried(deployment("web", 1)))
    meddled: list[str] = []

    def meddle(command: Command) -> Command | None:
        if command.verb is not Verb.PATCH or len(meddled) == 3:
            return None
        meddled.append(str(len(meddled)))
        return replace(command, body={"metadata": {"annotations": {"example.com/other": meddled[-1]}}})

    with recovering(space.cluster, meddle=meddle) as loop:
        another(space, before)
        loop.counts(rescheduled=1)
    assert loop.fuse.written[:3] == ["patch Deployment refused"] * 3
    assert annotations_of(space, "Deployment", "web")["example.com/other"] == "2"
    assert record(space, "Deployment", "web")["count"] == 1


def test_when_the_budget_is_spent_that_is_told_once_and_nothing_more_is_done(space: Space, nodes: list[str]) -> None:
    before = crashing(space, retried(deployment("web", 1), "2"))
    with recovering(space.cluster, replace(QUICK, fault_nodes=100)) as loop:
        loop.counts(rescheduled=2, exhausted=1)
        (last,) = space.pods("web")
        many = restarts(last) + 10
        space.reaches("Pod", name_of(last), "crashes on and on", lambda found: restarts(found) >= many)
        assert loop.counted == {"rescheduled": 2, "exhausted": 1}
    assert event_reasons(space, "web") == ["PodRescheduled", "PodRescheduled", "RetriesExhausted"]
    assert name_of(last) != name_of(before)
    with recovering(space.cluster, replace(QUICK, fault_nodes=100)) as successor:
        space.patch("Deployment", "web", {"metadata": {"annotations": {labels.SCHEDULING_RETRIES: "3"}}})
        another(space, last)
        successor.counts(rescheduled=1, exhausted=1)
    assert record(space, "Deployment", "web")["count"] == 3


def test_what_fails_everywhere_is_told_to_be_the_workloads_own_fault(space: Space, nodes: list[str]) -> None:
    body = retried(CRASHING.of(stateful_set("db", 1)), "9")
    with recovering(space.cluster, replace(QUICK, fault_nodes=2)) as loop, contextlib.ExitStack() as stack:
        space.create(body)
        first = space.bound("db-0")
        stack.enter_context(space.cordoned(first))
        loop.counts(at_fault=1)
    assert "WorkloadAtFault" in event_reasons(space, "db")


def test_a_workload_that_is_well_again_has_a_clean_record_and_its_other_notes(space: Space, nodes: list[str]) -> None:
    body = retried(deployment("web", 1), "3", **{"example.com/other": "kept"})
    falls_ill(space, body)
    with recovering(space.cluster, replace(QUICK, clear_after=3.0)) as loop:
        loop.counts(recovered=1)
        until("no copy is left", lambda: not [each for each in space.list("ReplicaSet") if has_record(each)])
    said = annotations_of(space, "Deployment", "web")
    assert labels.FAILURES not in said
    assert (said["example.com/other"], said[labels.SCHEDULING_RETRIES]) == ("kept", "3")
    assert event_reasons(space, "web") == ["PodRescheduled", "Recovered"]


def has_record(found: Json) -> bool:
    return labels.FAILURES in found["metadata"].get("annotations", {})


def test_a_copy_of_the_record_that_comes_late_is_taken_off_too(space: Space, nodes: list[str]) -> None:
    space.create(retried(deployment("web", 1)))
    space.rolled_out("web")
    name = name_of(space.replica_set("web"))
    with recovering(space.cluster):
        space.patch("ReplicaSet", name, {"metadata": {"annotations": {labels.FAILURES: '{"count":1}'}}})
        space.reaches("ReplicaSet", name, "has no copy", lambda found: not has_record(found))


@pytest.fixture
def frail(cluster: ClusterUnderTest) -> Iterator[str]:
    """A node of this test's own, that is healthy again in the end."""
    (name,) = cluster.add_nodes(1, NodeShape(), prefix="frail")
    try:
        yield name
    finally:
        kubelet_recovers(cluster.api, name)
        cluster.remove_nodes([name])


def test_the_pods_of_a_node_that_dies_are_made_again_elsewhere(space: Space, nodes: list[str], frail: str) -> None:
    before = {}
    with contextlib.ExitStack() as stack:
        for node in nodes:
            stack.enter_context(space.cordoned(node))
        space.shunned(nodes[-1])
        space.create(retried(deployment("web", 1)))
        space.create(retried(pod("single")))
        space.create(retried(pod("pinned", nodeSelector=on(frail))))
        for app in ("web", "single", "pinned"):
            (found,) = space.exactly(app, 1)
            before[app] = space.ready(name_of(found))
    with recovering(space.cluster):
        kubelet_dies(space.api, frail)
        for app in ("web", "single"):
            space.ready(name_of(another(space, before[app], seconds=MINUTES)))
        until("it is told", lambda: "NoNodeLeft" in event_reasons(space, "pinned"), seconds=MINUTES)
    found = record(space, "Deployment", "web")
    assert {node: each["reason"] for node, each in found["nodes"].items()} == {frail: "NodeNotReady"}
    assert space.get("Pod", "pinned")["metadata"]["uid"] == before["pinned"]["metadata"]["uid"]
    kubelet_recovers(space.api, frail)
    space.gone("Pod", name_of(before["web"]))
