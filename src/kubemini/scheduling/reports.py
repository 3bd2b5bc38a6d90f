"""What the scheduler writes: bindings, nominations, the PodScheduled condition, and events.

Everything goes through the API like anybody's request. A refusal that says nothing new is not written again, so pods
that wait for long cost no writes and fill no event list.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from kubemini import clock
from kubemini.api import Api, Target
from kubemini.binding import bind
from kubemini.events import EventRecorder
from kubemini.kinds import CLAIM, POD
from kubemini.refusals import Json, Refusal
from kubemini.scheduling.ledger import SCHEDULER
from kubemini.store import Key
from rescheduler.model.marks import SELECTED_NODE
from rescheduler.model.objects import Pod

_log = logging.getLogger(__name__)
_NOTE = 1024  # the longest message of an event
_CONDITION = "PodScheduled"


class Reports:
    """The scheduler's words and deeds."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._events = EventRecorder(api.store, SCHEDULER)
        self._said: dict[Key, tuple[str, str, str]] = {}

    def forget(self, key: Key) -> None:
        """Nothing more will be said about a pod."""
        self._said.pop(key, None)

    async def bind(self, pod: Pod, node: str) -> None:
        """Bind a pod to its node; a Refusal says why that could not be."""
        binding = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid},
            "target": {"apiVersion": "v1", "kind": "Node", "name": node},
        }
        await bind(self._api, Target(POD, pod.namespace, pod.name, "binding"), binding)
        self._events.say(_about(pod), "Scheduled", f"Successfully assigned {pod.full_name} to {node}")

    async def refuse(self, pod: Pod, reason: str, message: str, *, renounce: bool) -> None:
        """Say why a pod has no node; `renounce` takes back its nomination."""
        key = (pod.namespace, pod.name)
        said = (pod.uid, reason, message)
        if self._said.get(key) == said and not renounce:
            return
        if self._said.get(key) != said:
            self._said[key] = said
            note = message if len(message) <= _NOTE else f"{message[: _NOTE - 4]} ..."
            self._events.say(_about(pod), "FailedScheduling", note, warning=True)

        def edit(status: Json, generation: int) -> None:
            _set_condition(status, generation, reason, message)
            if renounce:
                status.pop("nominatedNodeName", None)

        await self._edit_status(pod, edit)

    async def nominate(self, pod: Pod, node: str) -> None:
        """Let everybody see which node a pod is about to be bound to."""
        await self._edit_status(pod, lambda status, _: status.update(nominatedNodeName=node))

    async def select(self, claim: Key, node: str) -> None:
        """Have a claim's volume made where its pod will be."""

        def edit(body: Json) -> Json:
            body["metadata"].setdefault("annotations", {})[SELECTED_NODE] = node
            return body

        await self._api.edit(Target(CLAIM, *claim), edit)

    async def _edit_status(self, pod: Pod, edit: Callable[[Json, int], None]) -> None:
        def checked(body: Json) -> Json:
            if body["metadata"]["uid"] == pod.uid and not body["spec"].get("nodeName"):
                edit(body.setdefault("status", {}), body["metadata"].get("generation", 0))
            return body

        try:
            await self._api.edit(Target(POD, pod.namespace, pod.name, "status"), checked)
        except Refusal as refusal:
            if refusal.code != 404:  # it was deleted meanwhile
                _log.warning("the status of pod %s could not be written: %s", pod.full_name, refusal)


def _set_condition(status: Json, generation: int, reason: str, message: str) -> None:
    conditions = status.setdefault("conditions", [])
    before = next((each for each in conditions if each["type"] == _CONDITION), None)
    now = clock.stamp(clock.now())
    since = before["lastTransitionTime"] if before is not None and before["status"] == "False" else now
    condition = {
        "type": _CONDITION,
        "observedGeneration": generation,
        "status": "False",
        "lastProbeTime": None,
        "lastTransitionTime": since,
        "reason": reason,
        "message": message,
    }
    if before is None:
        conditions.append(condition)
    else:
        conditions[conditions.index(before)] = condition


def _about(pod: Pod) -> Json:
    metadata = {"namespace": pod.namespace, "name": pod.name, "uid": pod.uid}
    return {"apiVersion": POD.api_version, "kind": POD.name, "metadata": metadata}
