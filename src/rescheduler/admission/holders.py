"""Who keeps the record of a pod's failures: the top of its owners, as far as the cache knows them.

`knowledge` asks it for every newcomer. A workload that was made a moment ago may not be known yet when its first pods
are; Deployments and CronJobs are then told by the names that they give.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from rescheduler.decode.cache import Cache
from rescheduler.kube.record_owner import asks, known_above, workload_of
from rescheduler.model import marks
from rescheduler.model.advice import Newcomer
from rescheduler.model.objects import NOTHING, Owner, Pod


class Holder(NamedTuple):
    """Who keeps the record, and the annotations that say so."""

    kind: str
    name: str
    annotations: Mapping[str, str]
    retries: bool
    """Whether pods are to be rescheduled when they fail: pod, controller or holder say how often."""

    @property
    def record(self) -> str:
        """The text of the record; empty if there is none."""
        return self.annotations.get(marks.FAILURES, "")


def holder_of(newcomer: Newcomer, cache: Cache) -> Holder:
    """Of a pod that nobody manages it is the pod itself, or who has its name; of any other its top owner."""
    asked = asks(newcomer.annotations)
    owner = newcomer.owner
    if owner is None:
        notes = newcomer.annotations
        if marks.FAILURES not in notes:
            row: Pod | None = cache.row("Pod", (newcomer.namespace, newcomer.name)) if newcomer.name else None
            notes = row.annotations if row is not None and row.owner is None else NOTHING
        return Holder("Pod", newcomer.name or newcomer.generate_name, notes, asked)
    namespace = newcomer.namespace
    controller = top = workload_of(cache, namespace, owner)
    above = controller.owner if controller is not None else _guessed_above(newcomer, cache)
    if controller is not None:
        asked = asked or asks(controller.annotations)
    if above is not None and known_above(cache, namespace, owner.kind, above):
        top = workload_of(cache, namespace, above)  # the copy of a Deployment's record is never the record
    if top is None:
        return Holder(owner.kind, owner.name, NOTHING, asked)
    return Holder(top.kind, top.name, top.annotations, asked or asks(top.annotations))


def _guessed_above(newcomer: Newcomer, cache: Cache) -> Owner | None:
    """Who made a controller that is not known yet: a Deployment adds the template's hash, a CronJob minutes."""
    owner = newcomer.owner
    if owner is None:
        return None
    name, _, ending = owner.name.rpartition("-")
    if owner.kind == "ReplicaSet" and name and ending == newcomer.labels.get(marks.TEMPLATE_HASH):
        kind = "Deployment"
    elif owner.kind == "Job" and name and ending.isdecimal():
        kind = "CronJob"
    else:
        return None
    known = cache.row(owner.kind, (owner.kind, newcomer.namespace, owner.name)) is not None
    return None if known else Owner(kind, name)  # known, and yet another one: of that nothing can be told
