"""`rescheduler convert` never makes more pods move: not what was paused, limited or left alone, counterpart or not.

What means nothing here or is not understood is reported.
"""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from rescheduler.convert.builder import RemarkKind
from tests.support.cli import succeeded
from tests.support.conversions import HEADER, HIGH, LOAD, LOW, field, koordinator, policy, remarks, result

PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
EMPTYING = ("HighNodeUtilization", {"thresholds": {"cpu": 20}})


def profiles(*each: dict[str, Any], header: dict[str, str] = HEADER, **top: object) -> str:
    """A policy; each profile is given as the args of its plugins by their names."""
    made = [
        {
            "name": str(index),
            "pluginConfig": [{"name": name, "args": args} for name, args in plugins.items()],
            "plugins": {"balance": {"enabled": [name for name in plugins if name not in GUARDING]}},
        }
        for index, plugins in enumerate(each)
    ]
    return yaml.safe_dump({**header, "profiles": made, **top})


GUARDING = ("DefaultEvictor", "MigrationController")
IDLE = [
    koordinator(LOAD, f"{{{HIGH}, paused: true}}"),
    koordinator(LOAD, f"{{{HIGH}, dryRun: true}}"),
    koordinator(LOAD, f"{{paused: 'yes', {HIGH}}}"),
    koordinator("ScaleDownBinPack", "{strategy: EvictDirectly, paused: true}"),
    policy("HighNodeUtilization", "{thresholds: {cpu: 20}, evictionModes: [OnlyThresholdingResources]}"),
    policy("HighNodeUtilization", "{thresholds: {cpu: 20}, evictionModes: [Other]}"),
    policy("RemovePodsViolatingNodeAffinity", f"{{nodeAffinityType: [{PREFERRED}]}}"),
    policy("RemovePodsViolatingNodeAffinity"),
]


@pytest.mark.parametrize("text", IDLE)
def test_a_plugin_that_was_idle_or_left_pods_alone_that_its_strategy_moves_stays_off(text: str) -> None:
    assert result(text)["enabledStrategies"] == []
    assert "strategies" not in result(text)
    assert any("stays off" in each for each in remarks(text, RemarkKind.MISSING))


HALTED = [
    (koordinator(LOAD, f"{{{HIGH}}}", dryRun=True), "dryRun"),
    (koordinator(LOAD, f"{{{HIGH}}}", dryRun="yes"), "dryRun"),
    (koordinator(LOAD, f"{{{HIGH}}}", migration="{dryRun: true}"), "profiles[0].pluginConfig[0].args.dryRun"),
    (
        koordinator(LOAD, f"{{{HIGH}}}", migration="{defaultDeleteOptions: {dryRun: [All]}}"),
        "profiles[0].pluginConfig[0].args.defaultDeleteOptions.dryRun",
    ),
    (
        koordinator(LOAD, f"{{{HIGH}}}", migration="{evictionPolicy: SoftEviction}"),
        "profiles[0].pluginConfig[0].args.evictionPolicy",
    ),
    (
        koordinator(migration="{objectLimiters: {namespace: {duration: 10m}}}"),
        "profiles[0].pluginConfig[0].args.objectLimiters.namespace",
    ),
    (
        koordinator(migration="{objectLimiters: {namespace: {duration: 5h, maxMigrating: 4}}}"),
        "profiles[0].pluginConfig[0].args.objectLimiters.namespace",
    ),
    (
        policy("RemoveDuplicates", evictor="{nodeFit: true, nodeSelector: a=b}"),
        "profiles[0].pluginConfig[1].args.nodeSelector",
    ),
    (yaml.safe_dump({"deschedulerPolicy": {"profiles": []}, "cmdOptions": {"dry-run": True}}), "cmdOptions.dry-run"),
]


