"""`plan`, `explain` and `snapshot` on a live cluster: a real HTTP server with scripted lists, found by a kubeconfig."""

from __future__ import annotations

import asyncio
import json
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rescheduler.decode.structs import RESOURCES
from tests.support import dumps
from tests.support.api_server import ApiServer, api_server, list_answer, status_answer
from tests.support.cli import Ran, rescheduler
from tests.support.kubeconfigs import kubeconfig, written

PODS = "/api/v1/pods"


def _serve(server: ApiServer, objects: Iterable[dict[str, Any]], skip: str = "") -> None:
    """Answer every list, as the API server does: items don't say their kind."""
    by_kind: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for thing in objects:
        by_kind[thing["kind"]].append({key: value for key, value in thing.items() if key not in ("kind", "apiVersion")})
    for resource in RESOURCES:
        if not resource.optional and resource.path != skip:
            server.script(resource.path, list_answer(by_kind[resource.kind]))


async def _run(server: ApiServer, folder: Path, *args: str) -> Ran:
    """Run a command on the server's cluster; beside the server, which needs this thread's loop."""
    path = written(folder / "kubeconfig", kubeconfig({"server": server.url}, {"token": "t"}))
    return await asyncio.to_thread(rescheduler, *args, "--kubeconfig", str(path))


async def test_the_live_cluster_gives_the_plan_that_its_dump_gives(tmp_path: Path) -> None:
    objects = [*dumps.hot_cluster(), dumps.pdb("web", 1)]
    async with api_server() as server:
        _serve(server, objects)
        live = await _run(server, tmp_path, "plan", "-o", "json")
    assert live.code == 0, live.said
    assert "does not say when it was taken" not in live.said
    dumped = rescheduler("plan", "-f", dumps.written(tmp_path / "c.json", objects), "-ojson", "--now", dumps.NOW)
    assert live.data["moves"] == dumped.data["moves"]
    assert live.data["warnings"] == []


async def test_the_clock_is_the_time_of_a_live_cluster_unless_now_is_given(tmp_path: Path) -> None:
    async with api_server() as server:
        _serve(server, dumps.hot_cluster())
        young = await _run(server, tmp_path, "plan", "-o", "json", "--now", "2020-01-15T07:00:30Z")
    assert "MinPodAge" in {rejection["guard"] for rejection in young.data["rejections"]}


async def test_a_snapshot_of_the_live_cluster_is_dated_and_names_what_was_listed(tmp_path: Path) -> None:
    async with api_server() as server:
        _serve(server, dumps.hot_cluster())
        ran = await _run(server, tmp_path, "snapshot")
    assert ran.code == 0, ran.said
    assert dumps.SECRET not in ran.out
    metadata = ran.data["metadata"]
    assert metadata["rescheduler.io/taken-at"].endswith("Z")
    assert metadata["rescheduler.io/kinds"] == sorted(r.kind for r in RESOURCES if not r.optional)
    planned = rescheduler("plan", "-f", "-", "-ojson", stdin=ran.out)
    assert planned.code == 0
    assert planned.data["warnings"] == []


async def test_a_list_that_expires_is_read_again_from_the_start(tmp_path: Path) -> None:
    objects = dumps.hot_cluster()
    pods = [thing for thing in objects if thing["kind"] == "Pod"]
    gone = dumps.pod("gone-meanwhile", "a", "3900m")
    async with api_server() as server:
        _serve(server, objects, skip=PODS)
        first = list_answer([gone, *pods[:2]], token="next")
        server.script(PODS, first, status_answer(410, "Expired", "too old"), list_answer(pods))
        planned = await _run(server, tmp_path, "plan", "-o", "json")
        assert planned.code == 0, planned.said
    async with api_server() as server:
        _serve(server, objects, skip=PODS)
        server.script(PODS, first, status_answer(410, "Expired", "too old"), list_answer(pods))
        recorded = await _run(server, tmp_path, "snapshot")
    assert planned.data["warnings"] == []
    assert planned.data["before"]["cpu"]["max"] == 90.0
    names = [item["metadata"]["name"] for item in recorded.data["items"] if item["kind"] == "Pod"]
    assert sorted(names) == sorted(pod["metadata"]["name"] for pod in pods)


