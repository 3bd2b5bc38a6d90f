"""One node: its labels, taints and state, and its pods with what objects to moving each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rescheduler.model.objects import Node, Pod
from rescheduler.model.shape import Requests
from rescheduler.web.owners import workload_of
from rescheduler.web.plans import Objection
from rescheduler.web.showing import Showing
from rescheduler.web.standing import Amounts, capacity_of
from rescheduler.web.states import WORDS, state_of

Json = dict[str, Any]


def node(showing: Showing, found: Node, pods: Sequence[Pod], objections: Sequence[Objection]) -> Json:
    """All of it, as `/api/nodes/{name}` gives it; the objections are those to each of the pods."""
    capacity, used = capacity_of(found), showing.loads.used(found.name)
    cpu, memory = (round(held * 100.0 / max(room, 1), 2) for held, room in zip(used[:2], capacity[:2], strict=True))
    state = state_of(found) | showing.moves.touching(found.name)
    return {
        "name": found.name,
        "labels": dict(sorted(found.labels.items())),
        "taints": [str(each) for each in found.taints],
        "states": [words for flag, words in WORDS.items() if flag & state],
        "problem": found.problem,
        "allocatable": _amounts(capacity),
        "used": _amounts(used),
        "cpu": cpu,
        "memory": memory,
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
        "phase": pod.phase,
        "ready": pod.ready,
        "created": pod.created,
        "guard": said[0],
        "why": said[1],
    }


def _held(held: Requests, resource: str) -> int:
    return next((amount for name, amount in held if name == resource), 0)


def _amounts(amounts: Amounts) -> Json:
    return dict(zip(("cpu", "memory", "pods"), amounts, strict=True))
