"""DaemonSets: one pod on each node that the template is for, also on those that come later.

Nodes that come, go or change their labels and taints have every DaemonSet looked at again; so have its pods. What is
to be done is decided in `daemon_plan`, on which nodes in `daemon_nodes`, and what is a new template in
`daemon_revisions`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from kubemini.api import Api, Target
from kubemini.controllers.children import Family, everyone, selector_in
from kubemini.controllers.daemon_nodes import (
    DaemonMould,
    Eligibility,
    node_facts,
    target_node,
    template_generation,
)
from kubemini.controllers.daemon_plan import DaemonPod, Sight, Work, placement, rolling_update, status_of
from kubemini.controllers.daemon_revisions import DaemonRevisions
from kubemini.controllers.facts import Facts
from kubemini.controllers.pod_control import PodControl
from kubemini.controllers.pod_state import PodStates, now
from kubemini.events import EventRecorder
from kubemini.kinds import CONTROLLER_REVISION, DAEMON_SET, NODE, POD, Kind
from kubemini.refusals import Json, Refusal
from kubemini.store import Change, Entry, Key

_BURST = 250  # pods created or deleted before others have their turn, as in kube-controller-manager
_FIRST_BACKOFF, _LONGEST_BACKOFF = 1.0, 900.0


@dataclass
class _Backoff:
    """How long a pod that fails again and again on one node is left lying there."""

    delay: float
    since: float


class DaemonSetController:
    """Keeps every DaemonSet on its nodes."""

    name = "daemonset-controller"
    kinds: tuple[Kind, ...] = (DAEMON_SET, NODE, CONTROLLER_REVISION, POD)

    def __init__(self, api: Api) -> None:
        self._api = api
        self._store = api.store
        self._family = Family(api, DAEMON_SET, POD)
        self._revisions = DaemonRevisions(api)
        self._states = PodStates()
        self._pods = Facts(self._read_pod)
        self._nodes = Facts(node_facts)
        self._events = EventRecorder(api.store, self.name)
        self._control = PodControl(api, self._events)
        self._eligible: dict[Key, tuple[tuple[str, int], Eligibility]] = {}
        """By DaemonSet: its uid and generation, and which nodes that is for."""
        self._backoffs: dict[tuple[str, int, str], _Backoff] = {}
        """By DaemonSet, generation and node."""

    def concerned(self, change: Change) -> Iterable[Key]:
        """The DaemonSet itself, all of them when nodes change, the one that a pod or a revision belongs to."""
        match change.kind.name:
            case DAEMON_SET.name:
                if change.type == "DELETED":
                    self._forget(change.entry)
                else:
                    self._eligibility(change.entry)
                return self._family.parent_changed(change)
            case NODE.name:
                return list(self._eligible) if self._node_is_different(change) else ()
            case CONTROLLER_REVISION.name:
                keys = list(self._revisions.family.child_changed(change))
                return keys if change.type != "ADDED" or change.entry.controller is None else ()
            case _:
                keys = list(self._family.child_changed(change))
                different = bool(keys) and self._states.is_different(change)
                self._pods.note(change)
                self._states.note(change)
                return keys if different else ()

    async def reconcile(self, key: Key) -> float | None:
        """Bring pods and nodes together, one step of a rolling update if that is due, and tell how it stands."""
        body = self._api.find(DAEMON_SET, key)
        selector = selector_in(body["spec"]) if body else None
        if body is None or selector is None or "deletionTimestamp" in body["metadata"]:
            return None
        history = await self._revisions.history(body)
        claimed = await self._family.claim(body, selector, everyone, everyone)
        sight = self._sight(body, history.hashed, claimed)
        work = placement(sight)
        waits = list(self._held_back(sight, work))
        if not work and (body["spec"].get("updateStrategy") or {}).get("type") == "RollingUpdate":
            work = rolling_update(sight)
        failure: Refusal | None = None
        try:
            await self._do(sight, work)
            await self._revisions.clean(body, history, claimed)
        except Refusal as refusal:
            failure = refusal
        if work:
            sight = self._sight(body, history.hashed, self._family.of(body))
        await self._tell(sight)
        if failure is not None:
            raise failure
        return min([*waits, *self._becoming_available(sight)], default=None)

    def _sight(self, body: Json, revision: str, pods: Iterable[Entry]) -> Sight:
        metadata = body["metadata"]
        eligible = self._eligible[(metadata["namespace"], metadata["name"])][1]
        by_node: dict[str, list[DaemonPod]] = {}
        for entry in pods:
            pod = self._pods.of(entry)
            if pod.node and not (pod.state.finished and pod.state.deleting):
                by_node.setdefault(pod.node, []).append(pod)
        return Sight(body, revision, template_generation(body), eligible.nodes, by_node, now())

    def _read_pod(self, entry: Entry) -> DaemonPod:
        return DaemonPod(entry, self._states.of(entry), target_node(entry))

    def _eligibility(self, entry: Entry) -> None:
        """Decide on all nodes anew when the template may be another one."""
        body = entry.object()
        identity = (entry.uid, body["metadata"]["generation"])
        known = self._eligible.get(entry.key)
        if known is None or known[0] != identity:
            eligible = Eligibility(body["spec"]["template"])
            for node in self._store.entries(NODE):
                eligible.look_at(self._nodes.of(node))
            self._eligible[entry.key] = (identity, eligible)

    def _held_back(self, sight: Sight, work: Work) -> Iterator[float]:
        """Let go of failed pods, but not faster and faster: the seconds that those have to wait that must."""
        metadata = sight.body["metadata"]
        at = asyncio.get_running_loop().time()
        for pod in work.failed:
            place = (metadata["uid"], metadata["generation"], pod.node)
            known = self._backoffs.get(place)
            if known is not None and at < known.since + known.delay:
                yield known.since + known.delay - at
                continue
            forgotten = known is None or at > known.since + 2 * _LONGEST_BACKOFF
            delay = _FIRST_BACKOFF if known is None or forgotten else min(known.delay * 2, _LONGEST_BACKOFF)
            self._backoffs[place] = _Backoff(delay, at)
            message = f"Found failed daemon pod {'/'.join(pod.entry.key)} on node {pod.node}, will try to kill it"
            self._events.say(sight.body, "FailedDaemonPod", message, warning=True)
            work.delete.append(pod)
        work.failed.clear()

    async def _do(self, sight: Sight, work: Work) -> None:
        mould = DaemonMould(sight.body, sight.revision)
        for pod in work.delete:
            if pod.state.phase == "Succeeded":
                message = (
                    f"Found succeeded daemon pod {'/'.join(pod.entry.key)} on node {pod.node}, will try to delete it"
                )
                self._events.say(sight.body, "SucceededDaemonPod", message)
        await self._control.create(sight.body, [mould.pod(node) for node in work.create[:_BURST]])
        await self._control.delete(sight.body, [pod.entry for pod in work.delete[:_BURST]])

    async def _tell(self, sight: Sight) -> None:
        metadata = sight.body["metadata"]

        def told(newest: Json) -> Json:
            if newest["metadata"]["uid"] == metadata["uid"]:
                kept = {key: count for key, count in (newest.get("status") or {}).items() if key == "collisionCount"}
                newest["status"] = kept | status
            return newest

        status = status_of(sight) | {"observedGeneration": metadata["generation"]}
        before = sight.body.get("status") or {}
        if {key: count for key, count in before.items() if key != "collisionCount"} == status:
            return
        try:
            await self._api.edit(Target(DAEMON_SET, metadata["namespace"], metadata["name"], "status"), told)
        except Refusal as refusal:
            if refusal.code != 404:
                raise

    def _becoming_available(self, sight: Sight) -> Iterator[float]:
        for pods in sight.pods.values() if sight.min_ready else ():
            for pod in pods:
                if wait := pod.state.available_in(sight.min_ready, sight.at):
                    yield wait

    def _node_is_different(self, change: Change) -> bool:
        """Whether a DaemonSet would look at a node with other eyes; its heartbeats are nothing new."""
        known = self._nodes.last(change.entry)
        if change.type == "DELETED":
            self._nodes.note(change)
            for _, eligible in self._eligible.values():
                eligible.forget(change.entry.key[1])
            return True
        facts = self._nodes.of(change.entry)
        if known == facts:
            return False
        for _, eligible in self._eligible.values():
            eligible.look_at(facts)
        return True

    def _forget(self, entry: Entry) -> None:
        self._eligible.pop(entry.key, None)
        for place in [place for place in self._backoffs if place[0] == entry.uid]:
            del self._backoffs[place]
