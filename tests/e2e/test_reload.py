"""Scenario: a ConfigMap with the configuration is edited while two replicas run: well, badly, and where only a restart
helps. Both re-read it, the one that leads and the one that waits; what was in force stays where the new one is bad.
"""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path
from typing import Any

import yaml

from rescheduler.model.json import Json
from tests.e2e.test_recovery import crashing, failing
from tests.support.both_clusters import Items, Space
from tests.support.config_volumes import ConfigVolume, replace_file
from tests.support.controller_process import QUICK, SHORT_LEASE, Controller
from tests.support.failure_records import record, retried
from tests.support.loaded_node import PODS
from tests.support.manifests import deployment
from tests.support.recovering import CONFIGURATION, Recovering, wait_until_elsewhere
from tests.support.recovering import QUICK as RECOVERING
from tests.support.skewed_cluster import active, migrations
from tests.testbed.processes import free_port, until

LEASE = "kube-rescheduler"
REFUSED = "configuration rejected"


class Replica(Controller):
    """A replica with a volume and a page of its own, as each pod has them."""

    def __init__(self, space: Space, directory: Path, name: str, **fields: Any) -> None:
        self.port = free_port()
        self._space = space
        place = directory / name
        place.mkdir()
        self._volume = ConfigVolume(place, self._text(fields))
        super().__init__(space.cluster.kubeconfig, self._volume.path, directory / f"{name}.log")

    def configure(self, **fields: Any) -> None:
        """The ConfigMap is edited, and kubelet has noticed."""
        self._volume.swap(self._text(fields))

    def read(self, path: str) -> str:
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=30) as answer:
            return str(answer.read().decode())

    def metric(self, name: str) -> float:
        found = re.search(rf"^{re.escape(name)} (\S+)$", self.read("/metrics"), re.MULTILINE)
        assert found is not None, name
        return float(found[1])

    def page(self) -> Json:
        found: Json = json.loads(self.read("/api/config"))
        return found

    def says(self, message: str, times: int = 1) -> Json:
        def found() -> Json | None:
            found = [each for each in self.said() if each["msg"] == message]
            return found[-1] if len(found) >= times else None

        return until(f"{self.name} says {message!r}", found, [self])

    def _text(self, fields: dict[str, Any]) -> str:
        document = {
            "apiVersion": "rescheduler.io/v1alpha1",
            "kind": "ReschedulerConfiguration",
            "leaderElection": {**SHORT_LEASE, "resourceNamespace": self._space.name},
            "web": {"port": self.port, "bindAddress": "127.0.0.1"},
            "enabledStrategies": ["ResourceOptimization"],
            **QUICK,
        }
        return yaml.safe_dump(document | fields)


def events_of(space: Space, reason: str) -> Items:
    return [each for each in space.list("Event") if each.get("reason") == reason]


def on(space: Space, node: str) -> int:
    return sum(each["spec"].get("nodeName") == node for each in space.pods("web"))


def test_a_new_configuration_is_taken_over_and_a_bad_one_refused_by_every_replica(
    space: Space, loaded_node: str, tmp_path: Path
) -> None:
    with Replica(space, tmp_path, "first") as first, Replica(space, tmp_path, "second") as second:
        replicas = (first, second)
        for each in replicas:
            each.says("waiting for the lead")
        until("a replica plans", lambda: any(said["msg"] == "planned" for each in replicas for said in each.said()))
        assert migrations(space) == [], "60 per cent are not more than 80"
        before = hashes(first)

        for each in replicas:
            each.configure(cpuThreshold=180, nonsense=True)
        for each in replicas:
            refusal = each.says(REFUSED)
            assert refusal["level"] == "error"
            for part in ("cpuThreshold: 180 is not", "nonsense: "):
                assert part in refusal["why"]
            assert each.metric("rescheduler_config_last_reload_successful") == 0
            assert each.metric('rescheduler_config_reloads_total{result="refused"}') == 1
            assert each.page()["refusal"]["errors"]
            assert "cpuThreshold: 80" in each.page()["yaml"]
            assert each.read("/readyz"), "it is ready, whatever its file says"
        warnings = until("there are events", lambda: events_of(space, "ConfigurationRefused"), replicas)
        assert {each["involvedObject"]["name"] for each in warnings} == {LEASE}
        assert all(each["type"] == "Warning" and "cpuThreshold: 180" in each["message"] for each in warnings)

        for each in replicas:
            each.configure(cpuThreshold=50)
        for each in replicas:
            each.says("configuration reloaded")
            assert each.metric("rescheduler_config_last_reload_successful") == 1
            assert each.metric('rescheduler_config_reloads_total{result="accepted"}') == 1
            assert (each.page()["refusal"], each.page()["waiting"]) == (None, [])
        until("the next plan goes by it", lambda: on(space, loaded_node) < PODS, replicas)
        until("the moves are over", lambda: migrations(space) and not active(migrations(space)), replicas)
        assert [len(hashes(each)) for each in replicas] == [1, 1]
        assert hashes(first) != before
        for each in replicas:
            assert sum(said["msg"] == REFUSED for said in each.said()) == 1, "one bad file is refused once"
            assert each.stop() == 0
    assert on(space, loaded_node) == PODS - 1


def test_fields_that_wait_for_a_restart_are_named_and_the_others_are_in_force(
    space: Space, loaded_node: str, tmp_path: Path
) -> None:
    with Replica(space, tmp_path, "only") as only:
        only.says("planned")
        other_port = {"port": free_port(), "bindAddress": "127.0.0.1"}
        only.configure(cpuThreshold=50, web=other_port)
        assert only.says("configuration fields await a restart")["fields"] == "web.port"
        assert only.metric('rescheduler_config_awaits_restart{field="web.port"}') == 1
        assert only.page()["waiting"] == ["web.port"]
        (event,) = until("there is an event", lambda: events_of(space, "ConfigurationAwaitsRestart"), [only])
        assert "web.port" in event["message"]
        until("the rest is in force", lambda: on(space, loaded_node) < PODS, [only])
        assert only.stop() == 0


def test_recovery_and_the_webhook_follow_the_file(space: Space, nodes: list[str], tmp_path: Path) -> None:
    """Recovery is switched on, and a namespace excluded, while a pod crashes on its node."""
    bad, _ = nodes
    ours = Recovering(space, tmp_path, webhook=True, extender=False)
    with ours.run(recovery={"enabled": False}) as controller:
        failing(space, crashing(bad).of(retried(deployment("web", 1, cpu="10m"))), bad, nodes)
        file = tmp_path / "controller-1.yaml"
        document = yaml.safe_load(file.read_text())
        assert record(space, "Deployment", "web") == {}
        wanted = {"recovery": dict(RECOVERING), "excludedNamespaces": ["elsewhere"]}
        replace_file(file, yaml.safe_dump(document | wanted))
        wait_until_elsewhere(space, "web", 1, bad)
        until("it is recorded", lambda: record(space, "Deployment", "web"), [controller])
        until("the webhook follows", lambda: find_excluded(space) == {"elsewhere"}, [controller])
        assert controller.stop() == 0


def find_excluded(space: Space) -> set[str]:
    """Namespaces whose pods the webhook is not asked about."""
    (pods, _) = space.api.get(CONFIGURATION)["webhooks"]
    return {name for each in pods["namespaceSelector"]["matchExpressions"] for name in each["values"]}


def hashes(replica: Replica) -> list[str]:
    return re.findall(r'rescheduler_config_info\{hash="(\w+)"\}', replica.read("/metrics"))
