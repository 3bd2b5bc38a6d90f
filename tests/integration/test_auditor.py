"""The auditor of kill and fault tests is audited itself: it sees whatever a move may lose or leave behind."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import pytest

from rescheduler.migration.steps.handoff import CHEAPEST
from rescheduler.model import labels
from tests.support.auditor import Auditor
from tests.support.both_clusters import Space, name_of
from tests.support.embedded import EmbeddedControlPlane
from tests.support.manifests import budget, deployment, pod, prefers
from tests.support.migrations import MIGRATIONS, pod_migrations
from tests.support.ready_watch import Floor, ReadyWatch, desired_healthy
from tests.testbed.hollow import NodeShape
from tests.testbed.namespaces import own_namespace


@pytest.fixture(scope="module")
def cluster() -> Iterator[EmbeddedControlPlane]:
    with EmbeddedControlPlane() as running, pod_migrations(running):
        running.add_nodes(2, NodeShape(), prefix="audited")
        yield running


@pytest.fixture
def space(cluster: EmbeddedControlPlane) -> Iterator[Space]:
    """A Deployment of two and a pod that nobody manages, all Ready."""
    with own_namespace(cluster.api, "audited") as name:
        made = Space(cluster, name)
        made.create(deployment("web", 2))
        made.rolled_out("web")
        made.runs(pod("bare"))
        yield made


def annotated(kind: str, key: str, value: str) -> Callable[[Space], None]:
    def meddle(space: Space) -> None:
        found = space.list(kind, labelSelector="app=web")[0]
        space.patch(kind, name_of(found), {"metadata": {"annotations": {key: value}}})

    return meddle


def paused(space: Space) -> None:
    space.patch("Deployment", "web", {"spec": {"paused": True}})


def rolled_out(space: Space) -> None:
    space.patch("Deployment", "web", {"spec": {"template": {"metadata": {"annotations": {"new": "yes"}}}}})
    space.rolled_out("web")


def steered(space: Space) -> None:
    paused(space)
    change = {"spec": {"template": {"spec": {"affinity": prefers("In", "audited-0")}}}}
    space.patch("ReplicaSet", name_of(space.replica_set("web")), change)


def running_mark(space: Space) -> None:
    space.patch("Pod", "bare", {"metadata": {"labels": {labels.MIGRATION_STATUS: "in-progress"}}})


def copied(space: Space) -> None:
    space.runs(pod("rescheduled-bare-1"))


def gated(space: Space) -> None:
    space.create(pod("rescheduled-bare-2", schedulingGates=[{"name": labels.GATE}]))


def lost(space: Space) -> None:
    space.delete("Pod", "bare", gracePeriodSeconds=0)
    space.gone("Pod", "bare")


def scaled(space: Space) -> None:
    space.patch("Deployment", "web", {"spec": {"replicas": 1}})
    space.exactly("web", 1)


def protected(space: Space) -> None:
    space.create(budget("web-rescheduler-pdb", "web", minAvailable=1))


def ordered(space: Space) -> None:
    body = {"apiVersion": "rescheduler.io/v1alpha1", "kind": "PodMigration", "metadata": {"name": "m"}}
    space.api.post(MIGRATIONS.format(space.name), body | {"spec": {"pod": {"name": "bare"}}})


SEEN = {
    "a paused Deployment": (paused, "Deployment .*/web is changed"),
    "a new revision": (rolled_out, "ReplicaSet .* is left behind"),
    "a preference in a template": (steered, "ReplicaSet .* is changed: spec"),
    "a note on a Deployment": (
        annotated("Deployment", labels.MIGRATION_ID, "m"),
        "Deployment .* is changed: annotations",
    ),
    "a note on a ReplicaSet": (annotated("ReplicaSet", labels.PAUSED_BY, "m"), "ReplicaSet .* is changed: annotations"),
    "a deletion cost": (annotated("Pod", labels.DELETION_COST, CHEAPEST), "is still the first to be deleted"),
    "an annotation of ours": (annotated("Pod", labels.WITHHELD, json.dumps({})), f"has {labels.WITHHELD} left"),
    "a running mark": (running_mark, "still says that it is in-progress"),
    "a second copy": (copied, "rescheduled-bare-1 is left behind"),
    "a gated copy": (gated, "rescheduled-bare-2 is still gated"),
    "a lost pod": (lost, "bare lives on as no pod"),
    "a lost replica": (scaled, "has 1 pods, and had 2"),
    "a temporary budget": (protected, "web-rescheduler-pdb is left behind"),
    "an open migration": (ordered, "m is not over"),
}


@pytest.mark.parametrize("what", list(SEEN))
def test_the_auditor_sees(space: Space, what: str) -> None:
    meddle, expected = SEEN[what]
    auditor = Auditor(space.api, [space.name])
    assert auditor.problems() == []
    meddle(space)
    found = "\n".join(auditor.problems())
    assert found
    with pytest.raises(AssertionError, match=expected):
        raise AssertionError(found)


def test_the_auditor_sees_a_cordon(space: Space) -> None:
    auditor = Auditor(space.api, [space.name])
    with space.cordoned("audited-0"):
        assert any("Node /audited-0 is changed" in each for each in auditor.problems())
    assert auditor.problems() == []


def test_a_pod_may_live_on_in_another_one_of_its_kind(space: Space) -> None:
    auditor = Auditor(space.api, [space.name])
    original = space.get("Pod", "bare")
    successor = pod("rescheduled-bare-3", labels={"app": "bare"})
    successor["metadata"]["annotations"] = {labels.ORIGINAL_POD: original["metadata"]["uid"]}
    space.runs(successor)
    assert any("lives on as ['bare', 'rescheduled-bare-3']" in each for each in auditor.problems())
    lost(space)
    assert auditor.problems() == []


def test_a_moment_with_too_few_ready_pods_is_seen(space: Space) -> None:
    with ReadyWatch(space.api, [Floor(space.name, "web", 2)]) as watch:
        space.delete("Pod", name_of(space.pods("web")[0]))
        space.rolled_out("web")
    assert watch.breaches
    assert "had 1 Ready pods, and must have 2" in watch.breaches[0]


@pytest.mark.parametrize(
    ("spec", "wanted", "healthy"),
    [
        ({"minAvailable": 2}, 3, 2),
        ({"minAvailable": "50%"}, 3, 2),
        ({"maxUnavailable": 1}, 3, 2),
        ({"maxUnavailable": "25%"}, 3, 2),
        ({"maxUnavailable": "50%"}, 3, 1),
        ({"maxUnavailable": 5}, 3, 0),
    ],
)
def test_what_a_budget_keeps_healthy_is_reckoned_as_kubernetes_does(
    spec: dict[str, int | str], wanted: int, healthy: int
) -> None:
    assert desired_healthy(spec, wanted) == healthy
