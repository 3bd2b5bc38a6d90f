"""`rescheduler convert` never has more pods moved than was wanted: unknown filters, defaults, refused policies."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from rescheduler.convert.builder import RemarkKind
from rescheduler.convert.descheduler_plugins import BY_THE_CLUSTER
from tests.support.cli import rescheduler
from tests.support.conversions import HEADER, LOW, field, koordinator, policy, remarks, result

LIFE = "maxPodLifeTimeSeconds: 60"
SCHEDULER = {"apiVersion": "kubescheduler.config.k8s.io/v1", "kind": "KubeSchedulerConfiguration"}


def seed(**args: object) -> str:
    """The seed's form with these args."""
    profile = {"schedulerName": "s", "pluginConfig": [{"name": "Rescheduler", "args": args}]}
    return yaml.safe_dump({**SCHEDULER, "profiles": [profile]})


def profile(configs: list[dict[str, Any]], **plugins: Any) -> str:
    """A policy with one profile."""
    return yaml.safe_dump({**HEADER, "profiles": [{"name": "p", "pluginConfig": configs, "plugins": plugins}]})


UNKNOWN_FILTERS = [
    ("PodLifeTime", f"{{{LIFE}, namespaces: {{excluded: [shop]}}}}"),
    ("PodLifeTime", f"{{{LIFE}, conditions: [{{type: Ready, status: 'False', message: gone}}]}}"),
    ("HighNodeUtilization", "{thresholds: {cpu: 20}, evictableNamespaces: {namespaces: {exclude: [vault]}}}"),
]


@pytest.mark.parametrize(("plugin", "args"), UNKNOWN_FILTERS)
def test_a_plugin_with_a_field_that_is_not_known_stays_off_for_it_may_be_a_filter(plugin: str, args: str) -> None:
    text = policy(plugin, args)
    assert result(text)["enabledStrategies"] == []
    assert remarks(text, RemarkKind.UNKNOWN)


@pytest.mark.parametrize(
    "text",
    [
        policy("RemoveDuplicates", evictor="{ignorePVCPods: true}"),
        policy("RemoveDuplicates", evictor="{podProtections: {extraEnabled: [PodsOfMine]}}"),
        policy("RemoveDuplicates", ignorePvcPods=True),
        profile([{"name": "RemoveDuplicates"}], balance={"enabled": ["RemoveDuplicates"]}, filter={"enabled": ["Own"]}),
        profile([{"name": "DefaultEvictor", "ignorePvcPods": True}]),
        seed(excludedNamspaces=["shop"]),
        koordinator(migration="{ignorePvcPod: true}"),
    ],
)
def test_what_is_not_known_of_the_guards_has_nothing_moved(text: str) -> None:
    assert result(text)["maxReschedulePods"] == 0


def test_a_protection_that_is_not_known_may_be_off_for_it_only_lets_more_pods_go() -> None:
    text = policy("RemoveDuplicates", evictor="{podProtections: {defaultDisabled: [PodsOfMine]}}")
    assert result(text)["maxReschedulePods"] == 10
    assert "PodsOfMine" in remarks(text, RemarkKind.MISSING)[0]


def test_a_field_beside_args_keeps_its_plugin_off() -> None:
    text = profile(
        [{"name": "PodLifeTime", "args": {"maxPodLifeTimeSeconds": 5}, "labelSelector": {"matchLabels": {"a": "b"}}}],
        deschedule={"enabled": ["PodLifeTime"]},
    )
    assert result(text)["enabledStrategies"] == []


def test_fields_that_limit_nothing_are_told_and_halt_nothing() -> None:
    text = policy("RemoveDuplicates", metadata={"name": "x"}, tracing={"collectorEndpoint": "otel:4317"})
    assert result(text)["maxReschedulePods"] == 10
    assert remarks(text, RemarkKind.UNKNOWN) == []
    assert remarks(text, RemarkKind.MISSING)[0].startswith("tracing: has no counterpart")


def test_strategies_of_v1alpha1_in_a_v1alpha2_policy_are_told_as_what_they_are() -> None:
    text = yaml.safe_dump({**HEADER, "strategies": {"RemoveDuplicates": {"enabled": True}}})
    assert result(text)["enabledStrategies"] == []
    (told,) = remarks(text, RemarkKind.WRONG)
    assert "v1alpha1" in told


REFUSED = [
    ("PodLifeTime", "{}"),
    ("PodLifeTime", f"{{{LIFE}, namespaces: {{include: [a, b], exclude: [b]}}}}"),
    ("RemovePodsHavingTooManyRestarts", "{podRestartThreshold: 0}"),
    ("HighNodeUtilization", "{thresholds: {}}"),
    (LOW, "{targetThresholds: {cpu: 50}}"),
]


