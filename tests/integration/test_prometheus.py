"""A real Prometheus reads two running replicas and evaluates the rules of deploy/, and promtool finds no fault.

The replicas balance a small embedded cluster meanwhile, so that what is read can be compared with what has happened.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
import yaml

from tests.support.both_clusters import Space
from tests.support.cli import succeeded
from tests.support.controller_process import Controller, write_config
from tests.support.embedded import EmbeddedControlPlane
from tests.support.prometheus import HERE, Programs, Prometheus, programs, scraping
from tests.support.skewed_cluster import SMALL, SkewedCluster, migrations, skewed_cluster
from tests.testbed.namespaces import own_namespace
from tests.testbed.processes import free_port, until

pytestmark = pytest.mark.release

DEPLOY = Path(__file__).parents[2] / "deploy"
RULES = DEPLOY / "prometheus-rules.yaml"
ALERTS = Path(__file__).with_name("prometheus_alerts.yaml")
LEASE = "kube-rescheduler"


@pytest.fixture(scope="module")
def tools() -> Programs:
    return programs()


@dataclass(frozen=True)
class Scene:
    """A cluster in balance, the two replicas that brought it there, and Prometheus, which has seen it."""

    space: Space
    skewed: SkewedCluster
    replicas: dict[str, Controller]
    prometheus: Prometheus

    def leader(self) -> str:
        """The address of who leads, once Prometheus sees exactly one."""

        def only() -> str:
            found = self.prometheus.query(f'leader_election_master_status{{name="{LEASE}"}} == 1')
            return str(found[0]["metric"]["instance"]) if len(found) == 1 else ""

        return until("Prometheus sees one leader", only, self.running())

    def running(self) -> list[Controller]:
        return [replica for replica in self.replicas.values() if replica.running]

    def sees(self, expression: str, number: float) -> None:
        """Prometheus sees this number, if not now then with the next scrape."""
        until(f"{expression} is {number:g}", lambda: self.prometheus.number(expression) == number, self.running())

    def text(self, address: str) -> str:
        with urlopen(f"http://{address}/metrics") as answer:
            return str(answer.read().decode())


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory, tools: Programs) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("prometheus")
    with ExitStack() as stack:
        cluster = stack.enter_context(EmbeddedControlPlane())
        space = Space(cluster, stack.enter_context(own_namespace(cluster.api, "prometheus")))
        skewed = stack.enter_context(skewed_cluster(space, SMALL))
        controller = ("--kubeconfig", str(cluster.kubeconfig), "-n", space.name)
        succeeded("pause", *controller)
        replicas: dict[str, Controller] = {}
        for name in ("one", "two"):
            port = free_port()
            web = {"port": port, "bindAddress": HERE}
            outcomes = {"assessAfter": "1s"}
            config = write_config(folder / f"{name}.yaml", space.name, web=web, outcomes=outcomes)
            replica = Controller(cluster.kubeconfig, config, folder / f"{name}.log")
            replicas[f"{HERE}:{port}"] = stack.enter_context(replica)
        ports = [int(address.rpartition(":")[2]) for address in replicas]
        prometheus = stack.enter_context(scraping({"rescheduler": ports}, folder, rules=[RULES]))
        scene = Scene(space, skewed, replicas, prometheus)
        # An increase is seen only where the count before it was read, so nothing moves until that is so.
        scene.sees('count(rescheduler_moves_landed_total{strategy="LoadBalancing", method="handoff"})', len(replicas))
        succeeded("resume", *controller)
        skewed.reaches_balance(next(iter(replicas.values())), config)
        yield scene


def test_promtool_finds_the_rules_sound(tools: Programs) -> None:
    assert "SUCCESS" in tools.check("check", "rules", RULES)


def test_every_alert_fires_when_it_should_and_only_then(tools: Programs) -> None:
    assert "SUCCESS" in tools.check("test", "rules", ALERTS)


def test_every_alert_is_expected_to_fire_somewhere() -> None:
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    expected = ALERTS.read_text()
    missing = [rule["alert"] for rule in rules if "alert" in rule and f'alertname="{rule["alert"]}"' not in expected]
    assert missing == []


def test_an_alert_that_fires_too_soon_is_noticed(tools: Programs, tmp_path: Path) -> None:
    (tmp_path / RULES.name).write_text(RULES.read_text().replace("for: 10m", "for: 5m"))
    cases = yaml.safe_load(ALERTS.read_text())
    absent = [case for case in cases["tests"] if case["name"] == "Nobody is there"]
    (tmp_path / ALERTS.name).write_text(yaml.safe_dump({**cases, "rule_files": [RULES.name], "tests": absent}))
    with pytest.raises(AssertionError, match="ReschedulerAbsent"):
        tools.check("test", "rules", tmp_path / ALERTS.name)


def test_both_replicas_are_read_without_an_error(scene: Scene) -> None:
    up = dict.fromkeys(scene.replicas, "up")
    until("both targets are up", lambda: scene.prometheus.targets() == up, scene.running())


def test_promtool_finds_no_fault_with_what_they_show(scene: Scene, tools: Programs) -> None:
    for address in scene.replicas:
        tools.check("check", "metrics", stdin=scene.text(address).encode())


def test_every_rule_is_evaluated_and_nothing_is_alarming(scene: Scene) -> None:
    def evaluated() -> list[dict[str, Any]]:
        found = scene.prometheus.rules()
        return found if found and all(rule["health"] != "unknown" for rule in found) else []

    rules = until("every rule has been evaluated", evaluated, scene.running())
    assert {rule["name"]: rule.get("lastError") for rule in rules if rule["health"] != "ok"} == {}
    assert [rule["name"] for rule in rules if rule.get("state") == "firing"] == []


def test_what_prometheus_sees_is_what_has_happened(scene: Scene) -> None:
    done = migrations(scene.space)
    assert done
    by_method = dict.fromkeys(("handoff", "evict", "copy"), 0)
    for each in done:
        assert each["status"]["phase"] == "Completed"
        by_method[each["status"]["method"]] += 1
    for method, count in by_method.items():
        scene.sees(f'sum(rescheduler_moves_landed_total{{method="{method}"}})', count)
    # What is planned while rescheduling is paused is counted, and planned again after it.
    scene.sees(f"sum(rescheduler_moves_planned_total) >= bool {len(done)}", 1)
    scene.sees("sum(rescheduler_moves_failed_total)", 0)
    scene.sees('rescheduler_migrations{phase="Completed"}', len(done))
    scene.sees('sum(rescheduler_migration_duration_seconds_count{outcome="landed"})', len(done))
    scene.sees('sum(rescheduler_migration_step_duration_seconds_count{step="AwaitReady"}) > bool 0', 1)
    scene.sees("rescheduler_nodes", scene.skewed.mix.nodes)
    scene.sees("rescheduler_hot_nodes", 0)
    scene.sees('rescheduler_node_utilisation_spread_ratio{resource="cpu"} <= bool 0.2', 1)
    scene.sees('rescheduler_node_utilisation_ratio_gcount{resource="memory"}', scene.skewed.mix.nodes)
    for phase in ("snapshot", "plan", "order"):
        scene.sees(f'sum(rescheduler_cycle_duration_seconds_count{{phase="{phase}"}}) > bool 0', 1)
    scene.sees("rescheduler_paused", 0)
    scene.sees("rescheduler_migrations_awaiting_approval", 0)


def test_every_move_is_judged_and_its_gains_are_seen(scene: Scene) -> None:
    scene.sees(f"sum(rescheduler_moves_assessed_total) >= bool {len(migrations(scene.space))}", 1)
    known = [each for each in migrations(scene.space) if each["status"]["outcome"].get("gain") is not None]
    predicted = sum(max(each["spec"]["expectedGain"], 0) for each in known)
    assert predicted > 0
    scene.sees(f"abs(sum(rescheduler_gain_predicted_total) - {predicted}) < bool 0.01", 1)
    scene.sees("sum(rescheduler_gain_realised_total) > bool 0", 1)
    scene.sees("rescheduler_workloads_resting", 0)


def test_who_looks_at_the_page_is_counted_where_it_is_looked_at(scene: Scene) -> None:
    one, other = scene.replicas
    scene.sees("sum(rescheduler_page_viewers)", 0)
    with urlopen(f"http://{one}/api/live"):
        scene.sees(f'rescheduler_page_viewers{{instance="{one}"}}', 1)
        scene.sees(f'rescheduler_page_viewers{{instance="{other}"}}', 0)
    scene.sees("sum(rescheduler_page_viewers)", 0)


def test_every_replica_tells_of_its_caches_and_its_requests(scene: Scene) -> None:
    for address in scene.replicas:
        here = f'instance="{address}"'
        scene.sees(f'rescheduler_cache_objects{{kind="nodes", {here}}}', scene.skewed.mix.nodes)
        scene.sees(f"min(rescheduler_cache_up{{{here}}})", 1)
        scene.sees(f"max(rescheduler_cache_lag_seconds{{{here}}}) < bool 120", 1)
        scene.sees(f'sum(rest_client_requests_total{{code="200", method="GET", {here}}}) > bool 10', 1)
        scene.sees(f"sum(rest_client_request_duration_seconds_count{{{here}}}) > bool 0", 1)


def test_every_query_of_the_dashboard_is_answered(scene: Scene) -> None:
    board = json.loads((DEPLOY / "grafana-dashboard.json").read_text(encoding="utf-8"))
    targets = [(panel["title"], target) for panel in board["panels"] for target in panel.get("targets", [])]
    # Nothing failed, nothing was refused, no webhook is served, no move is old enough to be judged, and there are
    # neither pools nor usage.
    may_be_empty = {
        "Failed, by strategy and method",
        "Recoveries",
        "Rejections in the newest plan",
        "Rejections over time",
        "Moves in the newest plan",
        "Steps that take long",
        "Webhook and extender: requests",
        "Webhook and extender: time for an answer",
        "Webhook in force",
        "Realised share of the predicted gain, by strategy",
        "Hot nodes, by pool",
        "Usage: the source answers",
        "Usage: age of the last answer",
        "Usage: nodes and pods measured",
    }

    for title, target in targets:
        query = target["expr"].replace("$__rate_interval", "1h").replace("$job", ".+")
        if title not in may_be_empty:  # rates and recording rules have an answer after the second scrape
            until(f"{title}: {query} is answered", partial(scene.prometheus.query, query), scene.running())


def test_only_the_leader_speaks_for_the_cluster_and_its_successor_after_it(scene: Scene) -> None:
    first = scene.leader()
    (second,) = set(scene.replicas) - {first}
    for name in ("rescheduler_hot_nodes", "rescheduler_paused", "rescheduler_last_plan_timestamp_seconds"):
        scene.sees(f"count({name})", 1)
        scene.sees(f'count({name}{{instance="{first}"}})', 1)
    assert "\nrescheduler_hot_nodes " not in scene.text(second)
    assert scene.replicas[first].stop() == 0
    until("the other one leads", lambda: scene.leader() == second, [scene.replicas[second]])
    scene.sees(f'count(rescheduler_hot_nodes{{instance="{second}"}})', 1)
    scene.sees("count(rescheduler_hot_nodes)", 1)
