"""Scenario: the chart is installed by helm, moves pods, is upgraded, cleaned up and uninstalled: nothing of it is left.

Helm installs into the real control plane, where hollow nodes make its pods Ready; the processes that a kubelet would
start are started by the test, as the Deployment says (`tests.chart.deployed`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from rescheduler.kube.client import ApiClient
from rescheduler.kube.webhook import WebhookConfiguration, WebhookSettings
from rescheduler.model.labels import MANAGED_BY, MIGRATION_ID
from tests.chart.deployed import Replica
from tests.chart.installation import HOME, NAME, Installation, nothing_is_left
from tests.chart.inventory import Inventory, settled
from tests.support.audit_log import entries
from tests.support.both_clusters import ClusterUnderTest, Space
from tests.support.cli import rescheduler
from tests.support.loaded_node import PODS
from tests.support.manifests import gated
from tests.support.recovering import CONFIGURATION, is_in_force
from tests.support.skewed_cluster import active, migrations
from tests.testbed.cluster import ControlPlane
from tests.testbed.helm import CHART
from tests.testbed.processes import free_port, until

pytestmark = [
    pytest.mark.release,
    pytest.mark.cluster,
    pytest.mark.parametrize("any_cluster", ["real"], indirect=True),
]

ACCOUNT = f"system:serviceaccount:{HOME}:{NAME}"


@pytest.fixture
def installation(cluster: ClusterUnderTest, tmp_path: Path) -> Iterator[Installation]:
    """Not yet installed; gone afterwards, however the test ends."""
    made = Installation(cluster, tmp_path)
    yield made
    made.remove()


def on(space: Space, node: str) -> int:
    return sum(each["spec"].get("nodeName") == node for each in space.pods("web"))


def test_the_chart_is_installed_moves_pods_is_upgraded_and_leaves_nothing(
    space: Space, nodes: list[str], loaded_node: str, installation: Installation, tmp_path: Path
) -> None:
    cluster, release = space.cluster, installation.release
    before = settled(cluster.api, space.name)
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
        for command in ("pause", "resume"):  # which leaves its ConfigMap
            assert rescheduler(command, "--kubeconfig", str(cluster.kubeconfig)).code == 0

        assert [each for each in space.pods("web") if MIGRATION_ID in each["metadata"]["labels"]]  # the trace
        kinds = {key[0].partition(".")[0] for key in Inventory(cluster.api).ours()}
        assert kinds >= {"Pod", "PodMigration", "MutatingWebhookConfiguration", "Secret", "ConfigMap", "Lease"}
        installation.stop()
        assert [first.stop(), second.stop()] == [0, 0]
    installation.clean_up("--crds")
    installation.uninstall()
    installation.delete_namespace()
    nothing_is_left(space, before)


def test_without_a_cleanup_pods_are_still_made_what_stays_is_known_and_can_be_cleaned_up_later(
    space: Space, nodes: list[str], installation: Installation, tmp_path: Path
) -> None:
    cluster = space.cluster
    before = settled(cluster.api, space.name)
    installation.install()
    with Replica(installation.release, tmp_path / "only", installation.webhook) as replica:
        replica.becomes_ready()
        until("the webhook is in force", lambda: is_in_force(replica), [replica])
        assert replica.stop() == 0
    space.create(gated("nobody-listens"))
    service = {"name": "not-there", "namespace": HOME, "port": 443, "path": "/mutate"}
    for index in (0, 1):
        step = {"op": "replace", "path": f"/webhooks/{index}/clientConfig", "value": {"service": service}}
        cluster.api.patch(CONFIGURATION, [step], "json")
    space.create(gated("no-service"))  # as it is where the Service goes first
    installation.uninstall()

    def stays() -> set[tuple[str, str]]:
        """By kind and name, but for what every namespace has, and the test's own pods."""
        new = {key for key in Inventory(cluster.api).new_since(before) if key[1] != space.name}
        return {(key[0].partition(".")[0], key[2]) for key in new} - {
            ("ServiceAccount", "default"), ("ConfigMap", "kube-root-ca.crt"),
        }  # fmt: skip

    known = {
        ("Namespace", HOME),
        ("CustomResourceDefinition", "podmigrations.rescheduler.io"),
        ("APIService", "v1alpha1.rescheduler.io"),
        ("Secret", f"{NAME}-webhook"),
        ("Lease", NAME),
    }
    until("only what is known to stay is there", lambda: stays() == known)
    installation.delete_namespace()
    installation.clean_up("--crds")
    nothing_is_left(space, before)


def test_a_change_of_what_is_looked_at_once_rolls_the_pods(
    space: Space, nodes: list[str], installation: Installation
) -> None:
    installation.install()
    before = {each["metadata"]["uid"] for each in installation.release.pods}
    installation.upgrade(clientConnection={"qps": 50})
    after = {each["metadata"]["uid"] for each in installation.release.pods}
    assert len(after) == 2
    assert not before & after


def test_what_the_controller_has_installed_is_taken_over(
    space: Space, nodes: list[str], installation: Installation
) -> None:
    applied = ("apply", "--server-side", "--field-manager=rescheduler", "-f", "-")
    space.cluster.kubectl(*applied, stdin=rescheduler("crds").out.replace("One pod being moved", "A pod being moved"))
    made = WebhookConfiguration(cast("ApiClient", None), WebhookSettings(url="https://127.0.0.1:9443")).wanted(None)
    space.cluster.kubectl(*applied, stdin=json.dumps(made))
    to = (NAME, CHART, *installation.named, "--create-namespace")
    refused = installation.helm.ran("install", *to, "--dry-run=server")
    assert "cannot be imported into the current release" in refused.stderr
    installation.helm("install", *to, "--take-ownership", "--force-conflicts")
    definition = space.cluster.kubectl("get", "crd", "podmigrations.rescheduler.io", "-o", "json")
    assert "One pod being moved" in definition
    registered = space.api.get(CONFIGURATION)
    assert registered["metadata"]["labels"][MANAGED_BY] == "Helm"
    assert len(registered["webhooks"]) == len(made["webhooks"])


def test_the_account_needs_no_right_that_it_does_not_have(
    space: Space, control_plane: ControlPlane, nodes: list[str], installation: Installation, tmp_path: Path
) -> None:
    """But that it asks for the definition, which the chart brings along: it goes on when it may not see it."""
    seen = len(entries(control_plane.audit_log, ACCOUNT))
    installation.install()
    with Replica(installation.release, tmp_path / "only", installation.webhook) as replica:
        replica.becomes_ready()
        until("the webhook is in force", lambda: is_in_force(replica), [replica])
        assert replica.stop() == 0
    asked = entries(control_plane.audit_log, ACCOUNT)[seen:]
    refused = {each.right.resource for each in asked if each.code == 403}
    assert refused <= {"customresourcedefinitions"}
    installation.clean_up()
