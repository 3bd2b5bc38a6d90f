"""A whole world from a seed: nodes, the pods that stand there, and the candidates that are asked about.

Half of the candidates carry one kind of rule, and are harmless otherwise, so that each predicate is seen alone; the
others carry several. Pods that stand there are put on their nodes without being asked, so nodes may hold more than
they have, and claims for one pod may have two: the scheduler must be agreed with there as well.

Pods that are only nominated to a node hold room, ports and volumes there, and no rule selects them, because about
rules there is a difference: the scheduler asks twice, with and without those that are nominated to the very node, while
a plan counts every nominated pod as placed. All pods have one priority, so no pod is preempted.
"""

from __future__ import annotations

import copy

from rescheduler.model.json import Json
from tests.contract.agreement import nodes, storage
from tests.contract.agreement.rules import RULES, Ground
from tests.contract.agreement.world import FATE, HOLD, Dice, World

HELD = {"NodeResourcesFit": 30, "NodeVolumeLimits": 30, "VolumeRestrictions": 20}
CARRIED = {"PodAntiAffinity": 5, "PodTopologySpread": 5, "PodAffinity": 5}
"""How likely it is, in percent, that a pod that runs there holds something, or carries a rule about others."""

Port = tuple[str, int]
FATES = ("terminating", "Succeeded", "Failed", "pending", "nominated", "resized")


def roll_world(seed: int, version: str, candidates: int = 33) -> World:
    """Always the same for the same seed."""
    dice = Dice(seed)
    world = World(f"w{seed}")
    names = [f"{world.name}-n{number}" for number in range(dice.number(5, 8))]
    hosts = [nodes.roll_node(dice, name, number, version) for number, name in enumerate(names)]
    spaces = nodes.namespaces(world.name)
    shelf = storage.Shelf(dice, world.name, names)
    ground = Ground(dice, world.name, names, [made["metadata"]["name"] for made in spaces[:-1]], shelf, version)
    taken: dict[str, set[Port]] = {name: set() for name in names}
    pods = [_existing(ground, number, taken) for number in range(dice.number(16, 30))]
    kinds = list(RULES)
    world.candidates = [_candidate(ground, number, kinds[number % len(kinds)]) for number in range(candidates)]
    csinodes = [nodes.roll_csinode(dice, name) for name in names if not dice.chance(15)]
    world.objects = [*spaces, *nodes.runtime_classes(world.name), *hosts, *csinodes, *shelf.objects(), *pods]
    return world


def _pod(ground: Ground, name: str) -> Json:
    dice = ground.dice
    labels = {"role": dice.pick(("web", "db", "cache"))}
    if dice.chance(60):
        labels["tier"] = dice.pick(("front", "back"))
    if dice.chance(60):
        labels["version"] = dice.pick(("1", "2"))
    container = {"name": "main", "image": "hollow:1", "resources": {"requests": {"cpu": "10m", "memory": "10Mi"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": name,
            "namespace": dice.pick(ground.namespaces),
            "labels": labels,
            "annotations": {},
        },
        "spec": {"containers": [container], "automountServiceAccountToken": False},
    }


def _existing(ground: Ground, number: int, taken: dict[str, set[Port]]) -> Json:
    """A pod on a node, with rules of its own: those on other pods and what it holds count for the next."""
    dice = ground.dice
    pod = _pod(ground, f"p{number}")
    name = dice.pick(ground.nodes)
    fate = dice.pick(FATES) if dice.chance(25) else ""
    if fate == "nominated":
        pod["metadata"] |= {"namespace": f"{ground.world}-{nodes.GUESTS}", "labels": {"role": "guest"}}
    else:
        pod["spec"]["nodeName"] = name
    for kind, percent in (HELD if fate == "nominated" else HELD | CARRIED).items():
        if dice.chance(percent):
            RULES[kind](ground, pod)
    if dice.chance(35):
        _take_ports(ground, pod, taken[name])
    if fate:
        pod["metadata"]["annotations"][FATE] = fate
    if fate == "nominated":
        pod["metadata"]["annotations"][FATE] = f"nominated {name}"
        pod["spec"]["schedulingGates"] = [{"name": "agreement.test/stays-pending"}]
    # Or the node controller would evict it from nodes with a NoExecute taint while we look.
    pod["spec"]["tolerations"] = [{"operator": "Exists", "effect": "NoExecute"}]
    return pod


def _take_ports(ground: Ground, pod: Json, taken: set[Port]) -> None:
    """Host ports, if they are free on that node: where two have one and one of them ends, the scheduler takes the
    port for free, because it keeps a set of them and counts no holders. No scheduler brings that about.
    """
    before = copy.deepcopy(pod["spec"])
    RULES["NodePorts"](ground, pod)
    containers = [*pod["spec"]["containers"], *pod["spec"].get("initContainers", ())]
    ports = [port for container in containers for port in container.get("ports", ())]
    wanted = {(port.get("protocol", "TCP"), port.get("hostPort", port["containerPort"])) for port in ports}
    if wanted & taken:
        pod["spec"] = before
    else:
        taken |= wanted


def _candidate(ground: Ground, number: int, kind: str) -> Json:
    dice = ground.dice
    pod = _pod(ground, f"c{number}")
    if not dice.chance(15):
        pod["spec"]["tolerations"] = [{"operator": "Exists"}]
    kinds = [kind] if dice.chance(70) else dict.fromkeys([kind, *dice.some(list(RULES), 1, 2)])
    for each in kinds:
        RULES[each](ground, pod)
    if any(claim.startswith(storage.WAITING) for claim in claims_of(pod)):
        pod["metadata"]["annotations"][HOLD] = "true"
    return pod


def claims_of(pod: Json) -> list[str]:
    return [volume["persistentVolumeClaim"]["claimName"] for volume in pod["spec"].get("volumes", ())]
