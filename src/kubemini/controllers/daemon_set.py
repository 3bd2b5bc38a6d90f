"""DaemonSets: one pod on each node that the template is for, also on nodes that come later.

A daemon pod tolerates what nodes suffer from (not ready, unreachable, pressure, unschedulable). The scheduler binds it
like any other pod: a required node affinity names its node. A new template is rolled out by deleting old pods, as many
as may be unavailable. There is no surge.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from kubemini.api import Api
from kubemini.controllers.controller_refs import ControllerRefManager
from kubemini.controllers.pods import (
    NODE_NAME,
    REVISION_HASH,
    PodControl,
    PodState,
    PodStates,
    PodTemplate,
    hash_template,
    scale_value,
    seconds_now,
)
from kubemini.controllers.revisions import RevisionHistory
from kubemini.controllers.writes import write_status
from kubemini.events import EventRecorder
from kubemini.kinds import DAEMON_SET, NODE, POD, Kind
from kubemini.refusals import Json, Refusal
from kubemini.selectors import node_terms, taints_of, terms_match, toleration, workload_selector
from kubemini.store import Change, Entry, Key

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_FIELD = "metadata.name"
_TOLERATED = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)


class Fit(NamedTuple):
    """Whether a node gets a daemon pod, and whether it keeps one."""

    run: bool
    keep: bool


class NodeFilter:
    """Decides which nodes a template is for."""

    def __init__(self, template: Json) -> None:
        spec = template.get("spec") or {}
        self._terms = node_terms(((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED))
        self._labels = (spec.get("nodeSelector") or {}).items()
        self._tolerations = [toleration(each) for each in daemon_tolerations(spec)]

    def check(self, node: Entry) -> Fit:
        """Whether a node gets or keeps a pod."""
        if not self._labels <= node.labels.items() or not terms_match(self._terms, node.labels, node.key[1]):
            return Fit(run=False, keep=False)
        effects = {
            taint.effect for taint in taints_of(node.object()) if not any(t.tolerates(taint) for t in self._tolerations)
        }
        return Fit(run=not effects & {"NoSchedule", "NoExecute"}, keep="NoExecute" not in effects)


@dataclass(frozen=True, eq=False)
class _DaemonPod:
    entry: Entry
    state: PodState
    node: str
    """The node that it is on, or is meant for."""

    @property
    def age(self) -> tuple[bool, float, str]:
        """Of several pods on a node the first stays: bound ones first, then the oldest."""
        return (not self.entry.fields[NODE_NAME], self.state.created, self.entry.key[1])


@dataclass
class _View:
    """A DaemonSet with its nodes and pods, at one moment."""

    body: Json
    revision: str
    fits: dict[str, Fit]
    pods: dict[str, list[_DaemonPod]]
    """By node, the one that stays first."""
    now: float
    create: list[str] = field(default_factory=list)
    """Nodes that get a pod."""
    delete: list[_DaemonPod] = field(default_factory=list)

    @property
    def min_ready(self) -> int:
        seconds: int = self.body["spec"].get("minReadySeconds") or 0
        return seconds

    def is_available(self, pod: _DaemonPod) -> bool:
        return pod.state.available(self.min_ready, self.now)

    def is_updated(self, pod: _DaemonPod) -> bool:
        return pod.entry.labels.get(REVISION_HASH) == self.revision


class DaemonSetController:
    """Keeps every DaemonSet on its nodes."""

    name = "daemonset-controller"
    kinds: tuple[Kind, ...] = (DAEMON_SET, NODE, POD)

    def __init__(self, api: Api) -> None:
        self._api = api
        self._store = api.store
        self._refs = ControllerRefManager(api, DAEMON_SET, POD)
        self._states = PodStates()
        self._events = EventRecorder(api.store, self.name)
        self._control = PodControl(api, self._events)
        self._history = RevisionHistory(api)

    def keys_for(self, change: Change) -> Iterable[Key]:
        """The DaemonSet itself, that of a pod, and all of them when a node comes, goes or changes."""
        if change.kind.name == DAEMON_SET.name:
            return self._refs.owner_changed(change)
        if change.kind.name == NODE.name:
            return self._all_keys() if _is_node_different(change) else ()
        keys = list(self._refs.dependent_changed(change))
        different = bool(keys) and self._states.is_different(change)
        self._states.note(change)
        return keys if different else ()

    async def reconcile(self, key: Key) -> float | None:
        """Bring pods to nodes, take a step of a rolling update if nothing else is to be done, and write the status."""
        body = self._api.find(DAEMON_SET, key)
        selector = workload_selector(body) if body else None
        if body is None or selector is None or "deletionTimestamp" in body["metadata"]:
            return None
        claimed = await self._refs.claim(body, selector)
        await self._history.update(body, {pod.labels.get(REVISION_HASH, "") for pod in claimed})
        view = self._view(body, claimed)
        _place(view)
        if not view.create and not view.delete:
            _roll(view)
        failure: Refusal | None = None
        try:
            await self._act(view)
        except Refusal as refusal:
            failure = refusal
        await write_status(self._api, DAEMON_SET, body, _status(view))
        if failure is not None:
            raise failure
        return self._states.next_available(claimed, view.min_ready, view.now)

    def _view(self, body: Json, pods: Iterable[Entry]) -> _View:
        template = body["spec"]["template"]
        node_filter = NodeFilter(template)
        fits = {node.key[1]: node_filter.check(node) for node in self._store.entries(NODE)}
        by_node: dict[str, list[_DaemonPod]] = {}
        for entry in pods:
            pod = _DaemonPod(entry, self._states.of(entry), _target_node(entry))
            if not (pod.state.finished and pod.state.deleting):
                by_node.setdefault(pod.node, []).append(pod)
        for on_node in by_node.values():
            on_node.sort(key=lambda pod: pod.age)
        return _View(body, hash_template(template), fits, by_node, seconds_now())

    async def _act(self, view: _View) -> None:
        for pod in view.delete:
            if pod.state.finished:
                how = pod.state.phase
                message = f"Found {how.lower()} daemon pod {'/'.join(pod.entry.key)} on node {pod.node}, will delete it"
                self._events.say(view.body, f"{how}DaemonPod", message, warning=how == "Failed")
        if view.create:
            await self._control.create(view.body, _new_pods(view))
        await self._control.delete(view.body, [pod.entry for pod in view.delete])

    def _all_keys(self) -> list[Key]:
        return [entry.key for entry in self._store.entries(DAEMON_SET)]


def daemon_tolerations(spec: Json) -> list[Json]:
    """The template's tolerations, and those that every daemon pod has."""
    tolerated = [*_TOLERATED, *([("network-unavailable", "NoSchedule")] if spec.get("hostNetwork") else [])]
    added = [{"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect} for key, effect in tolerated]
    own: Sequence[Json] = spec.get("tolerations") or ()
    return [*own, *(each for each in added if each not in own)]


def _place(view: _View) -> None:
    """Plan one pod per node, whatever its template. A pod that has ended makes room for a new one."""
    for name, fit in view.fits.items():
        pods = view.pods.get(name, [])
        staying = [pod for pod in pods if not pod.state.deleting]
        if fit.run and not pods:
            view.create.append(name)
        elif not fit.keep:
            view.delete += staying
        else:
            running = [pod for pod in staying if not pod.state.finished]
            view.delete += [*running[1:], *(pod for pod in staying if pod.state.finished)]
    for name, pods in view.pods.items():
        if name not in view.fits:  # the node is gone: the scheduler will never bind these
            view.delete += [pod for pod in pods if not pod.entry.fields[NODE_NAME] and not pod.state.deleting]


def _roll(view: _View) -> None:
    """Plan the next step of a rolling update: delete old pods, as many as may be unavailable."""
    strategy = view.body["spec"].get("updateStrategy") or {}
    if strategy.get("type", "RollingUpdate") != "RollingUpdate":
        return
    desired = [name for name, fit in view.fits.items() if fit.run]
    limit = (strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1)
    allowed = max(scale_value(limit, len(desired), up=True), 1)
    old: list[_DaemonPod] = []
    for name in desired:
        staying = [pod for pod in view.pods.get(name, ()) if not pod.state.deleting]
        if not staying:
            allowed -= 1
        elif not view.is_available(staying[0]):
            allowed -= 1
            view.delete += [pod for pod in staying if not view.is_updated(pod)]
        else:
            old += [pod for pod in staying if not view.is_updated(pod)]
    view.delete += old[: max(allowed, 0)]


def _new_pods(view: _View) -> list[Json]:
    template = view.body["spec"]["template"]
    metadata = template.get("metadata") or {}
    labels = {**(metadata.get("labels") or {}), REVISION_HASH: view.revision}
    spec = {**template["spec"], "tolerations": daemon_tolerations(template["spec"])}
    maker = PodTemplate({"metadata": {**metadata, "labels": labels}, "spec": spec}, view.body)
    made: list[Json] = []
    for node in view.create:
        pod = maker.new_pod()
        affinity = pod["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
        named = {"key": _FIELD, "operator": "In", "values": [node]}
        affinity[_REQUIRED] = {"nodeSelectorTerms": [{"matchFields": [named]}]}
        made.append(pod)
    return made


def _status(view: _View) -> Json:
    pods = [(fit, view.pods[name][0]) for name, fit in view.fits.items() if view.pods.get(name)]
    scheduled = [pod for fit, pod in pods if fit.run]
    desired = sum(fit.run for fit in view.fits.values())
    available = sum(view.is_available(pod) for pod in scheduled)
    status: Json = {
        "currentNumberScheduled": len(scheduled),
        "desiredNumberScheduled": desired,
        "numberMisscheduled": len(pods) - len(scheduled),
        "numberReady": sum(pod.state.ready for pod in scheduled),
        "observedGeneration": view.body["metadata"]["generation"],
    }
    more = {
        "numberAvailable": available,
        "numberUnavailable": desired - available,
        "updatedNumberScheduled": sum(view.is_updated(pod) for pod in scheduled),
    }
    return status | {key: count for key, count in more.items() if count}


def _is_node_different(change: Change) -> bool:
    """Whether the labels or taints of a node changed; its conditions do not matter."""
    entry, before = change.entry, change.before
    if before is None or change.type == "DELETED" or before.labels != entry.labels:
        return True
    return taints_of(before.object()) != taints_of(entry.object())


def _target_node(entry: Entry) -> str:
    """The node that a daemon pod is on, or is meant for; empty where nothing says so."""
    if bound := entry.fields[NODE_NAME]:
        return bound
    affinity = (entry.object()["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    for term in (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ():
        for rule in term.get("matchFields") or ():
            if rule["key"] == _FIELD and rule["operator"] == "In" and len(rule.get("values") or ()) == 1:
                return str(rule["values"][0])
    return ""
