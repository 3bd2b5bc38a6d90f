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

    def test_with_different_evictors_have_the_strictest(self) -> None:
        text = self.two("{evictLocalStoragePods: true, minReplicas: 2}", "{ignorePvcPods: true}")
        data = result(text)
        assert "allow" not in data
        assert data["filters"] == {"minReplicas": 2, "persistentVolumes": False, "withoutController": False}
        places = [each.split(": ")[0] for each in remarks(text, RemarkKind.MISSING)]
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
        assert remarks(text, RemarkKind.MISSING) == []

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
        (told,) = remarks(text, RemarkKind.MISSING)
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
        text = yaml.safe_dump({**HEADER, "profiles": profiles})
        assert field(text, "strategies.PodLifeTime") == {"maxAge": "1m0s"}
        (told,) = remarks(text, RemarkKind.MISSING)
        assert told.startswith("profiles[1].pluginConfig[0].args: has no counterpart: PodLifeTime is set up already")

    def test_a_plugin_that_is_not_enabled_stays_off(self) -> None:
        profile = {"name": "p", "pluginConfig": [{"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": 5}}]}
        text = yaml.safe_dump({**HEADER, "profiles": [profile]})
        assert result(text)["enabledStrategies"] == []
        assert "profiles[0].pluginConfig[0]" in remarks(text, RemarkKind.SETTLED)[-1]


def test_a_profile_of_descheduler_has_no_nodes_of_its_own() -> None:
    text = yaml.safe_dump({**HEADER, "profiles": [{"name": "p", "nodeSelector": {"matchLabels": {"a": "b"}}}]})
    assert remarks(text, RemarkKind.UNKNOWN)[0].startswith("profiles[0].nodeSelector: is not known")
