"""Records of kse-rescheduler (`kse.com/*`), read once and taken into our own.

`draft` asks when it opens a workload's record. kse-rescheduler keeps a count and the nodes where pods failed on the
workload, each kind under a name of its own, and never says when; so the failures count from now on. What is taken in is
taken off in the same write, so that nothing is lost and nothing counts twice; what makes no sense is left as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from rescheduler.model import marks
from rescheduler.recovery.record import EMPTY, WHOLE, Entry, Failure, Record, written

REASON = "KseRescheduler"
"""Why a node is avoided: a word that is no kind of failure a workload could cause itself."""
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
"""How Kubernetes lets nodes be called: a pod that avoids anything else would be refused."""


class ForeignRecordError(ValueError):
    """An annotation that is no record of kse-rescheduler; its text says where and why."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """What kse-rescheduler knew of pods that are alike."""

    count: int
    nodes: tuple[str, ...] = ()


def key_of(kind: str) -> str:
    """The annotation in which a workload of this kind has kse-rescheduler's record; empty if it has none."""
    return marks.KSE_RECORDS.get(kind, "")


def read_foreign(kind: str, text: str, ill: Collection[str]) -> dict[str, Foreign]:
    """The record in an annotation, by the names of our entries; `ill` are the nodes where a DaemonSet's pods fail.

    Of a DaemonSet it is one number for all nodes: it counts where pods fail now.
    """
    try:
        body = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ForeignRecordError(f"it is not JSON: {error}") from None
    if kind == "DaemonSet":
        count = _count(body, "")
        return {node: Foreign(count) for node in sorted(ill)}
    if not isinstance(body, dict):
        raise ForeignRecordError("it is not a JSON object")
    if kind == "StatefulSet":
        return {str(pod): _foreign(each, kind, f"{pod}: ") for pod, each in body.items()}
    return {WHOLE: _foreign(body, kind, "")}


def taken_over(record: Record, foreign: Mapping[str, Foreign], now: float) -> dict[str, Entry]:
    """Our record with theirs in it: the higher count, and the nodes of both."""
    found = dict(record)
    for name, each in foreign.items():
        entry = found.get(name, EMPTY)
        nodes = {node: Failure(now, REASON) for node in each.nodes} | dict(entry.nodes)
        found[name] = replace(entry, count=max(entry.count, each.count), nodes=nodes)
    return {name: entry for name, entry in found.items() if entry != EMPTY}


def refuse_longer(record: Record, longest: int) -> None:
    """An annotation that is too long would be refused again and again, and the workload never be looked after."""
    if len(written(record)) > longest:
        raise ForeignRecordError("with it our own record would be too long")


def in_words(foreign: Mapping[str, Foreign]) -> str:
    """What was taken over, for people."""
    said = [
        f"{f'{name}: ' if name else ''}{each.count} {'retry' if each.count == 1 else 'retries'}"
        + (f", failed on {', '.join(each.nodes)}" if each.nodes else "")
        for name, each in sorted(foreign.items())
    ]
    return "; ".join(said) or "no pod fails now"


def _foreign(body: Any, kind: str, at: str) -> Foreign:
    if not isinstance(body, dict):
        raise ForeignRecordError(f"{at}it is not a JSON object")
    field = _HOSTS[kind]
    hosts = body.get(field) or []  # null where it has given up
    if not isinstance(hosts, list) or not all(map(_is_node, hosts)):
        raise ForeignRecordError(f"{at}{field}: it is not a list of nodes")
    return Foreign(_count(body.get(_TIMES, 0), f"{at}{_TIMES}: "), tuple(sorted({*hosts})))


def _is_node(host: Any) -> bool:
    return isinstance(host, str) and len(host) <= _LONGEST_NAME and _NODE.fullmatch(host) is not None


def _count(value: Any, at: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ForeignRecordError(f"{at}{value!r} is not a number of times")
    return value
