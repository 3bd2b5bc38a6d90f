"""`rescheduler convert`: several profiles of descheduler become one configuration."""

from __future__ import annotations

import yaml

from rescheduler.convert.builder import RemarkKind
from tests.support.conversions import HEADER, field, remarks, result


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
        return yaml.safe_dump({**HEADER, "profiles": profiles})

    def test_are_merged_to_one_set_of_strategies(self) -> None:
        assert result(self.two("{}", "{}"))["enabledStrategies"] == ["RemoveDuplicates", "FailedPods"]

    def test_that_limit_pods_in_another_way_than_the_first_are_left_out_and_told(self) -> None:
        text = self.two("{evictLocalStoragePods: true, minReplicas: 2}", "{ignorePvcPods: true}")
        data = result(text)
        assert data["enabledStrategies"] == ["RemoveDuplicates"]
        assert data["allow"] == {"localStorage": True}
        assert data["filters"] == {"minReplicas": 2, "withoutController": False}
        (told,) = remarks(text, RemarkKind.MISSING)
        assert told.startswith("profiles[1]: has no counterpart: its evictor limits pods in another way")

    def test_of_which_one_has_no_evictor_are_alike_if_the_other_one_is_empty(self) -> None:
        policy = yaml.safe_load(self.two("{}", "{}"))
        del policy["profiles"][1]["pluginConfig"]
        assert result(yaml.safe_dump(policy))["enabledStrategies"] == ["RemoveDuplicates", "FailedPods"]

    def test_with_one_selector_have_it_for_all_strategies(self) -> None:
        text = self.two("{labelSelector: {matchLabels: {a: b}}}", "{labelSelector: {matchLabels: {a: b}}}")
        data = result(text)
        assert data["enabledStrategies"] == ["RemoveDuplicates", "FailedPods"]
        assert data["filters"]["podSelector"] == "a=b"

    def test_that_guard_with_something_unknown_have_nothing_moved(self) -> None:
        policy = yaml.safe_load(self.two("{}", "{}"))
        policy["profiles"][1]["plugins"]["filter"] = {"enabled": ["Mine"]}
        assert result(yaml.safe_dump(policy))["maxReschedulePods"] == 0

    def test_that_set_up_one_plugin_in_two_ways_keep_the_first(self) -> None:
        profiles = [
            {
                "name": str(age),
                "pluginConfig": [{"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": age}}],
                "plugins": {"deschedule": {"enabled": ["PodLifeTime"]}},
            }
            for age in (60, 120)
        ]
        text = yaml.safe_dump({**HEADER, "profiles": profiles})
        assert field(text, "strategies.PodLifeTime") == {"maxAge": "1m0s"}
        (told,) = remarks(text, RemarkKind.MISSING)
        assert told.startswith("profiles[1].pluginConfig[0].args: has no counterpart: PodLifeTime is set up already")

    def test_a_plugin_that_is_not_enabled_stays_off(self) -> None:
        profile = {"name": "p", "pluginConfig": [{"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": 5}}]}
        text = yaml.safe_dump({**HEADER, "profiles": [profile]})
        assert result(text)["enabledStrategies"] == []
        assert "profiles[0].pluginConfig[0]" in remarks(text, RemarkKind.UNNEEDED)[-1]


def test_a_profile_of_descheduler_has_no_nodes_of_its_own() -> None:
    text = yaml.safe_dump({**HEADER, "profiles": [{"name": "p", "nodeSelector": {"matchLabels": {"a": "b"}}}]})
    assert remarks(text, RemarkKind.UNKNOWN)[0].startswith("profiles[0].nodeSelector: is not known")
