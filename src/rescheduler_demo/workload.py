"""What runs in the demo's cluster: so many pods in Deployments, StatefulSets and a Job, with disruption budgets.

A scenario says how full its pods make the nodes that they are to be placed on; sizes differ from app to app, and the
same numbers always give the same workload.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, cycle

from rescheduler_demo.manifests import Json, Template, budget, daemon_set, deployment, job, stateful_set
from rescheduler_demo.pace import Pace

NODE_CPU = 4000
"""Thousandths of a CPU that a hollow node has."""
NODE_MEMORY = 16 * 1024
"""MiB."""
PODS_PER_NODE = 30
"""On average, at most: as in the largest cluster that Kubernetes supports."""
JOB = "report"
AGENT = "agent"
_NAMES = ("web", "cart", "search", "login", "images", "mail", "stock", "prices", "reviews", "offers")
_REPLICAS = (6, 4, 8, 3, 5)
_MEMBERS = 3
_JOB_PODS = 4
_CPU_WEIGHTS, _MEMORY_WEIGHTS = (1.0, 1.6, 0.6, 1.2), (0.8, 1.0, 1.5)
_BUDGETS: tuple[int | str | None, ...] = (1, "25%", None)


@dataclass(frozen=True, slots=True)
class Size:
    """How large the demo is."""

    nodes: int = 12
    pods: int = 120


@dataclass(frozen=True, slots=True)
class Filling:
    """How many pods, how full they make how many nodes (in per cent of their CPU), and how fast they start."""

    pods: int
    nodes: int
    percent: float
    pace: Pace

    def workloads(self) -> Iterator[Json]:
        """Everything, in the order in which it is created; the Job's pods come and go beside the others."""
        apps = list(self._apps())
        unit = self.nodes * NODE_CPU * self.percent / 100 / max(sum(size * each.cpu for size, each in apps), 1.0)
        share = self.nodes * NODE_MEMORY * self.percent * 0.9 / 100
        memory_unit = share / max(sum(size * each.memory for size, each in apps), 1.0)
        budgets = cycle(_BUDGETS)
        for number, (size, app) in enumerate(apps):
            template = Template(max(1, int(app.cpu * unit)), max(1, int(app.memory * memory_unit)), self.pace)
            if allowed := (1 if app.stateful else next(budgets)):
                yield budget(app.name, allowed)
            made = stateful_set if app.stateful else deployment
            yield made(app.name, size, template)
            if number == 0:
                yield job(JOB, _JOB_PODS, job_template(template))

    def _apps(self) -> Iterator[tuple[int, _App]]:
        """Each app with its number of pods; about one in five pods is a StatefulSet's."""
        left, replicas = self.pods, cycle(_REPLICAS)
        names = (f"{name}-{round_}" if round_ else name for round_ in count() for name in _NAMES)
        for number in count():
            if left <= 0:
                return
            stateful = number % 3 == 2
            size = min(left, _MEMBERS if stateful else next(replicas))
            if left - size == 1:
                size += 1  # a single pod would be of an app that can't be moved without being down
            weights = _CPU_WEIGHTS[number % len(_CPU_WEIGHTS)], _MEMORY_WEIGHTS[number % len(_MEMORY_WEIGHTS)]
            yield size, _App(f"db-{number // 3}" if stateful else next(names), *weights, stateful)
            left -= size


@dataclass(frozen=True, slots=True)
class _App:
    name: str
    cpu: float
    memory: float
    stateful: bool


def job_template(template: Template) -> Template:
    """The same for pods that end by themselves."""
    pace = template.pace
    return Template(template.cpu, template.memory, pace, {"completes-in": pace.text(12.0, 0.2)})


def agent(pace: Pace) -> Json:
    """What runs on every node, and is never moved."""
    return daemon_set(AGENT, Template(40, 64, pace))
