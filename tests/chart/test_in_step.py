"""What is made from elsewhere is in step: the chart with the product, deploy/ and the tables with the chart."""

from __future__ import annotations

import re

import pytest
import yaml
from charts.generate import ROOT, chart_version, differences, for_the_chart, from_the_chart
from pydantic.alias_generators import to_camel

from rescheduler.config.live import RESTART_ONLY
from rescheduler.config.loader import load_defaults
from rescheduler.strategies import settings_by_name
from tests.chart.rendered import config_of, container_of, only, pod_of
from tests.testbed.helm import CHART, Helm

WRITE = "run `python -m charts.generate`"


def test_the_chart_holds_what_the_product_says() -> None:
    assert not (lines := differences(for_the_chart())), "\n".join([WRITE, *lines])


def test_the_plain_manifests_are_those_of_the_chart(helm: Helm) -> None:
    assert not (lines := differences(from_the_chart(helm))), "\n".join([WRITE, *lines])


def test_the_plain_manifests_say_nothing_of_helm() -> None:
    for name in ("install.yaml", "rbac.yaml", "webhook-service.yaml"):
        documents = list(yaml.safe_load_all((ROOT / "deploy" / name).read_text(encoding="utf-8")))
        for each in documents:
            metadata = each["metadata"]
            marks = {**metadata.get("labels", {}), **metadata.get("annotations", {})}
            assert not [key for key in marks if key.startswith("helm.sh/")], name
            assert "app.kubernetes.io/managed-by" not in marks
            assert metadata.get("namespace", "kube-rescheduler") == "kube-rescheduler"


@pytest.mark.parametrize(
    ("version", "expected"),
    [("0.1.0.dev0", "0.1.0-dev.0"), ("1.2.3", "1.2.3"), ("1.2.0rc1", "1.2.0-rc.1"), ("2.0.0a4", "2.0.0-a.4")],
)
def test_a_version_of_the_package_has_one_of_the_chart(version: str, expected: str) -> None:
    assert chart_version(version) == expected


def test_the_sections_that_roll_the_pods_are_those_that_await_a_restart() -> None:
    text = (CHART / "templates" / "_configuration.tpl").read_text(encoding="utf-8")
    (picked,) = re.findall(r"pick \.Values\.config ([^|]*)\|", text)
    assert set(re.findall(r'"(\w+)"', picked)) == {to_camel(each) for each in RESTART_ONLY}


def test_the_chart_and_the_controller_have_the_same_defaults(helm: Helm) -> None:
    """Names and ports that the configuration does not say are the controller's own."""
    fields = load_defaults(settings_by_name()).fields
    objects = helm.rendered()
    said = yaml.safe_load(config_of(objects))
    assert said["webhook"] == {"enabled": True}
    ports = {each["name"]: each["containerPort"] for each in container_of(objects)["ports"]}
    assert ports == {"web": said["web"]["port"], "webhook": fields.webhook.port}
    service = only(objects, "Service", fields.webhook.service_name)
    assert [each["port"] for each in service["spec"]["ports"]] == [fields.webhook.service_port]
    lease, name = fields.leader_election.resource_name, fields.webhook.name
    rules = [rule for each in objects for rule in each.get("rules", [])]
    named = {word for rule in rules for word in rule.get("resourceNames", [])}
    assert named == {lease, f"{lease}-state", name, f"{name}-webhook"}
    assert only(objects, "MutatingWebhookConfiguration")["metadata"]["name"] == name


def test_the_user_of_the_pod_is_the_user_of_the_image(helm: Helm) -> None:
    (user,) = re.findall(r"^USER (\d+):(\d+)$", (ROOT / "Dockerfile").read_text(encoding="utf-8"), re.MULTILINE)
    context = pod_of(helm.rendered())["spec"]["securityContext"]
    assert (str(context["runAsUser"]), str(context["runAsGroup"])) == user
