"""How many pods the controllers behind a budget's pods are scaled to.

A Deployment's pods count by the Deployment, whatever its ReplicaSets are at; others by whoever manages them, if that
can be scaled at all. DaemonSets and Jobs cannot: a budget that needs to know their scale allows nothing. `disruption`
asks; pods without a controller are its own business.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubemini.api import Api
from kubemini.kinds import DEPLOYMENT, REPLICA_SET, Kind
from kubemini.refusals import Json
from kubemini.scale import scale_of
from kubemini.store import Entry


class NoScale(Exception):  # noqa: N818  it is an answer: nobody can say
    """Nobody can say how many pods there should be; the message says why, as Kubernetes does."""


def expected_scale(api: Api, pods: Iterable[Entry]) -> int:
    """The scales of all distinct controllers of these pods, together."""
    first = {pod.controller.uid: pod for pod in pods if pod.controller is not None}
    scales: dict[str, int] = {}
    for pod in first.values():
        uid, replicas = _controller_scale(api, pod)
        scales[uid] = replicas
    return sum(scales.values())


def _controller_scale(api: Api, pod: Entry) -> tuple[str, int]:
    """Who counts for a pod, and what that one is scaled to."""
    owner = _managing(pod.object())
    kind = _kind(api, owner)
    if kind.resource == REPLICA_SET.resource:
        found = _deployment_of(api, pod.key[0], owner)
        if found is not None:
            return found
    if "scale" not in kind.subresources:
        raise NoScale(f"{kind.resource} does not implement the scale subresource")
    body = api.find(kind, (pod.key[0] if kind.namespaced else "", owner["name"]))
    if body is None or body["metadata"]["uid"] != owner["uid"]:
        raise NoScale(f'found no controllers for pod "{pod.key[1]}"')
    return owner["uid"], scale_of(body)["spec"].get("replicas", 0)


def _deployment_of(api: Api, namespace: str, reference: Json) -> tuple[str, int] | None:
    """The Deployment behind a ReplicaSet, and its scale."""
    replica_set = api.store.get(REPLICA_SET, (namespace, reference["name"]))
    if replica_set is None or replica_set.uid != reference["uid"] or replica_set.controller is None:
        return None
    owner = replica_set.controller
    body = api.find(DEPLOYMENT, (namespace, owner.name)) if owner.kind == DEPLOYMENT.name else None
    if body is None or body["metadata"]["uid"] != owner.uid:
        return None
    return owner.uid, body["spec"].get("replicas", 1)


def _managing(pod: Json) -> Json:
    references: list[Json] = pod["metadata"]["ownerReferences"]
    return next(each for each in references if each.get("controller"))


def _kind(api: Api, owner: Json) -> Kind:
    kind = api.kinds.named(owner["apiVersion"], owner["kind"])
    if kind is None:
        raise NoScale(f'no matches for kind "{owner["kind"]}" in version "{owner["apiVersion"]}"')
    return kind
