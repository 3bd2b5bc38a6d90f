"""What is kept of a workload's failed pods: how often one was rescheduled, and on which nodes they failed.

It lives in one annotation of the workload (`marks.FAILURES`), as JSON that people can read. The recovery loop writes
it before it deletes a pod; the webhook and the extender of every replica read it. A StatefulSet has an entry for each
pod, a DaemonSet for each node, everybody else a single one.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any

from rescheduler.model.instant import InstantError, format_instant, parse_instant

WHOLE = ""
"""The entry of a workload whose pods are all alike."""
_LONGEST_REASON = 80  # the annotations of an object have 256 KiB in all


class RecordError(ValueError):
    """An annotation that is no record; its text says where and why."""


@dataclass(frozen=True, slots=True)
class Failure:
    """That a pod failed on a node, the last time."""

    at: float
    reason: str


@dataclass(frozen=True, slots=True)
class Entry:
    """What is known of pods that are alike."""

    count: int = 0
    """How often one of them was rescheduled."""
    nodes: Mapping[str, Failure] = field(default_factory=lambda: MappingProxyType({}))
    """Where they failed."""
    pending: tuple[str, ...] = ()
    """UIDs of pods that are counted already, and may not be gone yet: after a crash they are not counted again."""
    replacement: str = ""
    """The name of the pod that takes the place of one that nobody manages."""
    told: str = ""
    """What people were told about why it ends, with commas between, so that they are told once."""
    revision: str = ""
    """Of which template the failed pods were: what is known of them says nothing about pods of another."""
    avoids: tuple[str, ...] = ()
    """The nodes that a bare pod refuses because we made it so, and not by its own wish."""

    @property
    def ends(self) -> frozenset[str]:
        """Why nothing more is done for these pods, or some of them."""
        return frozenset(self.told.split(",")) - {""}

    def ending(self, why: Iterable[str]) -> Entry:
        """The same with these reasons."""
        return replace(self, told=",".join(sorted(why)))

    def avoided(self, now: float, forget_after: float) -> dict[str, Failure]:
        """Nodes that a new pod had better not go to."""
        return {node: failure for node, failure in self.nodes.items() if now - failure.at < forget_after}


Record = Mapping[str, Entry]
"""By the name of a StatefulSet's pod, by a DaemonSet's node, or all under WHOLE."""
EMPTY = Entry()


def slot(kind: str, pod: str, node: str) -> str:
    """Under which name a workload of this kind keeps what is known of a pod."""
    return {"StatefulSet": pod, "DaemonSet": node}.get(kind, WHOLE)


def read(text: str) -> dict[str, Entry]:
    """The record that an annotation holds; an empty one for no text."""
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


def written(record: Record) -> str:
    """The annotation's text; empty if there is nothing to keep. The same record gives the same text."""
    kept = {name: entry for name, entry in sorted(record.items()) if entry != EMPTY}
    if not kept:
        return ""
    if set(kept) == {WHOLE}:
        return json.dumps(_body(kept[WHOLE]), separators=(",", ":"))
    return json.dumps({"pods": {name: _body(entry) for name, entry in kept.items()}}, separators=(",", ":"))


def without_old(record: Record, now: float, forget_after: float) -> dict[str, Entry]:
    """The record without failures that are too old to tell anything; entries that had no others start anew."""
    kept: dict[str, Entry] = {}
    for name, entry in record.items():
        nodes = entry.avoided(now, forget_after)
        if nodes or not entry.nodes:
            kept[name] = replace(entry, nodes=nodes) if len(nodes) < len(entry.nodes) else entry
        elif (rest := lasting(entry)) != EMPTY:
            kept[name] = rest
    return kept


def lasting(entry: Entry) -> Entry:
    """What is left of an entry that starts anew: what a pod's own spec says does not change with its health."""
    return Entry(avoids=entry.avoids)


def _entry(body: Any, at: str) -> Entry:
    if not isinstance(body, dict):
        raise RecordError(f"{at.rstrip('.')}: it is not a JSON object")
    count, nodes = body.get("count", 0), body.get("nodes", {})
    if not isinstance(count, int) or isinstance(count, bool) or count < 0:
        raise RecordError(f"{at}count: {count!r} is not a number of times")
    if not isinstance(nodes, dict):
        raise RecordError(f"{at}nodes: it is not a JSON object")
    return Entry(
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


def _failure(body: Any, at: str) -> Failure:
    try:
        return Failure(parse_instant(body["at"]), str(body.get("reason", "")))
    except (KeyError, TypeError, AttributeError):
        raise RecordError(f"{at}: it does not say when (at)") from None
    except InstantError as error:
        raise RecordError(f"{at}.at: {error}") from None


def _body(entry: Entry) -> dict[str, Any]:
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
