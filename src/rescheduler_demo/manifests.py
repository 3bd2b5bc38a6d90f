"""The objects of the demo's workloads: whole, small, and named so that a person can tell them apart.

`workload` says how many there are and how large. Pods start and end slowly enough to be seen, leave lost nodes soon,
and carry the marks by which hollow kubelets make them fail, where a scenario wants that.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kubemini.simulation import PREFIX as SIMULATE
from rescheduler_demo.pace import Pace

Json = dict[str, Any]
SPACE = "shop"
"""The namespace of everything that the demo runs."""
_IMAGE = "hollow:1"  # never pulled: nothing really runs
_LOST = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


@dataclass(frozen=True, slots=True)
class Template:
    """What the pods of a workload are like."""

    cpu: int
    """Thousandths of a CPU."""
    memory: int
    """MiB."""
    pace: Pace
    simulated: Mapping[str, str] = field(default_factory=dict)
    """Marks for hollow kubelets: `fails`, `fails-on` and so on."""
    likes: str = ""
    """A node that they would rather be on."""

    def body(self, app: str, **spec: Any) -> Json:
        """As a workload has it."""
        pace = self.pace
        paces = {"starts-in": pace.text(1.5, 0.05), "ends-in": pace.text(1.0, 0.05)}
        simulated = {f"{SIMULATE}{name}": value for name, value in (paces | dict(self.simulated)).items()}
        asked = {"cpu": f"{self.cpu}m", "memory": f"{self.memory}Mi"}
        made: Json = {
            "containers": [{"name": "main", "image": _IMAGE, "resources": {"requests": asked}}],
            "tolerations": [_leaves(taint, pace) for taint in _LOST],
        }
        if self.likes:
            made["affinity"] = {"nodeAffinity": _preference(self.likes)}
        return {"metadata": {"labels": {"app": app}, "annotations": simulated}, "spec": made | spec}


def deployment(app: str, replicas: int, template: Template, **annotations: str) -> Json:
    """A Deployment that is never below its replicas while it is rolled out."""
    made = _workload("apps/v1", "Deployment", app, template.body(app), annotations)
    made["spec"]["replicas"] = replicas
    made["spec"]["strategy"] = {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}}
    return made


def stateful_set(app: str, replicas: int, template: Template, **annotations: str) -> Json:
    """A StatefulSet whose pods come all at once."""
    made = _workload("apps/v1", "StatefulSet", app, template.body(app), annotations)
    made["spec"] |= {"replicas": replicas, "serviceName": app, "podManagementPolicy": "Parallel"}
    return made


def daemon_set(app: str, template: Template) -> Json:
    """A DaemonSet."""
    return _workload("apps/v1", "DaemonSet", app, template.body(app), {})


def job(app: str, completions: int, template: Template) -> Json:
    """A Job that has two pods at a time."""
    made = _workload("batch/v1", "Job", app, template.body(app, restartPolicy="Never"), {})
    del made["spec"]["selector"]  # the API server makes it up
    made["spec"] |= {"completions": completions, "parallelism": min(2, completions)}
    return made


def budget(app: str, most: int | str) -> Json:
    """A disruption budget for an app: how many of its pods may be unavailable."""
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app, "namespace": SPACE},
        "spec": {"selector": {"matchLabels": {"app": app}}, "maxUnavailable": most},
    }


def _workload(version: str, kind: str, app: str, template: Json, annotations: Mapping[str, str]) -> Json:
    return {
        "apiVersion": version,
        "kind": kind,
        "metadata": {"name": app, "namespace": SPACE, "labels": {"app": app}, "annotations": dict(annotations)},
        "spec": {"selector": {"matchLabels": {"app": app}}, "template": template},
    }


def _leaves(taint: str, pace: Pace) -> Json:
    """Pods leave a lost node after a while; Kubernetes' five minutes are longer than most people look."""
    seconds = max(1, round(pace.seconds(10.0)))
    return {"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}


def _preference(node: str) -> Json:
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    term = {"weight": 100, "preference": {"matchExpressions": [expression]}}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [term]}
