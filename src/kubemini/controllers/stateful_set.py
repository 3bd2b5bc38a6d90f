"""StatefulSets: pods with ordinals, one after the other, each with a name and claims that outlive it.

`stateful_turn` says and does what is next for one set; here changes become keys, pods and ControllerRevisions are
adopted or released, and the history is kept short.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubemini.api import Api
from kubemini.controllers.children import Family, everyone, selector_in
from kubemini.controllers.pod_state import PodStates
from kubemini.controllers.revisions import History
from kubemini.controllers.stateful_pods import Member, is_member, ordinal_of
from kubemini.controllers.stateful_turn import StatefulTurn
from kubemini.events import EventRecorder
from kubemini.kinds import CONTROLLER_REVISION, POD, STATEFUL_SET, Kind
from kubemini.refusals import Refusal
from kubemini.store import Change, Entry, Key


class StatefulSetController:
    """Keeps every StatefulSet at its pods."""

    name = "statefulset-controller"
    kinds: tuple[Kind, ...] = (STATEFUL_SET, POD, CONTROLLER_REVISION)

    def __init__(self, api: Api) -> None:
        self._api = api
        self._pods = Family(api, STATEFUL_SET, POD)
        self._revisions = Family(api, STATEFUL_SET, CONTROLLER_REVISION)
        self._history = History(api)
        self._states = PodStates()
        self._events = EventRecorder(api.store, self.name)

    def concerned(self, change: Change) -> Iterable[Key]:
        """The set itself; the one that has, had or may adopt a pod whose changed state counts."""
        if change.kind.name == STATEFUL_SET.name:
            self._revisions.parent_changed(change)
            return self._pods.parent_changed(change)
        if change.kind.name == CONTROLLER_REVISION.name:
            return self._revisions.child_changed(change)
        self._states.note(change)
        keys = list(self._pods.child_changed(change))
        return keys if keys and self._states.is_different(change) else ()

    async def reconcile(self, key: Key) -> float | None:
        """Take the next step of what a set wants, and tell how it stands."""
        body = self._api.find(STATEFUL_SET, key)
        selector = selector_in(body["spec"]) if body else None
        if body is None or selector is None:
            return None
        found = await self._revisions.claim(body, selector, everyone, everyone)
        pods = await self._pods.claim(body, selector, lambda pod: is_member(key[1], pod.key[1]), everyone)
        revisions = await self._history.revisions(body, [each.object() for each in found])
        members = [self._member(pod) for pod in pods]
        turn = StatefulTurn(self._api, self._events, body, revisions, members)
        failure: Refusal | None = None
        try:
            await turn.take()
        except Refusal as refusal:
            failure = refusal
        with self._pods.telling(key):
            status = await turn.tell()
        in_use = {status["currentRevision"], status["updateRevision"], *(each.revision for each in members)}
        await self._history.truncate(body, revisions, in_use)
        if failure is not None:
            raise failure
        return turn.next_check()

    def _member(self, pod: Entry) -> Member:
        ordinal = ordinal_of(pod.key[1])
        return Member(-1 if ordinal is None else ordinal, pod.key[1], pod, self._states.of(pod))
