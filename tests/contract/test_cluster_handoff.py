"""The handoff, our design's third fact: a ReplicaSet takes in a copy of a pod that we placed and deletes the original.

No rollout, no change of replicas, no moment below the desired count; and what goes wrong where its rules are not kept.
"""

from __future__ import annotations

from typing import Any

import pytest

from rescheduler.model.json import Json
from tests.support.both_clusters import Space, condition, is_ready, name_of, names, refusal
from tests.support.manifests import GATE, budget, deployment, gated
from tests.testbed.api import ApiError
from tests.testbed.processes import until

HASH = "pod-template-hash"
CHEAP = {"metadata": {"annotations": {"controller.kubernetes.io/pod-deletion-cost": "-2147483647"}}}


@pytest.fixture
def web(space: Space, nodes: list[str]) -> Space:
    """A Deployment of three that is rolled out, and a budget that allows no disruption."""
    space.create(budget("web", "web", minAvailable=3))
    space.create(deployment("web", 3))
    space.rolled_out("web")
    space.reaches("PodDisruptionBudget", "web", "counts its pods", lambda pdb: healthy(pdb) == 3)
    return space


def healthy(pdb: Json) -> int:
    return int(pdb.get("status", {}).get("currentHealthy", 0))


def make_copy(space: Space, node: str) -> Json:
    """A pod of the ReplicaSet's template that it doesn't select yet, Ready on its node."""
    template = space.replica_set("web")["spec"]["template"]
    labels = {key: value for key, value in template["metadata"]["labels"].items() if key != HASH}
    spec = template["spec"] | {"schedulingGates": [{"name": GATE}]}
    space.create({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "copy", "labels": labels}, "spec": spec})
    space.patch_status("Pod", "copy", {"nominatedNodeName": node})
    space.patch("Pod", "copy", {"spec": {"schedulingGates": None}})
    copy = space.ready("copy")
    assert copy["spec"]["nodeName"] == node
    return copy


def hand_over(space: Space, original: Json) -> None:
    space.patch("Pod", name_of(original), CHEAP)
    space.patch("Pod", "copy", {"metadata": {"labels": {HASH: original["metadata"]["labels"][HASH]}}})


def fill_quota(space: Space, pods: int) -> None:
    """No further pod, as soon as the API server goes by it: it takes note of new quotas in its own time."""
    space.create({"kind": "ResourceQuota", "metadata": {"name": "full"}, "spec": {"hard": {"pods": str(pods)}}})

    def is_exceeded() -> bool:
        try:
            space.create(gated("probe"), dryRun="All")
        except ApiError as refused:
            return "exceeded quota: full" in refused.message
        return False

    until("the quota is full", is_exceeded)


def ready_for_long(space: Space, name: str) -> None:
    """Whatever its minReadySeconds are, the pod is available from now on."""
    space.ready(name)
    since = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-02T03:04:05Z"}
    space.patch_status("Pod", name, {"conditions": [since]}, "strategic")


def fewest_available(events: list[Json]) -> int:
    """The least that a workload's status said, over all events."""
    return min(int(event["object"]["status"].get("availableReplicas", 0)) for event in events)


def fewest_ready(start: list[Json], events: list[Json]) -> int:
    """The least number of Ready pods there was, replayed from a watch."""
    pods = {name_of(pod): is_ready(pod) for pod in start}
    counts = [sum(pods.values())]
    for event in events:
        pods[name_of(event["object"])] = event["type"] != "DELETED" and is_ready(event["object"])
        counts.append(sum(pods.values()))
    return min(counts)


