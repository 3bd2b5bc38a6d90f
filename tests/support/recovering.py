"""Failed pods end to end: a controller that recovers them, with the webhook, with the extender, or with both.

Scenarios say which workloads fail where, and what is to be seen in the end; this starts the process, has the cluster's
scheduler ask its extender, and reads the record that it keeps.
"""

from __future__ import annotations

import contextlib
import http.client
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from prometheus_client.parser import text_string_to_metric_families

from rescheduler.model.json import Json
from rescheduler.model.labels import FAILURES
from tests.support.both_clusters import Space, is_ready, name_of
from tests.support.cli import rescheduler
from tests.support.controller_process import SHORT_LEASE, Controller, write_config
from tests.testbed.processes import free_port, until

CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/kube-rescheduler"
QUICK: Mapping[str, Any] = {"crashRestarts": 2, "delay": "0s", "sameNodeDelay": "5s", "clearAfter": "10m"}
"""Failures count early, and the record stays for tests to read."""


def wait_until_elsewhere(space: Space, app: str, count: int, without: str) -> list[Json]:
    """The app's pods, when so many of them are Ready, and none is on this node."""

    def reached() -> list[Json] | None:
        found = space.pods(app)
        elsewhere = all(each["spec"].get("nodeName") != without for each in found)
        return found if len(found) == count and elsewhere and all(map(is_ready, found)) else None

    return until(f"{count} pods of {app} are Ready, and none on {without}", reached, seconds=120)


@contextlib.contextmanager
def only_open(space: Space, node: str, nodes: list[str]) -> Iterator[None]:
    """New pods go to this node alone, until the end of the block."""
    others = [each for each in nodes if each != node]
    with contextlib.ExitStack() as cordons:
        for other in others:
            cordons.enter_context(space.cordoned(other))
        for last in others[-1:]:
            space.shunned(last)
        yield


@dataclass(frozen=True)
class Replica:
    """A controller's process, and where it answers."""

    controller: Controller
    port: int
    """Of its webhook."""
    web: int
    """Of its metrics and its health."""

    def page(self, path: str) -> tuple[int, str]:
        """The status and the text of a page; 0 while no server answers."""
        line = http.client.HTTPConnection("127.0.0.1", self.web, timeout=60)
        try:
            line.request("GET", path)
            answer = line.getresponse()
            return answer.status, answer.read().decode()
        except ConnectionError:
            return 0, ""
        finally:
            line.close()

    def ready(self) -> bool:
        """Whether it says that its caches are synced and its webhook is served."""
        return self.page("/readyz")[0] == 200

    def counted(self, name: str, **labels: str) -> float:
        """What it has counted, by its metrics; 0 if nothing yet."""
        found = text_string_to_metric_families(self.page("/metrics")[1])
        samples = (each for family in found for each in family.samples if each.name == name)
        return sum(each.value for each in samples if labels.items() <= each.labels.items())

    def asked(self) -> float:
        """How many reviews it has answered."""
        return self.counted("rescheduler_admission_requests_total", path="/mutate", code="200")


class Recovering:
    """How controllers are started for a scenario: all of them with one webhook, at one address."""

    def __init__(
        self, space: Space, folder: Path, *, webhook: bool, extender: bool, webhook_port: int | None = None
    ) -> None:
        self.space, self._folder = space, folder
        self.home = f"{space.name}-home"[-63:].lstrip("-")
        """The controllers' own namespace."""
        self._webhook, self._extender = webhook, extender
        self._port, self._plain = webhook_port or free_port(), free_port()
        self._started = 0

    @contextlib.contextmanager
    def run(self, *, recovery: Mapping[str, Any] = QUICK) -> Iterator[Controller]:
        """A controller that is in force: the API server asks its webhook, and the scheduler its extender."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(self.at_home())
            controller = stack.enter_context(self.replica(recovery=recovery)).controller
            if self._webhook:
                until("the webhook is asked", lambda: is_in_force(controller), [controller])
            if self._extender:
                stack.callback(self.space.cluster.configure_scheduler)
                self.space.cluster.configure_scheduler(extenders=self.extenders())
            yield controller

    @contextlib.contextmanager
    def replica(self, kubeconfig: Path | None = None, **fields: Any) -> Iterator[Replica]:
        """One controller at home, from its start; leaving the block kills it, if it has not ended."""
        self._started += 1
        name = f"controller-{self._started}"
        port = fields.get("webhook", {}).get("port", self._port)
        web = fields.setdefault("web", {"port": free_port(), "bindAddress": "127.0.0.1"})["port"]
        config = self._config(self._folder / f"{name}.yaml", **fields)
        kubeconfig = kubeconfig or self.space.cluster.kubeconfig
        with Controller(kubeconfig, config, self._folder / f"{name}.log") as controller:
            yield Replica(controller, port, web)

    def _config(self, path: Path, **fields: Any) -> Path:
        document: dict[str, Any] = {"enabledStrategies": [], "recovery": QUICK} | fields
        document["leaderElection"] = {**SHORT_LEASE, "resourceNamespace": self.home} | fields.get("leaderElection", {})
        document["webhook"] = {
            "enabled": self._webhook,
            "url": f"https://127.0.0.1:{self._port}",
            "port": self._port,
            "bindAddress": "127.0.0.1",
            "timeout": "20s",
        } | fields.get("webhook", {})
        document["extender"] = {"enabled": self._extender, "insecurePort": self._plain if self._extender else 0}
        return write_config(path, self.home, **document)

    @contextlib.contextmanager
    def at_home(self) -> Iterator[None]:
        """A namespace for the controllers, whose pods are never asked about; at the end no webhook is registered."""
        self.space.api.post("/api/v1/namespaces", {"metadata": {"name": self.home}})
        try:
            yield
        finally:
            self.space.api.discard(CONFIGURATION)
            self.space.api.delete(f"/api/v1/namespaces/{self.home}")

    def extenders(self) -> list[Json]:
        """As our own command prints them for a kube-scheduler."""
        url = f"http://127.0.0.1:{self._plain}"
        ran = rescheduler("scheduler-config", "--url", url, "-o", "json")
        assert ran.code == 0, ran.said
        found: list[Json] = json.loads(ran.out)["extenders"]
        return found


def is_in_force(controller: Controller) -> bool:
    """Whether the controller has seen that the API server asks its webhook."""
    said = [each["msg"] for each in controller.said() if each["msg"] in ("webhook in force", "webhook not in force")]
    return said[-1:] == ["webhook in force"]


def nodes_of(pods: list[Json]) -> set[str]:
    return {each["spec"]["nodeName"] for each in pods}


def find_copies(space: Space, app: str) -> list[str]:
    """ReplicaSets that carry a copy of the record."""
    found = space.list("ReplicaSet", labelSelector=f"app={app}")
    return [name_of(each) for each in found if FAILURES in each["metadata"].get("annotations", {})]
