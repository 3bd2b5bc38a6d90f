"""Broken anti-affinity is found rule by rule, and is what the predicate would refuse pod by pod."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings

from rescheduler.model.policy import Policy
from rescheduler.model.snapshot import ClusterSnapshot
from rescheduler.planning.planner import Planner
from rescheduler.planning.view import View
from rescheduler.strategies.pod_anti_affinity import AntiAffinityViolation, find_violations
from tests.support.examples import examples
from tests.support.generated import clusters


@given(clusters(min_pods=4))
@settings(max_examples=examples(few=15, many=150))
def test_the_pods_in_clashes_are_those_that_could_not_come_where_they_are(snapshot: ClusterSnapshot) -> None:
    staying = tuple(pod for pod in snapshot.pods if not pod.deleting and not pod.nominated)
    view = Planner(replace(snapshot, pods=staying), Policy()).view
    found = {pod for clash in find_violations(view) for pod in clash.rule_owners | clash.matched if clash.count(pod)}
    assert found == {pod for pod in range(len(staying)) if "PodAntiAffinity" in refused_at_home(view, pod)}


def refused_at_home(view: View, pod: int) -> set[str]:
    """The predicates that would refuse the pod on its own node, if it came there now."""
    node = int(view.at[pod])
    if node < 0:
        return set()
    with view.whatif.trial():
        view.whatif.remove(pod, node)
        return view.feasibility.refused_by(pod, node)


def test_a_pod_is_in_no_conflict_with_itself() -> None:
    assert AntiAffinityViolation("", {1}, {1, 2}).count(1) == 1
    assert AntiAffinityViolation("", {1}, {1, 2}).count(2) == 1
    assert AntiAffinityViolation("", {1, 2}, {1, 2}).count(1) == 2


def test_when_a_pod_has_left_it_is_in_no_conflict_any_more() -> None:
    clash = AntiAffinityViolation("", {1, 2}, {1, 2, 3})
    clash.leave(1)
    assert (clash.count(1), clash.count(2), clash.count(3)) == (0, 1, 1)
