"""The scheduler's rules between pods: required affinity with the first pod's exemption, anti-affinity both ways."""

from __future__ import annotations

from rescheduler.model.objects import Node, Pod
from rescheduler.model.shape import PodTerm
from tests.support.twin.world import World


def affinity_holds(world: World, pod: Pod, node: Node) -> bool:
    """PodAffinity: it may be there, because of others or as the first of its kind."""
    return beside_others(world, pod, node) or first_of_its_kind(world, pod, node)


def beside_others(world: World, pod: Pod, node: Node) -> bool:
    """Whether each term finds, in its domain, a pod that matches ALL the terms."""
    wanted = [(other, where) for other, where in world.placed() if _meets_all(world, pod, other)]
    return all(any(same_domain(node, where, term.topology_key) for _, where in wanted) for term in pod.shape.affinity)


def first_of_its_kind(world: World, pod: Pod, node: Node) -> bool:
    """The exemption: it is what it looks for, no such pod is in any domain yet, and the node is in all domains."""
    keys = [term.topology_key for term in pod.shape.affinity]
    if not _meets_all(world, pod, pod) or any(key not in node.labels for key in keys):
        return False
    return not any(
        _meets_all(world, pod, other) and any(key in where.labels for key in keys) for other, where in world.placed()
    )


def anti_affinity_holds(world: World, pod: Pod, node: Node) -> bool:
    """PodAntiAffinity: no pod in its domains that it shuns, and none that shuns it."""
    return not any(
        _shuns(world, (pod, other), (node, where)) or _shuns(world, (other, pod), (node, where))
        for other, where in world.placed()
    )


def same_domain(one: Node, other: Node, key: str) -> bool:
    """Whether both nodes have this key, and the same value for it."""
    return key in one.labels and key in other.labels and one.labels[key] == other.labels[key]


def _shuns(world: World, pods: tuple[Pod, Pod], nodes: tuple[Node, Node]) -> bool:
    holder, other = pods
    return any(
        _meets(world, holder, term, other) and same_domain(*nodes, term.topology_key)
        for term in holder.shape.anti_affinity
    )


def _meets_all(world: World, holder: Pod, other: Pod) -> bool:
    return all(_meets(world, holder, term, other) for term in holder.shape.affinity)


def _meets(world: World, holder: Pod, term: PodTerm, other: Pod) -> bool:
    if term.selector is None or not term.selector.matches(other.labels):
        return False
    if not term.namespaces and term.namespace_selector is None:
        return other.namespace == holder.namespace
    if other.namespace in term.namespaces:
        return True
    return term.namespace_selector is not None and term.namespace_selector.matches(
        _namespace_labels(world, other.namespace)
    )


def _namespace_labels(world: World, name: str) -> dict[str, str]:
    return {"kubernetes.io/metadata.name": name, **world.snapshot.namespaces.get(name, {})}
