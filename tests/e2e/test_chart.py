"""Scenario: the chart is installed by helm, moves pods, is upgraded, cleaned up and uninstalled: nothing of it is left.

Helm installs into the real control plane, where hollow nodes make its pods Ready; the processes that a kubelet would
start are started by the test, as the Deployment says (`tests.chart.deployed`).
"""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.chart.deployed import Release, Replica
from tests.support.audit_log import entries
from tests.support.both_clusters import ClusterUnderTest, Space
from tests.support.cli import rescheduler
from tests.support.controller_process import QUICK, SHORT_LEASE
from tests.support.manifests import deployment
from tests.support.recovering import CONFIGURATION, is_in_force
from tests.support.skewed_cluster import active, migrations
from tests.testbed.api import ApiError, Json
from tests.testbed.cluster import ControlPlane
from tests.testbed.helm import CHART, Helm
from tests.testbed.hollow import NodeShape
from tests.testbed.processes import StateNotReached, free_port, until

pytestmark = [pytest.mark.cluster, pytest.mark.parametrize("any_cluster", ["real"], indirect=True)]

HOME = NAME = "kube-rescheduler"
ACCOUNT = f"system:serviceaccount:{HOME}:{NAME}"
NAMED = ("--namespace", HOME)
PODS = 3


class Installation:
    """The release, by helm's commands."""

    def __init__(self, cluster: ClusterUnderTest, folder: Path) -> None:
        self.helm, self._file = Helm(cluster.kubeconfig), folder / "values.yaml"
        self._cluster, self.release = cluster, Release(cluster, HOME, NAME)
        self.webhook = free_port()
        self._values: Json = {
            "config": {
                **QUICK,
                "enabledStrategies": ["ResourceOptimization"],
                "leaderElection": dict(SHORT_LEASE),
                # Hollow nodes have no network of Services.
                "webhook": {"url": f"https://127.0.0.1:{self.webhook}"},
            }
        }

    def install(self) -> None:
        """In a namespace that takes only pods that the strictest standard allows: also the webhook's probe."""
        self._write()
        self._cluster.kubectl("create", "namespace", HOME)
        self._cluster.kubectl("label", "namespace", HOME, "pod-security.kubernetes.io/enforce=restricted")
        self.helm("install", NAME, CHART, *NAMED, "--values", self._file, "--wait", "--timeout", "120s")

    def upgrade(self, **config: Any) -> None:
        self._values["config"] |= config
        self._write()
        self.helm("upgrade", NAME, CHART, *NAMED, "--values", self._file, "--wait", "--timeout", "120s")

    def _write(self) -> None:
        self._file.write_text(json.dumps(self._values))


@pytest.fixture
def nodes(cluster: ClusterUnderTest) -> Iterator[list[str]]:
    names = cluster.add_nodes(2, NodeShape(cpu="4"), prefix="chart")
    yield names
    cluster.remove_nodes(names)


@pytest.fixture
def loaded_node(space: Space, nodes: list[str]) -> str:
    """A node with three pods, which use 60 per cent of its CPU; the other one is empty."""
    node, other = nodes
    with space.cordoned(other):
        space.create(deployment("web", PODS, cpu="800m"))
        space.rolled_out("web")
    return node


@pytest.fixture
def installation(cluster: ClusterUnderTest, tmp_path: Path) -> Iterator[Installation]:
    """Not yet installed; gone afterwards, however the test ends."""
    made = Installation(cluster, tmp_path)
    yield made
    made.helm.ran("uninstall", NAME, *NAMED, "--ignore-not-found")
    cluster.kubectl("delete", "namespace", HOME, "--ignore-not-found")
    cluster.kubectl("delete", "mutatingwebhookconfiguration", NAME, "--ignore-not-found")
    cluster.kubectl("delete", "crd", "podmigrations.rescheduler.io", "--ignore-not-found")


def on(space: Space, node: str) -> int:
    return sum(each["spec"].get("nodeName") == node for each in space.pods("web"))


def is_there(cluster: ClusterUnderTest, path: str) -> bool:
    try:
        cluster.api.get(path)
    except ApiError as error:
        if error.code != 404:
            raise
        return False
    return True


def ours(cluster: ClusterUnderTest, but: str) -> set[str] | None:
    """All objects in the cluster that anything of ours is to be seen on; but not in one namespace, nor Events.

    None while a kind is on its way out: kubectl has heard of it, and can't list it any more.
    """
    kinds = cluster.kubectl("api-resources", "--verbs=list", "-o", "name", "--cached=false").split()
    looked = ",".join(kind for kind in kinds if not kind.startswith("events"))
    try:
        listed = cluster.kubectl("get", looked, "-A", "-o", "json", "--show-managed-fields")
    except subprocess.CalledProcessError:
        return None
    return {
        f"{each['kind']} {each['metadata'].get('namespace', '')}/{each['metadata']['name']}"
        for each in json.loads(listed)["items"]
        if "rescheduler" in json.dumps(each) and each["metadata"].get("namespace") != but
    }


