"""Finding nodes and pods by a part of their name. It goes over all of them, a piece at a time, so that nobody waits."""

from __future__ import annotations

import asyncio
import heapq
from typing import Any

from rescheduler.web.loads import PodKey
from rescheduler.web.showing import Showing

MOST = 20
_PIECE = 1_000  # pods that are looked at before others have a turn: about a millisecond
Json = dict[str, Any]
_Rank = tuple[bool, str, str]


async def search(showing: Showing, text: str) -> Json:
    """As `/api/search` gives it: those that begin with the text first; `namespace/name` finds what it says."""
    wanted = text.strip().lower()
    if not wanted:
        return {"nodes": [], "pods": [], "more": 0}
    nodes = sorted((not name.startswith(wanted), name) for name in showing.loads.names() if wanted in name)
    pods, total = await _pods(showing, wanted)
    more = max(0, len(nodes) - MOST) + total - len(pods)
    return {"nodes": [name for _, name in nodes[:MOST]], "pods": pods, "more": more}


async def _pods(showing: Showing, wanted: str) -> tuple[list[Json], int]:
    space, slash, part = wanted.rpartition("/")
    best: list[_Rank] = []
    total = looked = 0
    for keys in showing.loads.by_place():
        found = [
            (not name.startswith(part), namespace, name)
            for namespace, name in keys
            if part in name and (not slash or (namespace.endswith(space) and name.startswith(part)))
        ]
        total += len(found)
        best += found
        looked += len(keys)
        if looked >= _PIECE:
            best, looked = heapq.nsmallest(MOST, best), 0
            await asyncio.sleep(0)
    best = heapq.nsmallest(MOST, best)
    shown = [(namespace, name) for _, namespace, name in best]
    return [{"namespace": key[0], "name": key[1], "node": _node(showing, key)} for key in shown], total


def _node(showing: Showing, key: PodKey) -> str:
    pod = showing.loads.pod(key)
    return pod.node if pod is not None else ""  # it went while we looked
