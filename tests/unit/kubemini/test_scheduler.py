"""What the scheduler does with pods over time: gates and nominations, turns, second attempts, and what it writes."""

from __future__ import annotations

import asyncio

from kubemini.kinds import NODE, POD
from tests.unit.kubemini.scheduler_cases import (
    NO_VICTIMS,
    UNHELPFUL,
    Json,
    app,
    away,
    claim,
    near,
    node,
    pod,
    preferred,
    priority_class,
    refused,
    reserving,
    stateful_set,
    storage_class,
    there,
    volume,
)
from tests.unit.kubemini.scheduler_cases import expression as needs
from tests.unit.kubemini.scheduler_stage import Stage, staged

GATES = [{"name": "example.com/wait"}]
NO_CPU = refused(1, "1 Insufficient cpu", f"1 {NO_VICTIMS}")


def nominated(body: Json, to: str) -> Json:
    body["status"] = {"phase": "Pending", "nominatedNodeName": to}
    return body


def ungate(stage: Stage, name: str) -> None:
    body = stage.pod(name)
    del body["spec"]["schedulingGates"]
    body["metadata"]["generation"] += 1
    stage.change(body)


async def test_a_gated_pod_waits_until_its_gate_is_taken_off() -> None:
    async with staged(node("a"), pod("p", schedulingGates=GATES)) as stage:
        assert stage.answer("p") == ""
        ungate(stage, "p")
        await stage.settled()
        assert stage.answer("p") == "a"


async def test_a_nominated_pod_gets_its_node_though_another_is_emptier() -> None:
    async with staged(node("a"), node("b"), there("other", "b", cpu="3"), reserving("p", "b")) as stage:
        ungate(stage, "p")
        await stage.settled()
        assert stage.answer("p") == "b"
        assert "nominatedNodeName" not in stage.pod("p")["status"]


async def test_a_nominated_pod_whose_node_is_full_goes_elsewhere() -> None:
    async with staged(node("a"), node("b"), there("other", "b", cpu="3950m"), reserving("p", "b")) as stage:
        ungate(stage, "p")
        await stage.settled()
        assert stage.answer("p") == "a"


async def test_a_nomination_to_a_node_that_is_not_there_does_no_harm() -> None:
    async with staged(node("a"), nominated(pod("p"), "nowhere")) as stage:
        assert stage.answer("p") == "a"


async def test_many_nominated_pods_each_get_their_own_node() -> None:
    wanted = {f"p{number}": "ab"[number % 2] for number in range(20)}
    async with staged(node("a"), node("b"), *(reserving(name, at, cpu="350m") for name, at in wanted.items())) as stage:
        for name in wanted:
            ungate(stage, name)
        await stage.settled()
        assert {name: stage.answer(name) for name in wanted} == wanted


async def test_a_nomination_is_taken_back_when_the_pod_fits_nowhere() -> None:
    async with staged(node("a"), nominated(pod("p", cpu="5"), "a")) as stage:
        assert stage.answer("p") == refused(1, "1 Insufficient cpu", f"1 {UNHELPFUL}")
        assert "nominatedNodeName" not in stage.pod("p")["status"]


async def test_a_pod_that_may_not_preempt_keeps_its_nomination() -> None:
    meek = pod("p", cpu="5", priorityClassName="meek", preemptionPolicy="Never")
    async with staged(node("a"), priority_class("meek", 0, "Never"), nominated(meek, "a")) as stage:
        assert stage.pod("p")["status"]["nominatedNodeName"] == "a"


async def test_a_pod_that_lacks_its_claim_keeps_its_nomination_and_is_bound_when_the_claim_comes() -> None:
    async with staged(node("a"), nominated(pod("p", claims=["data"]), "a")) as stage:
        assert stage.pod("p")["status"]["nominatedNodeName"] == "a"
        made = [storage_class("now"), volume("v", "now", "data", on="a"), claim("data", "now", volume="v")]
        stage.put(*made)
        await stage.reaches("p", "a")


async def test_the_higher_priority_has_the_room_and_of_equals_the_older() -> None:
    stage = Stage()
    stage.put(node("a"), *(pod(name, cpu="3", priority=rank) for name, rank in (("low", 0), ("old", 5), ("new", 5))))
    task = asyncio.create_task(stage.scheduler.run())
    await stage.settled()
    assert [stage.answer(name) for name in ("low", "old", "new")] == [NO_CPU, "a", NO_CPU]
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_what_is_written_about_a_pod_that_fits_nowhere() -> None:
    async with staged(node("a"), pod("p", cpu="5")) as stage:
        message = refused(1, "1 Insufficient cpu", f"1 {UNHELPFUL}")
        said = stage.condition("p")
        assert said.pop("lastTransitionTime")
        assert said == {
            "type": "PodScheduled",
            "observedGeneration": 1,
            "status": "False",
            "lastProbeTime": None,
            "reason": "Unschedulable",
            "message": message,
        }
        assert stage.events("p") == [("Warning", "FailedScheduling", message)]


