"""Wrong values are refused before anything is installed, with their place and, where it is ours to say, a cure."""

from __future__ import annotations

import pytest
import yaml
from charts.value_comments import values_of
from docs.generating.configuration import NATIVE_EXAMPLE, POOLS_EXAMPLE

from rescheduler.model.json import Json
from tests.chart.rendered import config_of
from tests.support.cli import rescheduler
from tests.testbed.helm import CHART, Helm, HelmRefused

REFUSED: list[tuple[Json, str]] = [
    ({"replica": 3}, "at '': additional properties 'replica' not allowed"),
    ({"replicas": "two"}, "at '/replicas': got string, want integer"),
    ({"image": {"pullpolicy": "Always"}}, "at '/image': additional properties 'pullpolicy' not allowed"),
    ({"image": {"digest": "sha256:short"}}, "at '/image/digest'"),
    ({"commonLabels": {"cost-centre": 42}}, "at '/commonLabels/cost-centre': got number, want string"),
    ({"existingConfigMap": "My Config"}, "at '/existingConfigMap'"),
    ({"hostNetwork": "yes"}, "at '/hostNetwork': got string, want boolean"),
    ({"crds": {"by": "me"}}, "at '/crds/by': value must be one of 'chart', 'controller', 'nobody'"),
    ({"config": {"cpuTreshold": 70}}, "at '/config': additional properties 'cpuTreshold' not allowed"),
    ({"config": {"cpuThreshold": 180}}, "at '/config/cpuThreshold': maximum: got 180, want 100"),
    ({"config": {"reschedulingInterval": 30}}, "at '/config/reschedulingInterval': got number, want string"),
    ({"config": {"reschedulingInterval": "30"}}, "at '/config/reschedulingInterval'"),
    ({"config": {"enabledStrategies": ["LoadBalancin"]}}, "at '/config/enabledStrategies/0'"),
    ({"config": {"strategies": {"Consolidation": {"x": 1}}}}, "additional properties 'x' not allowed"),
    ({"config": {"kind": "KubeSchedulerConfiguration"}}, "at '/config/kind'"),
    ({"config": {"leaderElection": {"leaderElect": False}}}, "Set replicas to 1, or leave leaderElect out."),
    ({"config": {"leaderElection": {"resourceNamespace": "there"}}}, "leave it out."),
    ({"rbac": {"webhook": False}}, "the controller may not register the webhook: change one of them."),
    ({"config": {"web": {"bindAddress": "127.0.0.1"}}}, "where kubelet's probes do not reach it"),
    ({"config": None}, "missing property 'config'"),
    (
        {"config": {"webhook": {"port": 8080}}},
        "config.web.port and config.webhook.port are both 8080: give one of them another port.",
    ),
    (
        {"config": {"extender": {"enabled": True, "insecurePort": 9443}}},
        "config.webhook.port and config.extender.insecurePort are both 9443: give one of them another port.",
    ),
    ({"extraArgs": ["--dry-run"]}, "set dryRun to true instead."),
    ({"extraArgs": ["--no-leader-elect"]}, "Set replicas to 1, or leave it out."),
    ({"extraArgs": ["--once"]}, "kubelet would restart it again and again"),
    ({"extraArgs": ["--config=/mine.yaml"]}, "set config or existingConfigMap instead."),
    ({"dryRun": True, "serviceMonitor": {"enabled": True}}, "there are no metrics to read"),
]


@pytest.mark.parametrize(("values", "said"), REFUSED, ids=[yaml.safe_dump(each).strip() for each, _ in REFUSED])
def test_what_is_wrong_is_refused_with_its_place(helm: Helm, values: Json, said: str) -> None:
    with pytest.raises(HelmRefused) as refused:
        helm.rendered(values)
    assert said in str(refused.value)


def test_everything_that_is_wrong_is_told_at_once(helm: Helm) -> None:
    with pytest.raises(HelmRefused) as refused:
        helm.rendered({"replica": 1, "config": {"cpuThreshold": 0, "minPodAge": 5, "strategies": {"None": {}}}})
    for place in ("at '':", "'/config/cpuThreshold'", "'/config/minPodAge'", "'/config/strategies'"):
        assert place in str(refused.value)


def test_every_configuration_of_ours_is_accepted_and_arrives_as_it_is(helm: Helm) -> None:
    whole: Json = yaml.safe_load(rescheduler("config", "show", "-o", "yaml").out)
    for given in (whole, yaml.safe_load(NATIVE_EXAMPLE), yaml.safe_load(POOLS_EXAMPLE)):
        given.setdefault("web", {})["port"] = 8080
        given.setdefault("webhook", {})["enabled"] = True
        given["leaderElection"] = {**given.get("leaderElection", {}), "leaderElect": True}
        assert yaml.safe_load(config_of(helm.rendered({"config": given}))) == given


def test_large_numbers_arrive_as_numbers(helm: Helm) -> None:
    config = {"filters": {"priorityThreshold": 1000000}, "cpuThreshold": 72.5}
    assert "priorityThreshold: 1000000\n" in config_of(helm.rendered({"config": config}))
    value = {"priorityClass": {"create": True, "value": 1000000000}}
    assert "\nvalue: 1000000000\n" in helm.template(value)


def test_the_chart_can_be_a_part_of_another(helm: Helm) -> None:
    helm.rendered({"global": {"imageRegistry": "example.com"}})


def test_every_value_has_a_comment() -> None:
    with pytest.raises(ValueError, match=r"values without a comment above them: a\.c, d$"):
        values_of("# One.\na:\n  # Two.\n  b: 1\n  c: 2\nd: 3\n")
    assert values_of((CHART / "values.yaml").read_text(encoding="utf-8"))