def nothing_is_left(space: Space, before: set[str]) -> None:
    """A kind and what serves it go in their own time; what stays is in the error."""
    seen: list[set[str] | None] = []

    def gone() -> bool:
        seen[:] = [ours(space.cluster, space.name)]
        return seen[0] is not None and seen[0] <= before

    try:
        until("nothing of ours is in the cluster", gone)
    except StateNotReached as error:
        error.add_note(f"left: {seen}")
        raise


def test_the_chart_is_installed_moves_pods_is_upgraded_and_leaves_nothing(
    space: Space, nodes: list[str], loaded_node: str, installation: Installation, tmp_path: Path
) -> None:
    cluster, release = space.cluster, installation.release
    before = ours(cluster, space.name) or set()
    installation.install()
    assert {each["spec"]["nodeName"] for each in release.pods} == set(nodes)  # the replicas, on different nodes
    with (
        Replica(release, tmp_path / "first", installation.webhook) as first,
        Replica(release, tmp_path / "second", free_port()) as second,
    ):
        first.becomes_ready()
        second.becomes_ready()
        until("the webhook is in force", lambda: is_in_force(first) or is_in_force(second), [first, second])
        assert on(space, loaded_node) == PODS  # 60 per cent is not above the threshold of 80

        pods = {each["metadata"]["uid"] for each in release.pods}
        installation.upgrade(cpuThreshold=50)
        for replica in (first, second):
            replica.is_brought_the_new_file()
        until("a pod is moved", lambda: on(space, loaded_node) == PODS - 1, [first, second])
        until("no move is under way", lambda: not active(migrations(space)), [first, second])
        assert {each["metadata"]["uid"] for each in release.pods} == pods  # nothing was restarted

        cluster.kubectl("-n", HOME, "scale", f"deployment/{NAME}", "--replicas=0")
        assert [first.stop(), second.stop()] == [0, 0]
    ran = rescheduler("cleanup", "--yes", "--crds", "--kubeconfig", str(cluster.kubeconfig))
    assert ran.code == 0, ran.said
    installation.helm("uninstall", NAME, *NAMED, "--wait")
    cluster.kubectl("delete", "namespace", HOME)
    nothing_is_left(space, before)
    assert all(each["metadata"]["labels"]["app"] == "web" for each in space.list("Pod"))


def test_a_change_of_what_is_looked_at_once_rolls_the_pods(
    space: Space, nodes: list[str], installation: Installation
) -> None:
    installation.install()
    before = {each["metadata"]["uid"] for each in installation.release.pods}
    installation.upgrade(clientConnection={"qps": 50})
    after = {each["metadata"]["uid"] for each in installation.release.pods}
    assert len(after) == 2
    assert not before & after


def test_a_definition_that_the_controller_has_installed_is_taken_over(
    space: Space, nodes: list[str], installation: Installation
) -> None:
    applied = ("apply", "--server-side", "--field-manager=rescheduler", "-f", "-")
    space.cluster.kubectl(*applied, stdin=rescheduler("crds").out.replace("One pod being moved", "A pod being moved"))
    refused = installation.helm.ran("install", NAME, CHART, *NAMED, "--create-namespace", "--dry-run=server")
    assert "cannot be imported into the current release" in refused.stderr
    take_over = ("--take-ownership", "--force-conflicts")
    installation.helm("install", NAME, CHART, *NAMED, "--create-namespace", *take_over)
    definition = space.cluster.kubectl("get", "crd", "podmigrations.rescheduler.io", "-o", "json")
    assert "One pod being moved" in definition


def test_the_account_needs_no_right_that_it_does_not_have(
    space: Space, control_plane: ControlPlane, nodes: list[str], installation: Installation, tmp_path: Path
) -> None:
    """But that it asks for the definition, which the chart brings along: it goes on when it may not see it."""
    installation.install()
    with Replica(installation.release, tmp_path / "only", installation.webhook) as replica:
        replica.becomes_ready()
        until("the webhook is registered", lambda: is_there(space.cluster, CONFIGURATION), [replica])
        assert replica.stop() == 0
    refused = {each.right.resource for each in entries(control_plane.audit_log, ACCOUNT) if each.code == 403}
    assert refused <= {"customresourcedefinitions"}
    ran = rescheduler("cleanup", "--yes", "--kubeconfig", str(space.cluster.kubeconfig))
    assert ran.code == 0, ran.said