async def test_what_is_written_about_a_pod_that_is_bound() -> None:
    async with staged(node("a"), pod("p")) as stage:
        assert stage.condition("p")["status"] == "True"
        assert stage.events("p") == [("Normal", "Scheduled", "Successfully assigned default/p to a")]


async def test_the_time_of_a_condition_tells_since_when_the_pod_has_waited() -> None:
    gated = pod("p", cpu="5", schedulingGates=GATES)
    since = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    gated["status"] = {"phase": "Pending", "conditions": [since]}
    async with staged(node("a"), gated) as stage:
        ungate(stage, "p")
        await stage.settled()
        assert stage.condition("p")["reason"] == "Unschedulable"
        assert stage.condition("p")["observedGeneration"] == 2
        assert stage.condition("p")["lastTransitionTime"] == "2026-01-01T00:00:00Z"


async def test_a_refused_pod_is_bound_when_room_appears() -> None:
    async with staged(node("a"), there("other", "a", cpu="3"), pod("p", cpu="2")) as stage:
        assert stage.answer("p") == NO_CPU
        await stage.remove("other")
        await stage.reaches("p", "a")


async def test_a_refused_pod_is_bound_when_a_pod_there_has_ended() -> None:
    async with staged(node("a"), there("other", "a", cpu="3"), pod("p", cpu="2")) as stage:
        ended = stage.pod("other")
        ended["status"]["phase"] = "Succeeded"
        stage.change(ended)
        await stage.reaches("p", "a")


async def test_a_refused_pod_is_bound_when_a_reservation_is_given_up() -> None:
    async with staged(node("a"), reserving("other", "a", cpu="3"), pod("p", cpu="2")) as stage:
        assert stage.answer("p") == NO_CPU
        other = stage.pod("other")
        del other["status"]["nominatedNodeName"]
        stage.change(other)
        await stage.reaches("p", "a")


async def test_a_refused_pod_is_bound_when_a_node_comes() -> None:
    async with staged(pod("p")) as stage:
        assert stage.answer("p") == "no nodes available to schedule pods"
        stage.put(node("a"))
        await stage.reaches("p", "a")


async def test_a_refused_pod_is_bound_when_its_node_is_opened_again() -> None:
    async with staged(node("a", unschedulable=True), pod("p")) as stage:
        assert stage.answer("p") == refused(1, "1 node(s) were unschedulable", f"1 {UNHELPFUL}")
        opened = node("a")
        opened["metadata"]["uid"] = "1"
        stage.change(opened)
        await stage.reaches("p", "a")


async def test_a_refused_pod_is_bound_when_company_comes() -> None:
    async with staged(node("a"), pod("p", affinity=near("db"))) as stage:
        assert stage.answer("p") == refused(1, "1 node(s) didn't match pod affinity rules", f"1 {UNHELPFUL}")
        stage.put(pod("db", labels=app("db")))
        await stage.reaches("p", "a")


async def test_a_refused_pod_is_tried_again_when_it_changes_itself() -> None:
    async with staged(node("a"), pod("p", nodeSelector={"disk": "ssd"})) as stage:
        body = stage.pod("p")
        del body["spec"]["nodeSelector"]
        stage.change(body)
        await stage.settled()
        assert stage.answer("p") == "a"


async def test_what_cannot_help_a_refused_pod_has_it_looked_at_no_more() -> None:
    async with staged(node("a"), pod("p", nodeSelector={"disk": "ssd"}), there("other", "a")) as stage:
        looks = _count_looks(stage)
        await stage.remove("other")
        stage.put(pod("another"))
        await stage.settled()
        assert stage.answer("another") == "a"
        assert looks == ["another"]


async def test_a_refusal_that_says_nothing_new_is_not_written_again() -> None:
    async with staged(node("a"), there("one", "a", cpu="1"), there("two", "a", cpu="3"), pod("p", cpu="2")) as stage:
        before = stage.pod("p")["metadata"]["resourceVersion"]
        looks = _count_looks(stage)
        await stage.remove("one")
        while not looks:  # noqa: ASYNC110  the scheduler tells nobody
            await asyncio.sleep(0)
        await stage.settled()
        assert stage.answer("p") == NO_CPU
        assert stage.pod("p")["metadata"]["resourceVersion"] == before
        assert len(stage.events("p")) == 1


async def test_pods_of_other_schedulers_are_left_alone() -> None:
    async with staged(node("a"), pod("p", schedulerName="another")) as stage:
        assert stage.answer("p") == ""


