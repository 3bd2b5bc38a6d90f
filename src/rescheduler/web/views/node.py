"""One node: its labels, taints and state, and its pods with what objects to moving each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rescheduler.model.objects import Node, Pod
from rescheduler.model.shape import Requests
from rescheduler.web.owners import workload_of
from rescheduler.web.plans import Objection
from rescheduler.web.showing import Showing
from rescheduler.web.states import WORDS

Json = dict[str, Any]


def node(showing: Showing, found: Node, pods: Sequence[Pod], objections: Sequence[Objection]) -> Json:
    """All of it, as `/api/nodes/{name}` gives it; the objections are those to each of the pods."""
    standing = showing.loads.standing()
    index = showing.loads.indexes([found.name])[0]
    now, traits = standing.at(index), standing.frame.traits[index]
    state = traits.state | showing.moves.touching(found.name)
    return {
        "name": found.name,
        "labels": dict(sorted(found.labels.items())),
        "taints": [str(each) for each in found.taints],
        "states": [words for flag, words in WORDS.items() if flag & state],
        "problem": found.problem,
        "pool": standing.frame.judging.policy.pools[traits.number].name if traits.number >= 0 else "",
        "allocatable": now.capacity,
        "used": now.used,
        "cpu": round(now.percent["cpu"], 2),
        "memory": round(now.percent["memory"], 2),
        "thresholds": {name: round(each, 2) for name, each in now.thresholds.items()},
        "over": now.over,
        "pods": [_pod(showing, pod, said) for pod, said in zip(pods, objections, strict=True)],
    }


def _pod(showing: Showing, pod: Pod, said: Objection) -> Json:
    held = () if pod.finished else pod.held
    return {
        "namespace": pod.namespace,
        "name": pod.name,
        "workload": workload_of(showing.cache, pod),
        "cpu": _held(held, "cpu"),
        "memory": _held(held, "memory"),
        "usage": _usage(None if pod.finished else showing.loads.usage(pod)),
        "phase": pod.phase,
        "ready": pod.ready,
        "created": pod.created,
        "guard": said[0],
        "why": said[1],
    }


def _held(held: Requests, resource: str) -> int:
    return next((amount for name, amount in held if name == resource), 0)


def _usage(used: Requests | None) -> Json | None:
    """What was measured of it, or of its like; None where nothing was, or only requests count."""
    return None if used is None else dict(used)
