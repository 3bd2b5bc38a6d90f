"""The test bed keeps its own promises: it is a real Kubernetes, it is built once, and nothing of it outlives its owner.

Tests marked `cluster` need the real programs; the others use a Go that only pretends, in a cache of their own.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from rescheduler.model.json import Json
from tests.testbed import TestbedUnavailable, cluster
from tests.testbed.api import ApiError
from tests.testbed.binaries import binaries
from tests.testbed.cluster import ControlPlane
from tests.testbed.hollow import NodeShape, deployment
from tests.testbed.processes import StateNotReached, free_port, until
from tests.testbed.runfolder import RunFolder

pytestmark = pytest.mark.cluster

ROOT = Path(__file__).parents[2]
ORPHANED = """
import json, signal
from tests.testbed.binaries import binaries
from tests.testbed.cluster import ControlPlane
cluster = ControlPlane(binaries())
print(json.dumps({"pids": cluster.pids, "kubeconfig": str(cluster.kubeconfig)}), flush=True)
signal.pause()
"""
PRETENDING_GO = """#!/bin/sh
if [ "$1" = env ]; then echo go1.99.0; exit; fi
echo "$@" >> "$BUILDS"
for last; do :; done
while [ "$1" != -o ]; do shift; done
folder=$2; shift 2
[ -z "$BROKEN" ] || { echo "example.com/missing: no such module" >&2; touch "$folder/half"; exit 1; }
for package; do touch "$folder/${package##*/}"; done
"""


@pytest.fixture
def three_nodes(control_plane: ControlPlane) -> Iterator[list[str]]:
    names = control_plane.add_nodes(3)
    yield names
    control_plane.remove_nodes(names)


@pytest.fixture
def pretended(tmp_path: Path) -> dict[str, str]:
    """An environment in which Go only pretends, and the cache is empty."""
    go = tmp_path / "bin" / "go"
    go.parent.mkdir()
    go.write_text(PRETENDING_GO)
    go.chmod(0o755)
    kept = {name: value for name, value in os.environ.items() if name != "KUBEBUILDER_ASSETS"}
    return kept | {
        "PATH": f"{go.parent}:{os.environ['PATH']}",
        "BUILDS": str(tmp_path / "builds"),
        "RESCHEDULER_TESTBED_CACHE": str(tmp_path / "cache"),
    }


def test_a_deployment_of_three_becomes_ready_on_hollow_nodes(
    control_plane: ControlPlane, namespace: str, three_nodes: list[str]
) -> None:
    path = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    control_plane.api.post(path, deployment("web", 3))
    until("all are ready", lambda: control_plane.api.get(f"{path}/web")["status"].get("readyReplicas") == 3)
    pods = control_plane.api.get(f"/api/v1/namespaces/{namespace}/pods")["items"]
    assert {pod["spec"]["nodeName"] for pod in pods} <= set(three_nodes)
    assert len({pod["status"]["podIP"] for pod in pods}) == 3


def test_the_scheduler_binds_a_pod_to_the_only_node_that_has_room(
    control_plane: ControlPlane, namespace: str, three_nodes: list[str]
) -> None:
    (large,) = control_plane.add_nodes(1, NodeShape(cpu="64"), prefix="large")
    assert running_pod(control_plane, namespace, pod("greedy", cpu="32"))["spec"]["nodeName"] == large
    control_plane.remove_nodes([large])


def test_a_user_without_roles_is_refused(control_plane: ControlPlane, namespace: str) -> None:
    stranger = control_plane.api_as("stranger")
    with pytest.raises(ApiError) as refused:
        stranger.get(f"/api/v1/namespaces/{namespace}/pods")
    assert (refused.value.code, refused.value.reason) == (403, "Forbidden")


def test_a_pod_with_a_readiness_gate_is_ready_once_others_say_so(
    control_plane: ControlPlane, namespace: str, three_nodes: list[str]
) -> None:
    gated = pod("gated")
    gated["spec"]["readinessGates"] = [{"conditionType": "example.com/in-service"}]
    found = running_pod(control_plane, namespace, gated)
    assert condition(found, "Ready") == "False"
    path = f"/api/v1/namespaces/{namespace}/pods/gated"
    said = {"status": {"conditions": [{"type": "example.com/in-service", "status": "True"}]}}
    control_plane.api.patch(f"{path}/status", said, "strategic")
    until("it is Ready", lambda: condition(control_plane.api.get(path), "Ready") == "True")


def test_a_job_completes_and_a_deleted_pod_of_it_is_replaced(
    control_plane: ControlPlane, namespace: str, three_nodes: list[str]
) -> None:
    jobs = f"/apis/batch/v1/namespaces/{namespace}/jobs"
    pods = f"/api/v1/namespaces/{namespace}/pods"
    template = pod("unnamed")
    template["spec"]["restartPolicy"] = "Never"
    slow = {"annotations": {"simulate.rescheduler.io/completes-in": "600"}}
    for name, metadata in (("quick", {}), ("slow", slow)):
        body = {"metadata": {"name": name}, "spec": {"template": {"spec": template["spec"], "metadata": metadata}}}
        control_plane.api.post(jobs, body)
    until("the quick one is done", lambda: control_plane.api.get(f"{jobs}/quick")["status"].get("succeeded") == 1)

    ours = f"{pods}?labelSelector=job-name%3Dslow&fieldSelector=status.phase%3DRunning"
    (first,) = until("the slow one runs", lambda: control_plane.api.get(ours)["items"])
    control_plane.api.delete(f"{pods}/{first['metadata']['name']}")
    until("it counts as failed", lambda: control_plane.api.get(f"{jobs}/slow")["status"].get("failed") == 1)

    def another() -> list[Json]:
        """The first counts as failed while it is still on its way out."""
        running = control_plane.api.get(ours)["items"]
        return [each for each in running if each["metadata"]["uid"] != first["metadata"]["uid"]]

    assert len(until("another runs in its place", another)) == 1


def test_a_deleted_pod_ends_when_it_wants_to_but_within_its_grace(
    control_plane: ControlPlane, namespace: str, three_nodes: list[str]
) -> None:
    stubborn = pod("stubborn")
    stubborn["metadata"]["annotations"] = {"simulate.rescheduler.io/ends-in": "600"}
    running_pod(control_plane, namespace, stubborn)
    path = f"/api/v1/namespaces/{namespace}/pods/stubborn"
    control_plane.api.delete(path, {"gracePeriodSeconds": 600})
    with pytest.raises(StateNotReached):
        until("it is gone", lambda: is_gone(control_plane, path), seconds=1.5)
    control_plane.api.delete(path, {"gracePeriodSeconds": 1})
    until("it is gone", lambda: is_gone(control_plane, path))


def test_a_port_that_someone_else_took_is_no_reason_to_fail(
    control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        ports = iter([taken.getsockname()[1]])
        monkeypatch.setattr(cluster, "free_port", lambda: next(ports, None) or free_port())
        with ControlPlane(binaries(control_plane.version)) as second:
            assert second.api.get("/version")["gitVersion"] == control_plane.version


def test_a_killed_owner_leaves_no_process_and_the_next_one_sweeps_its_files(control_plane: ControlPlane) -> None:
    owner = subprocess.Popen([sys.executable, "-c", ORPHANED], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    with owner:
        assert owner.stdout is not None
        said = json.loads(owner.stdout.readline())
        pids = list(said["pids"].values())
        assert len(pids) == 5
        assert all(map(is_running, pids))
        owner.send_signal(signal.SIGKILL)
    until("all are gone", lambda: not any(map(is_running, pids)))
    folder = Path(said["kubeconfig"]).parent
    RunFolder().close(keep_logs=False)  # another worker's may have been faster, and be at it
    until("its files are swept", lambda: not folder.exists())
    assert control_plane.kubeconfig.exists()


def test_two_builds_at_once_build_everything_once(pretended: dict[str, str]) -> None:
    runs = [start_build(pretended) for _ in range(2)]
    printed = [run.communicate(timeout=60)[0].splitlines() for run in runs]
    assert printed[0] == printed[1]
    assert sorted(Path(each).name for each in printed[0]) == [
        *("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok", "metrics-server")
    ]
    assert all(Path(each).exists() for each in printed[0])
    assert len(Path(pretended["BUILDS"]).read_text().splitlines()) == 4


def test_a_build_that_fails_says_why_and_leaves_nothing_that_looks_built(pretended: dict[str, str]) -> None:
    failed = start_build(pretended | {"BROKEN": "yes"})
    _, said = failed.communicate(timeout=60)
    assert failed.returncode == 1
    assert "etcd v3.7.3 can't be built:\nexample.com/missing: no such module" in said
    mended = start_build(pretended)
    assert mended.communicate(timeout=60)[0]
    assert mended.returncode == 0
    assert not list(Path(pretended["RESCHEDULER_TESTBED_CACHE"]).rglob("half"))


def test_given_programs_must_be_complete(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(tmp_path))
    with pytest.raises(TestbedUnavailable, match="has no etcd, kube-apiserver"):
        binaries()


def test_an_unknown_version_names_the_known_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KUBEBUILDER_ASSETS", raising=False)
    with pytest.raises(TestbedUnavailable, match=r"v1\.1\.0 is not pinned here; there are: v1\.34\.4, v1\.36\.4"):
        binaries("v1.1.0")


def start_build(environment: dict[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.testbed", "build", "--version", "v1.37.1"]
    return subprocess.Popen(
        command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def pod(name: str, *, cpu: str = "100m") -> Json:
    spec: Json = deployment(name, 1, cpu=cpu)["spec"]["template"]["spec"]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": spec}


def running_pod(control_plane: ControlPlane, namespace: str, body: Json) -> Json:
    path = f"/api/v1/namespaces/{namespace}/pods"
    control_plane.api.post(path, body)
    path += f"/{body['metadata']['name']}"
    until("it is running", lambda: control_plane.api.get(path)["status"]["phase"] == "Running")
    return control_plane.api.get(path)


def condition(pod: Json, kind: str) -> str | None:
    return next((each["status"] for each in pod["status"].get("conditions", ()) if each["type"] == kind), None)


def is_gone(control_plane: ControlPlane, path: str) -> bool:
    try:
        control_plane.api.get(path)
    except ApiError as error:
        return error.code == 404
    return False


def is_running(pid: int) -> bool:
    """A zombie is not: it waits for its new parent to take note, and runs nothing."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
