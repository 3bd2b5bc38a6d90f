"""`rescheduler run` as a process on the embedded cluster: one plan, dry runs, and ends that leave nothing to wait for.

One Deployment of one pod stands on node `source`, which is under maintenance: so there is one thing to do, and it is to
move that pod to node `target`.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rescheduler.model import labels
from rescheduler.model.json import Json
from tests.support.both_clusters import Space, name_of
from tests.support.cli import rescheduler
from tests.support.controller_process import PROGRAM, Controller, write_config
from tests.support.embedded import EmbeddedControlPlane
from tests.support.kubeconfigs import kubeconfig, written
from tests.support.manifests import deployment, lease, simulated
from tests.support.migrations import DEFINITIONS, MIGRATIONS
from tests.testbed.namespaces import own_namespace
from tests.testbed.processes import until

LEASE = "kube-rescheduler"
LONGEST = 180.0


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedControlPlane]:
    with EmbeddedControlPlane() as embedded:
        yield embedded


@pytest.fixture
def source(cluster: EmbeddedControlPlane) -> Iterator[str]:
    """A node under maintenance; it and `target` are all there is."""
    (name,) = cluster.add_nodes(1, prefix="source")
    yield name
    cluster.remove_nodes([name])


@pytest.fixture
def target(cluster: EmbeddedControlPlane) -> Iterator[str]:
    (name,) = cluster.add_nodes(1, prefix="target")
    yield name
    cluster.remove_nodes([name])


@pytest.fixture
def space(request: pytest.FixtureRequest, cluster: EmbeddedControlPlane) -> Iterator[Space]:
    """A namespace of this test's own, in which the kind of ours is not served yet."""
    with own_namespace(cluster.api, request.node.name) as name:
        yield Space(cluster, name)
    for each in definitions(cluster):
        cluster.api.delete(f"{DEFINITIONS}/{each}")
    until("no kind of ours is left", lambda: not definitions(cluster))


@pytest.fixture
def config(space: Space, tmp_path: Path) -> Path:
    return write_config(tmp_path / "config.yaml", space.name, enabledStrategies=["NodeMaintenance"])


def definitions(cluster: EmbeddedControlPlane) -> list[str]:
    return [name_of(each) for each in cluster.api.get(DEFINITIONS)["items"]]


def stands(space: Space, source: str, target: str, **paces: str) -> Json:
    """The one pod, Ready on the source, which is then to be emptied."""
    with space.cordoned(target):
        space.create(simulated(deployment("web", 1), **paces))
        space.rolled_out("web")
    space.api.patch(f"/api/v1/nodes/{source}", {"metadata": {"labels": {labels.MAINTENANCE: "true"}}})
    (found,) = space.pods("web")
    assert found["spec"]["nodeName"] == source
    return found


def ran(space: Space, *args: str) -> subprocess.CompletedProcess[str]:
    """The command line, when it has ended by itself."""
    return command("run", "--kubeconfig", str(space.cluster.kubeconfig), *args)


def command(*args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, check=False, timeout=LONGEST)


def migrations(space: Space) -> list[Json]:
    found: list[Json] = space.api.get(MIGRATIONS.format(space.name))["items"]
    return found


def holder(space: Space) -> str:
    """Who holds the lease; nobody after a release."""
    return str(space.get("Lease", LEASE)["spec"].get("holderIdentity", ""))


def says(controller: Controller, message: str) -> None:
    until(
        f"the controller says {message!r}",
        lambda: any(each["msg"] == message for each in controller.said()),
        [controller],
    )


def test_once_makes_a_plan_carries_it_out_ends_and_tells_all_of_it_in_json(
    space: Space, source: str, target: str, config: Path
) -> None:
    pod = stands(space, source, target)
    done = ran(space, "--config", str(config), "--once", "--log-format", "json", "-v")
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    (migration,) = migrations(space)
    assert migration["status"]["phase"] == "Completed"
    assert [each["spec"]["nodeName"] for each in space.exactly("web", 1)] == [target]
    assert holder(space) == ""
    told = [json.loads(line) for line in done.stderr.splitlines()]
    assert all({"time", "level", "msg"} <= set(each) for each in told)
    (planned, *_) = [each for each in told if each["msg"] == "planned"]
    assert planned["moves"] == 1
    (ordered,) = [each for each in told if each["msg"] == "migration created"]
    assert (ordered["pod"], ordered["source"], ordered["target"]) == (f"{space.name}/{name_of(pod)}", source, target)
    steps = [each for each in told if each.get("migration") == ordered["migration"]]
    assert any(each["msg"] == "migration is Completed" for each in steps)
    assert any(each["level"] == "debug" and "command" in each for each in steps), "-v tells each command"


def test_once_tells_by_its_exit_code_that_a_move_failed(space: Space, source: str, target: str, tmp_path: Path) -> None:
    stands(space, source, target, fails="NeverReady", fails_on=target)
    impatient = {"timeout": "2s", "attempts": 1, "retryDelay": "1s"}
    config = write_config(
        tmp_path / "config.yaml", space.name, enabledStrategies=["NodeMaintenance"], migration=impatient
    )
    done = ran(space, "--config", str(config), "--once")
    assert done.returncode == 5, done.stderr
    assert "1 of the plan's moves failed" in done.stderr
    (migration,) = migrations(space)
    assert migration["status"]["phase"] == "Failed"
    (left,) = space.exactly("web", 1)
    assert left["spec"]["nodeName"] == source