def test_a_handoff_moves_a_pod_without_a_rollout_or_a_dip(web: Space, nodes: list[str]) -> None:
    start = web.api.get(web.path("Pod", labelSelector="app=web"))
    since = {kind: web.version(kind) for kind in ("Deployment", "ReplicaSet")}
    original, *others = start["items"]
    target = next(node for node in nodes if node != original["spec"]["nodeName"])
    make_copy(web, target)
    hand_over(web, original)

    def original_is_gone(event: Json) -> bool:
        return bool(event["type"] == "DELETED" and name_of(event["object"]) == name_of(original))

    pods_seen = web.events("Pod", start["metadata"]["resourceVersion"], original_is_gone, labelSelector="app=web")
    assert fewest_ready(start["items"], pods_seen) == 3
    assert sorted(names(web.pods("web"))) == sorted(["copy", *names(others)])

    web.rolled_out("web")
    for kind, version in since.items():
        web.patch(kind, name_of(web.list(kind)[0]), {"metadata": {"labels": {"mark": "last"}}})
        assert fewest_available(web.events(kind, version, is_marked)) == 3
    found = web.get("Deployment", "web")
    assert found["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == "1"
    assert found["metadata"]["generation"] == 1


def is_marked(event: Json) -> bool:
    return "mark" in event["object"]["metadata"]["labels"]


def test_the_replica_set_becomes_the_controller_of_the_copy(web: Space, nodes: list[str]) -> None:
    copy = make_copy(web, nodes[0])
    assert "ownerReferences" not in copy["metadata"]
    hand_over(web, web.pods("web")[-1])
    adopted = web.reaches("Pod", "copy", "is adopted", lambda pod: pod["metadata"].get("ownerReferences"))
    (owner,) = adopted["metadata"]["ownerReferences"]
    adopter = web.replica_set("web")
    assert (owner["kind"], owner["name"], owner["uid"]) == ("ReplicaSet", name_of(adopter), adopter["metadata"]["uid"])
    assert (owner["controller"], owner["blockOwnerDeletion"]) == (True, True)
    assert adopted["metadata"]["uid"] == copy["metadata"]["uid"]


def test_a_copy_without_the_label_is_left_alone(web: Space, nodes: list[str]) -> None:
    make_copy(web, nodes[0])
    web.reaches("PodDisruptionBudget", "web", "counts the copy", lambda pdb: healthy(pdb) == 4)
    assert web.replica_set("web")["status"]["replicas"] == 3
    assert "ownerReferences" not in web.get("Pod", "copy")["metadata"]
    assert len(web.pods("web")) == 4


def test_the_budget_that_allowed_nothing_allows_one_while_the_copy_is_there(web: Space, nodes: list[str]) -> None:
    assert web.get("PodDisruptionBudget", "web")["status"]["disruptionsAllowed"] == 0
    make_copy(web, nodes[0])
    web.reaches("PodDisruptionBudget", "web", "has room", lambda pdb: pdb["status"]["disruptionsAllowed"] == 1)


@pytest.mark.parametrize(
    ("limit", "allowed"),
    [({"maxUnavailable": 1}, (1, 2)), ({"maxUnavailable": "34%"}, (2, 3)), ({"minAvailable": "50%"}, (1, 2))],
)
def test_a_budget_that_needs_the_scale_counts_the_unmanaged_copy_as_healthy(
    web: Space, nodes: list[str], limit: dict[str, Any], allowed: tuple[int, int]
) -> None:
    web.delete("PodDisruptionBudget", "web")
    web.create(budget("relative", "web", **limit))
    before = web.reaches("PodDisruptionBudget", "relative", "counts", lambda pdb: healthy(pdb) == 3)["status"]
    make_copy(web, nodes[0])
    after = web.reaches("PodDisruptionBudget", "relative", "counts the copy", lambda pdb: healthy(pdb) == 4)["status"]
    assert after["expectedPods"] == before["expectedPods"] == 3
    assert (before["disruptionsAllowed"], after["disruptionsAllowed"]) == allowed


@pytest.mark.real_only  # it needs a ResourceQuota
def test_an_adopted_pod_deletes_nobody_where_the_replicas_have_grown_meanwhile(web: Space, nodes: list[str]) -> None:
    # The quota keeps the ReplicaSet from making the fourth pod itself, which it would do in no time.
    make_copy(web, nodes[0])
    fill_quota(web, 4)
    before = names(web.pods("web"))
    web.patch("Deployment", "web", {"spec": {"replicas": 4}})
    until("the ReplicaSet is scaled", lambda: web.replica_set("web")["spec"]["replicas"] == 4)
    hand_over(web, web.pods("web")[-1])
    web.rolled_out("web")
    assert names(web.pods("web")) == before


def test_a_pod_handed_over_before_its_min_ready_seconds_makes_availability_dip(space: Space, nodes: list[str]) -> None:
    space.create(deployment("web", 3, minReadySeconds=500))
    for name in names(space.exactly("web", 3)):
        ready_for_long(space, name)
    space.rolled_out("web")
    since = space.version("ReplicaSet")
    make_copy(space, nodes[0])
    hand_over(space, space.pods("web")[-1])

    def dips(found: Json) -> bool:
        """The copy is adopted, the original is gone, and one is not available."""
        return (found["status"]["replicas"], found["status"]["availableReplicas"]) == (3, 2)

    name = name_of(space.replica_set("web"))
    space.reaches("ReplicaSet", name, "dips", dips)
    assert "copy" in names(space.exactly("web", 3))
    ready_for_long(space, "copy")
    space.rolled_out("web")
    space.patch("ReplicaSet", name, {"metadata": {"labels": {"mark": "last"}}})
    assert fewest_available(space.events("ReplicaSet", since, is_marked)) == 2


@pytest.mark.real_only  # it needs a ResourceQuota
def test_a_quota_refuses_the_copy(web: Space, nodes: list[str]) -> None:
    fill_quota(web, 3)
    with refusal(403, "Forbidden") as refused:
        make_copy(web, nodes[0])
    assert "exceeded quota: full" in refused.message
    assert condition(web.get("Deployment", "web"), "Available")["status"] == "True"
