"""The failures that count, as kubelets show them: beside a sidecar, of an image, of a start; and what people write."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from rescheduler.model import labels
from tests.contract.test_recovery import failing_on, only, places, well
from tests.support.both_clusters import Space, is_ready, name_of
from tests.support.failure_records import event_reasons, record, retried
from tests.support.manifests import deployment, pod
from tests.support.misbehaviour import Misbehaviour
from tests.support.recovery import QUICK, recovering
from tests.testbed.processes import until


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        (Misbehaviour("ImagePullBackOff"), "ImagePullBackOff"),
        (Misbehaviour("Failed", reason="Evicted", starts_in=1), "Evicted"),
        (Misbehaviour("OutOfcpu", starts_in=1), "OutOfcpu"),
    ],
)
def test_a_pod_that_fails_on_one_node_in_its_own_way_runs_on_another(
    space: Space, nodes: list[str], how: Misbehaviour, reason: str
) -> None:
    bad = nodes[0]
    with only(space, bad, nodes=nodes):
        space.create(replace(how, on=[bad]).of(retried(deployment("web", 1), "1000")))
        until("it is on the bad node", lambda: [each for each in space.pods("web") if each["spec"].get("nodeName")])
    with space.cordoned(bad), recovering(space.cluster):
        until("it runs elsewhere", lambda: [each for each in space.pods("web") if is_ready(each)])
        until("it is recorded", lambda: record(space, "Deployment", "web"))
    assert set(places(record(space, "Deployment", "web"))) == {bad}
    assert places(record(space, "Deployment", "web"))[bad] in (reason, "ErrImagePull")


def test_a_sidecar_that_runs_does_not_hide_a_crash(space: Space, nodes: list[str]) -> None:
    body: Any = deployment("web", 1)
    main = body["spec"]["template"]["spec"]["containers"][0]
    body["spec"]["template"]["spec"]["containers"] = [main, {**main, "name": "proxy"}]
    how = Misbehaviour("SidecarRuns", on=[nodes[0]], restarts_every=0.2)
    before = failing_on(space, nodes[0], nodes, how.of(retried(body)))
    states = [each["state"] for each in before[0]["status"]["containerStatuses"]]
    assert sum("running" in each for each in states) == 1, "one of the two runs"
    with space.cordoned(nodes[0]), recovering(space.cluster):
        well(space, "web", 1, before)
    assert places(record(space, "Deployment", "web")) == {nodes[0]: "CrashLoopBackOff"}


def test_a_pod_that_does_not_start_in_time_is_made_elsewhere(space: Space, nodes: list[str]) -> None:
    with only(space, nodes[0], nodes=nodes):
        space.create(retried(Misbehaviour(starts_in=600).of(deployment("slow", 1))))
        (slow,) = space.exactly("slow", 1)
        space.bound(name_of(slow))
    with space.cordoned(nodes[0]), recovering(space.cluster, replace(QUICK, start_timeout=3.0)):
        space.gone("Pod", name_of(slow))
        assert places(record(space, "Deployment", "slow"))[nodes[0]] == "NotStarted"


def test_the_misspelt_annotation_works_and_people_are_told_how_to_spell_it(space: Space, nodes: list[str]) -> None:
    body = Misbehaviour("CrashLoopBackOff", on=[nodes[0]], restarts_every=0.2).of(deployment("web", 1))
    body["metadata"]["annotations"] = {labels.MISSPELT_RETRIES: "1"}
    before = failing_on(space, nodes[0], nodes, body)
    with space.cordoned(nodes[0]), recovering(space.cluster):
        well(space, "web", 1, before)
        until("people are told", lambda: "RetriesMisspelt" in event_reasons(space, "web"))
    assert record(space, "Deployment", "web")["count"] == 1


def test_a_number_that_is_none_is_told_and_nothing_is_done(space: Space, nodes: list[str]) -> None:
    body = Misbehaviour("CrashLoopBackOff", on=[nodes[0]], restarts_every=0.2).of(deployment("web", 1))
    before = failing_on(space, nodes[0], nodes, retried(body, "three"))
    with recovering(space.cluster):
        until("people are told", lambda: "RetriesInvalid" in event_reasons(space, "web"))
        (still,) = space.pods("web")
    assert still["metadata"]["uid"] == before[0]["metadata"]["uid"]
    assert not record(space, "Deployment", "web")


@pytest.mark.real_only  # it needs a ResourceQuota
def test_a_pod_that_nobody_manages_stays_where_a_quota_refuses_another_and_people_are_told(
    space: Space, nodes: list[str]
) -> None:
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "one"}, "spec": {"hard": {"pods": "1"}}}
    space.create(quota)
    space.reaches("ResourceQuota", "one", "is counted", lambda found: "hard" in found.get("status", {}))
    lone = Misbehaviour("CrashLoopBackOff", restarts_every=0.2).of(retried(pod("lone")))
    before = failing_on(space, nodes[0], nodes, lone)
    with recovering(space.cluster):
        until("people are told", lambda: "RecoveryRefused" in event_reasons(space, "lone"))
        assert space.get("Pod", "lone")["metadata"]["uid"] == before[0]["metadata"]["uid"]