@pytest.mark.parametrize(("text", "place"), HALTED)
def test_what_kept_all_pods_where_they_are_or_cannot_be_limited_here_has_nothing_moved(text: str, place: str) -> None:
    assert result(text)["maxReschedulePods"] == 0
    assert (
        f"# nothing is moved until {place} of the input is seen to" in succeeded("convert", "-f", "-", stdin=text).out
    )


@pytest.mark.parametrize("option", ["paused", "dryRun"])
def test_a_plugin_that_is_not_paused_and_no_dry_run_runs(option: str) -> None:
    assert result(koordinator(LOAD, f"{{{HIGH}, {option}: false}}"))["enabledStrategies"] == ["ResourceOptimization"]
    assert (
        result(koordinator(LOAD, f"{{{HIGH}}}", migration="{dryRun: false}", dryRun=False))["maxReschedulePods"] == 10
    )


def test_node_affinity_of_both_types_comes_over() -> None:
    text = policy("RemovePodsViolatingNodeAffinity", f"{{nodeAffinityType: [{REQUIRED}, {PREFERRED}]}}")
    assert field(text, "strategies.NodeAffinity.includePreferred") is True


@pytest.mark.parametrize("second", [{"priorityThreshold": {"value": 1000}}, {"minReplicas": 3}, {"minPodAge": "1h"}])
def test_no_profile_moves_pods_that_its_evictor_leaves_alone(second: dict[str, Any]) -> None:
    first: dict[str, Any] = {"DefaultEvictor": {"priorityThreshold": {"value": 2000}}, "RemoveDuplicates": {}}
    text = profiles(first, {"DefaultEvictor": second, "RemoveFailedPods": {}})
    assert result(text)["enabledStrategies"] == ["RemoveDuplicates"]
    assert field(text, "filters.priorityThreshold") == 2000


@pytest.mark.parametrize("threshold", [{"value": "1000"}, {"value": True}, {"name": 5}])
def test_a_priority_threshold_of_the_wrong_type_has_nothing_moved(threshold: dict[str, object]) -> None:
    text = profiles({"DefaultEvictor": {"priorityThreshold": threshold}, "RemoveDuplicates": {}})
    assert result(text)["maxReschedulePods"] == 0
    assert remarks(text, RemarkKind.WRONG)


class TestLimits:
    def test_only_nodes_that_are_emptied_are_moved_without_a_limit(self) -> None:
        assert result(profiles(dict([EMPTYING])))["maxReschedulePods"] == "unlimited"
        assert result(profiles(dict([EMPTYING]), {"RemoveDuplicates": {}}))["maxReschedulePods"] == 10

    def test_that_a_node_with_more_pods_than_the_usual_limit_is_never_emptied_is_told(self) -> None:
        ran = succeeded("convert", "-f", "-", stdin=profiles(dict([EMPTYING]) | {"RemoveDuplicates": {}}))
        assert "# a node with more pods is never emptied" in ran.out

    @pytest.mark.parametrize(
        ("lasting", "number", "rate"), [("10m", 5, 5), ("1h", 5, 5), ("90m", 5, 2), ("2h", 5, 2), ("5h", 5, 1)]
    )
    def test_no_more_pods_of_a_namespace_are_moved_in_any_length_of_time(
        self, lasting: str, number: int, rate: int
    ) -> None:
        limiters = f"{{objectLimiters: {{namespace: {{duration: {lasting}, maxMigrating: {number}}}}}}}"
        assert field(koordinator(migration=limiters), "when.movesPerHourPerNamespace") == rate

    @pytest.mark.parametrize(("top", "own"), [(5, 9), (9, 5)])
    def test_the_smaller_of_two_limits_holds_wherever_it_is_in_the_file(self, top: int, own: int) -> None:
        low = {"thresholds": {"cpu": 20}, "targetThresholds": {"cpu": 50}, "evictionLimits": {"node": own}}
        made = yaml.safe_load(profiles({"LowNodeUtilization": low}, maxNoOfPodsToEvictPerNode=top))
        for names in (sorted(made), sorted(made, reverse=True)):
            text = yaml.safe_dump({name: made[name] for name in names}, sort_keys=False)
            assert field(text, "limits.perNodeOut") == 5

    @pytest.mark.parametrize(("top", "own"), [(5, 9), (9, 5)])
    def test_the_smaller_of_two_limits_of_all_moves_holds(self, top: int, own: int) -> None:
        text = koordinator(
            "ScaleDownBinPack", f"{{strategy: EvictDirectly, maxPodsToEvict: {own}}}", maxNoOfPodsToEvictTotal=top
        )
        assert field(text, "maxReschedulePods") == 5


