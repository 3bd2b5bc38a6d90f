"""What must be so at the moment of acting: the target, the budgets, and the other pods of a StatefulSet."""

from __future__ import annotations

import pytest

from rescheduler.migration.lifecycle import Lifecycle
from rescheduler.migration.observation import budget_shortfall, unready_sibling
from rescheduler.migration.rollback import Mark
from rescheduler.migration.steps.common import CheckBudgets, Do, Done, GiveUp, Step, Wait
from rescheduler.migration.steps.copy import CopyPod, EvictOriginal, Ungate
from rescheduler.migration.steps.evict import Evict, PauseDeployment, Protect
from rescheduler.migration.steps.handoff import Cheapen, CopyTemplate, HandOver
from rescheduler.model import labels
from rescheduler.model.json import Json
from rescheduler.model.plan import Method
from tests.unit.migration.scenes import (
    budget,
    copy_of,
    deployment,
    leaving,
    migration,
    node,
    pod,
    replica_set,
    scene,
    stateful_set,
)

EVICT = migration(Method.EVICT)
CORDONED = node() | {"spec": {"unschedulable": True}}
UNFIT = {
    "node two is gone": None,
    "node two is being deleted": leaving(node()),
    "node two is cordoned": CORDONED,
    "node two is not Ready": node(ready=False),
    "node two is under maintenance": node(labels={labels.MAINTENANCE: "true"}),
}
ACTING: list[tuple[Step, Method, tuple[Json, ...]]] = [
    (Mark(), Method.HANDOFF, ()),
    (CopyTemplate(), Method.HANDOFF, ()),
    (CopyPod(), Method.COPY, ()),
    (Cheapen(), Method.HANDOFF, (copy_of(),)),
    (HandOver(), Method.HANDOFF, (copy_of(),)),
    (EvictOriginal(30), Method.COPY, (copy_of(),)),
    (Protect({"minAvailable": 1}), Method.EVICT, ()),
    (PauseDeployment(), Method.EVICT, ()),
    (Evict(30), Method.EVICT, ()),
]


def gated() -> Json:
    body = copy_of()
    body["spec"] = {"schedulingGates": [{"name": labels.GATE}], "containers": []}
    return body


@pytest.mark.parametrize("why", list(UNFIT))
def test_nothing_is_begun_towards_a_target_that_cannot_take_the_pod(why: str) -> None:
    for step, method, copies in ACTING:
        found = step.look(scene(migration(method), *copies, target=UNFIT[why]))
        assert found == GiveUp(why), step.name
    assert Ungate().look(scene(migration(), gated(), target=UNFIT[why])) == GiveUp(why)


def test_an_eviction_without_a_target_asks_for_none() -> None:
    assert isinstance(Evict(30).look(scene(migration(Method.EVICT, target=""), target=None)), Do)


def test_what_is_past_its_point_of_return_goes_on_though_the_target_is_cordoned() -> None:
    labelled = copy_of(ownerReferences=[{"kind": "ReplicaSet", "uid": "rs-uid", "controller": True}])
    assert HandOver().look(scene(migration(), labelled, pod=leaving(pod()), target=CORDONED)) == Done()
    assert Evict(30).look(scene(EVICT, pod=leaving(pod()), target=CORDONED)) == Done()


@pytest.mark.parametrize("method", [Method.EVICT, Method.COPY])
def test_the_budget_is_looked_at_before_anything_is_marked(method: Method) -> None:
    spent = budget(allowed=0)
    spent["status"] |= {"currentHealthy": 1, "desiredHealthy": 2}
    decision = Lifecycle().advance(scene(migration(method), budgets=(spent,)))
    assert (decision.status.step, decision.commands) == ("CheckBudgets", ())
    assert decision.status.message == "budget web allows no disruption now"
    assert Lifecycle().advance(scene(migration(method), budgets=(budget(),))).status.step == "Mark"


def test_a_handoff_asks_no_budget() -> None:
    assert "CheckBudgets" not in Lifecycle().steps(Method.HANDOFF)


def test_a_budget_that_the_copy_itself_will_satisfy_does_not_hold_a_copy_up() -> None:
    just_enough = budget(allowed=0)
    just_enough["status"] |= {"currentHealthy": 1, "desiredHealthy": 1}
    assert CheckBudgets(spare=1).look(scene(migration(Method.COPY), budgets=(just_enough,))) == Done()
    assert isinstance(CheckBudgets(spare=0).look(scene(EVICT, budgets=(just_enough,))), Wait)


def test_two_budgets_end_the_move_before_it_begins() -> None:
    outlook = CheckBudgets(spare=0).look(scene(EVICT, budgets=(budget("a"), budget("b"))))
    assert outlook == GiveUp("budgets a, b all select it, so Kubernetes evicts it never", retry=False)


