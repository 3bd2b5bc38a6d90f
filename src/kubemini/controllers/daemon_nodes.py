"""On which nodes a DaemonSet runs, and the pods that it makes for them.

A daemon pod tolerates what nodes suffer from (not ready, unreachable, pressure, unschedulable), and is bound to its
node by the scheduler like any other pod: a required node affinity names the node. Verdicts on nodes are kept,
because a DaemonSet is looked at again whenever one of its thousand pods changes.
"""

from __future__ import annotations

from typing import NamedTuple

from kubemini.controllers.selectors import node_terms, taints_of, terms_match, toleration
from kubemini.controllers.templates import PodMould, name_prefix
from kubemini.refusals import Json
from kubemini.store import Entry
from rescheduler.model.shape import Taint

HASH_LABEL = "controller-revision-hash"
GENERATION_LABEL = "pod-template-generation"
_GENERATION = "deprecated.daemonset.template.generation"
_NODE_NAME = "metadata.name"
_PREFIX = "node.kubernetes.io/"
_TOLERATED = (
    ("not-ready", "NoExecute"),
    ("unreachable", "NoExecute"),
    ("disk-pressure", "NoSchedule"),
    ("memory-pressure", "NoSchedule"),
    ("pid-pressure", "NoSchedule"),
    ("unschedulable", "NoSchedule"),
)


class NodeFacts(NamedTuple):
    """What a DaemonSet looks at in a node."""

    name: str
    labels: dict[str, str]
    taints: tuple[Taint, ...]


def node_facts(entry: Entry) -> NodeFacts:
    """These of one node."""
    return NodeFacts(entry.key[1], entry.labels, tuple(taints_of(entry.object())))


class Verdict(NamedTuple):
    """Whether a node gets a daemon pod, and whether it keeps one."""

    run: bool
    keep: bool


class Eligibility:
    """Which nodes one template is for; it is told of every node that comes, changes or goes."""

    def __init__(self, template: Json) -> None:
        spec = template.get("spec") or {}
        required = ((spec.get("affinity") or {}).get("nodeAffinity") or {}).get(_REQUIRED)
        self._terms = node_terms(required)
        self._labels = (spec.get("nodeSelector") or {}).items()
        self._node = spec.get("nodeName") or ""
        self._tolerations = [toleration(each) for each in daemon_tolerations(spec)]
        self.nodes: dict[str, Verdict] = {}
        """The verdict on each node."""

    def look_at(self, node: NodeFacts) -> None:
        """Decide on a node that is new or has changed."""
        self.nodes[node.name] = self._decide(node)

    def forget(self, name: str) -> None:
        """A node is gone."""
        self.nodes.pop(name, None)

    def _decide(self, node: NodeFacts) -> Verdict:
        elsewhere = self._node and self._node != node.name
        if elsewhere or not self._labels <= node.labels.items() or not terms_match(self._terms, node.labels, node.name):
            return Verdict(run=False, keep=False)
        unbearable = {taint.effect for taint in node.taints if not any(t.tolerates(taint) for t in self._tolerations)}
        return Verdict(run=not unbearable & {"NoSchedule", "NoExecute"}, keep="NoExecute" not in unbearable)


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def daemon_tolerations(spec: Json) -> list[Json]:
    """The template's tolerations, and those that every daemon pod has."""
    tolerated = [*_TOLERATED, *([("network-unavailable", "NoSchedule")] if spec.get("hostNetwork") else [])]
    own: list[Json] = list(spec.get("tolerations") or ())
    for key, effect in tolerated:
        added = {"key": _PREFIX + key, "operator": "Exists", "effect": effect}
        same = [each for each in own if toleration(each) == toleration(added)]
        own = [each if each not in same else added for each in own] if same else [*own, added]
    return own


def template_generation(daemon_set: Json) -> str:
    """The number by which very old pods know their template; empty where the object has none."""
    text = (daemon_set["metadata"].get("annotations") or {}).get(_GENERATION, "")
    return text if text.isdecimal() else ""


class DaemonMould:
    """Makes the pods of one DaemonSet in its present revision."""

    def __init__(self, daemon_set: Json, revision: str) -> None:
        template = daemon_set["spec"]["template"]
        labels = dict((template.get("metadata") or {}).get("labels") or {})
        if generation := template_generation(daemon_set):
            labels[GENERATION_LABEL] = generation
        labels[HASH_LABEL] = revision
        metadata = {**(template.get("metadata") or {}), "labels": labels}
        spec = {**template["spec"], "tolerations": daemon_tolerations(template["spec"])}
        self._mould = PodMould({"metadata": metadata, "spec": spec}, daemon_set)
        self._prefix = name_prefix(daemon_set["metadata"]["name"])

    def pod(self, node: str) -> Json:
        """The pod for a node."""
        pod = self._mould.pod()
        pod["metadata"]["generateName"] = self._prefix
        affinity = pod["spec"].setdefault("affinity", {}).setdefault("nodeAffinity", {})
        named = {"key": _NODE_NAME, "operator": "In", "values": [node]}
        affinity[_REQUIRED] = {"nodeSelectorTerms": [{"matchFields": [named]}]}
        return pod


def target_node(entry: Entry) -> str:
    """The node that a daemon pod is on, or is meant for; empty where nothing says so."""
    bound = entry.fields["spec.nodeName"]
    if bound:
        return bound
    affinity = (entry.object()["spec"].get("affinity") or {}).get("nodeAffinity") or {}
    for term in (affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ():
        for rule in term.get("matchFields") or ():
            if rule["key"] == _NODE_NAME and rule["operator"] == "In" and len(rule.get("values") or ()) == 1:
                return str(rule["values"][0])
    return ""
