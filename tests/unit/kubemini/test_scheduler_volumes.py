"""Claims that wait for their first consumer: the scheduler says where, somebody makes the volume, then it binds."""

from __future__ import annotations

import math

from kubemini.api import Target
from kubemini.kinds import CLAIM, POD
from kubemini.scheduling.volumes import Outcome, VolumeWaits
from rescheduler.model.objects import Claim
from tests.unit.kubemini.scheduler_cases import SELECTED, Json, claim, node, pod, storage_class, there, volume
from tests.unit.kubemini.scheduler_stage import Stage, staged

LATER = storage_class("later", waits=True)


def the_claim(stage: Stage) -> Json:
    return stage.api.get(Target(CLAIM, "default", "data"))


def make_volume(stage: Stage, at: str) -> None:
    """What the volume controller does."""
    stage.put(volume("v", "later", "data", on=at))
    body = the_claim(stage)
    body["spec"]["volumeName"] = "v"
    body["status"] = {"phase": "Bound"}
    stage.change(body)


async def test_the_pod_is_bound_when_its_volume_has_been_made() -> None:
    async with staged(node("a"), node("b"), there("other", "a", cpu="1"), LATER, claim("data", "later")) as stage:
        stage.put(pod("p", claims=["data"]))
        await stage.settled()
        assert the_claim(stage)["metadata"]["annotations"] == {SELECTED: "b"}
        assert stage.answer("p") == ""
        assert stage.pod("p")["status"]["nominatedNodeName"] == "b"
        make_volume(stage, "b")
        await stage.settled()
        assert stage.answer("p") == "b"
        assert stage.events("p") == [("Normal", "Scheduled", "Successfully assigned default/p to b")]


async def test_the_pod_holds_its_room_while_it_waits() -> None:
    async with staged(node("a"), LATER, claim("data", "later"), pod("p", cpu="3", claims=["data"])) as stage:
        stage.put(pod("rival", cpu="2", priority=100))
        await stage.settled()
        assert "Insufficient cpu" in stage.answer("rival")
        await stage.remove("p")
        await stage.reaches("rival", "a")


async def test_a_volume_that_cannot_be_made_has_the_pod_try_again() -> None:
    async with staged(node("a"), LATER, claim("data", "later"), pod("p", claims=["data"])) as stage:
        seen: list[Json] = []  # the pod is tried again so soon that a later look may find it nominated anew
        stage.store.subscribe(lambda change: seen.append(change.entry.object()["status"]), POD)
        body = the_claim(stage)
        del body["metadata"]["annotations"][SELECTED]
        stage.change(body)
        await stage.settled()
        (told,) = seen[0]["conditions"]
        problem = 'running PreBind plugin "VolumeBinding": binding volumes: provisioning failed for PVC "data"'
        assert (told["reason"], told["message"]) == ("SchedulerError", problem)
        assert "nominatedNodeName" not in seen[0]
        while SELECTED not in (the_claim(stage)["metadata"].get("annotations") or {}):
            await stage.settled()
        make_volume(stage, "a")
        await stage.reaches("p", "a")


async def test_a_claim_that_is_bound_already_has_the_pod_bound_at_once() -> None:
    made = [
        storage_class("later", waits=True),
        volume("v", "later", "data", on="a"),
        claim("data", "later", volume="v"),
    ]
    async with staged(node("a"), node("b"), *made, pod("p", claims=["data"])) as stage:
        assert stage.answer("p") == "a"


async def test_two_pods_of_one_claim_go_where_its_volume_is_made() -> None:
    pods = [pod(name, cpu="1", claims=["data"]) for name in ("p", "q")]
    async with staged(node("a"), node("b"), LATER, claim("data", "later"), *pods) as stage:
        at = the_claim(stage)["metadata"]["annotations"][SELECTED]
        make_volume(stage, at)
        await stage.settled()
        assert [stage.answer("p"), stage.answer("q")] == [at, at]


def test_patience_has_an_end() -> None:
    claims = {("default", "data"): Claim("default", "data", bound=False, selected_node="a")}
    waits = VolumeWaits(claims)
    assert waits.next_due() == math.inf
    waits.begin(("default", "p"), "a", [("default", "data")], now=1000.0)
    assert waits.ended(1000.0) == []
    assert waits.next_due() == 1600.0
    assert waits.ended(1600.0) == [Outcome(("default", "p"), "a", "context deadline exceeded")]
    assert waits.ended(1600.0) == []


def test_a_claim_that_is_deleted_ends_the_waiting() -> None:
    claims = {("default", "data"): Claim("default", "data", bound=False, selected_node="a")}
    waits = VolumeWaits(claims)
    waits.begin(("default", "p"), "a", [("default", "data")], now=0.0)
    claims.clear()
    (outcome,) = waits.ended(1.0)
    assert outcome.problem == (
        'failed to check provisioning pvc: could not find v1.PersistentVolumeClaim "default/data"'
    )
