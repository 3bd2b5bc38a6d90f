"""The record of a workload's failed pods: how often they were rescheduled, and on which nodes they failed.

It is kept in one annotation of the workload (`labels.FAILURES`), as readable JSON. The recovery controller writes it
before it deletes a pod; the webhook and the extender of every replica read it. A StatefulSet has an entry for each pod,
a DaemonSet for each node, all other workloads a single one.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from rescheduler.migration.observation import controller_of, labels_of
from rescheduler.model import labels
from rescheduler.model.json import Json, annotations_of
from rescheduler.model.time import InstantError, format_instant, parse_instant
from rescheduler.recovery.model import WorkloadState

WHOLE = ""
"""The entry of a workload whose pods are all equivalent."""
_LONGEST_REASON = 80  # the annotations of an object have 256 KiB in all


class RecordError(ValueError):
    """An annotation that is not a record; the text says where and why."""


@dataclass(frozen=True, slots=True)
class NodeFailure:
    """The last failure of a pod on a node."""

    at: float
    reason: str


@dataclass(frozen=True, slots=True)
class RecordEntry:
    """The record of equivalent pods."""

    count: int = 0
    """How often one of them was rescheduled."""
    nodes: Mapping[str, NodeFailure] = field(default_factory=lambda: MappingProxyType({}))
    """Where they failed."""
    pending: tuple[str, ...] = ()
    """UIDs of pods that are counted but may not be gone yet: after a crash they are not counted again."""
    replacement: str = ""
    """The name of the pod that replaces a pod without a controller."""
    told: str = ""
    """The reasons for stopping that have an Event already, separated by commas."""
    revision: str = ""
    """The template of the failed pods: the entry does not apply to pods of another one."""
    avoids: tuple[str, ...] = ()
    """The nodes that a bare pod avoids because of us, and not by its own rules."""

    @property
    def ends(self) -> frozenset[str]:
        """Why nothing more is done for these pods, or some of them."""
        return frozenset(self.told.split(",")) - {""}

    def with_ends(self, why: Iterable[str]) -> RecordEntry:
        """Return the entry with these reasons."""
        return replace(self, told=",".join(sorted(why)))

    def recent_failures(self, now: float, forget_after: float) -> dict[str, NodeFailure]:
        """Return the nodes that a new pod should avoid."""
        return {node: failure for node, failure in self.nodes.items() if now - failure.at < forget_after}


Record = Mapping[str, RecordEntry]
"""Entries by the name of a StatefulSet's pod, by a DaemonSet's node, or all under WHOLE."""
EMPTY = RecordEntry()


def entry_name(kind: str, pod: str, node: str) -> str:
    """Return the name of a pod's entry in the record of a workload of this kind."""
    return {"StatefulSet": pod, "DaemonSet": node}.get(kind, WHOLE)


def parse_record(text: str) -> dict[str, RecordEntry]:
    """Parse an annotation; no text is an empty record."""
    if not text:
        return {}
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"it is not JSON: {error}") from None
    if not isinstance(body, dict):
        raise RecordError("it is not a JSON object")
    if "pods" not in body:
        return {WHOLE: _entry(body, "")}
    pods = body["pods"]
    if not isinstance(pods, dict):
        raise RecordError("pods: it is not a JSON object")
    return {str(name): _entry(each, f"pods.{name}.") for name, each in pods.items()}


def format_record(record: Record) -> str:
    """Format the annotation; empty if there is nothing to keep. The same record gives the same text."""
    kept = {name: entry for name, entry in sorted(record.items()) if entry != EMPTY}
    if not kept:
        return ""
    if set(kept) == {WHOLE}:
        return json.dumps(_body(kept[WHOLE]), separators=(",", ":"))
    return json.dumps({"pods": {name: _body(entry) for name, entry in kept.items()}}, separators=(",", ":"))


def forget_old(record: Record, now: float, forget_after: float) -> dict[str, RecordEntry]:
    """Return the record without failures that are too old to matter; entries without any others are reset."""
    kept: dict[str, RecordEntry] = {}
    for name, entry in record.items():
        nodes = entry.recent_failures(now, forget_after)
        if nodes or not entry.nodes:
            kept[name] = replace(entry, nodes=nodes) if len(nodes) < len(entry.nodes) else entry
        elif (rest := reset_entry(entry)) != EMPTY:
            kept[name] = rest
    return kept


