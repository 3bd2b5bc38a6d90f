"""The record of a workload's failed pods: how often they were rescheduled, and on which nodes they failed.

It is kept in one annotation of the workload (`labels.FAILURES`), as readable JSON. The recovery controller writes it
before it deletes a pod; the webhook and the extender of every replica read it. A StatefulSet has an entry for each pod,
a DaemonSet for each node, all other workloads a single one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from rescheduler.model import labels
from rescheduler.model.time import InstantError, format_instant, parse_instant

WHOLE = ""
"""The entry of a workload whose pods are all equivalent."""
REVISION_LABELS = MappingProxyType(
    {
        "Deployment": labels.TEMPLATE_HASH,
        "ReplicaSet": labels.TEMPLATE_HASH,
        "StatefulSet": "controller-revision-hash",
        "DaemonSet": "controller-revision-hash",
    }
)
"""By kind of the workload, the label of its pods with the template's revision, which a record notes."""
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
    body = _as_dict(_load(text), "")
    if "pods" not in body:
        return {WHOLE: _parse_entry(body, "")}
    pods = _as_dict(body["pods"], "pods: ")
    return {str(name): _parse_entry(_as_dict(each, f"pods.{name}: "), f"pods.{name}.") for name, each in pods.items()}


def format_record(record: Record) -> str:
    """Format the annotation; empty if there is nothing to keep. The same record gives the same text."""
    kept = {name: entry for name, entry in sorted(record.items()) if entry != EMPTY}
    if not kept:
        return ""
    if set(kept) == {WHOLE}:
        return json.dumps(_encode_entry(kept[WHOLE]), separators=(",", ":"))
    return json.dumps({"pods": {name: _encode_entry(entry) for name, entry in kept.items()}}, separators=(",", ":"))


def forget_old(record: Record, now: float, forget_after: float) -> dict[str, RecordEntry]:
    """Return the record without failures that are too old to matter; entries without any others are reset."""
    kept: dict[str, RecordEntry] = {}
    for name, entry in record.items():
        nodes = entry.recent_failures(now, forget_after)
        kept[name] = replace(entry, nodes=nodes) if nodes or not entry.nodes else reset_entry(entry)
    return kept


def reset_entry(entry: RecordEntry) -> RecordEntry:
    """Return what a reset keeps: the rules in a pod's own spec do not change with its health."""
    return RecordEntry(avoids=entry.avoids)


def _load(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RecordError(f"it is not JSON: {error}") from None


def _as_dict(value: Any, at: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RecordError(f"{at}it is not a JSON object")
    return value


def _as_count(value: Any, at: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise RecordError(f"{at}{value!r} is not a number of times")
    return value


def _parse_entry(body: dict[str, Any], at: str) -> RecordEntry:
    count = _as_count(body.get("count", 0), f"{at}count: ")
    nodes = _as_dict(body.get("nodes", {}), f"{at}nodes: ")
    return RecordEntry(
        count=count,
        nodes={str(node): _parse_failure(each, f"{at}nodes.{node}") for node, each in nodes.items()},
        pending=_parse_texts(body, "pending", at),
        replacement=str(body.get("replacement", "")),
        told=str(body.get("told", "")),
        revision=str(body.get("revision", "")),
        avoids=_parse_texts(body, "avoids", at),
    )


def _parse_texts(body: dict[str, Any], key: str, at: str) -> tuple[str, ...]:
    found = body.get(key, [])
    if not isinstance(found, list):
        raise RecordError(f"{at}{key}: it is not a list")
    return tuple(str(each) for each in found)


def _parse_failure(body: Any, at: str) -> NodeFailure:
    try:
        return NodeFailure(parse_instant(body["at"]), str(body.get("reason", "")))
    except (KeyError, TypeError, AttributeError):
        raise RecordError(f"{at}: it does not say when (at)") from None
    except InstantError as error:
        raise RecordError(f"{at}.at: {error}") from None


def _encode_entry(entry: RecordEntry) -> dict[str, Any]:
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


def parse_kse_record(kind: str, text: str, failing: Collection[str], now: float) -> Record:
    """Parse the annotation into our entries; `failing` are the nodes where a DaemonSet's pods fail.

    A DaemonSet has one number for all nodes: it counts for the nodes where pods fail now.
    """
    body = _load(text)
    if kind == "DaemonSet":
        count = _as_count(body, "")
        return {node: RecordEntry(count) for node in sorted(failing)}
    body = _as_dict(body, "")
    if kind == "StatefulSet":
        return {str(pod): _parse_kse(_as_dict(each, f"{pod}: "), kind, f"{pod}: ", now) for pod, each in body.items()}
    return {WHOLE: _parse_kse(body, kind, "", now)}


def merge_kse_record(record: Record, foreign: Record, longest: int) -> dict[str, RecordEntry]:
    """Return our record with theirs in it: the higher count, and the nodes of both.

    Raise RecordError if its text would be longer than this: the API server would refuse it each time.
    """
    found = dict(record)
    for name, theirs in foreign.items():
        ours = found.get(name, EMPTY)
        found[name] = replace(ours, count=max(ours.count, theirs.count), nodes={**theirs.nodes, **ours.nodes})
    merged = {name: entry for name, entry in found.items() if entry != EMPTY}
    if len(format_record(merged)) > longest:
        raise RecordError("with it our own record would be too long")
    return merged


def describe_kse_record(foreign: Record) -> str:
    """Describe what was adopted."""
    said = [
        f"{f'{name}: ' if name else ''}{each.count} {'retry' if each.count == 1 else 'retries'}"
        + (f", failed on {', '.join(each.nodes)}" if each.nodes else "")
        for name, each in sorted(foreign.items())
    ]
    return "; ".join(said) or "no pod fails now"


def _parse_kse(body: dict[str, Any], kind: str, at: str, now: float) -> RecordEntry:
    field = _HOSTS[kind]
    hosts = body.get(field) or []  # null where it has given up
    if not isinstance(hosts, list) or not all(map(_is_node, hosts)):
        raise RecordError(f"{at}{field}: it is not a list of nodes")
    count = _as_count(body.get(_TIMES, 0), f"{at}{_TIMES}: ")
    return RecordEntry(count, {node: NodeFailure(now, REASON) for node in sorted(hosts)})


def _is_node(host: Any) -> bool:
    return isinstance(host, str) and len(host) <= _LONGEST_NAME and _NODE.fullmatch(host) is not None