@pytest.mark.parametrize(("plugin", "args"), REFUSED)
def test_a_plugin_that_descheduler_would_refuse_to_run_stays_off(plugin: str, args: str) -> None:
    text = policy(plugin, args)
    assert result(text)["enabledStrategies"] == []
    assert "strategies" not in result(text)
    assert remarks(text, RemarkKind.WRONG)


@pytest.mark.parametrize("plugins", [{"balance": {"enabled": "RemoveDuplicates"}}, ["RemoveDuplicates"]])
def test_plugins_that_are_enabled_in_a_form_that_makes_no_sense_are_told(plugins: object) -> None:
    text = yaml.safe_dump({**HEADER, "profiles": [{"name": "p", "plugins": plugins}]})
    assert remarks(text, RemarkKind.WRONG)


class TestDefaultsThatDiffer:
    def test_failed_pods_are_kept_for_an_hour_as_they_are_there(self) -> None:
        assert field(policy("RemoveFailedPods"), "strategies.FailedPods.minAge") == "1h0m0s"
        text = policy("RemoveFailedPods", "{minPodLifetimeSeconds: 0}")
        assert field(text, "strategies.FailedPods.minAge") == "0s"

    def test_taints_of_cordoned_nodes_which_count_there_are_written_out(self) -> None:
        path = "strategies.NodeTaints.excludedTaints"
        assert field(policy("RemovePodsViolatingNodeTaints"), path) == [*BY_THE_CLUSTER]
        assert field(policy("RemovePodsViolatingNodeTaints", "{includedTaints: [x]}"), path) is None

    def test_the_grace_period_which_is_each_pods_own_there_is_written_out(self) -> None:
        assert field(policy("RemoveDuplicates"), "migration.evictionGracePeriod") == "30s"
        assert field(koordinator(), "migration.evictionGracePeriod") == "30s"

    def test_thresholds_that_keep_nodes_from_being_filled_are_written_out_where_nodes_are_packed(self) -> None:
        assert field(policy("HighNodeUtilization", "{thresholds: {cpu: 20}}"), "cpuThreshold") == 80
        assert field(policy("RemoveDuplicates"), "cpuThreshold") is None

    def test_that_no_token_is_sent_to_prometheus_by_itself_is_told(self) -> None:
        providers = [{"source": "Prometheus", "prometheus": {"url": "http://p:9090"}}]
        ran = rescheduler("convert", "-f", "-", stdin=policy("RemoveDuplicates", metricsProviders=providers))
        assert "bearerTokenFile" in ran.out


@pytest.mark.parametrize(
    "text",
    [
        policy(evictor="{nodeSelector: ''}"),
        policy(LOW, "{thresholds: {cpu: 20}, targetThresholds: {cpu: 50}, metricsUtilization: {prometheus: {}}}"),
    ],
)
def test_a_value_that_says_nothing_is_no_loss(text: str) -> None:
    assert remarks(text, RemarkKind.MISSING) == []


def test_every_wrong_value_of_the_seeds_form_is_told_at_once() -> None:
    told = remarks(seed(cpuThreshold=180, maxReschedulePods="ten", reschedulingInterval=30), RemarkKind.WRONG)
    assert sorted(each.split(": ")[0].rpartition(".")[2] for each in told) == [
        "cpuThreshold",
        "maxReschedulePods",
        "reschedulingInterval",
    ]


def test_a_result_that_moves_nothing_says_why_in_one_line_and_nothing_else_of_the_limit() -> None:
    ran = rescheduler("convert", "-f", "-", stdin=policy("RemoveDuplicates", colour="red"))
    lines = ran.out.splitlines()
    place = lines.index("maxReschedulePods: 0")
    said = "# nothing is moved until colour of the input is seen to: it is not known, and may limit what is moved"
    assert lines[place - 1] == said
    assert not lines[place - 2].startswith("#")


def test_options_of_the_evictor_at_the_top_as_v1alpha1_had_them_are_told_where_they_belong() -> None:
    text = policy("RemoveDuplicates", evictLocalStoragePods=True)
    (told,) = remarks(text, RemarkKind.WRONG)
    assert told.startswith("evictLocalStoragePods: is not understood: in v1alpha2 it is one of the args of")
    assert result(text)["maxReschedulePods"] == 0


def test_a_plugin_without_a_plugin_config_with_which_descheduler_does_not_start_is_told() -> None:
    text = profile([], balance={"enabled": ["RemoveDuplicates"]})
    assert result(text)["enabledStrategies"] == ["RemoveDuplicates"]
    assert any(
        "enabled[0]: needs nothing here: it has no pluginConfig" in each for each in remarks(text, RemarkKind.UNNEEDED)
    )
