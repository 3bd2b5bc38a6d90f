"""`rescheduler convert`: what means nothing here or is not understood is told, and never has more pods moved."""

from __future__ import annotations

import pytest

from rescheduler.convert.builder import RemarkKind
from tests.support.conversions import HIGH, LOAD, LOW, koordinator, policy, remarks, result

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
