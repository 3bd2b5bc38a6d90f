"""ControllerRevisions of StatefulSets: what their template was, so that pods of an older one can still be made.

`stateful_set` asks for the current and the update revision. Each keeps the template as a patch, as
kube-controller-manager writes it; going back to an older template renumbers the revision that has it, and beyond
revisionHistoryLimit the oldest that no pod needs are deleted.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

import msgspec

from kubemini.api import Api, Target
from kubemini.controllers.children import controller_reference
from kubemini.controllers.templates import text_hash
from kubemini.kinds import CONTROLLER_REVISION
from kubemini.refusals import Json, Refusal

HASH_LABEL = "controller.kubernetes.io/hash"
_LONGEST_PREFIX = 223

_encode = msgspec.json.Encoder(order="deterministic").encode


@dataclass(frozen=True)
class Revisions:
    """The two revisions that the pods of a set may have, and all that there are."""

    current: Json
    update: Json
    collisions: int
    every: Sequence[Json]
    """From old to new; without one that was made just now."""


class History:
    """Keeps the revisions of StatefulSets."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def revisions(self, body: Json, found: Sequence[Json]) -> Revisions:
        """The revisions of a set; one for its template is made if there is none."""
        every = sorted(found, key=_age)
        status = body.get("status", {})
        data = _data(body)
        number = 1 + (every[-1]["revision"] if every else 0)
        collisions: int = status.get("collisionCount", 0)
        equal = [each for each in every if each.get("data") == data]
        if equal and equal[-1] is every[-1]:
            update = every[-1]
        elif equal:
            update = await self._renumber(equal[-1], number)
        else:
            update, collisions = await self._create(body, data, number, collisions)
        named = status.get("currentRevision")
        current = next((each for each in every if name_of(each) == named), update)
        return Revisions(current, update, collisions, every)

    async def truncate(self, body: Json, revisions: Revisions, in_use: AbstractSet[str]) -> None:
        """Delete the oldest revisions that are not in use, beyond those that are kept."""
        past = [each for each in revisions.every if name_of(each) not in in_use]
        kept: int = body["spec"].get("revisionHistoryLimit", 10)
        for each in past[: max(len(past) - kept, 0)]:
            await self._api.delete(_target(each))

    async def _renumber(self, revision: Json, number: int) -> Json:
        return await self._api.edit(_target(revision), lambda newest: newest | {"revision": number})

    async def _create(self, body: Json, data: Json, number: int, collisions: int) -> tuple[Json, int]:
        """The new revision, and how many names were found taken by others so far."""
        metadata = body["metadata"]
        while True:
            hashed = text_hash(_encode(data), collisions)
            name = f"{metadata['name'][:_LONGEST_PREFIX]}-{hashed}"
            made: Json = {
                "metadata": {
                    "name": name,
                    "labels": {**body["spec"]["template"]["metadata"].get("labels", {}), HASH_LABEL: hashed},
                    "ownerReferences": [controller_reference(body)],
                },
                "data": copy.deepcopy(data),
                "revision": number,
            }
            if metadata.get("annotations"):
                made["metadata"]["annotations"] = dict(metadata["annotations"])
            try:
                return await self._api.create(Target(CONTROLLER_REVISION, metadata["namespace"]), made), collisions
            except Refusal as refusal:
                if refusal.reason != "AlreadyExists":
                    raise
            there = self._api.find(CONTROLLER_REVISION, (metadata["namespace"], name))
            if there is not None and there.get("data") == data:
                return there, collisions
            collisions += 1


def name_of(revision: Json) -> str:
    """What pods carry as the label of their revision."""
    name: str = revision["metadata"]["name"]
    return name


def template_in(revision: Json) -> Json:
    """The template that a revision keeps."""
    template: Json = revision["data"]["spec"]["template"]
    return {key: part for key, part in template.items() if key != "$patch"}


def _data(body: Json) -> Json:
    return {"spec": {"template": {**body["spec"]["template"], "$patch": "replace"}}}


def _age(revision: Json) -> tuple[int, str, str]:
    metadata = revision["metadata"]
    return (revision["revision"], metadata.get("creationTimestamp", ""), metadata["name"])


def _target(revision: Json) -> Target:
    return Target(CONTROLLER_REVISION, revision["metadata"]["namespace"], name_of(revision))
