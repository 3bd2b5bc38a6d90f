"""Changes to the demo's cluster: what scenarios do to it, and the churn of everyday work beside them.

Everything goes straight to the embedded API, as kubectl would over HTTP. An object that has gone meanwhile is no error:
in the demo anything may go at any time.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count

from kubemini.api import Api, Deletion, Target
from kubemini.errors import StatusError
from kubemini.kinds import DEPLOYMENT, NODE, POD, Kind
from kubemini.kinds import JOB as JOB_KIND
from kubemini.kinds import NAMESPACE as NAMESPACE_KIND
from kubemini.patches import apply_merge_patch
from kubemini.store import Entry, Store
from rescheduler.model.json import Json
from rescheduler_demo.workloads import JOB, NAMESPACE, Pace, Template, job

_NOT_FOUND = 404
_EVERY, _LEAST = 7.0, 2.0  # seconds
_SEED = 7


class Actions:
    """What a user can do to the cluster."""

    def __init__(self, api: Api) -> None:
        self._api = api

    async def create_namespace(self, name: str) -> None:
        """Create a namespace."""
        await self._api.create(Target(NAMESPACE_KIND, name=name), {"metadata": {"name": name}})

    async def create(self, bodies: Iterable[Json]) -> None:
        """Create objects in the namespace of the workloads."""
        for body in bodies:
            kind = self._api.kinds.named(body["apiVersion"], body["kind"])
            if kind is None:
                raise LookupError(f"the embedded cluster does not know {body['apiVersion']} {body['kind']}")
            await self._api.create(Target(kind, NAMESPACE), body)

    async def scale(self, app: str, replicas: int) -> None:
        """Scale a Deployment."""
        await self._patch(Target(DEPLOYMENT, NAMESPACE, app), {"spec": {"replicas": replicas}})

    async def roll_out(self, app: str, version: str) -> None:
        """Roll a Deployment out again, as `kubectl rollout restart` does."""
        template = {"metadata": {"annotations": {"shop.example/version": version}}}
        await self._patch(Target(DEPLOYMENT, NAMESPACE, app), {"spec": {"template": template}})

    async def label_node(self, node: str, label: str, value: str | None) -> None:
        """Set a label of a node, or remove it (None)."""
        await self._patch(Target(NODE, name=node), {"metadata": {"labels": {label: value}}})

    async def delete(self, kind: Kind, name: str) -> None:
        """Delete an object and its dependents."""
        with _ignore_not_found():
            await self._api.delete(Target(kind, NAMESPACE if kind.namespaced else "", name), Deletion())

    async def _patch(self, target: Target, patch: Json) -> None:
        with _ignore_not_found():
            await self._api.edit(target, lambda body: apply_merge_patch(patch, body))


@contextmanager
def _ignore_not_found() -> Iterator[None]:
    try:
        yield
    except StatusError as refusal:
        if refusal.code != _NOT_FOUND:
            raise


@dataclass
class Churn:
    """Rollouts, scaling, deleted pods and Jobs, one every few seconds, in the same order each time.

    It runs beside every scenario, so that moves happen in a cluster that changes.
    """

    store: Store
    actions: Actions
    pace: Pace
    report: Callable[[str], None]
    spared: frozenset[str] = frozenset()
    """Deployments that only the scenario changes."""
    paused: bool = False

    async def run(self) -> None:
        """Change something every few seconds, until cancelled."""
        chance = random.Random(_SEED)  # noqa: S311 - nothing secret: the same order each time is wanted
        for number in count():
            await asyncio.sleep(self.pace.seconds(_EVERY, _LEAST))
            if self.paused:
                continue
            found = [each for each in self.store.entries(DEPLOYMENT, NAMESPACE) if each.key[1] not in self.spared]
            if number % 4 == 3:
                await self._renew_job(number)
            elif found:
                await self._disturb(chance.choice(found), number, chance)

    async def _disturb(self, deployment: Entry, number: int, chance: random.Random) -> None:
        """Scale it by one pod, roll it out, or delete one of its pods, in turn."""
        name, replicas = deployment.key[1], int(deployment.object()["spec"].get("replicas", 1))
        pods = [each for each in self.store.entries(POD, NAMESPACE) if each.labels.get("app") == name]
        staying = [each.key[1] for each in pods if not each.deleting]
        if number % 4 == 0:
            wanted = max(2, replicas + (1 if replicas % 2 == 0 else -1))
            self.report(f"{name} is scaled from {replicas} to {wanted}")
            await self.actions.scale(name, wanted)
        elif number % 4 == 1:
            self.report(f"{name} is rolled out")
            await self.actions.roll_out(name, f"v{number}")
        elif staying:
            pod = chance.choice(staying)
            self.report(f"pod {pod} is deleted")
            await self.actions.delete(POD, pod)

    async def _renew_job(self, number: int) -> None:
        """Delete the Job if it has ended, and start the next one."""
        for entry in self.store.entries(JOB_KIND, NAMESPACE):
            if entry.object().get("status", {}).get("completionTime"):
                await self.actions.delete(JOB_KIND, entry.key[1])
        if not self.store.entries(JOB_KIND, NAMESPACE):
            name = f"{JOB}-{number}"
            self.report(f"Job {name} starts")
            await self.actions.create([job(name, Template(100, 128, self.pace))])
