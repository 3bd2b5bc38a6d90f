"""The Eviction API: what a budget refuses, what it doesn't protect, and what becomes of an evicted pod.

The fifth and sixth facts of our design: two budgets on one pod refuse for ever; a spent one answers 429, come again.
"""

from __future__ import annotations

import contextlib
from concurrent.futures import ThreadPoolExecutor

import pytest

from rescheduler.model.json import Json
from tests.support.both_clusters import Space, condition, is_ready, name_of, names, refusal
from tests.support.manifests import budget, deployment, gated, pod, simulated
from tests.testbed.api import ApiError

IN_SERVICE = "contract.test/in-service"


@pytest.fixture
def web(space: Space, nodes: list[str]) -> Space:
    """A Deployment of three, whose pods end only when they must, and a budget that is full."""
    space.create(simulated(deployment("web", 3), ends_in="600"))
    space.rolled_out("web")
    set_budget(space, minAvailable=3)
    return space


def set_budget(space: Space, **limit: object) -> Json:
    """A new budget for `web`, as soon as its numbers hold."""
    if space.find("PodDisruptionBudget", "web"):
        space.delete("PodDisruptionBudget", "web")
    space.create(budget("web", "web", **limit))
    return space.reaches(
        "PodDisruptionBudget", "web", "is observed", lambda pdb: pdb.get("status", {}).get("expectedPods")
    )


def allowed(space: Space, count: int) -> Json:
    """The budget's status, as soon as it allows so many."""

    def allows(pdb: Json) -> bool:
        return bool(pdb["status"]["disruptionsAllowed"] == count)

    status: Json = space.reaches("PodDisruptionBudget", "web", f"allows {count}", allows)["status"]
    return status


def is_leaving(space: Space, name: str) -> bool:
    return "deletionTimestamp" in space.get("Pod", name)["metadata"]


def test_a_spent_budget_answers_429_and_says_which_budget_it_is(web: Space) -> None:
    (first, *_) = names(web.pods("web"))
    with refusal(429, "TooManyRequests") as refused:
        web.evict(first)
    (cause,) = refused.error.causes
    assert cause["reason"] == "DisruptionBudget"
    assert cause["message"] == "The disruption budget web needs 3 healthy pods and has 3 currently"
    assert refused.message == "Cannot evict pod as it would violate the pod's disruption budget."
    # How long to wait nobody knows: it is said only where the budget's own numbers are not up to date.
    assert "Retry-After" not in refused.error.headers
    assert not is_leaving(web, first)


def test_an_allowed_eviction_spends_the_budget_until_the_pod_is_replaced(space: Space, nodes: list[str]) -> None:
    first, second, _ = behind_a_gate(space, passed=3)
    set_budget(space, minAvailable=2)
    allowed(space, 1)
    assert space.evict(first)["status"] == "Success"
    assert is_leaving(space, first)
    with refusal(429, "TooManyRequests"):
        space.evict(second)
    (new,) = {pod for pod in names(space.exactly("web", 3, "Running")) if not is_ready(space.get("Pod", pod))}
    allowed(space, 0)
    pass_gate(space, new)
    allowed(space, 1)  # though the first one has not ended
    assert is_leaving(space, first)
    space.evict(second)
    assert is_leaving(space, second)


def test_of_evictions_at_once_only_as_many_succeed_as_the_budget_allows(space: Space, nodes: list[str]) -> None:
    pods = behind_a_gate(space, replicas=6, passed=6)
    set_budget(space, minAvailable=4)
    allowed(space, 2)
    with ThreadPoolExecutor(len(pods)) as threads:
        outcomes = list(threads.map(lambda pod: outcome(space, pod), pods))
    assert sorted(outcomes) == ["Success"] * 2 + ["TooManyRequests"] * 4
    assert sum(is_leaving(space, pod) for pod in pods) == 2


def outcome(space: Space, pod: str) -> str:
    """How an eviction over a connection of its own ends."""
    with contextlib.closing(space.api.another()) as api:
        try:
            return str(Space(space.cluster, space.name, api).evict(pod)["status"])
        except ApiError as refused:
            return refused.reason


def test_an_evicted_pod_has_its_grace_and_says_that_it_was_evicted(web: Space) -> None:
    web.delete("PodDisruptionBudget", "web")
    first, second, _ = names(web.pods("web"))
    web.evict(first)
    web.evict(second, gracePeriodSeconds=17)
    for name, grace in ((first, 30), (second, 17)):
        found = web.get("Pod", name)
        assert found["metadata"]["deletionGracePeriodSeconds"] == grace
        target = condition(found, "DisruptionTarget")
        assert (target["status"], target["reason"]) == ("True", "EvictionByEvictionAPI")
        assert condition(found, "Ready")["status"] == "True"


