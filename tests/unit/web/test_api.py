"""What the page reads: every answer from memory, as the contract says it; and a sentence for what makes no sense."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import pytest

from rescheduler.kube.pause_state import PauseDetails
from rescheduler.model import labels
from rescheduler.model.migration import (
    MigrationStatus,
    MoveOutcome,
    ObjectReference,
    OutcomeVerdict,
    Phase,
)
from rescheduler.model.plan import Method
from tests.support.pod_migrations import migration_spec, replace
from tests.support.showing import IDENTITY, NOW, Stage, ask, served

ZONE = "topology.kubernetes.io/zone"
PATHS = ("overview", "nodes", "nodes/a", "spread", "plan", "migrations", "pods/shop/web-1", "search?q=web", "config")


def stage(**more: Any) -> Stage:
    """Two nodes: a is hot, b is empty and in another zone; c runs the control plane."""
    made = Stage(**more)
    made.node("a", labels={ZONE: "zone-a", "node.kubernetes.io/pool": "big"})
    made.node("b", labels={ZONE: "zone-b"}, taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}])
    made.node("c", labels={labels.CONTROL_PLANE_ROLES[0]: ""}, unschedulable=True)
    made.put("Deployment", {"metadata": {"name": "web", "namespace": "shop", "uid": "d"}, "spec": {"replicas": 3}})
    owner = [{"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "uid": "d", "controller": True}]
    selector = {"matchLabels": {"app": "web", "pod-template-hash": "abc"}}
    made.put(
        "ReplicaSet",
        {
            "metadata": {"name": "web-abc", "namespace": "shop", "uid": "rs", "ownerReferences": owner},
            "spec": {"replicas": 3, "selector": selector},
        },
    )
    for number in range(3):
        made.pod(f"web-{number}", "a", cpu="1200m", owner="web-abc")
    made.pod("agent", "c", namespace="kube-system", cpu="1")
    return made


@pytest.fixture
async def address() -> AsyncGenerator[str]:
    async with served(stage()) as found:
        yield found


async def test_the_overview_says_who_we_are_and_how_the_cluster_stands() -> None:
    made = stage(pause=PauseDetails("jane", NOW - 60, "maintenance"), local=True)
    async with served(made) as address:
        status, found = await ask(address, "/api/overview")
    assert status == 200
    assert found["replica"] == {"identity": IDENTITY, "leading": True, "leader": IDENTITY}
    assert found["paused"] == {"by": "jane", "since": NOW - 60, "reason": "maintenance"}
    assert (found["approval"], found["access"], found["interval"], found["now"]) == ("automatic", "local", 30.0, NOW)
    assert found["counts"] == {
        "nodes": 3, "pods": 4, "pending": 0, "inProgress": 0, "completed": 0, "failed": 0, "awaitingApproval": 0,
    }  # fmt: skip
    assert found["utilisation"]["cpu"] == {"max": 90.0, "min": 0.0, "mean": 45.0, "stddev": 45.0}
    assert found["utilisation"]["hotNodes"] == 1
    assert found["thresholds"] == {"cpu": 80.0, "memory": 80.0, "imbalance": 20.0}
    health = {each["name"]: each for each in found["health"]}
    assert health["leader"]["ok"]
    assert health["pods"]["count"] == 4


async def test_the_overview_says_whether_a_time_window_is_open_and_until_when() -> None:
    """NOW is Friday, 2027-01-15, at 08:00."""
    made = stage(overrides={"when": {"windows": ["Fri 10:00-12:00"], "timeZone": "Europe/Berlin"}})
    async with served(made) as address:
        _, found = await ask(address, "/api/overview")
    assert found["window"] == {
        "open": False, "until": NOW + 3600, "windows": ["Fri 10:00-12:00"], "timeZone": "Europe/Berlin",
    }  # fmt: skip
    async with served(stage()) as address:
        _, found = await ask(address, "/api/overview")
    assert found["window"] is None


async def test_nodes_come_as_columns_in_the_order_of_their_names(address: str) -> None:
    status, found = await ask(address, "/api/nodes")
    assert status == 200
    assert found["names"] == ["a", "b", "c"]
    assert found["cpu"] == [90.0, 0.0, 25.0]
    assert found["memory"] == [18.75, 0.0, 6.25]
    assert (found["pods"], found["podRoom"]) == ([3, 0, 1], [110, 110, 110])
    assert [found["zones"][at] for at in found["zone"]] == ["zone-a", "zone-b", ""]
    assert [found["pools"][at] for at in found["pool"]] == ["big", "", ""]
    assert found["state"] == [0, 0, 2 | 8]
    assert found["revision"] >= 1


async def test_a_move_under_way_marks_its_two_nodes() -> None:
    made = stage()
    way = MigrationStatus(phase=Phase.IN_PROGRESS, step="Mark", method=Method.HANDOFF, source="a", target="b")
    made.migration("m", migration_spec("web-1"), way)
    async with served(made) as address:
        assert (await ask(address, "/api/nodes"))[1]["state"] == [32, 64, 10]
        made.migration("m", migration_spec("web-1"), MigrationStatus(phase=Phase.COMPLETED, source="a", target="b"))
        assert (await ask(address, "/api/nodes"))[1]["state"] == [0, 0, 10]


async def test_a_node_tells_its_pods_and_what_objects_to_moving_each(address: str) -> None:
    status, found = await ask(address, "/api/nodes/a")
    assert status == 200
    assert found["allocatable"] == {"cpu": 4000, "memory": 8 * 2**30, "pods": 110}
    assert found["used"] == {"cpu": 3600, "memory": 3 * 512 * 2**20, "pods": 3}
    assert (found["cpu"], found["memory"]) == (90.0, 18.75)
    first = found["pods"][0]
    assert {key: first[key] for key in ("namespace", "name", "workload", "cpu", "phase", "ready", "guard")} == {
        "namespace": "shop", "name": "web-0", "workload": "Deployment/web", "cpu": 1200, "phase": "Running",
        "ready": True, "guard": "",
    }  # fmt: skip
    control = (await ask(address, "/api/nodes/c"))[1]
    assert control["states"] == ["cordoned", "control plane"]
    assert (control["pods"][0]["guard"], control["pods"][0]["workload"]) == ("ExcludedNamespace", "")
    assert (await ask(address, "/api/nodes/b"))[1]["taints"] == ["gpu=yes:NoSchedule"]


async def test_a_pods_answer_is_the_document_of_explain(address: str) -> None:
    status, found = await ask(address, "/api/pods/shop/web-1")
    assert status == 200
    assert (found["kind"], found["pod"], found["workload"]) == ("Explanation", "web-1", "Deployment/web")
    assert {each["node"] for each in found["nodes"]} == {"a", "b", "c"}


async def test_the_plan_is_made_when_nobody_has_made_one(address: str) -> None:
    status, found = await ask(address, "/api/plan")
    assert status == 200
    assert (found["made"], found["by"], found["awaiting"]) == (NOW, IDENTITY, [])
    assert found["plan"]["kind"] == "Plan"
    assert found["plan"]["before"]["hotNodes"] == 1
    assert found["rejected"]["total"] == len(found["plan"]["rejections"])


async def test_migrations_come_newest_first_and_those_under_way_are_always_among_them() -> None:
    made = stage()
    under_way = MigrationStatus(
        phase=Phase.IN_PROGRESS, step="CreateCopy", step_time=NOW - 5, method=Method.HANDOFF, source="a", target="b",
        attempts=1, workload=ObjectReference("Deployment", "web"), message="make the copy for b",
    )  # fmt: skip
    made.migration(
        "oldest", migration_spec("web-1", strategy="LoadBalancing", reason="why"), under_way, created=NOW - 9e6
    )
    for number in range(600):
        over = MigrationStatus(
            phase=Phase.COMPLETED, completion_time=NOW, outcome=MoveOutcome(OutcomeVerdict.PAID, 3.5, NOW),
            method=Method.EVICT, replacement=ObjectReference("Pod", f"new-{number}"),
        )  # fmt: skip
        order = migration_spec(f"gone-{number}", expected_gain=4.0)
        made.migration(f"m{number:03}", order, over, created=NOW - 600 + number)
    waits = migration_spec("web-2", target="b", approval_required=True, plan="plan-1")
    made.migration("waits", waits, created=NOW)
    async with served(made) as address:
        found = (await ask(address, "/api/migrations"))[1]
        plan = (await ask(address, "/api/plan"))[1]
        counts = (await ask(address, "/api/overview"))[1]["counts"]
    assert (len(found["migrations"]), found["more"]) == (500, 102)
    first, second, last = found["migrations"][0], found["migrations"][1], found["migrations"][-1]
    assert (first["name"], first["awaitsApproval"], first["plan"], first["source"]) == ("waits", True, "plan-1", "a")
    assert (first["method"], first["steps"], first["workload"]) == (None, [], "Deployment/web")
    assert (second["name"], second["replacement"], last["replacement"]) == ("m599", "new-599", "")
    assert second["outcome"] == {"predicted": 4.0, "realised": 3.5, "verdict": "Paid"}
    assert (last["name"], last["step"], last["message"]) == ("oldest", "CreateCopy", "make the copy for b")
    assert last["history"] == [{"step": "CreateCopy", "time": NOW - 5}]
    assert last["steps"][:2] == ["Mark", "CreateCopy"]
    assert plan["awaiting"] == [{"namespace": "shop", "name": "waits"}]
    assert (counts["completed"], counts["awaitingApproval"], counts["inProgress"]) == (600, 1, 1)


async def test_search_finds_parts_of_names_those_that_begin_with_it_first() -> None:
    made = stage()
    for number in range(30):
        made.pod(f"an-extra-web-{number:02}", "b", cpu="1m")
    async with served(made) as address:
        found = (await ask(address, "/api/search?q=WEB-"))[1]
        assert [pod["name"] for pod in found["pods"]][:4] == ["web-0", "web-1", "web-2", "an-extra-web-00"]
        assert (len(found["pods"]), found["more"], found["nodes"]) == (20, 13, [])
        assert found["pods"][0] == {"namespace": "shop", "name": "web-0", "node": "a"}
        assert (await ask(address, "/api/search?q=shop/web-2"))[1]["pods"][0]["name"] == "web-2"
        assert (await ask(address, "/api/search?q=a"))[1]["nodes"] == ["a"]
        assert (await ask(address, "/api/search"))[1] == {"nodes": [], "pods": [], "more": 0}


async def test_the_configuration_in_force_and_every_strategy_are_told(address: str) -> None:
    found = (await ask(address, "/api/config"))[1]
    assert found["yaml"].startswith("apiVersion: rescheduler.io/v1alpha1\n")
    strategies = {each["name"]: each for each in found["strategies"]}
    assert strategies["LoadBalancing"]["enabled"]
    assert not strategies["NodeMaintenance"]["enabled"]
    assert strategies["LoadBalancing"]["about"]
    assert "imbalanceThreshold" in strategies["LoadBalancing"]["settings"]


async def test_workloads_that_rest_are_told_with_why() -> None:
    made = stage()
    for number in range(2):
        judged, workload = MoveOutcome(OutcomeVerdict.NOT_PAID, 0.0, NOW - 30), ObjectReference("Deployment", "web")
        over = MigrationStatus(phase=Phase.COMPLETED, completion_time=NOW - 60, source="a", target="b", outcome=judged)
        bad = replace(over, controller=ObjectReference("ReplicaSet", "web-abc"), workload=workload)
        made.migration(
            f"m{number}", migration_spec("web-9", strategy="LoadBalancing", expected_gain=5.0), bad, created=NOW - 99
        )
    async with served(made) as address:
        found = (await ask(address, "/api/outcomes"))[1]["workloads"]
    assert [(each["workload"], each["namespace"], each["bad"]) for each in found] == [("Deployment/web", "shop", 2)]
    assert found[0]["restsUntil"] > NOW
    assert found[0]["why"]


async def test_everything_that_can_refuse_a_move_has_a_caption(address: str) -> None:
    found = (await ask(address, "/api/captions"))[1]
    assert found["guard"]["MinPodAge"] == "Too young"
    assert found["guard"]["NoTarget"] == "No node can take it"
    assert found["predicate"]["TaintToleration"] == "Taint not tolerated"
    assert found["predicate"]["SameNode"] == "It is there already"
    assert all(caption for named in found.values() for caption in named.values())


async def test_what_is_not_there_is_404_with_a_sentence(address: str) -> None:
    for path in ("/api/nodes/nowhere", "/api/pods/shop/nobody", "/api/nothing", "/nothing", "/page/none.js", "/api"):
        status, found = await ask(address, path)
        assert (status, list(found)) == (404, ["error"]), path


async def test_another_method_is_405_with_what_is_allowed(address: str) -> None:
    async with aiohttp.ClientSession() as session:
        for method in ("POST", "PUT", "DELETE", "PATCH", "OPTIONS"):
            async with session.request(method, f"{address}/api/nodes") as answer:
                assert (answer.status, answer.headers["Allow"]) == (405, "GET, HEAD")
                assert list(await answer.json()) == ["error"]


async def test_head_works_for_everything_that_is_read(address: str) -> None:
    async with aiohttp.ClientSession() as session:
        for path in (*(f"/api/{each}" for each in PATHS), "/", "/api/live"):
            async with session.head(address + path) as answer:
                assert answer.status == 200, path
                assert not await answer.read()


async def raw(address: str, request: bytes) -> tuple[int, bytes]:
    """An answer to bytes that no client would send."""
    where = urlsplit(address)
    reader, writer = await asyncio.open_connection(where.hostname, where.port)
    writer.write(request)
    answer = await asyncio.wait_for(reader.read(), 60)
    writer.close()
    await writer.wait_closed()
    head, _, body = answer.partition(b"\r\n\r\n")
    return int(head.split()[1]), body


@pytest.mark.parametrize(
    "target",
    [
        b"/api/nodes/%ff%fe",
        b"/api/pods/%00/%0d%0a",
        b"/api/pods/%2e%2e/%2e%2e",
        b"/api/nodes/" + b"x" * 5000,
        b"/api/nodes/a%2fb",
        b"/page/../server.py",
        b"/page/%2e%2e/server.py",
        b"/page/..%2fserver.py",
        b"/page//etc/passwd",
        b"/page/%2fetc/passwd",
        b"/page/",
        b"/api/search?q=" + b"x" * 6000,
        b"//api/nodes",
    ],
)
async def test_garbage_gets_a_clean_refusal(address: str, target: bytes) -> None:
    status, body = await raw(address, b"GET " + target + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
    assert 400 <= status < 500
    assert list(json.loads(body)) == ["error"]


async def test_what_is_not_even_http_is_refused_by_the_server_itself(address: str) -> None:
    for line in (
        b"GET /api/nodes/\xe8\x8a\x82 HTTP/1.1",
        b"GET /" + b"x" * 99_999 + b" HTTP/1.1",
        b"\x16\x03\x01",
        b"NONSENSE",
    ):
        status, _ = await raw(address, line + b"\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        assert 400 <= status < 500


async def test_a_search_for_garbage_is_only_a_search_that_finds_nothing(address: str) -> None:
    for query in (b"q=%ff%fe", b"q=%", b"q=none&q=web", b"&&&=", b"q=" + b"%F0%9F%8D%B0" * 40):
        target = b"GET /api/search?" + query + b" HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
        status, body = await raw(address, target)
        assert (status, json.loads(body)["pods"]) == (200, [])


async def test_what_is_large_is_compressed_for_those_who_take_it() -> None:
    made = Stage()
    for number in range(3000):
        made.node(f"node-{number:04}")
    async with served(made) as address, aiohttp.ClientSession(auto_decompress=False) as session:
        answers = {}
        for encoding in ("gzip", "identity", "gzip;q=0", "br, gzip;q=0.5"):
            async with session.get(f"{address}/api/nodes", headers={"Accept-Encoding": encoding}) as answer:
                answers[encoding] = answer.headers.get("Content-Encoding"), await answer.read()
    assert {encoding: told for encoding, (told, _) in answers.items()} == {
        "gzip": "gzip", "identity": None, "gzip;q=0": None, "br, gzip;q=0.5": "gzip",
    }  # fmt: skip
    assert gzip.decompress(answers["gzip"][1]) == answers["identity"][1]
    assert len(answers["gzip"][1]) * 10 < len(answers["identity"][1])


async def test_before_the_cluster_is_read_the_page_is_there_and_explanations_are_put_off() -> None:
    made = Stage()
    made.watching.lacks = "being read: pods"
    made.pod("web-1", "a")
    async with served(made) as address:
        assert (await ask(address, "/api/overview"))[1]["counts"]["nodes"] == 0
        assert (await ask(address, "/api/plan"))[1]["plan"] is None
        assert (await ask(address, "/api/nodes"))[1]["names"] == []
        status, found = await ask(address, "/api/pods/shop/web-1")
    assert (status, "being read: pods" in found["error"]) == (503, True)