def reset_entry(entry: RecordEntry) -> RecordEntry:
    """Return what a reset keeps: the rules in a pod's own spec do not change with its health."""
    return RecordEntry(avoids=entry.avoids)


def _entry(body: Any, at: str) -> RecordEntry:
    if not isinstance(body, dict):
        raise RecordError(f"{at.rstrip('.')}: it is not a JSON object")
    count, nodes = body.get("count", 0), body.get("nodes", {})
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise RecordError(f"{at}count: {count!r} is not a number of times")
    if not isinstance(nodes, dict):
        raise RecordError(f"{at}nodes: it is not a JSON object")
    return RecordEntry(
        count=count,
        nodes={str(node): _failure(each, f"{at}nodes.{node}") for node, each in nodes.items()},
        pending=_texts(body, "pending", at),
        replacement=str(body.get("replacement", "")),
        told=str(body.get("told", "")),
        revision=str(body.get("revision", "")),
        avoids=_texts(body, "avoids", at),
    )


def _texts(body: dict[str, Any], key: str, at: str) -> tuple[str, ...]:
    found = body.get(key, [])
    if not isinstance(found, list):
        raise RecordError(f"{at}{key}: it is not a list")
    return tuple(str(each) for each in found)


def _failure(body: Any, at: str) -> NodeFailure:
    try:
        return NodeFailure(parse_instant(body["at"]), str(body.get("reason", "")))
    except (KeyError, TypeError, AttributeError):
        raise RecordError(f"{at}: it does not say when (at)") from None
    except InstantError as error:
        raise RecordError(f"{at}.at: {error}") from None


def _body(entry: RecordEntry) -> dict[str, Any]:
    nodes = {
        node: {"at": format_instant(failure.at), "reason": failure.reason[:_LONGEST_REASON]}
        for node, failure in sorted(entry.nodes.items())
    }
    found = {
        "count": entry.count,
        "nodes": nodes,
        "pending": list(entry.pending),
        "replacement": entry.replacement,
        "told": entry.told,
        "revision": entry.revision,
        "avoids": list(entry.avoids),
    }
    return {key: value for key, value in found.items() if value or key == "count"}


REASON = "KseRescheduler"
"""The reason of adopted failures: a word that is not a kind of failure a workload could cause itself."""
_TIMES = "currentReschedulingTimes"
_HOSTS = MappingProxyType(
    {
        "Deployment": "deployScheduledHosts",
        "ReplicaSet": "rsScheduledHosts",
        "StatefulSet": "podScheduledHosts",
        "Job": "jobScheduledHosts",
        "CronJob": "cjScheduledHosts",
        "Pod": "podScheduledHosts",
    }
)


_LONGEST_NAME = 253
_NODE = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
"""The names that Kubernetes permits for nodes: a pod that avoids anything else would be refused."""


class KseRecordError(ValueError):
    """An annotation that is not a record of kse-rescheduler; the text says where and why."""


@dataclass(frozen=True, slots=True)
class KseRecord:
    """The record that kse-rescheduler kept of equivalent pods."""

    count: int
    nodes: tuple[str, ...] = ()


def kse_annotation(kind: str) -> str:
    """Return the annotation with kse-rescheduler's record on a workload of this kind; empty if it has none."""
    return labels.KSE_RECORDS.get(kind, "")


def parse_kse_record(kind: str, text: str, failing: Collection[str]) -> dict[str, KseRecord]:
    """Parse the annotation into our entries; `failing` are the nodes where a DaemonSet's pods fail.

    A DaemonSet has one number for all nodes: it counts for the nodes where pods fail now.
    """
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise KseRecordError(f"it is not JSON: {error}") from None
    if kind == "DaemonSet":
        count = _count(body, "")
        return {node: KseRecord(count) for node in sorted(failing)}
    if not isinstance(body, dict):
        raise KseRecordError("it is not a JSON object")
    if kind == "StatefulSet":
        return {str(pod): _foreign(each, kind, f"{pod}: ") for pod, each in body.items()}
    return {WHOLE: _foreign(body, kind, "")}