async def test_a_pod_that_is_being_deleted_is_not_bound() -> None:
    leaving = pod("p")
    leaving["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/hold"]}
    async with staged(node("a"), leaving) as stage:
        assert stage.answer("p") == ""


async def test_pods_that_somebody_else_placed_hold_their_room() -> None:
    async with staged(node("a"), there("other", "a", cpu="3", schedulerName="another"), pod("p", cpu="2")) as stage:
        assert stage.answer("p") == NO_CPU


async def test_maintenance_and_the_control_plane_are_no_rules_of_the_scheduler() -> None:
    maintained = node("a", labels={"scheduler.alpha.kubernetes.io/maintenance": "true"})
    async with staged(maintained, pod("p")) as stage:
        assert stage.answer("p") == "a"
    async with staged(node("a", labels={"node-role.kubernetes.io/control-plane": ""}), pod("p")) as stage:
        assert stage.answer("p") == "a"


async def test_equal_pods_fill_equal_nodes_evenly() -> None:
    pods = [pod(f"p{number}", cpu="", memory="") for number in range(30)]
    async with staged(*(node(name) for name in "abc"), *pods) as stage:
        places = [stage.answer(f"p{number}") for number in range(30)]
        assert {name: places.count(name) for name in "abc"} == {"a": 10, "b": 10, "c": 10}


async def test_replicas_are_spread_over_nodes_though_one_is_a_little_fuller() -> None:
    owner = {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "web", "controller": True}
    replicas = [pod(f"web-{number}", labels=app("web"), owner=owner) for number in range(2)]
    async with staged(node("a"), node("b"), stateful_set("web"), there("other", "b", cpu="500m"), *replicas) as stage:
        assert {stage.answer("web-0"), stage.answer("web-1")} == {"a", "b"}


async def test_a_preference_steers_a_pod_against_all_other_scores() -> None:
    steered = pod("p", affinity=preferred((100, needs("kubernetes.io/hostname", "In", "b"))))
    async with staged(node("a"), node("b"), there("other", "b", cpu="3800m", memory="15Gi"), steered) as stage:
        assert stage.answer("p") == "b"


async def test_a_pod_that_cannot_be_read_says_so_and_stops_nobody() -> None:
    async with staged(node("a"), pod("strange", nodeSelector=[1]), pod("p")) as stage:
        assert stage.answer("p") == "a"
        (said,) = stage.events("strange")
        assert said[:2] == ("Warning", "FailedScheduling")
        assert said[2].startswith("spec.nodeSelector: Expected `object`")


async def test_a_pod_that_is_bound_by_another_meanwhile_is_left_where_it_is() -> None:
    async with staged(node("a"), node("b"), pod("p", cpu="5")) as stage:
        body = stage.pod("p")
        body["spec"]["nodeName"] = "b"
        stage.change(body)
        await stage.settled()
        assert stage.answer("p") == "b"
        assert [reason for _, reason, _ in stage.events("p")] == ["FailedScheduling"]


async def test_anti_affinity_holds_within_one_burst() -> None:
    rivals = [pod(f"p{number}", labels=app("web"), affinity=away("web")) for number in range(3)]
    async with staged(node("a"), node("b"), *rivals) as stage:
        answers = sorted(stage.answer(f"p{number}") for number in range(3))
        assert answers[1:] == ["a", "b"]
        assert "2 node(s) didn't match pod anti-affinity rules" in answers[0]


async def test_nodes_that_go_take_their_pods_out_of_the_count() -> None:
    keeper = pod("p", labels=app("web"), affinity=near("web"))
    async with staged(node("a"), node("b"), there("other", "a", labels=app("web")), keeper) as stage:
        assert stage.answer("p") == "a"
        entry = stage.store.get(NODE, ("", "a"))
        assert entry is not None
        stage.store.delete(NODE, entry.object(), entry.version)
        for name in ("other", "p"):
            await stage.remove(name)
        stage.put(pod("next", labels=app("web"), affinity=near("web")))
        await stage.settled()
        assert stage.answer("next") == "b"


async def test_it_leaves_no_task_and_hears_nothing_more_when_it_is_cancelled() -> None:
    async with staged(node("a")) as stage:
        pass
    stage.put(pod("p"))
    assert stage.store.get(POD, ("default", "p")) is not None
    assert stage.answer("p") == ""
    assert asyncio.all_tasks() == {asyncio.current_task()}


def _count_looks(stage: Stage) -> list[str]:
    """The names of pods that are tried from now on."""
    looks: list[str] = []
    choose = stage.scheduler._chooser.choose

    async def noted(view: object, key: tuple[str, str], known: object) -> object:
        looks.append(key[1])
        return await choose(view, key, known)  # type: ignore[arg-type]

    stage.scheduler._chooser.choose = noted  # type: ignore[method-assign, assignment]
    return looks
