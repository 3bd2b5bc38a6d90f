"""Scenario: a release is changed, rolled back, named otherwise, and kept from standing beside another one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.chart.deployed import Replica
from tests.chart.installation import NAME, WAITING, Installation, nothing_is_left
from tests.chart.inventory import Inventory, settled
from tests.support.both_clusters import ClusterUnderTest, Space
from tests.support.recovering import CONFIGURATION, is_in_force
from tests.testbed.helm import CHART
from tests.testbed.processes import until

pytestmark = [
    pytest.mark.release,
    pytest.mark.cluster,
    pytest.mark.parametrize("any_cluster", ["real"], indirect=True),
]

ELSEWHERE, MOVER = "platform", "mover"


@pytest.fixture
def installation(cluster: ClusterUnderTest, tmp_path: Path, nodes: list[str]) -> Iterator[Installation]:
    made = Installation(cluster, tmp_path)
    yield made
    made.remove()


@pytest.fixture
def elsewhere(cluster: ClusterUnderTest, tmp_path: Path, nodes: list[str]) -> Iterator[Installation]:
    """A release of another name in another namespace."""
    made = Installation(cluster, tmp_path, ELSEWHERE, MOVER)
    yield made
    made.remove()


def ports(installation: Installation) -> dict[str, int]:
    """Of the Service of webhook and extender; none where there is none."""
    path = f"/api/v1/namespaces/{installation.namespace}/services/{NAME}-webhook"
    service = installation.cluster.api.find(path)
    return {each["name"]: each["port"] for each in service["spec"]["ports"]} if service else {}


def runs(installation: Installation, directory: Path, *, webhook: bool) -> None:
    """A replica, as the Deployment is now, gets the webhook in force, or takes its registration back."""
    secret = f"/api/v1/namespaces/{installation.namespace}/secrets/{NAME}-webhook"

    def registered() -> bool:
        return any(installation.cluster.api.find(path) for path in (CONFIGURATION, secret))

    with Replica(installation.release, directory, installation.webhook) as replica:
        replica.becomes_ready()
        if webhook:
            until("the webhook is in force", lambda: is_in_force(replica), [replica])
        else:
            until("registration and certificates are gone", lambda: not registered(), [replica])
        assert replica.stop() == 0


def test_replicas_webhook_and_extender_are_changed_by_upgrades_and_a_rollback_takes_it_all_back(
    space: Space, installation: Installation, tmp_path: Path
) -> None:
    def ready() -> int:
        return int(installation.release.deployment["status"].get("readyReplicas", 0))

    installation.install()
    runs(installation, tmp_path / "installed", webhook=True)
    assert (ready(), ports(installation)) == (2, {"webhook": 443})
    installation.upgrade({"replicas": 3}, extender={"enabled": True, "insecurePort": 9080})
    assert (ready(), ports(installation)) == (3, {"webhook": 443, "extender": 9080})
    installation.upgrade(webhook={"enabled": False})
    assert (ready(), ports(installation)) == (3, {"extender": 9080})
    runs(installation, tmp_path / "without", webhook=False)
    installation.helm("rollback", NAME, "1", *installation.named, *WAITING)
    assert (ready(), ports(installation)) == (2, {"webhook": 443})
    runs(installation, tmp_path / "rolled-back", webhook=True)


def test_an_upgrade_leaves_the_webhook_as_the_leader_registered_it(
    space: Space, installation: Installation, tmp_path: Path
) -> None:
    installation.install()
    assert not space.api.get(CONFIGURATION).get("webhooks")  # until a replica serves it
    with Replica(installation.release, tmp_path / "only", installation.webhook) as replica:
        replica.becomes_ready()
        until("the webhook is in force", lambda: is_in_force(replica), [replica])
        before = space.api.get(CONFIGURATION)
        assert len(before["webhooks"]) == 2
        installation.upgrade({"commonLabels": {"team": "platform"}}, cpuThreshold=70)
        after = space.api.get(CONFIGURATION)
        assert after["webhooks"] == before["webhooks"]
        assert after["metadata"]["labels"] == before["metadata"]["labels"] | {"team": "platform"}
        assert replica.stop() == 0


def test_a_release_of_another_name_elsewhere_works_keeps_a_second_one_out_and_leaves_nothing(
    space: Space, elsewhere: Installation, installation: Installation, tmp_path: Path
) -> None:
    before = settled(space.api, space.name)
    elsewhere.install()
    runs(elsewhere, tmp_path / "mover", webhook=True)
    second = ("install", NAME, CHART, *installation.named, "--create-namespace")
    for flags in ((), ("--set", "crds.by=nobody"), ("--set", "crds.by=nobody", "--dry-run=server")):
        refused = installation.helm.ran(*second, *flags)
        assert refused.returncode == 1
        assert f"installed already, as release {MOVER} in the namespace {ELSEWHERE}" in refused.stderr
    # One that changes nothing may run beside it.
    installation.helm(*second, "--set", "crds.by=nobody,dryRun=true", *WAITING)
    elsewhere.upgrade({"replicas": 1})
    installation.uninstall()
    installation.delete_namespace()
    elsewhere.stop()
    told = elsewhere.clean_up("--crds")
    assert f"delete Secret {ELSEWHERE}/{NAME}-webhook" in told
    elsewhere.uninstall()
    elsewhere.delete_namespace()
    nothing_is_left(space, before)


def test_what_others_rendered_from_the_chart_keeps_a_release_out_too(space: Space, installation: Installation) -> None:
    """As tools do that apply what `helm template` gives, and leave no record of a release."""
    shown = installation.helm(
        "template", MOVER, CHART, "--namespace", ELSEWHERE, "--show-only", "templates/clusterrole.yaml"
    )
    space.cluster.kubectl("apply", "-f", "-", stdin=shown)
    try:
        refused = installation.helm.ran("install", NAME, CHART, *installation.named, "--dry-run=server")
        assert f"installed already, as release {MOVER} in the namespace {ELSEWHERE}" in refused.stderr
    finally:
        space.cluster.kubectl("delete", "-f", "-", stdin=shown)


def test_a_server_checks_the_whole_release_without_making_anything(space: Space, installation: Installation) -> None:
    before = settled(space.api, space.name)
    to = (NAME, CHART, *installation.named, "--dry-run=server")
    for command in ("install", "template"):
        shown = installation.helm(command, *to)
        assert "kind: Deployment" in shown
    assert not Inventory(space.api).new_since(before)
