"""The test bed keeps its own promises: it is a real Kubernetes, it is built once, and nothing of it outlives its owner.

Tests marked `cluster` need the real programs; the others use a Go that only pretends, in a cache of their own.
"""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.testbed import TestbedUnavailable, cluster
from tests.testbed.api import ApiError
from tests.testbed.binaries import binaries
from tests.testbed.cluster import ControlPlane
from tests.testbed.processes import free_port, until
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


def test_a_user_without_roles_is_refused(control_plane: ControlPlane, namespace: str) -> None:
    stranger = control_plane.api_as("stranger")
    with pytest.raises(ApiError) as refused:
        stranger.get(f"/api/v1/namespaces/{namespace}/pods")
    assert (refused.value.code, refused.value.reason) == (403, "Forbidden")


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


def is_running(pid: int) -> bool:
    """A zombie is not: it waits for its new parent to take note, and runs nothing."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
