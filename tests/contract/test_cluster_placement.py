"""Gate, nominate, ungate: how a pod lands on a chosen node, checked by the scheduler, with nothing left in its spec.

The second fact of our design. What the gate and the nomination each do alone is here too.
"""

from __future__ import annotations

from tests.support.both_clusters import Space, condition, refusal
from tests.support.manifests import GATE, gated, on, pod
from tests.testbed.processes import until


def nominate(space: Space, name: str, node: str) -> None:
    space.patch_status("Pod", name, {"nominatedNodeName": node})


def ungate(space: Space, name: str) -> None:
    space.patch("Pod", name, {"spec": {"schedulingGates": None}})


def filled(space: Space, node: str, cpu: str) -> None:
    space.runs(pod(f"filler-{node}", cpu=cpu, nodeSelector=on(node)))


def test_a_nominated_pod_lands_on_its_node_though_others_are_emptier(space: Space, nodes: list[str]) -> None:
    fullest = nodes[2]
    filled(space, fullest, "3500m")
    space.create(gated("chosen", cpu="400m"))
    nominate(space, "chosen", fullest)
    ungate(space, "chosen")
    assert space.bound("chosen") == fullest


def test_each_of_many_nominated_pods_lands_on_its_own_node(space: Space, nodes: list[str]) -> None:
    wanted = {f"pod-{number}": nodes[number % 2] for number in range(12)}
    for name, node in wanted.items():
        space.create(gated(name, cpu="300m"))
        nominate(space, name, node)
    for name in wanted:
        ungate(space, name)
    assert {name: space.bound(name) for name in wanted} == wanted


def test_a_gated_pod_waits_and_says_so(space: Space, nodes: list[str]) -> None:
    space.create(gated("waiting"))
    found = space.reaches("Pod", "waiting", "says that it is gated", lambda pod: condition(pod, "PodScheduled"))
    said = condition(found, "PodScheduled")
    assert (said["status"], said["reason"]) == ("False", "SchedulingGated")
    assert found["status"]["phase"] == "Pending"
    # Whoever came after it is bound long before it.
    space.create(pod("later"))
    space.bound("later")
    assert "nodeName" not in space.get("Pod", "waiting")["spec"]


def test_a_pod_with_two_gates_waits_for_both(space: Space, nodes: list[str]) -> None:
    space.create(pod("waiting", schedulingGates=[{"name": GATE}, {"name": "contract.test/other"}]))
    space.patch("Pod", "waiting", {"spec": {"schedulingGates": [{"name": "contract.test/other"}]}})
    space.create(pod("later"))
    space.bound("later")
    assert "nodeName" not in space.get("Pod", "waiting")["spec"]
    ungate(space, "waiting")
    space.ready("waiting")


def test_a_nomination_leaves_nothing_in_the_spec(space: Space, nodes: list[str]) -> None:
    space.create(gated("nominated"))
    space.create(pod("plain", nodeSelector=on(nodes[1])))
    nominate(space, "nominated", nodes[1])
    ungate(space, "nominated")
    nominated, plain = space.ready("nominated")["spec"], space.ready("plain")["spec"]
    assert nominated["nodeName"] == nodes[1]
    assert set(nominated) == set(plain) - {"nodeSelector"}
    assert "schedulingGates" not in nominated


def test_a_nomination_reserves_its_room_while_the_pod_is_gated(space: Space, nodes: list[str]) -> None:
    (node, *_) = nodes
    space.create(gated("reserving", cpu="3"))
    nominate(space, "reserving", node)
    until("it is nominated", lambda: space.get("Pod", "reserving")["status"].get("nominatedNodeName") == node)
    space.create(pod("rival", cpu="3", nodeSelector=on(node)))
    assert "Insufficient cpu" in space.refused("rival")
    # What fits beside both is let in.
    space.create(pod("modest", cpu="500m", nodeSelector=on(node)))
    assert space.bound("modest") == node
    ungate(space, "reserving")
    assert space.bound("reserving") == node


def test_the_room_is_free_again_when_the_gated_pod_goes(space: Space, nodes: list[str]) -> None:
    (node, *_) = nodes
    space.create(gated("reserving", cpu="3"))
    nominate(space, "reserving", node)
    space.create(pod("rival", cpu="3", nodeSelector=on(node)))
    space.refused("rival")
    space.delete("Pod", "reserving")
    assert space.bound("rival") == node


def test_a_rival_of_a_higher_priority_takes_the_reserved_room(space: Space, nodes: list[str]) -> None:
    (node, *_) = nodes
    space.create(gated("reserving", cpu="3"))
    nominate(space, "reserving", node)
    space.create(pod("rival", cpu="3", nodeSelector=on(node), priorityClassName="system-cluster-critical"))
    assert space.bound("rival") == node


def test_a_pod_whose_nominated_node_has_no_room_goes_elsewhere(space: Space, nodes: list[str]) -> None:
    full, *others = nodes
    filled(space, full, "3800m")
    space.create(gated("moving", cpu="500m"))
    nominate(space, "moving", full)
    ungate(space, "moving")
    assert space.bound("moving") in others


def test_a_pod_whose_nominated_node_is_not_there_goes_elsewhere(space: Space, nodes: list[str]) -> None:
    space.create(gated("moving"))
    nominate(space, "moving", "nowhere")
    ungate(space, "moving")
    assert space.bound("moving") in nodes


def test_a_pod_whose_nominated_node_is_cordoned_goes_elsewhere(space: Space, nodes: list[str]) -> None:
    closed, *others = nodes
    with space.cordoned(closed):
        space.shunned(closed)
        space.create(gated("moving"))
        nominate(space, "moving", closed)
        ungate(space, "moving")
        assert space.bound("moving") in others


def test_a_gate_can_be_taken_off_but_never_added(space: Space, nodes: list[str]) -> None:
    space.create(gated("gated"))
    with refusal(422, "Invalid") as refused:
        space.patch("Pod", "gated", {"spec": {"schedulingGates": [{"name": GATE}, {"name": "contract.test/new"}]}})
    assert refused.fields[0].startswith("spec.schedulingGates")
    space.create(pod("open"))
    with refusal(422, "Invalid"):
        space.patch("Pod", "open", {"spec": {"schedulingGates": [{"name": GATE}]}})


def test_a_gated_pod_may_not_name_its_node(space: Space, nodes: list[str]) -> None:
    with refusal(422, "Invalid") as refused:
        space.create(gated("gated", nodeName=nodes[0]))
    assert refused.fields == ["spec.nodeName"]


def test_the_placement_of_a_gated_pod_may_be_narrowed(space: Space, nodes: list[str]) -> None:
    space.create(gated("gated"))
    space.patch("Pod", "gated", {"spec": {"nodeSelector": on(nodes[3])}})
    ungate(space, "gated")
    assert space.bound("gated") == nodes[3]


def test_a_pod_that_fits_nowhere_is_bound_when_room_appears(space: Space, nodes: list[str]) -> None:
    (node, *_) = nodes
    filled(space, node, "3")
    space.create(pod("waiting", cpu="2", nodeSelector=on(node)))
    message = space.refused("waiting")
    assert message.startswith("0/4 nodes are available: 1 Insufficient cpu, 3 node(s) didn't match")
    space.delete("Pod", f"filler-{node}")
    assert space.bound("waiting") == node
