"""A cluster to which everything has happened: what each strategy looks for, in places, laid over a snapshot.

`together` plans it beside the tidy one, in which most strategies find nothing to do. The same snapshot and the same
seed give the same cluster.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import msgspec

from rescheduler.model import labels
from rescheduler.model.objects import ContainerState, Node, Pod, PodFailure, PodHealth
from rescheduler.model.shape import Taint
from rescheduler.model.snapshot import ClusterSnapshot
from tests.bench.skewed import ZONES

ZONE = "topology.kubernetes.io/zone"
_NODES = 100  # of so many nodes one is under maintenance, one is tainted, one loses its label, one changes its zone
_PODS = 200  # of so many pods one has failed, one restarts for ever, one is old
_PENDING = 100
_DAY = 86_400.0


def disturbed(snapshot: ClusterSnapshot, seed: int) -> ClusterSnapshot:
    """The snapshot with some of its nodes and pods in trouble, and pods that wait for room."""
    dice = random.Random(seed)
    nodes = [_node(node, dice.randrange(_NODES), dice) for node in snapshot.nodes]
    pods = [_pod(pod, dice.randrange(_PODS)) for pod in snapshot.pods]
    everybody = sorted([*_crowded(pods), *_waiting(snapshot.pods)], key=lambda pod: (pod.namespace, pod.name))
    taken_at = max(pod.created or 0.0 for pod in pods) + _DAY / 2
    return replace(snapshot, nodes=tuple(nodes), pods=tuple(everybody), taken_at=taken_at)


def _node(node: Node, lot: int, dice: random.Random) -> Node:
    if lot == 0:
        return msgspec.structs.replace(node, labels={**node.labels, labels.MAINTENANCE: "true"})
    if lot == 1:
        return msgspec.structs.replace(node, taints=(*node.taints, Taint("broken", "yes", "NoSchedule")))
    if lot == 2:
        return msgspec.structs.replace(node, labels={k: v for k, v in node.labels.items() if k != "disk"})
    if lot == 3:
        return msgspec.structs.replace(node, labels={**node.labels, ZONE: dice.choice(ZONES)})
    return node


def _pod(pod: Pod, lot: int) -> Pod:
    if pod.owner is None or pod.owner.kind == "DaemonSet":
        return pod
    if lot == 0:
        return msgspec.structs.replace(pod, phase="Failed", ready=False, trouble=PodHealth(reason="Evicted"))
    if lot == 1:
        waits = PodHealth(restarts=500, states=(ContainerState("CrashLoopBackOff"),))
        return msgspec.structs.replace(pod, ready=False, ailment=PodFailure("CrashLoopBackOff", 500), trouble=waits)
    if lot == 2:
        return msgspec.structs.replace(pod, created=(pod.created or 0.0) - 2 * _DAY)
    return pod


def _crowded(pods: list[Pod]) -> Iterator[Pod]:
    """In one of twenty workloads whose pods keep apart, the second pod stands where the first does."""
    seen: dict[str, Pod] = {}
    met: defaultdict[str, int] = defaultdict(int)
    for pod in pods:
        app = pod.labels.get("app", "")
        if pod.shape.anti_affinity and pod.node:
            first = seen.setdefault(app, pod)
            met[app] += 1
            if met[app] == 2 and len(seen) % 20 == 0:
                yield msgspec.structs.replace(pod, node=first.node)
                continue
        yield pod


def _waiting(pods: Sequence[Pod]) -> list[Pod]:
    """Pods that no scheduler has placed: half of them are as large as the largest that runs, half fit nowhere."""
    largest = max((pod for pod in pods if pod.owner), key=lambda pod: pod.shape.requests)
    huge = msgspec.structs.replace(largest.shape, requests=(("cpu", 28_000), ("memory", 2**33)))
    bare = msgspec.structs.replace(largest, node="", held=(), owner=None, phase="Pending", ready=False, labels={})
    shapes = (largest.shape, huge)
    return [
        msgspec.structs.replace(bare, name=f"waits-{n}", uid=f"waits-{n}", shape=shapes[n % 2]) for n in range(_PENDING)
    ]
