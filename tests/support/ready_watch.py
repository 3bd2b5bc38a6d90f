"""Watches pods, event by event, for moments in which a workload had fewer Ready pods than it must.

The auditor's companion: it sees what happened in between, and which pod replaced which, where the auditor sees only the
end. It runs in a thread with a connection of its own, reads the API server's watch in its order, and misses nothing,
because each watch goes on from the version where the last one ended.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from rescheduler.model.json import Json
from rescheduler.model.labels import ORIGINAL_POD
from tests.support.both_clusters import PATHS, is_ready, name_of
from tests.testbed.api import Api

PODS = "/api/v1/pods"
SECONDS = 2  # of one watch: so long does the thread take to notice that it shall end


@dataclass(frozen=True)
class Floor:
    """The pods of a namespace with `app=<app>`, of which at least so many must be Ready at every moment."""

    namespace: str
    app: str
    least: int

    def has(self, pod: Json) -> bool:
        """Whether a pod is one of them."""
        labels = pod["metadata"].get("labels") or {}
        return bool(pod["metadata"]["namespace"] == self.namespace and labels.get("app") == self.app)


class ReadyWatch:
    """Watches from the beginning of a block to its end; `breaches` are the moments below a floor."""

    def __init__(self, api: Api, floors: Iterable[Floor]) -> None:
        self.breaches: list[str] = []
        self.ancestors: dict[str, str] = {}
        self.events = 0
        self._floors: Sequence[Floor] = tuple(floors)
        self._api = api.another()
        self._ready: dict[Floor, dict[str, bool]] = {floor: {} for floor in self._floors}
        self._version = ""
        self._ended = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="ready-watch")

    def __enter__(self) -> Self:
        listed = self._api.get(PODS)
        for pod in listed["items"]:
            self._see(pod, gone=False)
        self._version = listed["metadata"]["resourceVersion"]
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()
        self._api.close()
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            while not self._ended.is_set():
                self._follow(SECONDS)
            self._follow(1)  # for what came between the end of the last one and the signal to end
        except BaseException as error:  # noqa: BLE001  it is raised again in the thread that ends this one
            self._failure = error

    def _follow(self, seconds: int) -> None:
        query = f"resourceVersion={self._version}&timeoutSeconds={seconds}&allowWatchBookmarks=true"
        with self._api.watch(f"{PODS}?{query}") as events:
            for event in events:
                found = event["object"]
                if event["type"] == "ERROR":
                    raise RuntimeError(f"the watch of pods broke: {found}")
                self._version = found["metadata"]["resourceVersion"]
                if event["type"] != "BOOKMARK":
                    self.events += 1
                    self._see(found, gone=event["type"] == "DELETED")
                    self._check(found)

    def _see(self, pod: Json, *, gone: bool) -> None:
        uid, notes = pod["metadata"]["uid"], pod["metadata"].get("annotations") or {}
        if ORIGINAL_POD in notes:
            self.ancestors[uid] = notes[ORIGINAL_POD]
        for floor, pods in self._ready.items():
            if uid in pods or floor.has(pod):
                pods[uid] = not gone and is_ready(pod) and floor.has(pod)

    def _check(self, pod: Json) -> None:
        for floor, pods in self._ready.items():
            ready = sum(pods.values())
            if pod["metadata"]["uid"] in pods and ready < floor.least:
                what = f"{floor.namespace}/{floor.app} had {ready} Ready pods, and must have {floor.least}"
                self.breaches.append(f"{what}: when {name_of(pod)} changed, at version {self._version}")


def desired_healthy(spec: Json, wanted: int) -> int:
    """How many of a workload's pods a disruption budget keeps healthy, computed as Kubernetes does."""
    if (least := spec.get("minAvailable")) is not None:
        return _share(least, wanted)
    return max(0, wanted - _share(spec.get("maxUnavailable", 1), wanted))


def floor_of(api: Api, namespace: str, app: str, wanted: int) -> Floor:
    """What the budgets of a namespace allow for an app; without any, one pod less than there shall be."""
    found = api.get(PATHS["PodDisruptionBudget"].format(namespace))["items"]
    own = [each["spec"] for each in found if each["spec"]["selector"].get("matchLabels") == {"app": app}]
    return Floor(namespace, app, max((desired_healthy(spec, wanted) for spec in own), default=min(1, wanted - 1)))


def _share(number: int | str, whole: int) -> int:
    if isinstance(number, int):
        return number
    return math.ceil(int(number.removesuffix("%")) * whole / 100)
