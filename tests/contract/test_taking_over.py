"""Workloads that kse-rescheduler looked after, on a cluster: its records are taken over in one write, and taken off."""

from __future__ import annotations

import json

from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.recovery.record import REASON
from tests.contract.test_recovery import crashes, failing_on, is_crashing, places, well
from tests.support.both_clusters import Space, name_of
from tests.support.failure_records import annotations_of, event_reasons, record, retried
from tests.support.manifests import deployment, pod, stateful_set
from tests.support.migrations import Fuse
from tests.support.recovery import recovering
from tests.testbed.processes import until


def left(times: int, hosts: str, *nodes: str) -> str:
    """A record as kse-rescheduler writes it."""
    return json.dumps({"currentReschedulingTimes": times, hosts: list(nodes)})


def taken(space: Space, kind: str, name: str) -> Json:
    """Our record, when theirs is gone."""
    until(f"{kind} {name} is taken over", lambda: labels.KSE_RECORDS[kind] not in annotations_of(space, kind, name))
    return record(space, kind, name)


def test_a_deployment_that_is_well_avoids_at_once_where_its_pods_failed(space: Space, nodes: list[str]) -> None:
    theirs = {labels.KSE_RECORDS["Deployment"]: left(2, "deployScheduledHosts", nodes[0]), "example.com/other": "kept"}
    space.create(retried(deployment("web", 1), **theirs))
    space.rolled_out("web")
    with recovering(space.cluster):
        found = taken(space, "Deployment", "web")
    assert (found["count"], places(found)) == (2, {nodes[0]: REASON})
    assert annotations_of(space, "Deployment", "web")["example.com/other"] == "kept"
    assert annotations_of(space, "Deployment", "web")["deployment.kubernetes.io/revision"] == "1"
    assert event_reasons(space, "web") == ["RecordTakenOver"]


def test_the_retries_that_are_left_count(space: Space, nodes: list[str]) -> None:
    theirs = {labels.KSE_RECORDS["Deployment"]: left(1, "deployScheduledHosts", nodes[1])}
    before = failing_on(space, nodes[0], nodes, retried(crashes(deployment("web", 1), nodes[0]), "2", **theirs))
    with space.cordoned(nodes[0]), recovering(space.cluster) as loop:
        well(space, "web", 1, before)
        loop.counts(rescheduled=1)
    found = record(space, "Deployment", "web")
    assert (found["count"], places(found)) == (2, {nodes[0]: "CrashLoopBackOff", nodes[1]: REASON})
    assert labels.KSE_RECORDS["Deployment"] not in annotations_of(space, "Deployment", "web")


def test_retries_that_are_used_up_stay_so(space: Space, nodes: list[str]) -> None:
    theirs = {labels.KSE_RECORDS["Deployment"]: '{"currentReschedulingTimes":3,"deployScheduledHosts":null}'}
    (before,) = failing_on(space, nodes[0], nodes, retried(crashes(deployment("web", 1)), "2", **theirs))
    with recovering(space.cluster) as loop:
        loop.counts(exhausted=1)
    assert taken(space, "Deployment", "web")["count"] == 3
    assert space.get("Pod", name_of(before))["metadata"]["uid"] == before["metadata"]["uid"]


def test_each_pod_of_a_stateful_set_has_its_own(space: Space, nodes: list[str]) -> None:
    theirs = {
        "db-0": json.loads(left(1, "podScheduledHosts", nodes[0])),
        "db-1": json.loads(left(2, "podScheduledHosts")),
    }
    space.create(retried(stateful_set("db", 2), **{labels.KSE_RECORDS["StatefulSet"]: json.dumps(theirs)}))
    with recovering(space.cluster):
        found = taken(space, "StatefulSet", "db")["pods"]
    assert {name: each["count"] for name, each in found.items()} == {"db-0": 1, "db-1": 2}
    assert places(found["db-0"]) == {nodes[0]: REASON}


def test_a_pod_that_nobody_manages_keeps_what_it_had(space: Space, nodes: list[str]) -> None:
    theirs = {labels.KSE_RECORDS["Pod"]: left(1, "podScheduledHosts", nodes[0])}
    space.create(retried(pod("lone"), **theirs))
    with recovering(space.cluster):
        found = taken(space, "Pod", "lone")
    assert (found["count"], places(found)) == (1, {nodes[0]: REASON})


def test_what_makes_no_sense_is_told_and_left_and_harms_nothing(space: Space, nodes: list[str]) -> None:
    theirs = {labels.KSE_RECORDS["Deployment"]: "[broken"}
    before = failing_on(space, nodes[0], nodes, retried(crashes(deployment("web", 1), nodes[0]), **theirs))
    assert is_crashing(before[0])
    with space.cordoned(nodes[0]), recovering(space.cluster) as loop:
        well(space, "web", 1, before)
        loop.counts(rescheduled=1)
    assert annotations_of(space, "Deployment", "web")[labels.KSE_RECORDS["Deployment"]] == "[broken"
    assert record(space, "Deployment", "web")["count"] == 1
    assert event_reasons(space, "web") == ["PodRescheduled", "RecordUnreadable"]


def test_a_controller_that_is_killed_right_after_the_write_has_lost_nothing_and_counts_nothing_twice(
    space: Space, nodes: list[str]
) -> None:
    theirs = {labels.KSE_RECORDS["Deployment"]: left(1, "deployScheduledHosts", nodes[1])}
    before = failing_on(space, nodes[0], nodes, retried(crashes(deployment("web", 1), nodes[0]), **theirs))
    with recovering(space.cluster, fuse=Fuse(writes=1)) as loop:
        loop.is_killed()
    assert taken(space, "Deployment", "web")["count"] == 2
    with space.cordoned(nodes[0]), recovering(space.cluster):
        well(space, "web", 1, before)
    assert record(space, "Deployment", "web")["count"] == 2


def test_copies_on_replica_sets_go_though_the_controller_was_killed_before_it_came_to_them(
    space: Space, nodes: list[str]
) -> None:
    theirs = {labels.KSE_RECORDS["Deployment"]: left(1, "deployScheduledHosts", nodes[1])}
    space.create(retried(deployment("web", 1), **theirs))
    space.rolled_out("web")
    (copy,) = space.list("ReplicaSet")
    key = labels.KSE_RECORDS["Deployment"]
    assert key in annotations_of(space, "ReplicaSet", name_of(copy)), "the Deployment's controller copies annotations"
    with recovering(space.cluster, fuse=Fuse(writes=1)) as loop:
        loop.is_killed()
    assert taken(space, "Deployment", "web")["count"] == 1
    assert key in annotations_of(space, "ReplicaSet", name_of(copy))
    with recovering(space.cluster):
        until("the copy is gone", lambda: key not in annotations_of(space, "ReplicaSet", name_of(copy)))
    assert record(space, "Deployment", "web")["count"] == 1


def test_starting_again_changes_nothing_that_was_taken_over(space: Space, nodes: list[str]) -> None:
    theirs = {labels.KSE_RECORDS["Deployment"]: left(2, "deployScheduledHosts", nodes[0])}
    space.create(retried(deployment("web", 1), **theirs))
    space.rolled_out("web")
    with recovering(space.cluster):
        taken(space, "Deployment", "web")
    before = annotations_of(space, "Deployment", "web")
    space.create(retried(deployment("other", 1), **theirs))
    with recovering(space.cluster):
        taken(space, "Deployment", "other")
    assert annotations_of(space, "Deployment", "web") == before
    assert event_reasons(space, "web") == ["RecordTakenOver"]
