"""All that happened to the pods of a namespace, and how many of each app were Ready, event by event.

A thread records every event, from before the start to the end that `end` marks with a pod of its own: so nothing
between two looks is missed. Counting is as disruption budgets count: a pod that is being deleted is not healthy, and a
copy counts from the moment it is Ready, with or without a controller.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from rescheduler.model.json import Json
from tests.support.both_clusters import Space, is_ready, name_of
from tests.support.manifests import gated

END = "the-record-ends-here"
SECONDS_OF_ONE_WATCH = 300


@dataclass(frozen=True)
class Lowest:
    """The fewest Ready pods of an app there ever were, and what happened then."""

    ready: int
    event: str = "it was so from the start"


class PodRecord:
    """All that happens to the pods of a namespace, until `end` is called."""

    def __init__(self, space: Space) -> None:
        self._space = space
        self._api = space.api.another()
        start = self._api.get(space.path("Pod"))
        self._version: str = start["metadata"]["resourceVersion"]
        self._start: list[Json] = start["items"]
        self._events: list[Json] = []
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run, name="pod-record")
        self._thread.start()

    def end(self) -> None:
        """All events up to now are in the record when this returns."""
        if self._thread.is_alive():
            self._space.create(gated(END))
            self._thread.join()
            self._space.delete("Pod", END, gracePeriodSeconds=0)
        self._api.close()
        if self._failure is not None:
            raise self._failure

    @property
    def events(self) -> list[Json]:
        """In the order in which they happened."""
        return list(self._events)

    def lowest(self) -> dict[str, Lowest]:
        """For each app that was there at the start."""
        ready = {pod["metadata"]["uid"] for pod in self._start if is_ready(pod)}
        counts = Counter(_app(pod) for pod in self._start if is_ready(pod))
        found = {app: Lowest(counts[app]) for app in {_app(pod) for pod in self._start}}
        for event in self._events:
            pod = event["object"]
            app, uid = _app(pod), pod["metadata"]["uid"]
            is_one = event["type"] != "DELETED" and is_ready(pod)
            counts[app] += is_one - (uid in ready)
            ready = ready | {uid} if is_one else ready - {uid}
            if app in found and counts[app] < found[app].ready:
                what = f"{event['type']} {name_of(pod)} at {pod['metadata']['resourceVersion']}"
                found[app] = Lowest(counts[app], what)
        return found

    def _run(self) -> None:
        try:
            while not self._watched():
                pass
        except Exception as error:  # noqa: BLE001  it is raised in the thread that ends the record
            self._failure = error

    def _watched(self) -> bool:
        """One watch, to its end; whether it has seen the end of the record."""
        asked = {"resourceVersion": self._version, "timeoutSeconds": str(SECONDS_OF_ONE_WATCH)}
        try:
            with self._api.watch(self._space.path("Pod", **asked)) as events:
                for event in events:
                    if event["type"] == "ERROR":
                        raise AssertionError(f"the record has a hole: {event['object']}")
                    self._version = event["object"]["metadata"]["resourceVersion"]
                    if name_of(event["object"]) == END:
                        return True
                    self._events.append(event)
        except TimeoutError:  # nothing happened for a while: it goes on from the same version
            pass
        return False


@contextmanager
def recorded(space: Space) -> Iterator[PodRecord]:
    """The record of what happens in the block."""
    record = PodRecord(space)
    try:
        yield record
    finally:
        record.end()


def _app(pod: Json) -> str:
    return str(pod["metadata"].get("labels", {}).get("app", ""))
