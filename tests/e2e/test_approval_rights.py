"""Scenario: a user with rights in one namespace approves only what is there, and of nothing else."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rescheduler.cli import messages
from rescheduler.model import labels
from tests.support.both_clusters import ClusterUnderTest, Space
from tests.support.cli import rescheduler
from tests.support.migrations import MIGRATIONS, Moves, pod_migrations
from tests.support.pod_migrations import migration_spec
from tests.support.signing_in import ACCESS_REVIEWS
from tests.testbed.cluster import ControlPlane
from tests.testbed.namespaces import own_namespace
from tests.testbed.processes import until

pytestmark = [pytest.mark.cluster, pytest.mark.parametrize("any_cluster", ["real"], indirect=True)]

RIGHTS = "/apis/rbac.authorization.k8s.io/v1/namespaces/{}"
WAITING = migration_spec("web-0", target="node-1", strategy="LoadBalancing", approval_required=True, plan="k4m9tz")


@pytest.fixture
def kind(cluster: ClusterUnderTest) -> Iterator[None]:
    with pod_migrations(cluster):
        yield


@pytest.fixture
def jane(cluster: ClusterUnderTest, space: Space) -> Path:
    """The kubeconfig of a user who may look at and change PodMigrations in the test's namespace."""
    rules = [{"apiGroups": ["rescheduler.io"], "resources": ["podmigrations"], "verbs": ["get", "list", "patch"]}]
    group, path = {"apiGroup": "rbac.authorization.k8s.io"}, RIGHTS.format(space.name)
    space.api.post(f"{path}/roles", {"metadata": {"name": "approver"}, "rules": rules})
    binding = {
        "roleRef": {"kind": "Role", "name": "approver"} | group,
        "subjects": [{"kind": "User", "name": "jane"} | group],
    }
    space.api.post(f"{path}/rolebindings", {"metadata": {"name": "approver"}} | binding)
    attributes = {"verb": "patch", "group": "rescheduler.io", "resource": "podmigrations", "namespace": space.name}
    spec = {"user": "jane", "groups": ["people"], "resourceAttributes": attributes}
    asked = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    until("jane has her right", lambda: space.api.post(ACCESS_REVIEWS, asked)["status"]["allowed"])
    assert isinstance(cluster, ControlPlane)
    return cluster.kubeconfig_as("jane", "people")


@pytest.mark.usefixtures("kind")
def test_rights_in_one_namespace_are_enough_for_it_and_for_no_other(
    space: Space, cluster: ClusterUnderTest, jane: Path
) -> None:
    with own_namespace(cluster.api, "others") as name:
        others = Space(cluster, name)
        for each in (space, others):
            Moves(each).order("waiting", WAITING)
        flags = ("--kubeconfig", str(jane))
        ran = rescheduler("approve", "k4m9tz", "-n", space.name, *flags)
        assert (ran.code, ran.out) == (0, "podmigration.rescheduler.io/waiting approved\n"), ran.said
        assert "approved by jane" in ran.said
        assert notes(space) == {labels.APPROVED: "jane"}
        for args in (("--all", "-A"), ("waiting", "-n", name)):
            refused = rescheduler("approve", *args, *flags)
            assert refused.code == messages.UNREADABLE
            assert "403" in refused.said
        paused = rescheduler("pause", "-n", space.name, *flags)
        assert paused.code == messages.UNREADABLE
        assert "403" in paused.said
        assert notes(others) == {}


def notes(space: Space) -> dict[str, str]:
    found = space.api.get(f"{MIGRATIONS.format(space.name)}/waiting")["metadata"]
    annotations: dict[str, str] = found.get("annotations") or {}
    return annotations