@pytest.mark.parametrize(
    ("policy", "healthy", "waits"), [("AlwaysAllow", 0, False), (None, 2, False), (None, 1, True), (None, 0, True)]
)
def test_a_pod_that_is_not_ready_may_go_as_kubernetes_lets_it(policy: str | None, healthy: int, waits: bool) -> None:
    spent, unready = budget(allowed=0), pod(ready=False)
    spent["spec"] |= {"unhealthyPodEvictionPolicy": policy} if policy else {}
    spent["status"] |= {"currentHealthy": healthy, "desiredHealthy": 2}
    assert isinstance(CheckBudgets(spare=0).look(scene(EVICT, pod=unready, budgets=(spent,))), Wait) == waits
    assert isinstance(Evict(30).look(scene(EVICT, pod=unready, budgets=(spent,))), Wait) == waits


def test_pods_of_a_stateful_set_go_one_at_a_time() -> None:
    seen: Json = {"controller": stateful_set(), "deployment": None}
    for step in (Protect({"minAvailable": 1}), Evict(30)):
        assert isinstance(step.look(scene(EVICT, **seen)), Do)
        unready = step.look(scene(EVICT, **seen, siblings=(pod(), pod("web-b", ready=False))))
        assert unready == Wait("StatefulSet web-1: web-b is not Ready, and its pods go one at a time")
        goes = step.look(scene(EVICT, **seen, siblings=(pod(), leaving(pod("web-b")))))
        assert isinstance(goes, Wait)
        missing = step.look(scene(EVICT, **seen, siblings=(pod(),)))
        assert missing == Wait("StatefulSet web-1 has 1 pods and wants 2")
    sick = pod(ready=False)
    assert isinstance(Evict(30).look(scene(EVICT, **seen, pod=sick, siblings=(sick, pod("web-b")))), Do)


def test_the_only_pod_of_a_stateful_set_waits_for_nobody() -> None:
    found = scene(EVICT, controller=stateful_set(1), deployment=None, siblings=(pod(),))
    assert isinstance(Evict(30).look(found), Do)


def test_a_second_original_of_a_replica_set_is_not_made_cheap_while_the_first_is_to_go() -> None:
    cheap = pod("web-b", annotations={labels.COST_BEFORE: "", labels.DELETION_COST: "-2147483647"})
    waits = Cheapen().look(scene(migration(), copy_of(), siblings=(pod(), cheap)))
    assert waits == Wait("web-b is being handed off, and would be deleted in the original's place")
    three = (pod(), pod("web-c"), leaving(cheap))
    assert isinstance(Cheapen().look(scene(migration(), copy_of(), siblings=three)), Do)


def test_a_label_is_not_given_while_another_original_is_to_go() -> None:
    cheap = pod("web-b", annotations={labels.COST_BEFORE: "", labels.DELETION_COST: "-2147483647"})
    assert isinstance(HandOver().look(scene(migration(), copy_of(), siblings=(pod(), cheap))), Wait)


def test_a_second_original_waits_while_the_copy_of_the_first_is_one_too_many() -> None:
    adopted = pod("copy-b", annotations={labels.ORIGINAL_POD: "gone", labels.WITHHELD: "{}"})
    three = (pod(), pod("web-b"), adopted)
    waits = Cheapen().look(scene(migration(), copy_of(), controller=replica_set(), siblings=three))
    assert isinstance(waits, Wait)


def test_a_paused_deployment_of_somebody_else_is_never_touched_for_an_unfit_target() -> None:
    owners = deployment(paused=True)
    assert PauseDeployment().look(scene(EVICT, deployment=owners, target=CORDONED)) == Done()


def test_an_eviction_of_somebody_else_counts_before_the_healthy_are_counted_anew() -> None:
    shared = budget()
    for allowed, healthy, short in ((1, 5, False), (0, 5, True), (0, 4, True)):
        shared["status"] |= {"disruptionsAllowed": allowed, "currentHealthy": healthy, "desiredHealthy": 4}
        assert bool(budget_shortfall(scene(migration(Method.HANDOFF), budgets=(shared,)))) is short


def test_a_pod_of_a_stateful_set_that_crashes_need_not_wait_for_its_fellows() -> None:
    crashing = pod(ready=False)
    state = {"waiting": {"reason": "CrashLoopBackOff"}}
    crashing["status"]["containerStatuses"] = [{"name": "main", "restartCount": 7, "state": state}]
    others = (crashing, pod("web-b", ready=False))
    seen: Json = {"controller": stateful_set(3), "deployment": None, "siblings": others}
    assert not unready_sibling(scene(migration(Method.EVICT), pod=crashing, **seen))
    state["waiting"]["reason"] = "ContainerCreating"
    assert unready_sibling(scene(migration(Method.EVICT), pod=crashing, **seen))
    assert unready_sibling(scene(migration(Method.EVICT), **seen))


def test_a_temporary_budget_lets_pods_go_that_are_not_ready() -> None:
    made = Protect({"minAvailable": 1}).look(scene(migration(Method.EVICT)))
    assert isinstance(made, Do)
    assert isinstance(made.commands[0].body, dict)
    assert made.commands[0].body["spec"]["unhealthyPodEvictionPolicy"] == "AlwaysAllow"
