"""Scenario: pods in trouble. They crash on one node, are stuck, or lie about failed; it is put right, and rests."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rescheduler.model.json import Json
from tests.support.both_clusters import ClusterUnderTest, Space, is_ready, name_of
from tests.support.controller_process import Controller, write_config
from tests.support.manifests import deployment, job, on, pod, stateful_set
from tests.support.misbehaviour import Misbehaviour, misbehaves
from tests.support.recovering import only_open, retried
from tests.support.skewed_cluster import migrations
from tests.testbed.processes import until

CYCLES = 4
"""So many plans without a move in a row are rest."""


@pytest.fixture
def nodes(cluster: ClusterUnderTest) -> Iterator[list[str]]:
    names = cluster.add_nodes(3, prefix="troubled")
    yield names
    cluster.remove_nodes(names)


def running(space: Space, folder: Path, strategy: str, **settings: Any) -> Controller:
    """A controller with this strategy alone."""
    fields = {"enabledStrategies": [strategy], "strategies": {strategy: settings}}
    config = write_config(folder / "config.yaml", space.name, recovery={"enabled": False}, **fields)
    return Controller(space.cluster.kubeconfig, config, folder / "controller.log")


def rests(space: Space, controller: Controller) -> list[Json]:
    """The migrations, once all are over and no more are planned."""
    seen = len(_planned(controller))

    def reached() -> bool:
        later = _planned(controller)[seen:]
        over = all(_is_over(each) for each in migrations(space))
        return over and len(later) >= CYCLES and not any(later[-CYCLES:])

    until("plans have no moves any more", reached, [controller], seconds=60)
    return migrations(space)


def _planned(controller: Controller) -> list[int]:
    """How many moves each plan had."""
    return [each["moves"] for each in controller.said() if each["msg"] == "planned"]


def crowded(space: Space, body: Json, node: str, nodes: list[str]) -> None:
    """The workload, all of whose pods are on this node."""
    with only_open(space, node, nodes):
        space.create(body)
        app, wanted = body["metadata"]["labels"]["app"], body["spec"].get("replicas", 1)
        until(f"{app} is on {node}", lambda: [_node(each) for each in space.pods(app)] == [node] * wanted)


def _node(pod: Json) -> str:
    return str(pod["spec"].get("nodeName", ""))


def healthy(space: Space, app: str, count: int, without: str) -> list[Json] | None:
    found = space.pods(app)
    well = len(found) == count and all(is_ready(each) and _node(each) != without for each in found)
    return found if well else None


def test_pods_that_crash_over_and_over_go_to_another_node(space: Space, nodes: list[str], tmp_path: Path) -> None:
    bad = nodes[0]
    sick = Misbehaviour("CrashLoopBackOff", on=[bad], restarts_every=0.3)
    for body in (deployment("web", 2), deployment("one", 1), stateful_set("db", 1)):
        crowded(space, sick.of(body), bad, nodes)
    crowded(space, sick.of(retried(deployment("entrusted", 1))), bad, nodes)
    space.runs(pod("filler", cpu="2", nodeSelector=on(bad)))  # so that the scheduler likes the other nodes better
    with running(space, tmp_path, "TooManyRestarts", restartThreshold=3, states=["CrashLoopBackOff"]) as controller:
        for app, count in (("web", 2), ("one", 1), ("db", 1)):
            until(
                f"{app} is healthy elsewhere",
                partial(healthy, space, app, count, bad),
                [controller],
                seconds=90,
            )
        done = rests(space, controller)
        assert controller.stop() == 0
    assert {each["spec"]["strategy"] for each in done} == {"TooManyRestarts"}
    assert not [each["status"] for each in done if each["status"]["phase"] != "Completed"]
    assert {each["status"]["method"] for each in done} == {"evict"}
    assert all("it was restarted" in each["spec"]["reason"] for each in done)
    assert "expectedGain" not in done[0]["spec"]
    (left,) = space.pods("entrusted")
    assert _node(left) == bad, "it is recovery's business, which does not run here"
    assert not [each for each in space.list("PodDisruptionBudget") if name_of(each).endswith("-rescheduler-pdb")]


def test_pods_that_are_stuck_and_too_old_are_made_anew_elsewhere(
    space: Space, nodes: list[str], tmp_path: Path
) -> None:
    bad = nodes[0]
    crowded(space, Misbehaviour("ImagePullBackOff", on=[bad]).of(deployment("stuck", 2)), bad, nodes)
    crowded(space, deployment("fine", 1), bad, nodes)
    (fine,) = space.pods("fine")
    settings: dict[str, Any] = {"maxAge": "5s", "states": ["ImagePullBackOff", "Succeeded"]}
    space.create(job("done"))
    finished = until("the Job's pod is done", lambda: _in_phase(space, "done", "Succeeded"))
    with running(space, tmp_path, "PodLifeTime", **settings) as controller:
        until("they are well elsewhere", lambda: healthy(space, "stuck", 2, bad), [controller], seconds=90)
        space.gone("Pod", name_of(finished[0]))
        done = rests(space, controller)
        assert controller.stop() == 0
    assert {each["status"]["phase"] for each in done} == {"Completed"}
    assert sorted(each["status"]["method"] for each in done) == ["evict", "evict", "remove"]
    assert space.pods("fine")[0]["metadata"]["uid"] == fine["metadata"]["uid"]
    assert space.get("Job", "done")["status"]["succeeded"] == 1


def test_every_pod_grows_only_so_old(space: Space, nodes: list[str], tmp_path: Path) -> None:
    space.create(deployment("web", 2))
    space.rolled_out("web")
    first = {each["metadata"]["uid"] for each in space.pods("web")}
    with running(space, tmp_path, "PodLifeTime", maxAge="20s", podSelector="app=web") as controller:
        until("both are new", lambda: first.isdisjoint(_ready(space, "web")), [controller], seconds=90)
        done = until("their moves are over", lambda: _all_over(space, first), [controller])
        assert controller.stop() == 0
    assert {(each["status"]["method"], each["status"]["phase"]) for each in done} == {("handoff", "Completed")}


def test_failed_pods_are_cleared_away_and_their_successors_stay(space: Space, nodes: list[str], tmp_path: Path) -> None:
    space.create(deployment("web", 3))
    space.rolled_out("web")
    failed = space.pods("web")[:2]
    for each in failed:
        misbehaves(space.api, space.path("Pod", name_of(each)), Misbehaviour("Failed", reason="Evicted"))
        space.reaches("Pod", name_of(each), "has failed", lambda body: _phase(body, "Failed"))
    space.create(Misbehaviour("Failed", reason="Evicted").of(job("work", backoffLimit=0)))
    until("the Job's pod has failed", lambda: _in_phase(space, "work", "Failed"))
    until("web is whole again", lambda: len(_ready(space, "web")) == 3)
    whole = _ready(space, "web")
    settings = {"reasons": ["Evicted"], "excludedOwnerKinds": ["StatefulSet"]}
    with running(space, tmp_path, "FailedPods", **settings) as controller:
        for each in failed:
            space.gone("Pod", name_of(each))
        until("the Job's pod is gone", lambda: not space.pods("work"), [controller])
        done = rests(space, controller)
        assert controller.stop() == 0
    assert {(each["status"]["method"], each["status"]["phase"]) for each in done} == {("remove", "Completed")}
    assert len(done) == 3
    assert _ready(space, "web") == whole
    assert space.get("Job", "work")["status"]["failed"] == 1


def _all_over(space: Space, originals: set[str]) -> list[Json] | None:
    found = [each for each in migrations(space) if each["spec"]["pod"].get("uid") in originals]
    return found if all(_is_over(each) for each in found) else None


def _is_over(migration: Json) -> bool:
    return migration.get("status", {}).get("phase") in ("Completed", "Failed")


def _in_phase(space: Space, app: str, phase: str) -> list[Json]:
    return [each for each in space.pods(app) if _phase(each, phase)]


def _phase(pod: Json, phase: str) -> bool:
    return bool(pod["status"].get("phase") == phase)


def _ready(space: Space, app: str) -> set[str]:
    return {each["metadata"]["uid"] for each in space.pods(app) if is_ready(each)}
