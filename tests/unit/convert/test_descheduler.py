"""`rescheduler convert`: each option of descheduler's plugins, evictor and policy means the same here."""

from __future__ import annotations

from typing import Any

import pytest

from rescheduler.convert.descheduler_plugins import BY_THE_CLUSTER
from tests.support.conversions import KNOWN, LOW, field, policy

BASE = "thresholds: {cpu: 20}, targetThresholds: {cpu: 50}"
OPTIONS = [
    ("RemoveDuplicates", "{excludeOwnerKinds: [Job]}", "strategies.RemoveDuplicates.excludedOwnerKinds", ["Job"]),
    ("RemoveDuplicates", "{namespaces: {include: [a]}}", "strategies.RemoveDuplicates.namespaces", ["a"]),
    ("RemoveDuplicates", "{namespaces: {exclude: [a]}}", "strategies.RemoveDuplicates.excludedNamespaces", ["a"]),
    (LOW, f"{{{BASE}}}", "cpuThreshold", 50),
    (LOW, f"{{{BASE}}}", "memoryThreshold", 100),
    (LOW, f"{{{BASE}}}", "strategies.ResourceOptimization", {"lowThresholds": {"cpu": 20}}),
    (LOW, "{thresholds: {pods: 20}, targetThresholds: {pods: 50}}", "thresholds", {"pods": 50}),
    (LOW, f"{{{BASE}, useDeviationThresholds: true}}", "thresholdMode", "deviation"),
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
    (
        "HighNodeUtilization",
        "{thresholds: {cpu: 20}, numberOfNodes: 2}",
        "strategies.Consolidation",
        {"maxUtilization": 100, "maxUtilizationOf": {"cpu": 20}, "minUnderusedNodes": 3},
    ),
    ("HighNodeUtilization", "{thresholds: {cpu: 20}}", "maxReschedulePods", "unlimited"),
    ("HighNodeUtilization", "{thresholds: {pods: 20}}", "thresholds", {"pods": 100}),
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
        "RemovePodsViolatingNodeTaints",
        "{excludedTaints: [x=y], includePreferNoSchedule: true}",
        "strategies.NodeTaints",
        {"excludedTaints": ["x=y", *BY_THE_CLUSTER], "includePreferNoSchedule": True},
    ),
    ("RemovePodsViolatingNodeTaints", "{includedTaints: [x]}", "strategies.NodeTaints.includedTaints", ["x"]),
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
    (
        "RemovePodsHavingTooManyRestarts",
        "{podRestartThreshold: 7, states: [OOMKilled], includingInitContainers: true}",
        "strategies.TooManyRestarts",
        {"restartThreshold": 7, "states": ["OOMKilled"], "includeInitContainers": True},
    ),
    ("PodLifeTime", "{maxPodLifeTimeSeconds: 86400}", "strategies.PodLifeTime.maxAge", "24h0m0s"),
    ("PodLifeTime", "{states: [Pending]}", "strategies.PodLifeTime", {"maxAge": "0s", "states": ["Pending"]}),
    (
        "PodLifeTime",
        "{exitCodes: [137], ownerKinds: {include: [Job]}, includingEphemeralContainers: true}",
        "strategies.PodLifeTime",
        {"maxAge": "0s", "exitCodes": [137], "ownerKinds": ["Job"], "includeEphemeralContainers": True},
    ),
    (
        "PodLifeTime",
        "{exitCodes: [1], ownerKinds: {exclude: [Job]}}",
        "strategies.PodLifeTime.excludedOwnerKinds",
        ["Job"],
    ),
    (
        "PodLifeTime",
        "{conditions: [{type: Ready, status: 'False', reason: X, minTimeSinceLastTransitionSeconds: 90}]}",
        "strategies.PodLifeTime.conditions.0",
        {"type": "Ready", "status": "False", "reason": "X", "minTime": "1m30s"},
    ),
    (
        "RemoveFailedPods",
        "{reasons: [Evicted], exitCodes: [1], minPodLifetimeSeconds: 3600, excludeOwnerKinds: [Job]}",
        "strategies.FailedPods",
        {"reasons": ["Evicted"], "exitCodes": [1], "minAge": "1h0m0s", "excludedOwnerKinds": ["Job"]},
    ),
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


def test_the_taints_that_are_left_alone_are_those_of_the_strategy() -> None:
    assert KNOWN["NodeTaints"].model_fields["excluded_taints"].default == BY_THE_CLUSTER
