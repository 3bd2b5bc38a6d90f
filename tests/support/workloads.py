"""The workload controllers at work in a test's own event loop: one API, their Runners, and a kubelet of a few lines.

    async with Workloads() as cluster:
        await cluster.create(deployment("web", 3))
        await cluster.until("it is rolled out", lambda: …)

Tests wait for states: `until` looks again after each change of the store, `settled` lets everyone finish what there is
to do now. An exception inside a controller, which a Runner only logs, fails the test when the block is left.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, TypeVar

from kubemini import clock
from kubemini.api import Admission, Api, Deletion, Target
from kubemini.controllers.base import Controller, Runner
from kubemini.controllers.deployment import DeploymentController
from kubemini.controllers.replica_set import ReplicaSetController
from kubemini.controllers.stateful_set import StatefulSetController
from kubemini.errors import Json, StatusError
from kubemini.kinds import (
    CLAIM,
    CORE_EVENT,
    DEPLOYMENT,
    NAMESPACE,
    POD,
    REPLICA_SET,
    STATEFUL_SET,
)
from kubemini.store import Change, Key, Store

SPACE = "default"
PATIENCE = 120.0  # seconds until a state that does not come is given up; nothing waits for it to pass
_KINDS = {kind.name: kind for kind in (CLAIM, DEPLOYMENT, POD, REPLICA_SET, STATEFUL_SET, CORE_EVENT)}
Found = TypeVar("Found")


class Workloads:
    """A store with the workload controllers on it."""

    def __init__(self, admission: Admission | None = None) -> None:
        self.api = Api(Store(), admission=admission)
        self.store = self.api.store
        self.kubelet = Kubelet(self.api)
        made: list[Controller] = [
            DeploymentController(self.api),
            ReplicaSetController(self.api),
            StatefulSetController(self.api),
        ]
        self._runners = [Runner(self.store, controller) for controller in made]
        self._errors = LoggedErrors()
        self._stack = contextlib.AsyncExitStack()
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await self.api.create(Target(NAMESPACE, name=SPACE), {"metadata": {"name": SPACE}})
        logging.getLogger("kubemini").addHandler(self._errors)
        group = await self._stack.enter_async_context(asyncio.TaskGroup())
        runs = [self.kubelet.run(), *(runner.run() for runner in self._runners)]
        self._tasks = [group.create_task(run) for run in runs]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await self._stack.__aexit__(None, None, None)
        logging.getLogger("kubemini").removeHandler(self._errors)
        assert not self._errors.texts, "\n".join(self._errors.texts)

    async def create(self, body: Json) -> Json:
        return await self.api.create(Target(_KINDS[body["kind"]], SPACE), body)

    def get(self, kind: str, name: str) -> Json:
        return self.api.get(Target(_KINDS[kind], SPACE, name))

    def all(self, kind: str, **labels: str) -> list[Json]:
        entries = self.store.entries(_KINDS[kind], SPACE)
        return [entry.object() for entry in entries if labels.items() <= entry.labels.items()]

    def pods(self, app: str) -> list[Json]:
        """The app's pods that are not on their way out."""
        return [pod for pod in self.all("Pod", app=app) if "deletionTimestamp" not in pod["metadata"]]

    def owned(self, kind: str, owner: str) -> list[Json]:
        """What an owner of this name manages."""
        found = self.all(kind)
        return [each for each in found if any(o["name"] == owner for o in each["metadata"].get("ownerReferences", ()))]

    def events(self, about: str) -> list[tuple[str, str]]:
        """Reason and message of what was said about an object, in the order of saying."""
        found = [event for event in self.all("Event") if event["involvedObject"]["name"] == about]
        found.sort(key=lambda event: int(event["metadata"]["resourceVersion"]))
        return [(event["reason"], event["message"]) for event in found]

    async def edit(self, kind: str, name: str, edit: Callable[[Json], Any], subresource: str = "") -> Json:
        """A new version of an object; the function changes it in place."""

        def edited(body: Json) -> Json:
            edit(body)
            return body

        return await self.api.edit(Target(_KINDS[kind], SPACE, name, subresource), edited)

    async def set(self, kind: str, name: str, **spec: Any) -> Json:
        """Other values for fields of an object's spec."""
        return await self.edit(kind, name, lambda body: body["spec"].update(spec))

    async def delete(self, kind: str, name: str, *, grace: int | None = None) -> None:
        await self.api.delete(Target(_KINDS[kind], SPACE, name), Deletion(grace=grace))

    async def until(self, what: str, test: Callable[[], Found]) -> Found:
        """What the test says when it first says something true; it is asked after each change."""
        changed = asyncio.Event()
        unsubscribe = self.store.subscribe(lambda _: changed.set())
        try:
            async with asyncio.timeout(PATIENCE):
                while not (found := test()):
                    changed.clear()
                    await changed.wait()
        except TimeoutError:
            raise AssertionError(f"it never came to this: {what}") from None
        finally:
            unsubscribe()
        return found

    async def settled(self) -> None:
        """Until nobody has anything to do now; what is tried again later does not count."""
        while not (self.kubelet.idle and all(runner.idle for runner in self._runners)):  # noqa: ASYNC110  no event says it
            await asyncio.sleep(0)

    async def rolled_out(self, name: str) -> Json:
        """The Deployment or other workload, once all of its replicas are new and available, and nothing moves."""

        def is_rolled_out() -> bool:
            body = self.get("Deployment", name)
            status, wanted = body.get("status", {}), body["spec"]["replicas"]
            counts = [status.get(key, 0) for key in ("replicas", "updatedReplicas", "availableReplicas")]
            return counts == [wanted] * 3 and status.get("observedGeneration") == body["metadata"]["generation"]

        await self.until(f"{name} is rolled out", is_rolled_out)
        await self.settled()
        return self.get("Deployment", name)

    def watch(self, kind: str, seen: Callable[[Change], None]) -> Callable[[], None]:
        """Have each change of a kind shown to a function, inside the write; the answer ends that."""
        return self.store.subscribe(seen, _KINDS[kind])