def test_a_dry_run_says_what_it_would_move_and_changes_nothing(
    space: Space, cluster: EmbeddedControlPlane, source: str, target: str, config: Path
) -> None:
    pod = stands(space, source, target)

    def seen() -> Any:
        kinds = ("Pod", "Deployment", "ReplicaSet", "Lease", "PodDisruptionBudget", "Event")
        nodes = {name_of(each): (each["metadata"]["labels"], each["spec"]) for each in nodes_of(cluster)}
        return nodes, definitions(cluster), {kind: space.list(kind) for kind in kinds}

    before = seen()
    done = ran(space, "--config", str(config), "--once", "--dry-run", "--log-format", "json")
    assert done.returncode == 0, done.stderr
    told = [json.loads(line) for line in done.stderr.splitlines()]
    (would,) = [each for each in told if each["msg"] == "would move"]
    assert (
        would
        | {
            "pod": f"{space.name}/{name_of(pod)}",
            "source": source,
            "target": target,
            "method": "handoff",
            "strategy": "NodeMaintenance",
        }
        == would
    )
    assert seen() == before


def nodes_of(cluster: EmbeddedControlPlane) -> list[Json]:
    found: list[Json] = cluster.api.get("/api/v1/nodes")["items"]
    return found


def test_ctrl_c_ends_a_leader_with_0_and_the_lease_is_free_at_once(space: Space, config: Path, tmp_path: Path) -> None:
    with Controller(space.cluster.kubeconfig, config, tmp_path / "controller.log") as controller:
        says(controller, "leading")
        assert holder(space) != ""
        os.kill(controller.pid, signal.SIGINT)
        assert controller.ended() == 0
    assert holder(space) == ""


def test_a_signal_ends_one_that_waits_to_lead_and_the_lease_stays_the_others(
    space: Space, config: Path, tmp_path: Path
) -> None:
    space.create(
        lease(LEASE, leaseDurationSeconds=3600, holderIdentity="another", renewTime="2100-01-01T00:00:00.000000Z")
    )
    with Controller(space.cluster.kubeconfig, config, tmp_path / "controller.log") as controller:
        says(controller, "waiting for the lead")
        assert controller.stop() == 0
    assert holder(space) == "another"


def test_a_signal_ends_one_that_the_server_does_not_answer(tmp_path: Path) -> None:
    config = write_config(tmp_path / "config.yaml", "default")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(LONGEST)
        server = f"http://127.0.0.1:{silent.getsockname()[1]}"
        path = written(tmp_path / "kubeconfig", kubeconfig({"server": server}, {"token": "t"}))
        with Controller(path, config, tmp_path / "controller.log") as controller:
            asked, _ = silent.accept()
            with asked:
                assert controller.stop() == 0


def test_a_move_that_is_under_way_is_parked_and_the_next_run_completes_it(
    space: Space, source: str, target: str, config: Path, tmp_path: Path
) -> None:
    stands(space, source, target, fails="NeverReady", fails_on=target)

    def in_step() -> Json | None:
        found = [each for each in migrations(space) if each.get("status", {}).get("step") == "AwaitReady"]
        return found[0] if found else None

    with Controller(space.cluster.kubeconfig, config, tmp_path / "first.log") as first:
        says(first, "migration created")
        parked = until("the copy is waited for", in_step, [first])
        assert first.stop() == 0
    assert holder(space) == ""
    (left,) = migrations(space)
    assert (left["status"]["phase"], left["status"]["step"]) == ("InProgress", "AwaitReady")
    assert len(space.pods("web")) == 2, "the original and its copy"
    copy = parked["status"]["replacement"]["name"]
    space.patch("Pod", copy, {"metadata": {"annotations": {"simulate.rescheduler.io/fails": None}}})
    with Controller(space.cluster.kubeconfig, config, tmp_path / "second.log") as second:

        def over() -> bool:
            (found,) = migrations(space)
            return bool(found["status"]["phase"] == "Completed")

        until("the next run completes it", over, [second])
        assert second.stop() == 0
    (landed,) = space.exactly("web", 1, "Running")
    assert (name_of(landed), landed["spec"]["nodeName"]) == (copy, target)
    assert len(space.list("ReplicaSet")) == 1


def test_a_server_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    path = written(tmp_path / "kubeconfig", kubeconfig({"server": "https://127.0.0.1:1"}, {"token": "t"}))
    for flags in ([], ["--dry-run"]):
        done = command("run", "--kubeconfig", str(path), *flags)
        assert done.returncode == 1
        assert "cannot reach https://127.0.0.1:1" in done.stderr
        assert "Traceback" not in done.stderr


def test_a_log_format_that_is_none_is_wrong_usage() -> None:
    done = rescheduler("run", "--log-format", "xml")
    assert done.code == 2
    assert "--log-format" in done.said
