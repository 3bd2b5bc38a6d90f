"""What is left on a node under maintenance: what will go, what will not and why, and what belongs there."""

from __future__ import annotations

import msgspec

from rescheduler.model import labels
from rescheduler.model.policy import Policy
from rescheduler.planning.maintenance import DrainStatus, drain_statuses
from rescheduler.planning.settings import StrategySettings
from rescheduler.strategies.node_maintenance import NodeMaintenance
from tests.support.builders import NOW, Row, cluster, daemonset, deployment, node, pdb, pod, statefulset

STAGE = [node("a", maintenance=True), node("b")]


def outlook(*rows: Row | list[Row]) -> DrainStatus:
    (found,) = drain_statuses(cluster(STAGE, *rows), Policy(), [NodeMaintenance(StrategySettings())], ["a"])
    return found


def test_pods_of_daemonsets_and_of_the_node_itself_stay() -> None:
    found = outlook(daemonset("agent", on=["a", "b"]), pod("static", on="a", annotations={labels.MIRROR: "x"}))
    assert (found.remaining, found.staying) == ((), 2)


def test_pods_that_can_go_are_still_to_move_and_nothing_holds_them() -> None:
    found = outlook(deployment("web", on=["a", "a", "b"]))
    assert [pod.reason for pod in found.remaining] == ["", ""]
    assert found.stuck == ()


def test_pods_that_have_ended_are_in_nobodys_way() -> None:
    assert outlook(pod("done", on="a", phase="Succeeded")).remaining == ()


def test_a_pod_that_is_ending_is_there_until_it_is_gone() -> None:
    (ending,) = outlook(pod("ending", on="a", phase="Succeeded", deleting=True)).remaining
    assert not ending.lasting


def test_a_guard_that_nobody_lifts_bars_a_pod_and_is_named() -> None:
    found = outlook(pod("dns", on="a", namespace="kube-system"))
    (barred,) = found.stuck
    assert barred.full_name == "kube-system/dns"
    assert barred.reason == "namespace kube-system is in excludedNamespaces (ExcludedNamespace)"


def test_a_guard_that_time_lifts_only_delays() -> None:
    (young,) = outlook(pod("young", on="a", age=5)).remaining
    assert "minPodAge" in young.reason
    assert not young.lasting


def test_a_mark_that_holds_for_a_while_only_delays() -> None:
    kept = pod("kept", on="a", annotations={labels.DO_NOT_DISRUPT: "4h"})
    (found,) = outlook(msgspec.structs.replace(kept, started=NOW - 60)).remaining
    assert "is 4h, and the pod started at" in found.reason
    assert not found.lasting
    (found,) = outlook(pod("kept", on="a", annotations={labels.DO_NOT_DISRUPT: "true"})).remaining
    assert found.lasting


def test_a_young_pod_with_a_lasting_objection_is_barred_at_once() -> None:
    (young,) = outlook(pod("young", on="a", age=5, labels={labels.RESCHEDULING: "disabled"})).remaining
    assert young.lasting


def test_a_spent_budget_and_a_full_cluster_are_told_but_may_pass() -> None:
    full: list[Row] = [pod("huge", on="a", cpu=4), pod("there", on="b", cpu=1)]
    found = outlook(statefulset("db", on=["a", "b"]), pdb("db", allowed=0), full)
    told = {pod.pod: (pod.reason, pod.lasting) for pod in found.remaining}
    assert told["db-0"] == ("disruption budget db allows no disruption (DisruptionBudget)", False)
    assert told["huge"][0].startswith("0/1 other nodes: 1 NodeResourcesFit")


def test_the_plans_limit_does_not_count() -> None:
    found = outlook([pod(f"p{index}", on="a", cpu="10m") for index in range(30)])
    assert {pod.reason for pod in found.remaining} == {""}
