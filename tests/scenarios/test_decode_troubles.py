"""What pods have been through, from a dump to rows: restarts, containers that do not run, conditions; and back."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest

from rescheduler.decode.cache import ClusterCache
from rescheduler.decode.dump import SnapshotRecorder
from rescheduler.model.objects import HEALTHY, ContainerState, Pod, PodCondition, PodFailure, PodHealth
from rescheduler.model.time import parse_instant
from tests.support.dumps import SECRET, Object
from tests.support.planning import read, read_bytes

SINCE = "2020-01-15T07:30:00Z"
RUNS: Object = {"running": {"startedAt": SINCE}}
CRASHES: Object = {"waiting": {"reason": "CrashLoopBackOff", "message": SECRET}}
OOM: Object = {"terminated": {"exitCode": 137, "reason": "OOMKilled", "message": SECRET, "finishedAt": SINCE}}
DONE: Object = {"terminated": {"exitCode": 0, "reason": "Completed"}}
READY: Object = {"type": "Ready", "status": "True", "lastTransitionTime": SINCE, "reason": SECRET, "message": SECRET}
NOT_READY: Object = {"type": "Ready", "status": "False", "lastTransitionTime": SINCE, "reason": "ContainersNotReady"}


def container(state: Object | None, restarts: int = 0, last: Object | None = None, name: str = "main") -> Object:
    return {"name": name, "state": state, "restartCount": restarts, "lastState": last or {}}


def body(name: str = "p", **status: Any) -> Object:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1"},
        "spec": {"nodeName": "a", "containers": [{"name": "main"}]},
        "status": {"phase": "Running", **status},
    }


def trouble_of(**status: Any) -> PodHealth:
    (found,) = read(body(**status)).pods
    assert not found.problem
    return found.trouble


CASES: list[tuple[str, Object, PodHealth]] = [
    ("nothing is known", {}, HEALTHY),
    ("all is well", {"containerStatuses": [container(RUNS)], "conditions": [READY]}, HEALTHY),
    ("restarted once", {"containerStatuses": [container(RUNS, 1, OOM)]}, PodHealth(restarts=1)),
    (
        "restarts of all containers, init containers apart",
        {
            "containerStatuses": [container(RUNS, 2), container(RUNS, 3, name="other")],
            "initContainerStatuses": [container(DONE, 4, name="init")],
            "ephemeralContainerStatuses": [container(RUNS, 5, name="debug")],
        },
        PodHealth(restarts=5, init_restarts=4, states=(ContainerState("Completed", 0, "init"),)),
    ),
    (
        "it crashes, and how it ended before counts, too",
        {"containerStatuses": [container(CRASHES, 120, OOM)]},
        PodHealth(restarts=120, states=(ContainerState("CrashLoopBackOff"), ContainerState("OOMKilled", 137))),
    ),
    (
        "it is being created",
        {"phase": "Pending", "containerStatuses": [container({"waiting": {"reason": "ContainerCreating"}})]},
        PodHealth(states=(ContainerState("ContainerCreating"),)),
    ),
    (
        "a container that ended without a word",
        {"containerStatuses": [container({"terminated": {"exitCode": 3}})]},
        PodHealth(states=(ContainerState("", 3),)),
    ),
    (
        "an ephemeral container that ended",
        {"ephemeralContainerStatuses": [container(DONE, name="debug")]},
        PodHealth(states=(ContainerState("Completed", 0, "ephemeral"),)),
    ),
    ("evicted", {"phase": "Failed", "reason": "Evicted", "message": SECRET}, PodHealth(reason="Evicted")),
    (
        "not Ready since then",
        {"conditions": [NOT_READY, {"type": "PodScheduled", "status": "True"}]},
        PodHealth(conditions=(PodCondition("Ready", "False", "ContainersNotReady", parse_instant(SINCE)),)),
    ),
    (
        "a condition that tells of trouble when it is True",
        {"conditions": [READY, {"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}]},
        PodHealth(conditions=(PodCondition("DisruptionTarget", "True", "TerminationByKubelet", None),)),
    ),
    (
        "a time that is none",
        {"conditions": [{"type": "Ready", "status": "Unknown", "lastTransitionTime": "yesterday"}]},
        PodHealth(conditions=(PodCondition("Ready", "Unknown", "", None),)),
    ),
    ("nulls", {"containerStatuses": None, "conditions": None, "reason": None}, HEALTHY),
    ("a container of which nothing is known", {"containerStatuses": [{"name": "main"}]}, HEALTHY),
]


@pytest.mark.parametrize(("status", "expected"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_what_a_pod_has_been_through(status: Object, expected: PodHealth) -> None:
    assert trouble_of(**status) == expected


@pytest.mark.parametrize(("status", "expected"), [pytest.param(*case[1:], id=case[0]) for case in CASES])
def test_a_recording_keeps_it_and_none_of_the_messages(status: Object, expected: PodHealth) -> None:
    out = io.BytesIO()
    recorder = SnapshotRecorder(out)
    recorder.add("Pod", json.dumps(body(**status)).encode(), "test")
    recorder.close(None)
    (found,) = read_bytes(out.getvalue()).pods
    assert found.trouble == expected
    assert SECRET.encode() not in out.getvalue()


def test_a_recording_does_not_keep_when_healthy_conditions_came_about() -> None:
    out = io.BytesIO()
    recorder = SnapshotRecorder(out)
    recorder.add("Pod", json.dumps(body(conditions=[READY])).encode(), "test")
    recorder.close(None)
    assert SINCE.encode() not in out.getvalue()


def cached(*bodies: Object) -> tuple[ClusterCache, list[Pod]]:
    cache = ClusterCache("test")
    for each in bodies:
        cache.put("Pod", json.dumps(each).encode())
    return cache, list(cache.rows("Pod"))


def test_pods_that_are_well_share_one_row_and_so_do_those_that_have_been_through_the_same() -> None:
    well = {"containerStatuses": [container(RUNS)], "conditions": [READY]}
    prepared = {**well, "initContainerStatuses": [container(DONE, name="init")]}
    _, (a, b, c, d) = cached(body("a", **well), body("b", **well), body("c", **prepared), body("d", **prepared))
    assert a.trouble is HEALTHY is b.trouble
    assert c.trouble is d.trouble
    assert (c.trouble.restarts, c.trouble.init_restarts, c.ailment) == (0, 0, None)


def test_what_ails_a_pod_is_told_as_before() -> None:
    _, (crashing, failed) = cached(
        body("a", containerStatuses=[container(CRASHES, 7, OOM)]), body("b", phase="Failed", reason="Evicted")
    )
    assert (crashing.ailment, failed.ailment) == (PodFailure("CrashLoopBackOff", 7), PodFailure("Evicted"))
