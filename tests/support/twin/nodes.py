"""The rules between a pod and one node: our own, and the scheduler's on taints, labels, room and ports."""

from __future__ import annotations

from rescheduler.model.objects import Node, Pod
from rescheduler.model.shape import HostPort, Requests
from tests.support.twin.world import World, held_on

_REMOVAL = {
    *("ToBeDeletedByClusterAutoscaler", "DeletionCandidateOfClusterAutoscaler"),
    *("karpenter.sh/disrupted", "karpenter.sh/disruption"),
}
_PLATFORM = ("kubernetes.io/arch", "kubernetes.io/os")


def own_rules(node: Node) -> set[str]:
    """Which of our own rules keep every pod off this node."""
    rules = {
        "NodeNotReady": not node.ready,
        "NodeUnschedulable": node.unschedulable,
        "ControlPlane": node.control_plane,
        "Maintenance": node.maintenance,
        "NodeDeleting": node.deleting,
        "NodeProblem": bool(node.problem),
        "NodeBeingRemoved": any(taint.key in _REMOVAL for taint in node.taints),
    }
    return {name for name, broken in rules.items() if broken}


def tolerates_taints(pod: Pod, node: Node) -> bool:
    """TaintToleration: every taint that forbids scheduling is tolerated by some toleration."""
    forbidding = [taint for taint in node.taints if taint.effect in ("NoSchedule", "NoExecute")]
    return all(any(toleration.tolerates(taint) for toleration in pod.shape.tolerations) for taint in forbidding)


def matches_affinity(pod: Pod, node: Node) -> bool:
    """NodeAffinity: the node selector holds, and so does one of the required terms, if there is such a list."""
    if any(node.labels.get(key) != value for key, value in pod.shape.node_selector):
        return False
    terms = pod.shape.node_affinity
    return terms is None or any(term.matches(node.labels, node.name) for term in terms)


def platform_fits(world: World, pod: Pod, node: Node) -> bool:
    """NodePlatform: architecture and system are those of the pod's own node, unless unknown, or named by the pod."""
    own = next((each for each in world.snapshot.nodes if each.name == pod.node), None)
    terms = pod.shape.node_affinity or ()
    named = {key for key, _ in pod.shape.node_selector} | {each.key for term in terms for each in term.expressions}
    return own is None or all(
        key in named or key not in own.labels or node.labels.get(key, own.labels[key]) == own.labels[key]
        for key in _PLATFORM
    )


def room(world: World, pod: Pod, node: Node) -> bool:
    """NodeResourcesFit: one more pod may run there, and what it requests is free."""
    pods = world.pods_on(node.name)
    if len(pods) + 1 > _amount(node.allocatable, "pods"):
        return False
    for resource, asked in pod.shape.requests:
        used = sum(_amount(held_on(other, node.name), resource) for other in pods)
        if asked > 0 and asked > _amount(node.allocatable, resource) - used:
            return False
    return True


def ports_free(world: World, pod: Pod, node: Node) -> bool:
    """NodePorts: no pod there takes one of its host ports."""
    taken = [port for other in world.pods_on(node.name) for port in other.shape.host_ports]
    return not any(_clash(mine, theirs) for mine in pod.shape.host_ports for theirs in taken)


def _amount(listed: Requests, resource: str) -> int:
    return dict(listed).get(resource, 0)


def _clash(one: HostPort, other: HostPort) -> bool:
    """The same protocol and port, on the same address or where either takes all; no address means all, no port none."""
    if one.port <= 0 or (one.protocol or "TCP", one.port) != (other.protocol or "TCP", other.port):
        return False
    addresses = {one.ip or "0.0.0.0", other.ip or "0.0.0.0"}
    return len(addresses) == 1 or "0.0.0.0" in addresses
