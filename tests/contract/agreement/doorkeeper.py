"""A scheduler extender that closes the way out: a case's pod goes to the node that it is asked about, or nowhere.

A pin in the pod's own node affinity would do so too, but it would change the question: topology spread counts only
the nodes that the affinity means, and one node is never uneven. kube-scheduler asks its extenders last, with the nodes
that passed all its filters, so this one only narrows its answer. A pod whose claims wait for a provisioner that never
comes is held at the door, and it is noted that it would have passed.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rescheduler.model.json import Json
from tests.contract.agreement.world import HOLD, NODE, name_of, namespace_of
from tests.support.loopback import answering
from tests.testbed.cluster import ControlPlane

CLOSED = "not the node that is asked about"
HELD = "would fit, and is held at the door"


class Doorkeeper:
    """Closes the way out, and keeps the pods that it held at the door."""

    def __init__(self) -> None:
        self._held: set[tuple[str, str]] = set()

    def held(self, pod: Json) -> bool:
        """Whether the scheduler would have bound this pod to the node that it was asked about."""
        return (namespace_of(pod), name_of(pod)) in self._held

    def answer(self, path: str, asked: Json) -> Json:
        """The extender's answer to ExtenderArgs."""
        pod, names = asked["Pod"], asked["NodeNames"] or []
        annotations = pod["metadata"].get("annotations") or {}
        if NODE not in annotations:
            return {"NodeNames": names}
        passed = [name for name in names if name == annotations[NODE]]
        closed = {name: CLOSED for name in names if name not in passed}
        if passed and HOLD in annotations:
            self._held.add((namespace_of(pod), name_of(pod)))
            return {"NodeNames": [], "FailedNodes": {**closed, passed[0]: HELD}}
        return {"NodeNames": passed, "FailedNodes": closed}


@contextmanager
def doorkeeper(control_plane: ControlPlane) -> Iterator[Doorkeeper]:
    """The cluster's scheduler with a doorkeeper, until the end of the block."""
    keeper = Doorkeeper()
    with answering(keeper.answer) as door:
        extender = {"urlPrefix": door.url, "filterVerb": "filter", "nodeCacheCapable": True, "httpTimeout": "30s"}
        control_plane.configure_scheduler(extenders=[extender])
        try:
            yield keeper
        finally:
            control_plane.configure_scheduler()  # which also hangs up on the door
