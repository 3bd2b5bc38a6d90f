"""Which node a pod shall have: the one that it is nominated to, else the best of those that let it in.

`scheduler` asks once per pod and turn. Extenders are heard as kube-scheduler hears them: about the nominated node
first, then about all that passed our own rules, then for scores. The answer is a node, or why there is none.
"""

from __future__ import annotations

import logging
from functools import cached_property

import numpy as np

from kubemini.extender import ExtenderError, Extenders, Struck
from kubemini.kinds import NODE, POD
from kubemini.refusals import Json
from kubemini.scheduling.ledger import KnownPod
from kubemini.scheduling.unschedulable import EXTENDER, Unschedulable
from kubemini.scheduling.view import View
from kubemini.store import Key, Store
from rescheduler.planning.columns import Mask

_log = logging.getLogger(__name__)


class Question:
    """A pod that is to be placed, for extenders to look at: without what the scheduler leaves out too."""

    def __init__(self, store: Store, key: Key) -> None:
        self._store = store
        self._key = key

    def pod(self) -> Json:
        """The pod."""
        return self._pod

    def node(self, name: str) -> Json:
        """A node."""
        entry = self._store.get(NODE, ("", name))
        return _untyped(entry.object()) if entry is not None else {"metadata": {"name": name}}

    @cached_property
    def _pod(self) -> Json:
        entry = self._store.get(POD, self._key)
        body = _untyped(entry.object()) if entry is not None else {"metadata": {}, "spec": {}}
        body["metadata"].pop("managedFields", None)
        return body


class Chooser:
    """Decides, and changes nothing."""

    def __init__(self, store: Store, extenders: Extenders) -> None:
        self._store = store
        self._extenders = extenders

    async def choose(self, view: View, key: Key, known: KnownPod) -> str | Unschedulable:
        """A node's name, or why there is none; ExtenderError if an extender that must be heard could not be."""
        if not view.nodes:
            return Unschedulable(0)
        question = Question(self._store, key)
        nominated = view.number(known.nominated) if known.nominated else None
        if nominated is not None and view.lets_in(key, nominated) and await self._agree(question, known):
            return known.nominated
        left = view.feasible(key)
        struck = None
        if self._extenders and left.any():
            names = [view.nodes[node] for node in np.flatnonzero(left)]
            struck = await self._extenders.strike(question, names)
            left = np.zeros_like(left)
            left[[number for name in struck.nodes if (number := view.number(name)) is not None]] = True
        if not left.any():
            return _with_extenders(view.refusal(key), struck)
        return view.nodes[await self._best(view, key, question, left)]

    async def _agree(self, question: Question, known: KnownPod) -> bool:
        """Whether extenders let a pod have the node that it is nominated to; if they can't be asked, they don't."""
        if not self._extenders:
            return True
        try:
            return bool((await self._extenders.strike(question, [known.nominated])).nodes)
        except ExtenderError as error:
            _log.info("pod %s: its nominated node %s: %s", known.row.full_name, known.nominated, error)
            return False

    async def _best(self, view: View, key: Key, question: Question, left: Mask) -> int:
        nodes = np.flatnonzero(left)
        if len(nodes) == 1:
            return int(nodes[0])
        total = view.total(key, left)
        if self._extenders:
            scores = await self._extenders.scores(question, [view.nodes[node] for node in nodes])
            for name, score in scores.items():
                number = view.number(name)
                if number is not None:
                    total[number] += score
        return view.scores.best(total, left)


def _with_extenders(refusal: Unschedulable, struck: Struck | None) -> Unschedulable:
    """What extenders said, beside what our own rules said; nodes that they struck off in silence have no words."""
    if struck is not None:
        refusal.rules.add(EXTENDER)
        refusal.preemptable += len(struck.for_now)
        for why in (*struck.for_now.values(), *struck.for_good.values()):
            refusal.reasons[why] += 1
    return refusal


def _untyped(body: Json) -> Json:
    """Objects inside an extender's question don't say what they are."""
    return {key: value for key, value in body.items() if key not in ("apiVersion", "kind")}