async def test_errors_of_the_server_are_sentences_and_exit_with_1(tmp_path: Path) -> None:
    async with api_server() as server:
        _serve(server, dumps.hot_cluster(), skip=PODS)
        server.script(PODS, status_answer(403, "Forbidden", "pods is forbidden"))
        ran = await _run(server, tmp_path, "plan")
    assert (ran.code, ran.out) == (1, "")
    assert ran.said.startswith("error: you may not list Pod (pods is forbidden)")
    assert 'resources: ["pods"]' in ran.said


async def test_a_cluster_without_nodes_is_an_error(tmp_path: Path) -> None:
    async with api_server() as server:
        _serve(server, [])
        ran = await _run(server, tmp_path, "plan")
    assert (ran.code, ran.said) == (1, "error: the cluster has no nodes, so there is nothing to plan\n")


async def test_impersonation_and_context_reach_the_server(tmp_path: Path) -> None:
    async with api_server() as server:
        _serve(server, dumps.hot_cluster())
        flags = (
            "--as",
            "jane",
            "--as-group",
            "dev",
            "--as-group",
            "ops",
            "--context",
            "dev",
            "--request-timeout",
            "30",
        )
        ran = await _run(server, tmp_path, "explain", "default/lonely", *flags)
        headers = [seen.headers for seen in server.seen]
    assert ran.code == 0, ran.said
    assert {header["Impersonate-User"] for header in headers} == {"jane"}
    assert {tuple(header.getall("Impersonate-Group")) for header in headers} == {("dev", "ops")}


async def test_an_unknown_context_gets_a_hint(tmp_path: Path) -> None:
    async with api_server() as server:
        ran = await _run(server, tmp_path, "plan", "--context", "deev")
    assert ran.code == 1
    assert "did you mean dev?" in ran.said


async def test_the_configurations_kubeconfig_counts_when_no_flag_is_given(tmp_path: Path) -> None:
    async with api_server() as server:
        _serve(server, dumps.hot_cluster())
        path = written(tmp_path / "other", kubeconfig({"server": server.url}, {"token": "t"}))
        config = tmp_path / "config.yaml"
        config.write_text(
            "apiVersion: rescheduler.io/v1alpha1\nkind: ReschedulerConfiguration\n"
            f"clientConnection: {{kubeconfig: {json.dumps(str(path))}}}\n"
        )
        env = {"KUBECONFIG": "/nonexistent", "HOME": "/nonexistent"}
        ran = await asyncio.to_thread(rescheduler, "plan", "--config", str(config), "-ojson", env=env)
        assert ran.code == 0, ran.said
        over = await asyncio.to_thread(
            rescheduler, "plan", "--config", str(config), "--kubeconfig", "/nonexistent", env=env
        )
    assert over.code == 1
    assert "/nonexistent" in over.said


def test_without_any_kubeconfig_the_error_says_what_to_give(tmp_path: Path) -> None:
    env = {"HOME": str(tmp_path), "KUBECONFIG": None, "KUBERNETES_SERVICE_HOST": None}
    ran = rescheduler("plan", env=env)
    assert (ran.code, ran.out) == (1, "")
    assert "no cluster to talk to" in ran.said


def test_a_server_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path / "kubeconfig", kubeconfig({"server": "https://127.0.0.1:1"}, {"token": "t"}))
    ran = rescheduler("plan", "--kubeconfig", str(path), "--request-timeout", "1m")
    assert (ran.code, ran.out) == (1, "")
    assert "cannot reach https://127.0.0.1:1" in ran.said
