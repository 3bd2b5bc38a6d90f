"""The workloads of the demo's cluster: Deployments, StatefulSets, a Job and a DaemonSet, with disruption budgets.

The same size always gives the same workloads. Pods start and end slowly enough to be seen, and leave lost nodes soon.
Annotations tell the simulated kubelets how long that takes, and where pods fail.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count, cycle
from typing import Any, NamedTuple

from kubemini.simulation import PREFIX as SIMULATE
from rescheduler.model.json import Json

NAMESPACE = "shop"
"""The namespace of all workloads."""
AGENT = "agent"
"""The DaemonSet, whose pods are never moved."""
NODE_CPU = 4000
"""Millicores of a simulated node."""
NODE_MEMORY = 16 * 1024
"""MiB of a simulated node."""
JOB = "report"
_JOB_PODS = 4
_IMAGE = "hollow:1"  # never pulled: nothing really runs
_TAINTS_OF_LOST_NODES = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")
_NAMES = ("web", "cart", "search", "login", "images", "mail", "stock", "prices", "reviews", "offers")
_REPLICAS = (6, 4, 8, 3, 5)
_STATEFUL_REPLICAS = 3
_CPU_WEIGHTS, _MEMORY_WEIGHTS = (1.0, 1.6, 0.6, 1.2), (0.8, 1.0, 1.5)
_BUDGETS: tuple[int | str | None, ...] = (1, "25%", None)


@dataclass(frozen=True, slots=True)
class Pace:
    """Scales every duration of the demo by `--speed`."""

    speed: float = 1.0

    def seconds(self, usual: float, least: float = 0.0) -> float:
        """How long something takes at this speed; `least` is the fastest that the machine can do."""
        return max(usual / self.speed, least)

    def text(self, usual: float, least: float = 0.0) -> str:
        """The same for an annotation in seconds."""
        return f"{self.seconds(usual, least):g}"


@dataclass(frozen=True, slots=True)
class Size:
    """How large the demo is."""

    nodes: int = 12
    pods: int = 120


@dataclass(frozen=True, slots=True)
class Template:
    """The pod template of a workload."""

    cpu: int
    """Millicores."""
    memory: int
    """MiB."""
    pace: Pace
    simulated: Mapping[str, str] = field(default_factory=dict)
    """Annotations for simulated kubelets, such as `fails` and `fails-on`."""
    preferred_node: str = ""

    def body(self, app: str, **spec: Any) -> Json:
        """The template as a workload has it."""
        pace = self.pace
        durations = {"starts-in": pace.text(1.5, 0.05), "ends-in": pace.text(1.0, 0.05)}
        simulated = {f"{SIMULATE}{name}": value for name, value in (durations | dict(self.simulated)).items()}
        requests = {"cpu": f"{self.cpu}m", "memory": f"{self.memory}Mi"}
        # Kubernetes waits five minutes before pods leave a lost node: longer than most people watch.
        leaving = {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": max(1, round(pace.seconds(10.0)))}
        made: Json = {
            "containers": [{"name": "main", "image": _IMAGE, "resources": {"requests": requests}}],
            "tolerations": [{"key": taint, **leaving} for taint in _TAINTS_OF_LOST_NODES],
        }
        if self.preferred_node:
            expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [self.preferred_node]}
            term = {"weight": 100, "preference": {"matchExpressions": [expression]}}
            made["affinity"] = {"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}
        return {"metadata": {"labels": {"app": app}, "annotations": simulated}, "spec": made | spec}


def deployment(app: str, replicas: int, template: Template, **annotations: str) -> Json:
    """A Deployment that keeps all of its replicas during a rollout."""
    made = _workload("apps/v1", "Deployment", app, template.body(app), annotations)
    made["spec"]["replicas"] = replicas
    made["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}}
    return made


def stateful_set(app: str, replicas: int, template: Template) -> Json:
    """A StatefulSet that starts its pods in parallel."""
    made = _workload("apps/v1", "StatefulSet", app, template.body(app))
    made["spec"] |= {"replicas": replicas, "serviceName": app, "podManagementPolicy": "Parallel"}
    return made


def job(name: str, template: Template) -> Json:
    """A Job whose pods end by themselves, two at a time."""
    ending = Template(template.cpu, template.memory, template.pace, {"completes-in": template.pace.text(12.0, 0.2)})
    made = _workload("batch/v1", "Job", name, ending.body(name, restartPolicy="Never"))
    del made["spec"]["selector"]  # the API server generates it
    made["spec"] |= {"completions": _JOB_PODS, "parallelism": 2}
    return made


def agent(pace: Pace) -> Json:
    """The DaemonSet that runs on every node."""
    return _workload("apps/v1", "DaemonSet", AGENT, Template(40, 64, pace).body(AGENT))


def budget(app: str, max_unavailable: int | str) -> Json:
    """The disruption budget of an app."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": NAMESPACE},
        "spec": {"selector": {"matchLabels": {"app": app}}, "maxUnavailable": max_unavailable},
    }


def _workload(version: str, kind: str, app: str, template: Json, annotations: Mapping[str, str] | None = None) -> Json:
    metadata = {"name": app, "namespace": NAMESPACE, "labels": {"app": app}, "annotations": dict(annotations or {})}
    spec = {"selector": {"matchLabels": {"app": app}}, "template": template}
    return {"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec}


class _App(NamedTuple):
    name: str
    replicas: int
    cpu: float
    memory: float
    stateful: bool


def make_workloads(size: Size, percent: float, pace: Pace) -> Iterator[Json]:
    """Yield `size.pods` pods in workloads that use so many per cent of the CPU of `size.nodes` nodes, and a Job."""
    apps = list(_apps(size.pods))
    cpu_unit = size.nodes * NODE_CPU * percent / 100 / max(sum(app.replicas * app.cpu for app in apps), 1.0)
    memory = size.nodes * NODE_MEMORY * percent * 0.9 / 100
    memory_unit = memory / max(sum(app.replicas * app.memory for app in apps), 1.0)
    budgets = cycle(_BUDGETS)
    for number, app in enumerate(apps):
        template = Template(max(1, int(app.cpu * cpu_unit)), max(1, int(app.memory * memory_unit)), pace)
        if allowed := (1 if app.stateful else next(budgets)):
            yield budget(app.name, allowed)
        yield (stateful_set if app.stateful else deployment)(app.name, app.replicas, template)
        if number == 0:
            yield job(JOB, template)


def _apps(pods: int) -> Iterator[_App]:
    """Yield apps with so many pods in all; every third one is a StatefulSet."""
    replicas = cycle(_REPLICAS)
    names = (f"{name}-{round_}" if round_ else name for round_ in count() for name in _NAMES)
    for number in count():
        if pods <= 0:
            return
        stateful = number % 3 == 2
        size = min(pods, _STATEFUL_REPLICAS if stateful else next(replicas))
        if pods - size == 1:
            size += 1  # an app of one pod could not be moved without an outage
        weights = _CPU_WEIGHTS[number % len(_CPU_WEIGHTS)], _MEMORY_WEIGHTS[number % len(_MEMORY_WEIGHTS)]
        yield _App(f"db-{number // 3}" if stateful else next(names), size, *weights, stateful)
        pods -= size
