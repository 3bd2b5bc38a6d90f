"""Corner cases of the scheduler that the contract tests do not show: messages, second attempts, and the queue."""

from __future__ import annotations

import asyncio
import math

import pytest

from kubemini.errors import Json
from kubemini.kinds import NODE
from kubemini.scheduler.queue import SchedulingQueue
from tests.unit.kubemini.scheduler_stage import GATES, HOSTNAME, away, bound, near, node, nominated, pod, staged

A, B, C = ("default", "a"), ("default", "b"), ("default", "c")
NO_CPU = "0/1 nodes are available: 1 Insufficient cpu."
SPREAD = {
    "maxSkew": 1,
    "topologyKey": HOSTNAME,
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {"app": "web"}},
}


def refused(reasons: str, nodes: int = 1) -> str:
    return f"0/{nodes} nodes are available: {reasons}."


def preferring(name: str) -> Json:
    term = {"matchExpressions": [{"key": HOSTNAME, "operator": "In", "values": [name]}]}
    return {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1, "preference": term}]}}


@pytest.mark.parametrize(
    ("objects", "refused_pod", "message"),
    [
        ([], pod("p"), "no nodes available to schedule pods"),
        ([node("a")], pod("p", cpu="5"), NO_CPU),
        ([node("a"), nominated(pod("r", cpu="3", schedulingGates=GATES), "a")], pod("p", cpu="2"), NO_CPU),
        ([node("a", pods=1), bound("o", "a")], pod("p"), refused("1 Too many pods")),
        ([node("a", unschedulable=True)], pod("p"), refused("1 node(s) were unschedulable")),
        (
            [node("a", taints=[{"key": "k", "effect": "NoExecute"}]), node("b")],
            pod("p", nodeSelector={HOSTNAME: "c"}),
            refused("1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint(s)", 2),
        ),
        (
            [node("a"), bound("o", "a", port=80)],
            pod("p", port=80),
            refused("1 node(s) refused by NodePorts"),
        ),
        ([node("a")], pod("p", affinity=near("db")), refused("1 node(s) refused by PodAffinity")),
        (
            [node("a"), bound("o", "a", affinity=away("web"))],
            pod("p", app="web"),
            refused("1 node(s) refused by PodAntiAffinity"),
        ),
        (
            [node("a"), node("b", cpu="0"), bound("o", "a", app="web")],
            pod("p", app="web", topologySpreadConstraints=[SPREAD]),
            refused("1 Insufficient cpu, 1 node(s) refused by PodTopologySpread", 2),
        ),
        (
            [node("a")],
            pod("p", volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]),
            refused("1 node(s) refused by VolumeBinding"),
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
async def test_a_refusal_counts_the_nodes_by_reason(objects: list[Json], refused_pod: Json, message: str) -> None:
    async with staged(*objects, refused_pod) as stage:
        assert stage.answer("p") == message
        assert stage.events("p") == [("Warning", "FailedScheduling", message)]


async def test_a_nomination_is_withdrawn_when_the_pod_fits_nowhere() -> None:
    async with staged(node("a"), nominated(pod("p", cpu="5"), "a")) as stage:
        assert "nominatedNodeName" not in stage.pod("p")["status"]


async def test_a_nominated_pod_that_keeps_others_away_does_so_before_it_is_bound() -> None:
    shy = nominated(pod("shy", app="shy", affinity=away("web"), schedulingGates=GATES), "a")
    async with staged(node("a"), node("b"), bound("o", "b", cpu="3"), shy, pod("p", app="web")) as stage:
        assert stage.answer("p") == "b"


async def test_the_higher_priority_has_the_room_and_of_equals_the_older() -> None:
    pods = [pod(name, cpu="3", priority=priority) for name, priority in (("low", 0), ("old", 5), ("new", 5))]
    async with staged(node("a"), *pods) as stage:
        assert [stage.answer(name) for name in ("low", "old", "new")] == [NO_CPU, "a", NO_CPU]


async def test_a_condition_tells_since_when_the_pod_has_waited() -> None:
    since = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "SchedulingGated",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }
    async with staged(node("a"), pod("p", cpu="5") | {"status": {"conditions": [since]}}) as stage:
        assert stage.condition("p") == {
            "type": "PodScheduled",
            "status": "False",
            "lastProbeTime": None,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
            "reason": "Unschedulable",
            "message": NO_CPU,
        }


async def test_a_refused_pod_is_bound_when_a_pod_ends() -> None:
    async with staged(node("a"), bound("other", "a", cpu="3"), pod("p", cpu="2")) as stage:
        ended = stage.pod("other")
        ended["status"]["phase"] = "Succeeded"
        stage.change(ended)
        await stage.reaches("p", "a")


async def test_a_refused_pod_is_bound_when_a_nomination_is_given_up() -> None:
    reserving = nominated(pod("other", cpu="3", schedulingGates=GATES), "a")
    async with staged(node("a"), reserving, pod("p", cpu="2")) as stage:
        other = stage.pod("other")
        del other["status"]["nominatedNodeName"]
        stage.change(other)
        await stage.reaches("p", "a")


async def test_a_refused_pod_is_bound_when_a_node_comes() -> None:
    async with staged(pod("p")) as stage:
        stage.put(node("a"))
        await stage.reaches("p", "a")


async def test_a_refused_pod_is_bound_when_company_comes() -> None:
    async with staged(node("a"), pod("p", affinity=near("db"))) as stage:
        stage.put(pod("db", app="db"))
        await stage.reaches("p", "a")


async def test_a_refused_pod_is_tried_again_when_it_changes_itself() -> None:
    async with staged(node("a"), pod("p", nodeSelector={"disk": "ssd"})) as stage:
        body = stage.pod("p")
        del body["spec"]["nodeSelector"]
        stage.change(body)
        await stage.reaches("p", "a")


async def test_another_pod_of_the_same_name_is_judged_by_its_own_requests() -> None:
    async with staged(node("a"), pod("p", cpu="5")) as stage:
        await stage.remove("p")
        stage.put(pod("p"))
        await stage.reaches("p", "a")


async def test_a_refusal_that_says_nothing_new_is_not_written_again() -> None:
    async with staged(node("a"), bound("one", "a"), pod("p", cpu="5"), pod("q", cpu="4")) as stage:
        before = stage.pod("p")["metadata"]["resourceVersion"]
        await stage.remove("one")
        await stage.reaches("q", "a")  # refused before p, so p has been tried again as well
        await stage.settled()
        assert stage.pod("p")["metadata"]["resourceVersion"] == before
        assert len(stage.events("p")) == 1


async def test_pods_of_other_schedulers_and_deleted_pods_are_left_alone() -> None:
    leaving = pod("leaving")
    leaving["metadata"] |= {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["example.com/hold"]}
    async with staged(node("a"), pod("p", schedulerName="another"), leaving) as stage:
        assert stage.answer("p") == ""
        assert stage.answer("leaving") == ""


async def test_the_rules_of_rescheduling_are_no_rules_of_the_scheduler() -> None:
    labels = {"scheduler.alpha.kubernetes.io/maintenance": "true", "node-role.kubernetes.io/control-plane": ""}
    async with staged(node("a", labels=labels), pod("p")) as stage:
        assert stage.answer("p") == "a"


async def test_a_pod_that_tolerates_it_is_bound_to_a_cordoned_node() -> None:
    tolerations = [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists", "effect": "NoSchedule"}]
    async with staged(node("a", unschedulable=True), pod("p", tolerations=tolerations)) as stage:
        assert stage.answer("p") == "a"


async def test_equal_pods_fill_equal_nodes_evenly() -> None:
    async with staged(*(node(name) for name in "abc"), *(pod(f"p{number}") for number in range(30))) as stage:
        places = [stage.answer(f"p{number}") for number in range(30)]
        assert {name: places.count(name) for name in "abc"} == {"a": 10, "b": 10, "c": 10}


async def test_replicas_are_spread_over_nodes_though_one_is_fuller() -> None:
    replicas = [pod(f"web-{number}", owner="web") for number in range(2)]
    async with staged(node("a"), node("b"), bound("other", "b", cpu="2"), *replicas) as stage:
        assert {stage.answer("web-0"), stage.answer("web-1")} == {"a", "b"}


async def test_a_preference_decides_against_all_other_scores() -> None:
    there = [bound("other", "b", cpu="3800m"), bound("web-0", "b", owner="web")]
    tainted = node("b", taints=[{"key": "k", "effect": "PreferNoSchedule"}])
    async with staged(node("a"), tainted, *there, pod("p", owner="web", affinity=preferring("b"))) as stage:
        assert stage.answer("p") == "b"


async def test_a_node_that_prefers_no_pods_is_the_last_resort() -> None:
    async with staged(
        node("a", taints=[{"key": "k", "effect": "PreferNoSchedule"}]),
        node("b"),
        bound("other", "b", cpu="3"),
        pod("p"),
    ) as stage:
        assert stage.answer("p") == "b"


async def test_a_pod_that_cannot_be_read_says_so_and_stops_no_other() -> None:
    async with staged(node("a"), pod("strange", nodeSelector=[1]), pod("p")) as stage:
        assert stage.answer("p") == "a"
        ((_, reason, message),) = stage.events("strange")
        assert reason == "FailedScheduling"
        assert "spec.nodeSelector: Expected `object`" in message


async def test_anti_affinity_holds_within_one_burst() -> None:
    rivals = [pod(f"p{number}", app="web", affinity=away("web")) for number in range(3)]
    async with staged(node("a"), node("b"), *rivals) as stage:
        answers = sorted(stage.answer(f"p{number}") for number in range(3))
        assert answers == [refused("2 node(s) refused by PodAntiAffinity", 2), "a", "b"]


async def test_nodes_that_go_take_their_pods_out_of_the_count() -> None:
    async with staged(node("a"), node("b"), bound("other", "a", app="web")) as stage:
        entry = stage.store.get(NODE, ("", "a"))
        assert entry is not None
        stage.store.delete(NODE, entry.object(), entry.version)
        stage.put(pod("p", app="web", affinity=near("web")))
        await stage.reaches("p", "b")


async def test_it_leaves_no_task_and_follows_nothing_more_when_it_is_cancelled() -> None:
    async with staged(node("a")) as stage:
        pass
    stage.put(pod("p"))
    assert stage.answer("p") == ""
    assert asyncio.all_tasks() == {asyncio.current_task()}


def queue_of(**priorities: int) -> SchedulingQueue:
    queue = SchedulingQueue()
    for name, priority in priorities.items():
        queue.add(("default", name), priority)
    return queue


def test_the_queue_gives_the_higher_priority_first_and_of_equals_the_older() -> None:
    queue = queue_of(a=0, b=7, c=7)
    assert [queue.pop(0) for _ in range(4)] == [B, C, A, None]


def test_the_queue_keeps_a_refused_pod_until_something_changes() -> None:
    queue = queue_of(a=0)
    queue.pop(0)
    queue.refuse(A, 0)
    assert (queue.pop(1000), queue.retry_at) == (None, math.inf)
    queue.retry_refused(1000)
    assert queue.pop(1000.05) is None
    assert queue.pop(1001) == A


def test_the_more_pods_are_refused_the_longer_is_the_pause_and_changes_do_not_prolong_it() -> None:
    queue = queue_of()
    for number in range(1000):
        queue.refuse(("default", f"p{number}"), 0)
    queue.retry_refused(0)
    queue.retry_refused(4)
    assert queue.retry_at == pytest.approx(5.1)


def test_the_queue_forgets_a_pod_that_is_dropped() -> None:
    queue = queue_of(a=0, b=0)
    queue.pop(0)
    queue.refuse(A, 0)
    queue.retry_refused(0)
    for key in (A, B):
        queue.drop(key)
    assert queue.pop(1000) is None
