"""The bustle: what people do to a cluster all day. Rollouts, scaling, restarts of single pods, Jobs one after another.

It goes on beside every scenario, so that moves happen in a cluster that does not stand still. The same seed gives the
same order of doings; scenarios may have it rest for a while.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass, field

from kubemini.kinds import DEPLOYMENT, POD
from kubemini.kinds import JOB as JOB_KIND
from kubemini.store import Store
from rescheduler_demo.hands import Hands
from rescheduler_demo.manifests import SPACE, Template, job
from rescheduler_demo.pace import Pace
from rescheduler_demo.workload import JOB, job_template

_EVERY, _LEAST = 7.0, 2.0
_SEED = 7
Tell = Callable[[str], None]


@dataclass
class Bustle:
    """People at work."""

    store: Store
    hands: Hands
    pace: Pace
    tell: Tell
    spares: frozenset[str] = frozenset()
    """Deployments that the scenario itself scales and rolls out."""
    _resting: asyncio.Event = field(default_factory=asyncio.Event)
    _done: int = 0

    def rest(self) -> None:
        """Do nothing any more."""
        self._resting.set()

    def resume(self) -> None:
        """Go on."""
        self._resting.clear()

    async def run(self) -> None:
        """Do something every few seconds, until cancelled."""
        chance = random.Random(_SEED)  # noqa: S311 - nothing secret: it is to be the same each time
        doings = (self._scale, self._roll_out, self._restart, self._job)
        while True:
            await asyncio.sleep(self.pace.seconds(_EVERY, _LEAST))
            if not self._resting.is_set():
                await doings[self._done % len(doings)](chance)
                self._done += 1

    async def _scale(self, chance: random.Random) -> None:
        """One pod more, or one less: never far from where it was."""
        if (app := self._any(chance)) is None:
            return
        name, replicas = app
        wanted = replicas + (1 if replicas % 2 == 0 else -1)
        self.tell(f"somebody scales {name} from {replicas} to {max(2, wanted)}")
        await self.hands.scale(name, max(2, wanted))

    async def _roll_out(self, chance: random.Random) -> None:
        if (app := self._any(chance)) is not None:
            self.tell(f"somebody rolls {app[0]} out anew")
            await self.hands.roll_out(app[0], f"v{self._done}")

    async def _restart(self, chance: random.Random) -> None:
        """A single pod is deleted by hand."""
        if (app := self._any(chance)) is None:
            return
        pods = [each for each in self.store.entries(POD, SPACE) if each.labels.get("app") == app[0]]
        if standing := [each for each in pods if not each.deleting]:
            name = chance.choice(standing).key[1]
            self.tell(f"somebody deletes pod {name}")
            await self.hands.remove(POD, name)

    async def _job(self, chance: random.Random) -> None:
        """The Job has ended: away with it, and the next one."""
        for entry in self.store.entries(JOB_KIND, SPACE):
            body = entry.object()
            if body.get("status", {}).get("completionTime"):
                await self.hands.remove(JOB_KIND, entry.key[1])
        if not self.store.entries(JOB_KIND, SPACE):
            name = f"{JOB}-{self._done}"
            self.tell(f"somebody starts Job {name}")
            await self.hands.deploy([job(name, 4, job_template(Template(100, 128, self.pace)))])

    def _any(self, chance: random.Random) -> tuple[str, int] | None:
        """A Deployment by chance, and how many pods it wants."""
        found = [each for each in self.store.entries(DEPLOYMENT, SPACE) if each.key[1] not in self.spares]
        if not found:
            return None
        entry = chance.choice(found)
        return entry.key[1], int(entry.object()["spec"].get("replicas", 1))