class Kubelet:
    """Starts pods and ends those that are deleted, as told by its two switches; every pod has a node of its own."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._store = api.store
        self._queue: asyncio.Queue[Key] = asyncio.Queue()
        self._busy = False
        self.starts: Callable[[Json], bool] = lambda _: True
        """Which pods become Ready."""
        self.ends: Callable[[Json], bool] = lambda _: True
        """Which pods that are deleted are ended."""

    @property
    def idle(self) -> bool:
        return self._queue.empty() and not self._busy

    async def run(self) -> None:
        unsubscribe = self._store.subscribe(self._changed, POD)
        try:
            while True:
                key = await self._queue.get()
                self._busy = True
                await self._look_at(key)
                self._busy = False
        finally:
            unsubscribe()

    def write(self, name: str, edit: Callable[..., Any], *values: Any) -> None:
        """Change a pod past all rules, as only a kubelet and a scheduler may; the values are for the function."""
        entry = self._store.get(POD, (SPACE, name))
        assert entry is not None
        body = entry.object()
        edit(body, *values)
        self._store.replace(POD, body, entry.version)

    def _changed(self, change: Change) -> None:
        if change.type != "DELETED":
            self._queue.put_nowait(change.entry.key)

    async def _look_at(self, key: Key) -> None:
        entry = self._store.get(POD, key)
        if entry is None:
            return
        pod = entry.object()
        if entry.deleting:
            if self.ends(pod) and not pod["metadata"].get("finalizers"):
                with contextlib.suppress(StatusError):
                    await self._api.delete(Target(POD, *key), Deletion(grace=0))
        elif pod.get("status", {}).get("phase", "Pending") == "Pending" and self.starts(pod):
            self.write(key[1], ready)


class LoggedErrors(logging.Handler):
    """What went wrong inside a controller."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(logging.Formatter().format(record))


def ready(pod: Json, since: str = "") -> None:
    """The pod runs and is Ready, from now or from a given time."""
    stamp = since or clock.stamp(clock.now())
    pod["spec"].setdefault("nodeName", f"node-of-{pod['metadata']['name']}")
    pod["status"] = pod.get("status", {}) | {
        "phase": "Running",
        "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": stamp}],
    }


def unready(pod: Json) -> None:
    """The pod runs, but is not Ready."""
    ready(pod)
    pod["status"]["conditions"][0]["status"] = "False"


def ended(pod: Json) -> None:
    """The pod has failed for good."""
    ready(pod)
    pod["status"] |= {"phase": "Failed", "conditions": []}


def name_of(body: Json) -> str:
    return str(body["metadata"]["name"])


def names(bodies: list[Json]) -> list[str]:
    return [name_of(each) for each in bodies]


def condition(body: Json, kind: str) -> Json:
    """One condition of an object's status; empty where there is none."""
    found = body.get("status", {}).get("conditions") or ()
    return next((each for each in found if each["type"] == kind), {})
