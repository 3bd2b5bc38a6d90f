"""The scheduler's rules on claims and volumes: where they can be reached, which other pods use them, how many fit."""

from __future__ import annotations

from rescheduler.model.objects import Claim, Node, Pod
from tests.support.twin.world import World

NO_PROVISIONER = "kubernetes.io/no-provisioner"
BETA_ZONE, ZONE = "failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"
BETA_REGION, REGION = "failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"


def binding_holds(world: World, pod: Pod, node: Node) -> bool:
    """VolumeBinding: every claim is there, and its volume can be reached from the node or be made for it."""
    return all(_claim_reachable(world, _claim(world, pod, name), node) for name in pod.shape.claims)


def zones_hold(world: World, pod: Pod, node: Node) -> bool:
    """VolumeZone: the zone and region labels of bound volumes admit the node's; a node without any passes."""
    if not any(key in node.labels for key in (BETA_ZONE, BETA_REGION, ZONE, REGION)):
        return True
    for name in pod.shape.claims:
        claim = _claim(world, pod, name)
        volume = world.snapshot.volumes.get(claim.volume) if claim else None
        if volume is None:
            continue
        for key, modern in ((BETA_ZONE, ZONE), (BETA_REGION, REGION), (ZONE, ZONE), (REGION, REGION)):
            admitted = [part.strip() for part in volume.labels[key].split("__")] if key in volume.labels else []
            if not all(admitted) or not admitted:  # no label, or one with an empty part, says nothing
                continue
            if node.labels.get(key, node.labels.get(modern)) not in admitted:
                return False
    return True


def restrictions_hold(world: World, pod: Pod) -> bool:
    """VolumeRestrictions: no placed pod uses a claim that only one pod may use."""
    for name in pod.shape.claims:
        claim = _claim(world, pod, name)
        if claim is None or "ReadWriteOncePod" not in claim.access_modes:
            continue
        if any(other.namespace == pod.namespace and name in other.shape.claims for other, _ in world.placed()):
            return False
    return True


def limits_hold(world: World, pod: Pod, node: Node) -> bool:
    """NodeVolumeLimits: for each driver of volumes new to the node, they and those there are within its limit."""
    listed = world.snapshot.attach_limits.get(node.name)
    limits = dict(listed.limits) if listed else {}
    attached = {volume for other in world.pods_on(node.name) for volume in _attachments(world, other)}
    new = _attachments(world, pod) - attached
    for driver in {driver for driver, _ in new} & set(limits):
        if len([volume for volume in attached | new if volume[0] == driver]) > limits[driver]:
            return False
    return True


def _claim(world: World, pod: Pod, name: str) -> Claim | None:
    return world.snapshot.claims.get((pod.namespace, name))


def _claim_reachable(world: World, claim: Claim | None, node: Node) -> bool:
    if claim is None:
        return False
    if not claim.volume:
        return _can_be_made(world, claim, node)
    volume = world.snapshot.volumes.get(claim.volume)
    if volume is None:
        return False
    terms = volume.node_affinity
    return terms is None or any(term.matches(node.labels, node.name) for term in terms)


def _can_be_made(world: World, claim: Claim, node: Node) -> bool:
    """Whether a volume would be made for the node: the class waits for it, has a provisioner, and may be there."""
    found = world.snapshot.storage_classes.get(claim.storage_class)
    if found is None or not found.wait_for_consumer or found.provisioner in ("", NO_PROVISIONER):
        return False
    return not found.topologies or any(term.matches(node.labels, node.name) for term in found.topologies)


def _attachments(world: World, pod: Pod) -> set[tuple[str, str]]:
    """Driver and handle of all that this pod attaches."""
    claims = [_claim(world, pod, name) for name in pod.shape.claims]
    found = [_attachment(world, claim) for claim in claims if claim is not None]
    return {(driver, handle) for driver, handle in found if driver and handle}


def _attachment(world: World, claim: Claim) -> tuple[str, str]:
    volume = world.snapshot.volumes.get(claim.volume)
    if volume is not None:
        return volume.driver, volume.handle
    made_by = world.snapshot.storage_classes.get(claim.storage_class)
    return (made_by.provisioner if made_by else ""), f"claim {claim.namespace}/{claim.name}"
