"""The numbers of a PodDisruptionBudget: from them the planner reckons how much may be disturbed."""

from __future__ import annotations

from typing import Any

import pytest

from rescheduler.model.json import Json
from tests.support.both_clusters import Space, condition, name_of, refusal
from tests.support.manifests import budget, deployment, pod, replica_set, simulated

NUMBERS = ("expectedPods", "currentHealthy", "desiredHealthy", "disruptionsAllowed")


def numbers(found: Json) -> tuple[int, ...]:
    status = found.get("status", {})
    return tuple(int(status.get(each, -1)) for each in NUMBERS)


def settles(space: Space, name: str, *wanted: int) -> Json:
    return space.reaches("PodDisruptionBudget", name, f"says {wanted}", lambda pdb: numbers(pdb) == wanted)


@pytest.fixture
def web(space: Space, nodes: list[str]) -> Space:
    space.create(deployment("web", 5))
    space.rolled_out("web")
    return space


@pytest.mark.parametrize(
    ("limit", "desired"),
    [
        ({"minAvailable": 4}, 4),
        ({"minAvailable": 0}, 0),
        ({"minAvailable": 7}, 7),
        ({"minAvailable": "50%"}, 3),  # 2.5: what must stay is rounded up
        ({"minAvailable": "100%"}, 5),
        ({"maxUnavailable": 2}, 3),
        ({"maxUnavailable": 0}, 5),
        ({"maxUnavailable": "30%"}, 3),  # 1.5: what may go is rounded up too
        ({"maxUnavailable": "10%"}, 4),
    ],
    ids=str,
)
def test_what_must_stay_healthy_follows_from_the_limit(web: Space, limit: dict[str, Any], desired: int) -> None:
    web.create(budget("web", "web", **limit))
    found = settles(web, "web", 5, 5, desired, max(0, 5 - desired))
    assert found["status"]["observedGeneration"] == found["metadata"]["generation"] == 1
    says = condition(found, "DisruptionAllowed")
    expected = ("True", "SufficientPods") if desired < 5 else ("False", "InsufficientPods")
    assert (says["status"], says["reason"]) == expected


def test_a_changed_limit_is_observed(web: Space) -> None:
    web.create(budget("web", "web", minAvailable=4))
    settles(web, "web", 5, 5, 4, 1)
    web.patch("PodDisruptionBudget", "web", {"spec": {"minAvailable": 2}})
    assert settles(web, "web", 5, 5, 2, 3)["status"]["observedGeneration"] == 2


def test_pods_that_are_not_ready_are_expected_but_not_healthy(space: Space, nodes: list[str]) -> None:
    space.create(simulated(deployment("web", 3), starts_in="600"))
    space.create(budget("web", "web", minAvailable=1))
    settles(space, "web", 3, 0, 1, 0)


def test_the_scale_of_the_controllers_counts_not_the_pods_there_are(space: Space, nodes: list[str]) -> None:
    unmet = replica_set("set", 4)
    unmet["spec"]["template"]["spec"]["nodeSelector"] = {"nowhere": "at-all"}
    space.create(unmet)
    space.create(budget("set", "set", maxUnavailable=1))
    settles(space, "set", 4, 0, 3, 0)


def test_a_pod_that_leaves_is_not_healthy_any_more(web: Space) -> None:
    web.create(budget("web", "web", minAvailable=1))
    settles(web, "web", 5, 5, 1, 4)
    web.create(simulated(pod("extra", labels={"app": "web"}), ends_in="600"))
    settles(web, "web", 6, 6, 1, 5)
    web.delete("Pod", "extra")
    settles(web, "web", 6, 5, 1, 4)


def test_a_pod_that_has_ended_is_still_expected_but_not_healthy(web: Space) -> None:
    web.create(budget("web", "web", minAvailable=1))
    web.runs(pod("extra", labels={"app": "web"}))
    settles(web, "web", 6, 6, 1, 5)
    ended = {"phase": "Succeeded", "conditions": [{"type": "Ready", "status": "False", "reason": "PodCompleted"}]}
    web.patch_status("Pod", "extra", ended, "strategic")
    settles(web, "web", 6, 5, 1, 4)


def test_a_budget_without_pods_allows_nothing(space: Space) -> None:
    space.create(budget("nobody", "nobody", maxUnavailable=1))
    settles(space, "nobody", 0, 0, 0, 0)


def test_an_empty_selector_selects_every_pod_of_the_namespace(space: Space, nodes: list[str]) -> None:
    for name in ("a", "b"):
        space.runs(pod(name))
    space.create(budget("all", "", minAvailable=1) | {"spec": {"minAvailable": 1, "selector": {}}})
    settles(space, "all", 2, 2, 1, 1)


@pytest.mark.real_only
def test_a_limit_is_either_what_stays_or_what_goes(space: Space) -> None:
    with refusal(422, "Invalid"):
        space.create(budget("both", "web", minAvailable=1, maxUnavailable=1))
    for wrong in ("fifty", "101x", -1):
        with refusal(422, "Invalid"):
            space.create(budget("wrong", "web", minAvailable=wrong))
    assert name_of(space.create(budget("neither", "web"))) == "neither"
