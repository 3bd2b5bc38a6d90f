"""Failed pods end to end: a controller that recovers them, with the webhook, with the extender, or with both.

Scenarios say which workloads fail where, and what is to be seen in the end; this starts the process, has the cluster's
scheduler ask its extender, and reads the record that it keeps.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.support.both_clusters import Space, is_ready, name_of
from tests.support.cli import rescheduler
from tests.support.controller_process import Controller, write_config
from tests.testbed.api import ApiError, Json
from tests.testbed.processes import free_port, until

FAILURES = "rescheduler.io/failures"
RETRIES = "scheduling-retries"
CONFIGURATION = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/kube-rescheduler"
QUICK: Mapping[str, Any] = {"crashRestarts": 2, "delay": "0s", "clearAfter": "10m"}
"""Failures count early, and the record stays for tests to read."""


def retried(body: Json, times: str = "3", **others: str) -> Json:
    """The workload or pod, to be rescheduled so many times; with annotations of other people."""
    body["metadata"]["annotations"] = {**body["metadata"].get("annotations", {}), RETRIES: times, **others}
    return body


def record(space: Space, kind: str, name: str) -> Json:
    """What is kept of its failures; empty if nothing is."""
    notes = space.get(kind, name)["metadata"].get("annotations", {})
    found: Json = json.loads(notes.get(FAILURES, "{}"))
    return found


def reasons(space: Space, name: str) -> list[str]:
    """What people were told of an object, by us."""
    told = space.list("Event")
    ours = [each for each in told if each.get("reportingComponent", "").startswith("rescheduler.io/")]
    return [each["reason"] for each in ours if each["involvedObject"]["name"] == name]


def settled(space: Space, app: str, count: int, without: str) -> list[Json]:
    """The app's pods, when so many of them are Ready, and none is on this node."""

    def reached() -> list[Json] | None:
        found = space.pods(app)
        elsewhere = all(each["spec"].get("nodeName") != without for each in found)
        return found if len(found) == count and elsewhere and all(map(is_ready, found)) else None

    return until(f"{count} pods of {app} are Ready, and none on {without}", reached, seconds=120)


@contextlib.contextmanager
def only_open(space: Space, node: str, nodes: list[str]) -> Iterator[None]:
    """New pods go to this node alone, until the end of the block."""
    with contextlib.ExitStack() as cordons:
        for other in nodes:
            if other != node:
                cordons.enter_context(space.cordoned(other))
        yield


class Recovering:
    """How a controller is started for a scenario."""

    def __init__(self, space: Space, folder: Path, *, webhook: bool, extender: bool) -> None:
        self.space, self._folder = space, folder
        self._home = f"{space.name}-home"[-63:].lstrip("-")
        self._webhook, self._extender = webhook, extender
        self._port, self._plain = free_port(), free_port()
        self._started = 0

    @contextlib.contextmanager
    def run(
        self, *, recovery: Mapping[str, Any] = QUICK, steering: str = "prefer", **fields: Any
    ) -> Iterator[Controller]:
        """A controller that is in force: the API server asks its webhook, and the scheduler its extender."""
        self._started += 1
        config = self.config(steering, recovery=recovery, **fields)
        log = self._folder / f"controller-{self._started}.log"
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._at_home())
            controller = stack.enter_context(Controller(self.space.cluster.kubeconfig, config, log))
            if self._webhook:
                stack.callback(self._unregister)
                until("the webhook is asked", lambda: is_in_force(controller), [controller])
            if self._extender:
                stack.callback(self.space.cluster.configure_scheduler)
                self.space.cluster.configure_scheduler(extenders=self.extenders())
            yield controller

    def config(self, steering: str, **fields: Any) -> Path:
        document: dict[str, Any] = {
            "enabledStrategies": [],
            "webhook": {
                "enabled": self._webhook,
                "url": f"https://127.0.0.1:{self._port}",
                "port": self._port,
                "bindAddress": "127.0.0.1",
                "timeout": "5s",
                "steering": steering,
            },
            "extender": {"enabled": self._extender, "insecurePort": self._plain if self._extender else 0},
        }
        return write_config(self._folder / "config.yaml", self._home, **document, **fields)

    @contextlib.contextmanager
    def _at_home(self) -> Iterator[None]:
        """A namespace for the controller itself, whose pods are never asked about."""
        self.space.api.post("/api/v1/namespaces", {"metadata": {"name": self._home}})
        try:
            yield
        finally:
            self.space.api.delete(f"/api/v1/namespaces/{self._home}")

    def extenders(self) -> list[Json]:
        """As our own command prints them for a kube-scheduler."""
        url = f"http://127.0.0.1:{self._plain}"
        ran = rescheduler("scheduler-config", "--url", url, "-o", "json")
        assert ran.code == 0, ran.said
        found: list[Json] = json.loads(ran.out)["extenders"]
        return found

    def _unregister(self) -> None:
        try:
            self.space.api.delete(CONFIGURATION)
        except ApiError as error:
            if error.code != 404:  # it may have ended before it was registered
                raise


def is_in_force(controller: Controller) -> bool:
    """Whether the controller has seen that the API server asks its webhook."""
    said = [each["msg"] for each in controller.said() if each["msg"].startswith("the webhook is")]
    return said[-1:] == ["the webhook is in force"]


def landed(pods: list[Json]) -> set[str]:
    return {each["spec"]["nodeName"] for each in pods}


def copied(space: Space, app: str) -> list[str]:
    """ReplicaSets that carry a copy of the record."""
    found = space.list("ReplicaSet", labelSelector=f"app={app}")
    return [name_of(each) for each in found if FAILURES in each["metadata"].get("annotations", {})]