def test_a_pod_that_two_budgets_select_cannot_be_evicted(web: Space) -> None:
    set_budget(web, maxUnavailable=3)
    web.create(budget("second", "web", maxUnavailable=3))
    web.reaches(
        "PodDisruptionBudget", "second", "counts", lambda pdb: pdb.get("status", {}).get("disruptionsAllowed") == 3
    )
    (first, *_) = names(web.pods("web"))
    with refusal(500, "") as refused:
        web.evict(first)
    assert "more than one PodDisruptionBudget" in refused.message
    web.delete("PodDisruptionBudget", "second")
    assert web.evict(first)["status"] == "Success"


def test_a_dry_run_answers_alike_and_evicts_nobody(web: Space) -> None:
    (first, *_) = names(web.pods("web"))
    with refusal(429, "TooManyRequests"):
        web.evict(first, dryRun=["All"])
    set_budget(web, minAvailable=2)
    allowed(web, 1)
    for _ in range(2):
        assert web.evict(first, dryRun=["All"])["status"] == "Success"
    assert not is_leaving(web, first)
    assert allowed(web, 1)["currentHealthy"] == 3


def test_an_eviction_meant_for_another_uid_conflicts(web: Space) -> None:
    web.delete("PodDisruptionBudget", "web")
    (first, *_) = names(web.pods("web"))
    with refusal(409, "Conflict"):
        web.evict(first, preconditions={"uid": "somebody-else"})
    assert not is_leaving(web, first)
    web.evict(first, preconditions={"uid": web.get("Pod", first)["metadata"]["uid"]})
    assert is_leaving(web, first)


def test_an_eviction_meant_for_another_uid_spends_the_budget_all_the_same(web: Space) -> None:
    set_budget(web, minAvailable=2)
    allowed(web, 1)
    first, second, _ = names(web.pods("web"))
    with refusal(409, "Conflict"):
        web.evict(first, preconditions={"uid": "somebody-else"})
    # Kubernetes takes note of the disruption before it deletes, and forgets it after two minutes.
    assert list(allowed(web, 0)["disruptedPods"]) == [first]
    with refusal(429, "TooManyRequests"):
        web.evict(second)


def test_an_eviction_of_a_pod_that_is_not_there_finds_nothing(web: Space) -> None:
    with refusal(404, "NotFound"):
        web.evict("nobody")


def test_a_pod_that_already_leaves_may_be_evicted_again(web: Space) -> None:
    (first, *_) = names(web.pods("web"))
    web.delete("Pod", first)
    assert web.evict(first, gracePeriodSeconds=25)["status"] == "Success"
    assert web.get("Pod", first)["metadata"]["deletionGracePeriodSeconds"] == 25


def test_no_budget_holds_a_pod_that_has_not_started(web: Space) -> None:
    web.create(gated("pending", labels={"app": "web"}))
    assert web.evict("pending")["status"] == "Success"
    web.gone("Pod", "pending")


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_no_budget_holds_a_pod_that_has_ended(web: Space, phase: str) -> None:
    (first, *_) = names(web.pods("web"))
    web.patch_status("Pod", first, {"phase": phase})
    assert web.evict(first)["status"] == "Success"
    web.gone("Pod", first)


def behind_a_gate(space: Space, *, replicas: int = 3, passed: int) -> list[str]:
    """Pods behind a readiness gate, which only the first so many of them have passed."""
    made = simulated(deployment("web", replicas), ends_in="600")
    gate = {"readinessGates": [{"conditionType": IN_SERVICE}], "terminationGracePeriodSeconds": 600}
    made["spec"]["template"]["spec"] |= gate
    space.create(made)
    pods = names(space.exactly("web", replicas, "Running"))
    for name in pods[:passed]:
        pass_gate(space, name)
    return pods


def pass_gate(space: Space, name: str) -> None:
    space.patch_status("Pod", name, {"conditions": [{"type": IN_SERVICE, "status": "True"}]}, "strategic")
    space.ready(name)


def counts(space: Space, healthy: int) -> None:
    space.reaches("PodDisruptionBudget", "web", "counts", lambda pdb: pdb["status"]["currentHealthy"] == healthy)


def test_an_unready_pod_may_go_where_enough_others_are_healthy(space: Space, nodes: list[str]) -> None:
    ready, _, unready = behind_a_gate(space, passed=2)
    set_budget(space, minAvailable=2)
    counts(space, 2)
    with refusal(429, "TooManyRequests"):
        space.evict(ready)
    assert space.evict(unready)["status"] == "Success"


def test_an_unready_pod_stays_where_too_few_are_healthy_unless_the_budget_always_allows_it(
    space: Space, nodes: list[str]
) -> None:
    ready, _, unready = behind_a_gate(space, passed=1)
    set_budget(space, minAvailable=2)
    counts(space, 1)
    with refusal(429, "TooManyRequests"):
        space.evict(unready)
    set_budget(space, minAvailable=2, unhealthyPodEvictionPolicy="AlwaysAllow")
    counts(space, 1)
    with refusal(429, "TooManyRequests"):
        space.evict(ready)
    assert space.evict(unready)["status"] == "Success"


def test_a_bare_pod_may_be_evicted_and_is_gone(space: Space, nodes: list[str]) -> None:
    name = name_of(space.runs(pod("bare")))
    space.evict(name)
    space.gone("Pod", name)