LOST = [
    (policy(evictor="{nodeFit: false}"), "nodeFit"),
    (policy(evictor="{nodeSelector: a=b}"), "nodeSelector"),
    (policy(evictor="{evictSystemCriticalPods: true}"), "evictSystemCriticalPods"),
    (policy(evictor="{podProtections: {defaultDisabled: [DaemonSetPods]}}"), "defaultDisabled[0]"),
    (policy(metricsProviders=[{"prometheus": {"authToken": {"secretReference": {"name": "x"}}}}]), "authToken"),
    (koordinator(LOAD, f"{{{HIGH}, prodHighThresholds: {{cpu: 50}}}}"), "prodHighThresholds"),
    (koordinator("FragmentationAware"), "pluginConfig[1].args"),
    (koordinator(migration="{evictionPolicy: Delete}"), "evictionPolicy"),
]


@pytest.mark.parametrize(("text", "place"), LOST)
def test_what_has_no_counterpart_is_told_with_its_path(text: str, place: str) -> None:
    assert any(place in each.split(": ")[0] for each in remarks(text, RemarkKind.MISSING))


class TestWhatIsNotUnderstood:
    def test_unknown_fields_are_named_with_their_path_and_the_nearest(self) -> None:
        (told,) = remarks(
            policy("PodLifeTime", "{maxPodLifeTimeSecond: 5, maxPodLifeTimeSeconds: 5}"), RemarkKind.UNKNOWN
        )
        assert told.startswith("profiles[0].pluginConfig[0].args.maxPodLifeTimeSecond: is not known: did you mean")

    def test_unknown_plugins_are_named_with_their_path(self) -> None:
        told = remarks(policy("MyOwn"), RemarkKind.UNKNOWN)
        assert [each.split(": ")[0] for each in told] == [
            "profiles[0].plugins.deschedule.enabled[0]",
            "profiles[0].pluginConfig[0]",
        ]

    def test_a_filter_that_is_not_understood_has_its_strategy_switched_off(self) -> None:
        text = policy("PodLifeTime", "{maxPodLifeTimeSeconds: 5, labelSelector: {matchLabels: {'a b': c}}}")
        assert result(text)["enabledStrategies"] == []

    @pytest.mark.parametrize("selector", ["5", "{matchLabel: {app: web}}"])
    def test_an_evictor_that_is_not_understood_has_nothing_moved(self, selector: str) -> None:
        text = policy("PodLifeTime", "{maxPodLifeTimeSeconds: 5}", evictor=f"{{labelSelector: {selector}}}")
        assert result(text)["maxReschedulePods"] == 0

    def test_what_our_checks_refuse_is_taken_out_and_told(self) -> None:
        text = policy("RemovePodsViolatingNodeTaints", "{includedTaints: ['a:NoSchedule']}")
        assert result(text)["enabledStrategies"] == []
        (told,) = remarks(text, RemarkKind.WRONG)
        assert told.startswith("profiles[0].pluginConfig[0].args.includedTaints: is not understood")

    def test_an_index_of_ones_own_leaves_the_strategy_off(self) -> None:
        query = "metricsUtilization: {source: Prometheus, prometheus: {query: x}}"
        args = f"{{thresholds: {{MetricResource: 20}}, targetThresholds: {{MetricResource: 50}}, {query}}}"
        assert result(policy(LOW, args))["enabledStrategies"] == []
