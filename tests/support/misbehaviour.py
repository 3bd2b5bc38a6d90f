"""Pods and kubelets that misbehave on demand: one interface for tests, obeyed by both clusters.

A Misbehaviour becomes annotations of a pod or of a workload's template, so that every replica and every copy has them;
KWOK's stages (`tests/testbed/stages`) obey them on the real cluster, the embedded kubelets on the embedded one. What a
kubelet does to its node is a label of the node. See `kubemini.simulation` for what each of them means.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, fields
from typing import Literal
from urllib.parse import quote

from rescheduler.model.json import Json
from tests.support.both_clusters import Space, is_ready, name_of
from tests.testbed.api import Api, ApiError

PREFIX = "simulate.rescheduler.io/"
KUBELET = f"{PREFIX}kubelet"

Mode = Literal["CrashLoopBackOff", "SidecarRuns", "NeverReady", "ImagePullBackOff", "OutOfcpu", "Failed"]


@dataclass(frozen=True)
class Misbehaviour:
    """How a pod misbehaves and at which pace, in seconds; what is left out is as it is with a healthy pod.

    Mind that a ReplicaSet replaces pods that are `Failed` or `OutOfcpu` at once and for ever, one a second unless
    `starts_in` says otherwise, and that the scheduler finds the node where they fail the emptiest.
    """

    fails: Mode | None = None
    on: Sequence[str] | None = None
    """The nodes where it fails; None means everywhere."""
    reason: str | None = None
    """Of `Failed`. The kubelet's own (Evicted, Terminated, Preempting, DeadlineExceeded) come with its words."""
    restarts_every: float | None = None
    starts_in: float | None = None
    completes_in: float | None = None
    ends_in: float | None = None

    def annotations(self) -> dict[str, str]:
        """What says so on a pod."""
        given = {each.name: getattr(self, each.name) for each in fields(self) if getattr(self, each.name) is not None}
        if "on" in given:
            given["fails-on"] = ",".join(given.pop("on"))
        return {PREFIX + name.replace("_", "-"): str(value) for name, value in given.items()}

    def of(self, body: Json) -> Json:
        """The pod, or the workload whose pods behave so; it is changed in place."""
        metadata = body["metadata"] if body["kind"] == "Pod" else body["spec"]["template"].setdefault("metadata", {})
        metadata["annotations"] = metadata.get("annotations", {}) | self.annotations()
        return body


def misbehaves(api: Api, pod: str, how: Misbehaviour) -> None:
    """A pod that is there already, by its path, behaves so from now on."""
    api.patch(pod, {"metadata": {"annotations": how.annotations()}})


def behaves(api: Api, pod: str) -> None:
    """A pod, by its path, is healthy again: all annotations about its behaviour are removed."""
    found = api.get(pod)["metadata"].get("annotations", {})
    api.patch(pod, {"metadata": {"annotations": {key: None for key in found if key.startswith(PREFIX)}}})


def let_start(space: Space, app: str) -> None:
    """The app's pods that start slowly start now."""
    for each in space.pods(app):
        if not is_ready(each):
            with contextlib.suppress(ApiError):  # it is gone by now
                misbehaves(space.api, space.path("Pod", name_of(each)), Misbehaviour(starts_in=0))


def kubelet_dies(api: Api, node: str) -> None:
    """The kubelet stops reporting, and its pods no longer react."""
    _label(api, node, "Dead")


def kubelet_recovers(api: Api, node: str) -> None:
    """The kubelet is healthy again, and does what it has missed."""
    _label(api, node, None)


def _label(api: Api, node: str, value: str | None) -> None:
    api.patch(f"/api/v1/nodes/{quote(node)}", {"metadata": {"labels": {KUBELET: value}}})
