"""`rescheduler cleanup` and Leases whose namespace goes: nobody can lead there, so nobody is waited for."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.both_clusters import ClusterUnderTest, Space
from tests.support.controller_process import SECONDS_TO_END
from tests.support.forking import ForkedProcess
from tests.support.manifests import lease
from tests.support.shell import clean_up
from tests.testbed.processes import until

CONFIG = """apiVersion: rescheduler.io/v1alpha1
kind: ReschedulerConfiguration
leaderElection: {{resourceName: {0}, resourceNamespace: {0}, leaseDuration: 6s, renewDeadline: 5s, retryPeriod: 100ms}}
"""


@pytest.fixture
def ending(cluster: ClusterUnderTest) -> Iterator[Space]:
    """A namespace that is being deleted, and is not gone before the test is over; it has a Lease that stays as long."""
    space = Space(cluster, f"ending-{secrets.token_hex(4)}")
    space.api.post("/api/v1/namespaces", {"metadata": {"name": space.name}})
    held = lease(space.name, holderIdentity="controller-0", leaseDurationSeconds=3)
    kept = lease("kept")
    for body in (held, kept):
        body["metadata"]["finalizers"] = ["test.example/hold"]
        space.create(body)
    space.api.delete(f"/api/v1/namespaces/{space.name}")
    until("its Leases are being deleted", lambda: all(_leaves(space, each) for each in (space.name, "kept")))
    yield space
    for each in space.list("Lease"):
        space.patch("Lease", each["metadata"]["name"], {"metadata": {"finalizers": None}})


def _leaves(space: Space, name: str) -> bool:
    return "deletionTimestamp" in space.get("Lease", name)["metadata"]


def flags(folder: Path, namespace: str) -> tuple[str, ...]:
    """For a Lease in this namespace that has the namespace's name: no other test's is met."""
    config = folder / "config.yaml"
    config.write_text(CONFIG.format(namespace))
    return "--yes", "--config", str(config)


def succeeds(code: int, said: str) -> None:
    assert code == 0, said
    assert "being terminated" not in said


def test_in_a_namespace_that_is_being_deleted_nobody_leads(ending: Space, tmp_path: Path) -> None:
    ending.patch("Lease", ending.name, {"metadata": {"finalizers": None}})
    ran = clean_up(ending.cluster, *flags(tmp_path, ending.name))
    succeeds(ran.code, ran.said)


def test_in_a_namespace_that_is_not_there_nobody_leads(cluster: ClusterUnderTest, tmp_path: Path) -> None:
    ran = clean_up(cluster, *flags(tmp_path, "gone-with-the-release"))
    succeeds(ran.code, ran.said)


def test_a_lease_that_is_held_and_goes_with_its_namespace_is_not_waited_for(ending: Space, tmp_path: Path) -> None:
    log, kubeconfig = tmp_path / "cleanup.log", str(ending.cluster.kubeconfig)
    command = ["cleanup", "--kubeconfig", kubeconfig, *flags(tmp_path, ending.name)]
    running = ForkedProcess("rescheduler.cli.main:main", command, log)
    ending.patch("Lease", ending.name, {"metadata": {"finalizers": None}})
    code = running.wait(SECONDS_TO_END)
    succeeds(code, log.read_text())


def test_a_lease_that_is_being_deleted_and_stays_is_taken_when_it_has_run_out(ending: Space, tmp_path: Path) -> None:
    ran = clean_up(ending.cluster, *flags(tmp_path, ending.name))
    succeeds(ran.code, ran.said)
    assert ending.get("Lease", ending.name)["spec"]["holderIdentity"] == ""
