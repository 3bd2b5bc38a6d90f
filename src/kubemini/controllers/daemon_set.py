"""DaemonSets: one pod on each node that the template is for, also on nodes that come later.

A daemon pod tolerates what nodes suffer from (not ready, unreachable, pressure, unschedulable). The scheduler binds it
like any other pod: a required node affinity names its node. A new template is rolled out by deleting old pods, as many
as may be unavailable. There is no surge.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from kubemini.api import Api
from kubemini.controllers.pods import (
    NODE_NAME,
    REVISION_HASH,
    PodStates,
    WorkloadController,
    hash_template,
    new_pod,
    scale_value,
    seconds_now,
)
from kubemini.controllers.revisions import update_history
from kubemini.controllers.writes import write_status
from kubemini.errors import Json
from kubemini.kinds import DAEMON_SET, NODE, POD
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


class DaemonSetController(WorkloadController):
    """Keeps every DaemonSet on its nodes."""

    name = "daemonset-controller"
    kind = DAEMON_SET

    def __init__(self, api: Api) -> None:
        super().__init__(api)
        self.kinds = (DAEMON_SET, NODE, POD)

    def keys_for(self, change: Change) -> Iterable[Key]:
        """The DaemonSet itself, that of a pod, and all of them when a node comes, goes or changes."""
        if change.kind.name != NODE.name:
            return super().keys_for(change)
        return [entry.key for entry in self._store.entries(DAEMON_SET)] if _is_node_different(change) else ()

    async def reconcile(self, key: Key) -> float | None:
        """Bring pods to nodes, take a step of a rolling update if nothing else is to be done, and write the status."""
        body = self._api.find(DAEMON_SET, key)
        selector = workload_selector(body) if body else None
        if body is None or selector is None or "deletionTimestamp" in body["metadata"]:
            return None
        claimed = await self._refs.claim(body, selector)
        await update_history(self._api, body)
        daemons = _Daemons(body, self._states, _fits(body, self._store.entries(NODE)), claimed)
        create, delete = daemons.place()
        if not create and not delete:
            delete = daemons.roll()
        try:
            await self._control.create(body, [_new_pod(body, node) for node in create])
            await self._control.delete(body, delete)
        finally:
            await write_status(self._api, DAEMON_SET, body, daemons.status())
        return self._states.next_available(claimed, daemons.min_ready, daemons.now)


class _Daemons:
    """A DaemonSet with its nodes and pods, at one moment."""

    def __init__(self, body: Json, states: PodStates, fits: dict[str, Fit], pods: Iterable[Entry]) -> None:
        self._body = body
        self._states = states
        self._fits = fits
        self._revision = hash_template(body["spec"]["template"])
        self.now = seconds_now()
        self.min_ready: int = body["spec"].get("minReadySeconds") or 0
        self._pods: dict[str, list[Entry]] = {}
        """By node, the one that stays first: bound ones, then the oldest."""
        for pod in sorted(pods, key=lambda pod: (not pod.fields[NODE_NAME], states.of(pod).created, pod.key[1])):
            self._pods.setdefault(_target_node(pod), []).append(pod)

    def place(self) -> tuple[list[str], list[Entry]]:
        """Plan one pod per node, whatever its template. A pod that has ended makes room for a new one.

        Returns the nodes that get a pod, and the pods that go.
        """
        create: list[str] = []
        delete: list[Entry] = []
        for name, fit in self._fits.items():
            pods = self._pods.get(name, [])
            staying = [pod for pod in pods if not pod.deleting]
            if fit.run and not pods:
                create.append(name)
            elif not fit.keep:
                delete += staying
            else:
                running = [pod for pod in staying if not self._states.of(pod).finished]
                delete += [*running[1:], *(pod for pod in staying if pod not in running)]
        for name, pods in self._pods.items():
            if name not in self._fits:  # the node is gone: the scheduler will never bind these
                delete += [pod for pod in pods if not pod.fields[NODE_NAME] and not pod.deleting]
        return create, delete

    def roll(self) -> list[Entry]:
        """Plan the next step of a rolling update: the old pods that go, as many as may be unavailable."""
        strategy = self._body["spec"].get("updateStrategy") or {}
        if strategy.get("type", "RollingUpdate") != "RollingUpdate":
            return []
        desired = [name for name, fit in self._fits.items() if fit.run]
        limit = (strategy.get("rollingUpdate") or {}).get("maxUnavailable", 1)
        allowed = max(scale_value(limit, len(desired), up=True), 1)
        old: list[Entry] = []
        broken: list[Entry] = []
        for name in desired:
            pod = next((pod for pod in self._pods.get(name, ()) if not pod.deleting), None)
            if pod is None or not self._is_available(pod):
                allowed -= 1
            if pod is not None and not self._is_updated(pod):
                (old if self._is_available(pod) else broken).append(pod)
        return [*broken, *old[: max(allowed, 0)]]

    def status(self) -> Json:
        """The status, by the pods as they were at the beginning of the reconciliation."""
        pods = [(fit, self._pods[name][0]) for name, fit in self._fits.items() if name in self._pods]
        scheduled = [pod for fit, pod in pods if fit.run]
        desired = sum(fit.run for fit in self._fits.values())
        available = sum(map(self._is_available, scheduled))
        status: Json = {
            "currentNumberScheduled": len(scheduled),
            "desiredNumberScheduled": desired,
            "numberMisscheduled": len(pods) - len(scheduled),
            "numberReady": sum(self._states.of(pod).ready for pod in scheduled),
            "observedGeneration": self._body["metadata"]["generation"],
        }
        more = {
            "numberAvailable": available,
            "numberUnavailable": desired - available,
            "updatedNumberScheduled": sum(map(self._is_updated, scheduled)),
        }
        return status | {key: count for key, count in more.items() if count}

    def _is_available(self, pod: Entry) -> bool:
        return self._states.of(pod).available(self.min_ready, self.now)

    def _is_updated(self, pod: Entry) -> bool:
        return pod.labels.get(REVISION_HASH) == self._revision


def _fits(body: Json, nodes: Iterable[Entry]) -> dict[str, Fit]:
    """By node, whether the template is for it."""
    spec = body["spec"]["template"].get("spec") or {}
    terms = node_terms(((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED))
    labels = (spec.get("nodeSelector") or {}).items()
    tolerations = [toleration(each) for each in daemon_tolerations(spec)]
    fits: dict[str, Fit] = {}
    for node in nodes:
        if not labels <= node.labels.items() or not terms_match(terms, node.labels, node.key[1]):
            fits[node.key[1]] = Fit(run=False, keep=False)
            continue
        effects = {
            taint.effect for taint in taints_of(node.object()) if not any(t.tolerates(taint) for t in tolerations)
        }
        fits[node.key[1]] = Fit(run=not effects & {"NoSchedule", "NoExecute"}, keep="NoExecute" not in effects)
    return fits


def daemon_tolerations(spec: Json) -> list[Json]:
    """The template's tolerations, and those that every daemon pod has."""
    added = [{"key": f"node.kubernetes.io/{key}", "operator": "Exists", "effect": effect} for key, effect in _TOLERATED]
    own: Sequence[Json] = spec.get("tolerations") or ()
    return [*own, *(each for each in added if each not in own)]


def _new_pod(body: Json, node: str) -> Json:
    template = body["spec"]["template"]
    pod = new_pod(template, body)
    pod["metadata"].setdefault("labels", {})[REVISION_HASH] = hash_template(template)
    pod["spec"]["tolerations"] = daemon_tolerations(template["spec"])
    affinity = pod["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
    named = {"key": _FIELD, "operator": "In", "values": [node]}
    affinity[_REQUIRED] = {"nodeSelectorTerms": [{"matchFields": [named]}]}
    return pod


def _is_node_different(change: Change) -> bool:
    """Whether the labels or taints of a node changed; its conditions do not matter."""
    entry, before = change.entry, change.before
    if before is None or change.type == "DELETED" or before.labels != entry.labels:
        return True
    return taints_of(before.object()) != taints_of(entry.object())


def _target_node(entry: Entry) -> str:
    """The node that a daemon pod is on, or is meant for; empty if unknown."""
    if bound := entry.fields[NODE_NAME]:
        return bound
    affinity = (entry.object()["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
    fields = [field for term in terms for field in term.get("matchFields") or ()]
    return str(fields[0]["values"][0]) if fields else ""
