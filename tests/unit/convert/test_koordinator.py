"""`rescheduler convert`: each option of koordinator's plugins and of its MigrationController means the same here."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from rescheduler.convert.builder import RemarkKind
from tests.support.conversions import HIGH, KOORDINATORS, LOAD, field, koordinator, remarks, result

POOL = "name: x, nodeSelector: {matchLabels: {pool: x}}"
KOORDINATOR = [
    (LOAD, f"{{{HIGH}}}", "cpuThreshold", 65),
    (LOAD, f"{{{HIGH}}}", "memoryThreshold", 80),
    (LOAD, f"{{{HIGH}}}", "utilization", "usage"),
    (LOAD, f"{{{HIGH}}}", "hotAfterCycles", 6),
    (LOAD, f"{{{HIGH}, anomalyCondition: {{consecutiveAbnormalities: 1}}}}", "hotAfterCycles", 1),
    (LOAD, f"{{{HIGH}, anomalyCondition: {{consecutiveAbnormalities: 3}}}}", "hotAfterCycles", 4),
    (LOAD, f"{{{HIGH}}}", "strategies.ResourceOptimization.lowThresholds", {"cpu": 45, "memory": 60}),
    (LOAD, f"{{{HIGH}, numberOfNodes: 1}}", "strategies.ResourceOptimization.minUnderusedNodes", 2),
    (LOAD, f"{{{HIGH}, nodeMetricExpirationSeconds: 300}}", "usage.maxAge", "5m0s"),
    (LOAD, f"{{{HIGH}, useDeviationThresholds: true}}", "thresholdMode", "deviation"),
    (LOAD, "{highThresholds: {cpu: 9}, lowThresholds: {cpu: 0}, useDeviationThresholds: true}", "cpuThreshold", 100),
    (LOAD, "{highThresholds: {cpu: 9}, lowThresholds: {cpu: 5}, useDeviationThresholds: true}", "cpuThreshold", 9),
    (
        LOAD,
        f"{{{HIGH}, podSelectors: [{{name: a, selector: {{matchLabels: {{app: a}}}}}}]}}",
        "strategies.ResourceOptimization.podSelector",
        "app=a",
    ),
    (LOAD, f"{{{HIGH}, nodeSelector: {{matchLabels: {{pool: a}}}}}}", "filters.nodeSelector", "pool=a"),
    (
        LOAD,
        f"{{{HIGH}, nodePools: [{{{POOL}, highThresholds: {{cpu: 90}}}}]}}",
        "pools.0.cpuThreshold",
        90,
    ),
    (
        LOAD,
        f"{{{HIGH}, nodePools: [{{{POOL}, lowThresholds: {{cpu: 9}}}}]}}",
        "pools.0.strategies.ResourceOptimization.lowThresholds",
        {"cpu": 9},
    ),
    (
        LOAD,
        f"{{{HIGH}, nodePools: [{{{POOL}, anomalyCondition: {{consecutiveAbnormalities: 2}}}}]}}",
        "pools.0.hotAfterCycles",
        3,
    ),
    ("ScaleDownBinPack", "{strategy: EvictDirectly, maxPodsToEvict: 30}", "maxReschedulePods", 30),
    ("ScaleDownBinPack", "{strategy: EvictDirectly}", "enabledStrategies", ["Consolidation"]),
    ("ScaleDownBinPack", "{}", "enabledStrategies", []),
]


@pytest.mark.parametrize(("plugin", "args", "path", "value"), KOORDINATOR)
def test_an_option_of_a_plugin_of_koordinator_means_the_same_here(
    plugin: str, args: str, path: str, value: object
) -> None:
    assert field(koordinator(plugin, args), path) == value


MIGRATION = [
    ("{}", "migration.concurrency.perNode", 2),
    ("{maxMigratingPerNode: 3}", "migration.concurrency.perNode", 3),
    ("{maxMigratingPerNode: 0}", "migration.concurrency.perNode", "unlimited"),
    ("{maxMigratingGlobally: 9}", "migration.concurrency.total", 9),
    ("{maxMigratingPerNamespace: 4}", "migration.concurrency.perNamespace", 4),
    ("{maxMigratingPerWorkload: 10%}", "migration.concurrency.perWorkload", "10%"),
    ("{maxUnavailablePerWorkload: 25%}", "migration.temporaryBudget.maxUnavailable", "25%"),
    ("{skipCheckExpectedReplicas: true}", "allow.singleReplica", True),
    ("{objectLimiters: {workload: {duration: 20m}}}", "coolDown", "20m0s"),
    ("{objectLimiters: {namespace: {duration: 10m, maxMigrating: 5}}}", "when.movesPerHourPerNamespace", 5),
    ("{defaultJobMode: EvictDirectly}", "migrationMethod", "evict"),
    ("{defaultJobMode: ReservationFirst}", "migrationMethod", "auto"),
    ("{defaultJobTTL: 5m}", "migration.timeout", "5m0s"),
    ("{evictAllBarePods: true}", "filters.withoutController", True),
    ("{namespaces: {exclude: [a]}}", "excludedNamespaces", ["a", "kube-system", "kube-public"]),
    ("{namespaces: {include: [a]}}", "filters.namespaces", ["a"]),
    ("{defaultDeleteOptions: {gracePeriodSeconds: 10}}", "migration.evictionGracePeriod", "10s"),
    ("{ignorePvcPods: true}", "filters.persistentVolumes", False),
]


@pytest.mark.parametrize(("args", "path", "value"), MIGRATION)
def test_an_option_of_the_migration_controller_means_the_same_here(args: str, path: str, value: object) -> None:
    assert field(koordinator(migration=args), path) == value


def test_koordinators_own_fields_come_over() -> None:
    top: dict[str, Any] = {
        "deschedulingInterval": "60s",
        "leaderElection": {"leaderElect": False},
        "clientConnection": {"qps": 20},
    }
    data = result(koordinator(**top))
    assert data["reschedulingInterval"] == "1m0s"
    assert data["leaderElection"] == {"leaderElect": False}
    assert data["clientConnection"] == {"qps": 20}


def test_of_profiles_of_koordinator_for_different_nodes_the_first_is_converted() -> None:
    profiles = [
        {
            "name": name,
            "nodeSelector": {"matchLabels": {"pool": name}},
            "pluginConfig": [{"name": "LowNodeLoad", "args": {"highThresholds": {"cpu": high}}}],
            "plugins": {"balance": {"enabled": [{"name": "LowNodeLoad"}]}},
        }
        for name, high in (("a", 50), ("b", 90))
    ]
    text = yaml.safe_dump({**KOORDINATORS, "profiles": profiles})
    data = result(text)
    assert (data["cpuThreshold"], data["filters"]["nodeSelector"]) == (50, "pool=a")
    (told,) = remarks(text, RemarkKind.MISSING)
    assert told.startswith("profiles[1]: has no counterpart: it is of other nodes than the first profile")
