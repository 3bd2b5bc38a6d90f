"""`rescheduler convert`: each option of the other tools means the same here, or it is told that it does not."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from rescheduler.config import load
from rescheduler.config.conversion.converting import converted
from rescheduler.config.conversion.descheduler_plugins import BY_THE_CLUSTER
from rescheduler.config.conversion.draft import Sort
from rescheduler.config.conversion.reference import TABLES
from rescheduler.strategies import settings_by_name
from tests.support.cli import rescheduler, succeeded

ROOT = Path(__file__).parents[2]
KNOWN = settings_by_name()
HEADER = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"}


def policy(plugin: str = "", args: str = "{}", evictor: str = "", **top: object) -> str:
    """A DeschedulerPolicy with one plugin and an evictor."""
    configs = [{"name": plugin, "args": yaml.safe_load(args)}] if plugin else []
    if evictor:
        configs.append({"name": "DefaultEvictor", "args": yaml.safe_load(evictor)})
    profile = {"name": "p", "pluginConfig": configs, "plugins": {"deschedule": {"enabled": [plugin] if plugin else []}}}
    return yaml.safe_dump({**HEADER, "profiles": [profile], **top})


def koordinator(plugin: str = "", args: str = "{}", migration: str = "{}", **top: object) -> str:
    """A DeschedulerConfiguration with one plugin and the MigrationController."""
    configs = [{"name": "MigrationController", "args": yaml.safe_load(migration)}]
    if plugin:
        configs.append({"name": plugin, "args": yaml.safe_load(args)})
    enabled = {
        "evict": {"enabled": [{"name": "MigrationController"}]},
        "balance": {"enabled": [{"name": plugin}] if plugin else []},
    }
    profile = {"name": "p", "pluginConfig": configs, "plugins": enabled}
    header = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerConfiguration"}
    return yaml.safe_dump({**header, "profiles": [profile], **top})


def result(text: str) -> dict[str, Any]:
    """The configuration that comes out, which always loads."""
    made = converted(text, "policy.yaml", KNOWN).text
    load(made, "result", KNOWN)
    data: dict[str, Any] = yaml.safe_load(made)
    return data


def field(text: str, path: str) -> object:
    at: Any = result(text)
    for part in path.split("."):
        if isinstance(at, list):
            at = at[int(part)]
        elif part.replace("|", ".") in at:
            at = at[part.replace("|", ".")]
        else:
            return None
    return at


def remarks(text: str, sort: Sort) -> list[str]:
    return [str(each) for each in converted(text, "policy.yaml", KNOWN).remarks if each.sort is sort]


LOW = "LowNodeUtilization"
BASE = "thresholds: {cpu: 20}, targetThresholds: {cpu: 50}"
OPTIONS = [
    ("RemoveDuplicates", "{excludeOwnerKinds: [Job]}", "strategies.RemoveDuplicates.excludedOwnerKinds", ["Job"]),
    ("RemoveDuplicates", "{namespaces: {include: [a]}}", "strategies.RemoveDuplicates.namespaces", ["a"]),
    ("RemoveDuplicates", "{namespaces: {exclude: [a]}}", "strategies.RemoveDuplicates.excludedNamespaces", ["a"]),
    (LOW, f"{{{BASE}}}", "cpuThreshold", 50),
    (LOW, f"{{{BASE}}}", "memoryThreshold", 100),
    (LOW, f"{{{BASE}}}", "strategies.ResourceOptimization.lowThresholds", {"cpu": 20}),
    (LOW, "{thresholds: {pods: 20}, targetThresholds: {pods: 50}}", "thresholds", {"pods": 50}),
    (LOW, f"{{{BASE}, useDeviationThresholds: true}}", "thresholdMode", "deviation"),
    (LOW, "{thresholds: {cpu: 0}, targetThresholds: {cpu: 9}, useDeviationThresholds: true}", "cpuThreshold", 9),
    (LOW, "{thresholds: {cpu: 0}, targetThresholds: {cpu: 0}, useDeviationThresholds: true}", "cpuThreshold", 1),
    (LOW, f"{{{BASE}, numberOfNodes: 3}}", "strategies.ResourceOptimization.minUnderusedNodes", 4),
    (LOW, f"{{{BASE}, numberOfNodes: 0}}", "strategies.ResourceOptimization.minUnderusedNodes", None),
    (LOW, f"{{{BASE}, evictionLimits: {{node: 3}}}}", "limits.perNodeOut", 3),
    (LOW, f"{{{BASE}, metricsUtilization: {{source: KubernetesMetrics}}}}", "utilization", "usage"),
    (LOW, f"{{{BASE}, metricsUtilization: {{metricsServer: true}}}}", "utilization", "usage"),
    (LOW, f"{{{BASE}}}", "utilization", None),
    (
        LOW,
        f"{{{BASE}, evictableNamespaces: {{exclude: [a]}}}}",
        "strategies.ResourceOptimization.excludedNamespaces",
        ["a"],
    ),
    ("HighNodeUtilization", "{thresholds: {cpu: 20}}", "strategies.Consolidation.maxUtilizationOf", {"cpu": 20}),
    ("HighNodeUtilization", "{thresholds: {cpu: 20}}", "strategies.Consolidation.maxUtilization", 100),
    ("HighNodeUtilization", "{thresholds: {cpu: 20}}", "maxReschedulePods", "unlimited"),
    ("HighNodeUtilization", "{thresholds: {pods: 20}}", "thresholds", {"pods": 100}),
    (
        "HighNodeUtilization",
        "{thresholds: {cpu: 20}, numberOfNodes: 2}",
        "strategies.Consolidation.minUnderusedNodes",
        3,
    ),
    (
        "RemovePodsViolatingInterPodAntiAffinity",
        "{labelSelector: {matchLabels: {app: web}}}",
        "strategies.PodAntiAffinity.podSelector",
        "app=web",
    ),
    (
        "RemovePodsViolatingNodeAffinity",
        "{nodeAffinityType: [requiredDuringSchedulingIgnoredDuringExecution]}",
        "strategies",
        None,
    ),
    (
        "RemovePodsViolatingNodeAffinity",
        "{nodeAffinityType: [preferredDuringSchedulingIgnoredDuringExecution]}",
        "strategies.NodeAffinity.includePreferred",
        True,
    ),
    (
        "RemovePodsViolatingNodeTaints",
        "{excludedTaints: [x=y]}",
        "strategies.NodeTaints.excludedTaints",
        ["x=y", *BY_THE_CLUSTER],
    ),
    ("RemovePodsViolatingNodeTaints", "{includedTaints: [x]}", "strategies.NodeTaints.includedTaints", ["x"]),
    (
        "RemovePodsViolatingNodeTaints",
        "{includePreferNoSchedule: true}",
        "strategies.NodeTaints.includePreferNoSchedule",
        True,
    ),
    (
        "RemovePodsViolatingTopologySpreadConstraint",
        "{constraints: [ScheduleAnyway]}",
        "strategies.TopologySpread.constraints",
        ["ScheduleAnyway"],
    ),
    (
        "RemovePodsViolatingTopologySpreadConstraint",
        "{includeSoftConstraints: true}",
        "strategies.TopologySpread.constraints",
        ["DoNotSchedule", "ScheduleAnyway"],
    ),
    ("RemovePodsHavingTooManyRestarts", "{podRestartThreshold: 7}", "strategies.TooManyRestarts.restartThreshold", 7),
    (
        "RemovePodsHavingTooManyRestarts",
        "{podRestartThreshold: 7, states: [OOMKilled]}",
        "strategies.TooManyRestarts.states",
        ["OOMKilled"],
    ),
    (
        "RemovePodsHavingTooManyRestarts",
        "{podRestartThreshold: 7, includingInitContainers: true}",
        "strategies.TooManyRestarts.includeInitContainers",
        True,
    ),
    ("PodLifeTime", "{maxPodLifeTimeSeconds: 86400}", "strategies.PodLifeTime.maxAge", "24h0m0s"),
    ("PodLifeTime", "{states: [Pending]}", "strategies.PodLifeTime.maxAge", "0s"),
    ("PodLifeTime", "{states: [Pending]}", "strategies.PodLifeTime.states", ["Pending"]),
    ("PodLifeTime", "{exitCodes: [137]}", "strategies.PodLifeTime.exitCodes", [137]),
    ("PodLifeTime", "{exitCodes: [1], ownerKinds: {include: [Job]}}", "strategies.PodLifeTime.ownerKinds", ["Job"]),
    (
        "PodLifeTime",
        "{exitCodes: [1], ownerKinds: {exclude: [Job]}}",
        "strategies.PodLifeTime.excludedOwnerKinds",
        ["Job"],
    ),
    (
        "PodLifeTime",
        "{exitCodes: [1], includingEphemeralContainers: true}",
        "strategies.PodLifeTime.includeEphemeralContainers",
        True,
    ),
    (
        "PodLifeTime",
        "{conditions: [{type: Ready, status: 'False', reason: X, minTimeSinceLastTransitionSeconds: 90}]}",
        "strategies.PodLifeTime.conditions.0",
        {"type": "Ready", "status": "False", "reason": "X", "minTime": "1m30s"},
    ),
    ("RemoveFailedPods", "{reasons: [Evicted]}", "strategies.FailedPods.reasons", ["Evicted"]),
    ("RemoveFailedPods", "{exitCodes: [1]}", "strategies.FailedPods.exitCodes", [1]),
    ("RemoveFailedPods", "{minPodLifetimeSeconds: 3600}", "strategies.FailedPods.minAge", "1h0m0s"),
    ("RemoveFailedPods", "{excludeOwnerKinds: [Job]}", "strategies.FailedPods.excludedOwnerKinds", ["Job"]),
]


@pytest.mark.parametrize(("plugin", "args", "path", "value"), OPTIONS)
def test_an_option_of_a_plugin_means_the_same_here(plugin: str, args: str, path: str, value: object) -> None:
    assert field(policy(plugin, args), path) == value


CLASSES = "{PodsWithPVC: {protectedStorageClasses: [{name: fast}]}}"
EVICTOR = [
    (
        "{labelSelector: {matchExpressions: [{key: tier, operator: NotIn, values: [db, cache]}]}}",
        "filters.podSelector",
        "tier notin (cache,db)",
    ),
    ("{namespaceLabelSelector: {matchLabels: {team: shop}}}", "filters.namespaceSelector", "team=shop"),
    ("{priorityThreshold: {value: 1000}}", "filters.priorityThreshold", 1000),
    ("{priorityThreshold: {name: high}}", "filters.priorityThreshold", "high"),
    ("{minReplicas: 2}", "filters.minReplicas", 2),
    ("{minPodAge: 10m}", "minPodAge", "10m0s"),
    ("{noEvictionPolicy: Mandatory}", "filters.noEvictionPolicy", "mandatory"),
    ("{noEvictionPolicy: Preferred}", "filters.noEvictionPolicy", None),
    ("{podProtections: {extraEnabled: [PodsWithPVC]}}", "filters.persistentVolumes", False),
    ("{ignorePvcPods: true}", "filters.persistentVolumes", False),
    ("{podProtections: {extraEnabled: [PodsWithoutPDB]}}", "filters.withoutDisruptionBudget", False),
    ("{ignorePodsWithoutPDB: true}", "filters.withoutDisruptionBudget", False),
    ("{podProtections: {defaultDisabled: [PodsWithLocalStorage]}}", "allow.localStorage", True),
    ("{evictLocalStoragePods: true}", "allow.localStorage", True),
    ("{evictLocalStoragePods: false}", "allow", None),
    (
        f"{{podProtections: {{extraEnabled: [PodsWithPVC], config: {CLASSES}}}}}",
        "filters.protectedStorageClasses",
        ["fast"],
    ),
    ("{}", "filters.withoutController", False),
]


@pytest.mark.parametrize(("args", "path", "value"), EVICTOR)
def test_an_option_of_the_evictor_means_the_same_here(args: str, path: str, value: object) -> None:
    assert field(policy(evictor=args), path) == value


def test_failed_pods_without_a_controller_are_removed_if_the_evictor_lets_them_and_the_plugin_is_enabled() -> None:
    path = "strategies.FailedPods.withoutController"
    assert field(policy("RemoveFailedPods", evictor="{evictFailedBarePods: true}"), path) is True
    assert field(policy(evictor="{evictFailedBarePods: true}"), "strategies") is None


TOP = [
    ({"nodeSelector": "pool=a"}, "filters.nodeSelector", "pool=a"),
    ({"maxNoOfPodsToEvictPerNode": 5}, "limits.perNodeOut", 5),
    ({"maxNoOfPodsToEvictPerNamespace": 6}, "limits.perNamespace", 6),
    ({"maxNoOfPodsToEvictTotal": 7}, "maxReschedulePods", 7),
    ({"maxNoOfPodsToEvictPerNode": 0}, "maxReschedulePods", 0),
    ({"gracePeriodSeconds": 60}, "migration.evictionGracePeriod", "1m0s"),
    (
        {"metricsProviders": [{"source": "Prometheus", "prometheus": {"url": "http://p:9090"}}]},
        "usage.source",
        "prometheus",
    ),
    (
        {"metricsProviders": [{"source": "Prometheus", "prometheus": {"url": "http://p:9090"}}]},
        "usage.prometheus.url",
        "http://p:9090",
    ),
    ({}, "maxReschedulePods", 10),
    ({}, "excludedNamespaces", ["kube-system", "kube-public"]),
]


@pytest.mark.parametrize(("top", "path", "value"), TOP)
def test_a_field_of_the_policy_means_the_same_here(top: dict[str, Any], path: str, value: object) -> None:
    assert field(policy(**top), path) == value


def test_a_namespace_that_a_plugin_names_is_not_excluded() -> None:
    text = policy("PodLifeTime", "{maxPodLifeTimeSeconds: 60, namespaces: {include: [kube-system]}}")
    assert field(text, "excludedNamespaces") == ["kube-public"]


LOAD = "LowNodeLoad"
HIGH = "highThresholds: {cpu: 65, memory: 80}, lowThresholds: {cpu: 45, memory: 60}"
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
    ("{objectLimiters: {namespace: {duration: 10m, maxMigrating: 5}}}", "when.movesPerHourPerNamespace", 30),
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


LOST = [
    (
        policy("HighNodeUtilization", "{thresholds: {cpu: 20}, evictionModes: [OnlyThresholdingResources]}"),
        "evictionModes",
    ),
    (policy(evictor="{nodeFit: false}"), "nodeFit"),
    (policy(evictor="{nodeSelector: a=b}"), "nodeSelector"),
    (policy(evictor="{evictSystemCriticalPods: true}"), "evictSystemCriticalPods"),
    (policy(evictor="{podProtections: {defaultDisabled: [DaemonSetPods]}}"), "defaultDisabled[0]"),
    (policy(metricsProviders=[{"prometheus": {"authToken": {"secretReference": {"name": "x"}}}}]), "authToken"),
    (koordinator(LOAD, f"{{{HIGH}, prodHighThresholds: {{cpu: 50}}}}"), "prodHighThresholds"),
    (koordinator(LOAD, f"{{{HIGH}, resourceWeights: {{cpu: 2}}}}"), "resourceWeights"),
    (koordinator(LOAD, f"{{{HIGH}, dryRun: true}}"), "dryRun"),
    (koordinator("FragmentationAware"), "pluginConfig[1].args"),
    (koordinator(migration="{evictionPolicy: Delete}"), "evictionPolicy"),
]


@pytest.mark.parametrize(("text", "place"), LOST)
def test_what_has_no_counterpart_is_told_with_its_path(text: str, place: str) -> None:
    assert any(place in each.split(": ")[0] for each in remarks(text, Sort.MISSING))


class TestWhatIsNotUnderstood:
    def test_unknown_fields_are_named_with_their_path_and_the_nearest(self) -> None:
        (told,) = remarks(policy("PodLifeTime", "{maxPodLifeTimeSecond: 5, maxPodLifeTimeSeconds: 5}"), Sort.UNKNOWN)
        assert told.startswith("profiles[0].pluginConfig[0].args.maxPodLifeTimeSecond: is not known: did you mean")

    def test_unknown_plugins_are_named_with_their_path(self) -> None:
        told = remarks(policy("MyOwn"), Sort.UNKNOWN)
        assert [each.split(": ")[0] for each in told] == [
            "profiles[0].plugins.deschedule.enabled[0]",
            "profiles[0].pluginConfig[0]",
        ]

    def test_a_filter_that_is_not_understood_has_its_strategy_switched_off(self) -> None:
        text = policy("PodLifeTime", "{maxPodLifeTimeSeconds: 5, labelSelector: {matchLabels: {'a b': c}}}")
        assert result(text)["enabledStrategies"] == []

    def test_an_evictor_that_is_not_understood_has_nothing_moved(self) -> None:
        text = policy("PodLifeTime", "{maxPodLifeTimeSeconds: 5}", evictor="{labelSelector: 5}")
        assert result(text)["maxReschedulePods"] == 0

    def test_what_our_checks_refuse_is_taken_out_and_told(self) -> None:
        text = policy("RemovePodsViolatingNodeTaints", "{includedTaints: ['a:NoSchedule']}")
        assert result(text)["enabledStrategies"] == []
        (told,) = remarks(text, Sort.WRONG)
        assert told.startswith("profiles[0].pluginConfig[0].args.includedTaints: is not understood")

    def test_an_index_of_ones_own_leaves_the_strategy_off(self) -> None:
        query = "metricsUtilization: {source: Prometheus, prometheus: {query: x}}"
        args = f"{{thresholds: {{MetricResource: 20}}, targetThresholds: {{MetricResource: 50}}, {query}}}"
        assert result(policy(LOW, args))["enabledStrategies"] == []


class TestProfiles:
    def two(self, first: str, second: str, plugins: tuple[str, str] = ("RemoveDuplicates", "RemoveFailedPods")) -> str:
        profiles = [
            {
                "name": str(index),
                "pluginConfig": [{"name": "DefaultEvictor", "args": yaml.safe_load(args)}],
                "plugins": {"deschedule": {"enabled": [plugin]}},
            }
            for index, (args, plugin) in enumerate(zip((first, second), plugins, strict=True))
        ]
        return yaml.safe_dump({"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy", "profiles": profiles})

    def test_are_merged_to_one_set_of_strategies(self) -> None:
        assert result(self.two("{}", "{}"))["enabledStrategies"] == ["RemoveDuplicates", "FailedPods"]

    def test_with_different_evictors_have_the_strictest(self) -> None:
        text = self.two("{evictLocalStoragePods: true, minReplicas: 2}", "{ignorePvcPods: true}")
        data = result(text)
        assert "allow" not in data
        assert data["filters"] == {"minReplicas": 2, "persistentVolumes": False, "withoutController": False}
        places = [each.split(": ")[0] for each in remarks(text, Sort.MISSING)]
        assert places == ["profiles[0].pluginConfig[0].args.evictLocalStoragePods", "profiles[0]", "profiles[1]"]

    def test_with_one_selector_have_it_for_all_strategies(self) -> None:
        text = self.two("{labelSelector: {matchLabels: {a: b}}}", "{labelSelector: {matchLabels: {a: b}}}")
        assert result(text)["filters"]["podSelector"] == "a=b"

    def test_with_different_selectors_have_each_for_its_own_strategies(self) -> None:
        text = self.two("{labelSelector: {matchLabels: {a: b}}}", "{labelSelector: {matchLabels: {c: d}}}")
        data = result(text)
        assert "podSelector" not in data["filters"]
        assert data["strategies"]["RemoveDuplicates"]["podSelector"] == "a=b"
        assert data["strategies"]["FailedPods"]["podSelector"] == "c=d"
        assert remarks(text, Sort.MISSING) == []

    def test_of_which_one_has_a_selector_have_it_for_that_ones_strategies_beside_their_own(self) -> None:
        text = self.two("{}", "{labelSelector: {matchLabels: {c: d}}}")
        own = {"name": "RemoveFailedPods", "args": {"labelSelector": {"matchLabels": {"e": "f"}}}}
        policy = yaml.safe_load(text)
        policy["profiles"][1]["pluginConfig"].append(own)
        data = result(yaml.safe_dump(policy))
        assert data["strategies"]["FailedPods"]["podSelector"] == "e=f,c=d"
        assert "RemoveDuplicates" not in data["strategies"]

    def test_that_share_a_plugin_for_different_pods_keep_the_first_and_tell(self) -> None:
        text = self.two("{labelSelector: {matchLabels: {a: b}}}", "{}", plugins=("RemoveDuplicates",) * 2)
        assert field(text, "strategies.RemoveDuplicates.podSelector") == "a=b"
        (told,) = remarks(text, Sort.MISSING)
        assert told.startswith("profiles[1]: has no counterpart: RemoveDuplicates is for pods that")

    def test_that_set_up_one_plugin_in_two_ways_keep_the_first(self) -> None:
        profiles = [
            {
                "name": str(age),
                "pluginConfig": [{"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": age}}],
                "plugins": {"deschedule": {"enabled": ["PodLifeTime"]}},
            }
            for age in (60, 120)
        ]
        header = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"}
        text = yaml.safe_dump({**header, "profiles": profiles})
        assert field(text, "strategies.PodLifeTime") == {"maxAge": "1m0s"}
        (told,) = remarks(text, Sort.MISSING)
        assert told.startswith("profiles[1].pluginConfig[0].args: has no counterpart: PodLifeTime is set up already")

    def test_a_plugin_that_is_not_enabled_stays_off(self) -> None:
        header = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerPolicy"}
        profile = {"name": "p", "pluginConfig": [{"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": 5}}]}
        text = yaml.safe_dump({**header, "profiles": [profile]})
        assert result(text)["enabledStrategies"] == []
        assert "profiles[0].pluginConfig[0]" in remarks(text, Sort.SETTLED)[-1]


def test_profiles_of_koordinator_for_different_nodes_become_pools() -> None:
    profiles = [
        {
            "name": name,
            "nodeSelector": {"matchLabels": {"pool": name}},
            "pluginConfig": [{"name": "LowNodeLoad", "args": {"highThresholds": {"cpu": high}}}],
            "plugins": {"balance": {"enabled": [{"name": "LowNodeLoad"}]}},
        }
        for name, high in (("a", 50), ("b", 90))
    ]
    header = {"apiVersion": "descheduler/v1alpha2", "kind": "DeschedulerConfiguration"}
    text = yaml.safe_dump({**header, "profiles": profiles})
    data = result(text)
    assert data["enabledStrategies"] == []
    found = [
        (each["name"], each["nodeSelector"], each["cpuThreshold"], each["hotAfterCycles"]) for each in data["pools"]
    ]
    assert found == [("a", "pool=a", 50, 6), ("b", "pool=b", 90, 6)]
    assert [each["enabledStrategies"] for each in data["pools"]] == [["ResourceOptimization"]] * 2
    assert data["utilization"] == "usage"
    assert remarks(text, Sort.MISSING) == []


def test_a_profile_of_descheduler_has_no_nodes_of_its_own() -> None:
    text = yaml.safe_dump({**HEADER, "profiles": [{"name": "p", "nodeSelector": {"matchLabels": {"a": "b"}}}]})
    assert remarks(text, Sort.UNKNOWN)[0].startswith("profiles[0].nodeSelector: is not known")


class TestTheCommand:
    example = str(ROOT / "examples" / "descheduler-policy.yaml")

    def test_prints_a_configuration_that_the_check_accepts(self, tmp_path: Path) -> None:
        file = tmp_path / "rescheduler.yaml"
        file.write_text(succeeded("convert", "-f", self.example).out, encoding="utf-8")
        assert "ok (ReschedulerConfiguration, 5 strategies)" in succeeded("config", "check", str(file)).out

    def test_prints_a_configuration_that_plans_can_be_made_with(self, tmp_path: Path) -> None:
        file = tmp_path / "rescheduler.yaml"
        succeeded("convert", "-f", self.example, "-o", str(file))
        plan = succeeded("plan", "-f", str(ROOT / "examples" / "cluster.yaml"), "--config", str(file), "-o", "json")
        assert plan.data["kind"] == "Plan"

    def test_writes_a_file(self, tmp_path: Path) -> None:
        ran = succeeded("convert", "-f", self.example, "-o", str(tmp_path / "made.yaml"))
        assert ran.out == ""
        assert (tmp_path / "made.yaml").read_text(encoding="utf-8") == succeeded("convert", "-f", self.example).out

    def test_tells_every_loss_however_many_there_are(self) -> None:
        args = ", ".join(f"no{index}: 1" for index in range(30))
        ran = rescheduler("convert", "-f", "-", stdin=policy("PodLifeTime", f"{{maxPodLifeTimeSeconds: 5, {args}}}"))
        assert ran.said.count(": is not known: ") == 30

    def test_is_strict_only_on_request(self) -> None:
        assert rescheduler("convert", "-f", self.example).code == 0
        ran = rescheduler("convert", "-f", self.example, "--strict")
        assert ran.code == 4
        assert ran.out
        assert rescheduler("convert", "-f", "-", "--strict", stdin=policy("RemoveDuplicates")).code == 0

    def test_a_configmap_may_carry_the_policy_among_other_documents(self) -> None:
        carried = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "data": {"policy.yaml": policy("RemoveDuplicates"), "x": "y"},
        }
        text = yaml.safe_dump_all([{"apiVersion": "v1", "kind": "ServiceAccount"}, carried])
        ran = succeeded("convert", "-f", "-", stdin=text)
        assert yaml.safe_load(ran.out)["enabledStrategies"] == ["RemoveDuplicates"]
        assert 'note: "ServiceAccount" is no policy' in ran.said
        assert "note: data.x of a ConfigMap is no policy" in ran.said

    def test_a_list_of_configmaps_may_too(self) -> None:
        carried = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"policy.yaml": policy("RemoveDuplicates")}}
        text = yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [carried]})
        assert "RemoveDuplicates" in succeeded("convert", "-f", "-", stdin=text).out

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("kind: Pod\n", "holds no DeschedulerPolicy"),
            (f"{policy()}---\n{policy()}", "holds 2 policies"),
            (policy().replace("v1alpha2", "v1alpha1"), "bring it to descheduler/v1alpha2 first"),
            (policy().replace("v1alpha2", "v1"), "only descheduler/v1alpha2 can be converted"),
            ("kind: ReschedulerConfiguration\n", "native form already"),
            ("a: [", "broken YAML"),
            ("", "holds no DeschedulerPolicy"),
        ],
    )
    def test_says_what_is_wrong_with_a_file(self, text: str, said: str) -> None:
        ran = rescheduler("convert", "-f", "-", stdin=text)
        assert ran.code == 2
        assert said in ran.said
        assert ran.out == ""

    def test_says_that_a_file_cannot_be_read_or_written(self, tmp_path: Path) -> None:
        assert "cannot be read" in rescheduler("convert", "-f", str(tmp_path / "none")).said
        ran = rescheduler("convert", "-f", self.example, "-o", str(tmp_path / "no" / "where"))
        assert ran.code == 1
        assert "cannot be written" in ran.said

    def test_refuses_a_format_where_a_file_is_meant(self) -> None:
        assert rescheduler("convert", "-f", self.example, "-o", "yaml").code == 2


class TestTheSeedsForm:
    example = (ROOT / "examples" / "scheduler-config.yaml").read_text(encoding="utf-8")

    def test_comes_to_the_same_configuration(self) -> None:
        before = load(self.example, "seed", KNOWN)
        after = load(converted(self.example, "seed", KNOWN).text, "native", KNOWN)
        assert after == before

    def test_tells_what_is_the_schedulers(self) -> None:
        told = remarks(self.example, Sort.SETTLED)
        assert any(each.startswith("profiles[0].schedulerName: needs nothing here") for each in told)

    def test_names_unknown_args_with_their_path(self) -> None:
        text = self.example.replace("cpuThreshold", "cpuTreshold")
        (told,) = remarks(text, Sort.UNKNOWN)
        assert "args.cpuTreshold: is not known" in told
        assert "did you mean cpuThreshold?" in told

    def test_with_wrong_values_is_refused(self) -> None:
        ran = rescheduler("convert", "-f", "-", stdin=self.example.replace("profiles:", "profils:"))
        assert ran.code == 2


def test_the_page_has_every_table_once() -> None:
    page = (ROOT / "docs" / "coming-over.md").read_text(encoding="utf-8")
    assert sorted(re.findall(r"made by docs/generate\.py: ([a-z-]+)", page)) == sorted(TABLES)
    for make in TABLES.values():
        for row in make()[1]:
            assert row[0] in page


def test_the_taints_that_are_left_alone_are_those_of_the_strategy() -> None:
    assert KNOWN["NodeTaints"].model_fields["excluded_taints"].default == BY_THE_CLUSTER
