"""Whether a pod that avoids nodes has any other to go to, as far as the nodes themselves go: labels, taints, volumes.

`knowledge` asks it before nodes are refused, because a pod that could go nowhere would wait for ever. Room is not
looked at: it comes and goes, the scheduler waits for it, and preemption or an autoscaler may make it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import msgspec
from msgspec import Raw

from rescheduler.decode import structs
from rescheduler.decode.cache import Cache
from rescheduler.decode.pods import PodDecoder
from rescheduler.decode.sections import SectionError
from rescheduler.model.instant import InstantError
from rescheduler.model.objects import Node, Pod
from rescheduler.model.shape import NodeTerm, Taint
from rescheduler.runtime.places import Places

_REMEMBERED = 1000
_MOST = 200_000  # requirements that are looked at for one pod, which takes some hundredths of a second
_pods = msgspec.json.Decoder(structs.Pod)


class Reach:
    """Judges nodes one by one, and stops at the first that suits: with most pods that is the first of all."""

    def __init__(self, cache: Cache, now: Callable[[], float]) -> None:
        self._cache = cache
        self._places = Places(cache, now)
        self._decoder, self._reads = PodDecoder(), 0

    def has_any(self, pod: Raw, names: Iterable[str]) -> bool:
        """Whether one of these nodes suits a pod; if its rules cannot be understood, the scheduler shall judge."""
        try:
            row = self._row(pod)
        except (msgspec.MsgspecError, UnicodeDecodeError, SectionError, InstantError):
            return True
        volumes = self._places.volumes(row)
        left, cost = _MOST, _cost(row, volumes)
        for name in names:
            node: Node | None = self._cache.row("Node", name)
            if node is not None and _suits(row, node, volumes):
                return True
            left -= cost
            if left < 0:
                return True  # whoever writes such rules shall not keep everybody else waiting
        return False

    def _row(self, pod: Raw) -> Pod:
        """A decoder remembers what pods have in common, which makes it quick; for ever it need not remember it."""
        self._reads += 1
        if self._reads > _REMEMBERED:
            self._decoder, self._reads = PodDecoder(), 0
        decoded = _pods.decode(pod)
        return self._decoder.row(decoded, decoded.metadata or structs.Meta())


def _cost(pod: Pod, volumes: tuple[tuple[NodeTerm, ...], ...]) -> int:
    """About how many requirements are looked at for one node."""
    terms = [*(pod.shape.node_affinity or ()), *(term for each in volumes for term in each)]
    asked = sum(1 + len(each.values) for term in terms for each in (*term.expressions, *term.fields))
    return 1 + len(terms) + asked + len(pod.shape.node_selector) + len(pod.shape.tolerations)


def _suits(pod: Pod, node: Node, volumes: tuple[tuple[NodeTerm, ...], ...]) -> bool:
    shape = pod.shape
    return (
        all(node.labels.get(key) == value for key, value in shape.node_selector)
        and (shape.node_affinity is None or _is_meant(node, shape.node_affinity))
        and all(_is_meant(node, terms) for terms in volumes)
        and not any(_keeps_off(taint) and not shape.tolerates(taint) for taint in node.taints)
    )


def _is_meant(node: Node, terms: tuple[NodeTerm, ...]) -> bool:
    return any(term.matches(node.labels, node.name) for term in terms)


def _keeps_off(taint: Taint) -> bool:
    return taint.effect in ("NoSchedule", "NoExecute")
