"""A release of the chart in the real control plane, by helm's commands: installed, changed, rolled back, taken away.

Scenarios of `tests/e2e` start its processes themselves (`tests.chart.deployed`), since hollow nodes run no image.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rescheduler.model.json import Json
from tests.chart.deployed import Release
from tests.chart.inventory import Inventory, taken
from tests.support.both_clusters import ClusterUnderTest, Space
from tests.support.cli import rescheduler
from tests.support.controller_process import QUICK, SHORT_LEASE
from tests.testbed.helm import CHART, Helm
from tests.testbed.processes import StateNotReached, free_port, until

HOME = NAME = "kube-rescheduler"
WAITING = ("--wait", "--timeout", "120s")


class Installation:
    """A release, of this name in this namespace."""

    def __init__(self, cluster: ClusterUnderTest, folder: Path, namespace: str = HOME, name: str = NAME) -> None:
        self.helm, self._file = Helm(cluster.kubeconfig), folder / f"{name}.json"
        self.namespace, self.name, self.named = namespace, name, ("--namespace", namespace)
        self.cluster = cluster
        self.deployment = name if NAME in name else f"{name}-{NAME}"
        self.release = Release(cluster, namespace, self.deployment)
        self.webhook = free_port()
        self._values: Json = {
            "config": {
                **QUICK,
                "enabledStrategies": ["ResourceOptimization"],
                "leaderElection": dict(SHORT_LEASE),
                # Hollow nodes have no network of Services.
                "webhook": {"url": f"https://127.0.0.1:{self.webhook}"},
            }
        }

    def install(self) -> None:
        """In a namespace that takes only pods that the strictest standard allows: also the webhook's probe."""
        self._write()
        self.cluster.kubectl("create", "namespace", self.namespace)
        self.cluster.kubectl("label", "namespace", self.namespace, "pod-security.kubernetes.io/enforce=restricted")
        self.helm("install", self.name, CHART, *self.named, "--values", self._file, *WAITING)

    def upgrade(self, values: Json | None = None, **config: Any) -> None:
        """To other values, and other sections of the configuration."""
        self._values |= values or {}
        for section, given in config.items():
            there = self._values["config"].get(section)
            self._values["config"][section] = there | given if isinstance(there, dict) else given
        self._write()
        self.helm("upgrade", self.name, CHART, *self.named, "--values", self._file, *WAITING)

    def stop(self) -> None:
        """As the documentation says, before an uninstall."""
        self.cluster.kubectl("-n", self.namespace, "scale", f"deployment/{self.deployment}", "--replicas=0")

    def clean_up(self, *flags: str) -> str:
        ran = rescheduler("cleanup", "--yes", *flags, "--kubeconfig", str(self.cluster.kubeconfig))
        assert ran.code == 0, ran.said
        return ran.out

    def uninstall(self) -> None:
        self.helm("uninstall", self.name, *self.named, "--wait")

    def delete_namespace(self) -> None:
        self.cluster.kubectl("delete", "namespace", self.namespace)

    def remove(self) -> None:
        """However far it has come."""
        self.helm.ran("uninstall", self.name, *self.named, "--ignore-not-found", "--wait")
        self.cluster.kubectl("delete", "namespace", self.namespace, "--ignore-not-found")
        for kind, name in (("mutatingwebhookconfiguration", NAME), ("crd", "podmigrations.rescheduler.io")):
            self.cluster.kubectl("delete", kind, name, "--ignore-not-found")

    def _write(self) -> None:
        self._file.write_text(json.dumps(self._values))


def nothing_is_left(space: Space, before: Inventory) -> None:
    """All is as it was, but that pods of the test's own namespace may be others; what is not is in the error.

    A pod that we made or moved says so in its `managedFields`, the API server's record of who wrote what, and nowhere
    else; nobody can take that off, and it goes with the pod.
    """
    seen: list[object] = []

    def gone() -> bool:
        now = taken(space.api)
        if now is None:
            return False
        for (kind, namespace, _), body in now.objects.items():
            if (kind, namespace) == ("Pod", space.name):
                body["metadata"].pop("managedFields")
        new = {key for key in now.new_since(before) if key[:2] != ("Pod", space.name)}
        ours = {key: why for key, why in now.ours().items() if key not in before.ours()}
        seen[:] = [new, ours, now.changed_since(before)]
        return not any(seen)

    try:
        until("all is as it was", gone, every=0.5)
    except StateNotReached as error:
        error.add_note(f"new, ours, changed: {seen}")
        raise