def merge_kse_record(record: Record, foreign: Mapping[str, KseRecord], now: float) -> dict[str, RecordEntry]:
    """Return our record with theirs in it: the higher count, and the nodes of both."""
    found = dict(record)
    for name, each in foreign.items():
        entry = found.get(name, EMPTY)
        nodes = {node: NodeFailure(now, REASON) for node in each.nodes} | dict(entry.nodes)
        found[name] = replace(entry, count=max(entry.count, each.count), nodes=nodes)
    return {name: entry for name, entry in found.items() if entry != EMPTY}


def check_length(record: Record, longest: int) -> None:
    """Raise if the annotation would be too long: the API server would refuse it each time."""
    if len(format_record(record)) > longest:
        raise KseRecordError("with it our own record would be too long")


def describe_kse_record(foreign: Mapping[str, KseRecord]) -> str:
    """Describe what was adopted."""
    said = [
        f"{f'{name}: ' if name else ''}{each.count} {'retry' if each.count == 1 else 'retries'}"
        + (f", failed on {', '.join(each.nodes)}" if each.nodes else "")
        for name, each in sorted(foreign.items())
    ]
    return "; ".join(said) or "no pod fails now"


def _foreign(body: Any, kind: str, at: str) -> KseRecord:
    if not isinstance(body, dict):
        raise KseRecordError(f"{at}it is not a JSON object")
    field = _HOSTS[kind]
    hosts = body.get(field) or []  # null where it has given up
    if not isinstance(hosts, list) or not all(map(_is_node, hosts)):
        raise KseRecordError(f"{at}{field}: it is not a list of nodes")
    return KseRecord(_count(body.get(_TIMES, 0), f"{at}{_TIMES}: "), tuple(sorted({*hosts})))


def _is_node(host: Any) -> bool:
    return isinstance(host, str) and len(host) <= _LONGEST_NAME and _NODE.fullmatch(host) is not None


def _count(value: Any, at: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise KseRecordError(f"{at}{value!r} is not a number of times")
    return value


_NUMBER = "deployment.kubernetes.io/revision"
_HASH = "controller-revision-hash"


def revision_of(pod: Json, state: WorkloadState) -> str:
    """Return the name of a pod's template; empty where templates have none, or never change."""
    match state.workload["kind"]:
        case "Deployment" | "ReplicaSet":
            return labels_of(pod).get(labels.TEMPLATE_HASH, "")
        case "StatefulSet" | "DaemonSet":
            return labels_of(pod).get(_HASH, "")
        case "CronJob":
            return _digest(state.workload)
        case _:
            return ""


def is_outdated(pod: Json, state: WorkloadState) -> bool:
    """Whether a pod belongs to an older ReplicaSet of a Deployment."""
    newest, owner = _newest(state), controller_of(pod)
    return newest is not None and owner is not None and owner.get("uid") != newest["metadata"]["uid"]


def find_outdated(record: Record, state: WorkloadState) -> dict[str, str]:
    """Return the entries of another template than the current one, with the name of the latter."""
    used: dict[str, str] = {}
    newest = _newest(state)
    if newest is not None:
        used = dict.fromkeys(record, labels_of(newest).get(labels.TEMPLATE_HASH, ""))
    elif state.workload["kind"] == "CronJob":
        used = dict.fromkeys(record, _digest(state.workload))
    else:
        for pod in state.pods:
            name = entry_name(state.workload["kind"], pod["metadata"]["name"], pod["spec"].get("nodeName", ""))
            used[name] = revision_of(pod, state)
    return {
        name: used[name]
        for name, entry in record.items()
        if entry.revision and used.get(name) and used[name] != entry.revision
    }


def _newest(state: WorkloadState) -> Json | None:
    """Return the ReplicaSet that creates a Deployment's pods now; None for other workloads."""
    if state.workload["kind"] != "Deployment":
        return None
    return max(state.controllers, key=_age, default=None)


def _age(replica_set: Json) -> tuple[int, str]:
    number = annotations_of(replica_set).get(_NUMBER, "")
    return (int(number) if number.isdecimal() else 0, replica_set["metadata"].get("creationTimestamp") or "")


def _digest(cron_job: Json) -> str:
    """Return a name for a CronJob's template, which has none: a hash of its content."""
    template = (cron_job.get("spec") or {}).get("jobTemplate") or {}
    return hashlib.sha256(json.dumps(template, sort_keys=True).encode()).hexdigest()[:10]
