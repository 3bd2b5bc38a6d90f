"""How DaemonSets and Jobs make and delete their pods: in batches, with an event for each.

The first refusal ends it for this time, and is raised when its batch is over. In a namespace that is going away
nothing can be made, and nobody complains.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from kubemini.api import Api, Deletion, Target
from kubemini.controllers.batches import in_growing_batches
from kubemini.events import EventRecorder
from kubemini.kinds import NAMESPACE, POD
from kubemini.refusals import Json, Refusal
from kubemini.store import Entry


class PodControl:
    """Makes and deletes pods in the name of one controller."""

    def __init__(self, api: Api, events: EventRecorder) -> None:
        self._api = api
        self._store = api.store
        self._events = events

    async def create(self, owner: Json, pods: Sequence[Json]) -> None:
        """Make these pods for an owner."""
        await in_growing_batches([partial(self._create, owner, pod) for pod in pods])

    async def delete(self, owner: Json, pods: Sequence[Entry]) -> None:
        """Delete these pods of an owner, if they are still there."""
        await in_growing_batches([partial(self._delete, owner, pod) for pod in pods])

    async def _create(self, owner: Json, pod: Json) -> None:
        namespace = owner["metadata"]["namespace"]
        try:
            made = await self._api.create(Target(POD, namespace), pod)
        except Refusal as refusal:
            there = self._store.get(NAMESPACE, ("", namespace))
            if there is None or there.deleting:
                return
            self._events.say(owner, "FailedCreate", f"Error creating: {refusal}", warning=True)
            raise
        self._events.say(owner, "SuccessfulCreate", f"Created pod: {made['metadata']['name']}")

    async def _delete(self, owner: Json, pod: Entry) -> None:
        try:
            await self._api.delete(Target(POD, *pod.key), Deletion(uid=pod.uid))
        except Refusal as refusal:
            there = self._store.get(POD, pod.key)
            if there is None or there.uid != pod.uid:
                return
            self._events.say(owner, "FailedDelete", f"Error deleting: {refusal}", warning=True)
            raise
        self._events.say(owner, "SuccessfulDelete", f"Deleted pod: {pod.key[1]}")
