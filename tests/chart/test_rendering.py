"""What the chart gives: sound by helm's own judgement, hardened, and as the values and the configuration say."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from rescheduler.config import defaults, load
from rescheduler.strategies import settings_by_name
from tests.chart.rendered import config_of, container_of, names, of_kind, only, pod_of
from tests.support.cli import rescheduler
from tests.testbed.helm import CHART, Helm

Json = dict[str, Any]
EVERYTHING: Json = {
    "priorityClass": {"create": True},
    "networkPolicy": {
        "enabled": True,
        "webhookFrom": [{"ipBlock": {"cidr": "10.0.0.0/8"}}],
        "extraEgress": [{"ports": [{"port": 9090}]}],
    },
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "prometheusRule": {"enabled": True},
    "grafanaDashboard": {"enabled": True},
    "config": {"extender": {"enabled": True, "insecurePort": 9080}},
}
VARIANTS: dict[str, Json] = {
    "defaults": {},
    "everything": EVERYTHING,
    "dry run": {"dryRun": True},
    "no webhook": {"config": {"webhook": {"enabled": False}}},
    "nothing served": {"config": {"web": {"port": 0}, "webhook": {"enabled": False}}},
    "one replica without election": {"replicas": 1, "config": {"leaderElection": {"leaderElect": False}}},
    "rights of somebody else": {"rbac": {"create": False}, "serviceAccount": {"create": False, "name": "theirs"}},
    "named otherwise": {"fullnameOverride": "mover", "config": {"leaderElection": {"resourceName": "mover"}}},
}
every_variant = pytest.mark.parametrize("values", VARIANTS.values(), ids=VARIANTS)


@every_variant
def test_helm_finds_no_fault_however_strict(helm: Helm, values: Json) -> None:
    helm("lint", "--strict", CHART, "--values", "-", stdin=yaml.safe_dump(values))


@every_variant
def test_every_object_says_whose_it_is(helm: Helm, values: Json) -> None:
    for each in helm.rendered(values):
        labels = each["metadata"]["labels"]
        assert labels["app.kubernetes.io/instance"] == "kube-rescheduler", each["metadata"]["name"]
        assert labels["app.kubernetes.io/managed-by"] == "Helm"
        assert "app.kubernetes.io/name" in labels


@every_variant
def test_the_pod_can_do_nothing_that_it_need_not(helm: Helm, values: Json) -> None:
    objects = helm.rendered(values)
    pod, container = pod_of(objects)["spec"], container_of(objects)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert not {"hostNetwork", "hostPID", "hostIPC"} & pod.keys()
    assert not [each for each in pod["volumes"] if "hostPath" in each]
    assert container["resources"]["requests"].keys() == {"cpu", "memory"}


@every_variant
def test_the_controller_takes_its_configuration_and_its_flags(helm: Helm, values: Json) -> None:
    objects = helm.rendered(values)
    load(config_of(objects), "the ConfigMap", settings_by_name())  # raises what is wrong with it
    command, *flags = container_of(objects)["args"]
    assert command == "run"
    ran = rescheduler("run", *flags, "--help")
    assert ran.code == 0, ran.said


@every_variant
def test_what_is_named_is_there(helm: Helm, values: Json) -> None:
    """Roles that are bound, ports that Services and probes lead to, the ConfigMap that is mounted."""
    objects = helm.rendered(values)
    there = names(objects)
    for binding in [*of_kind(objects, "RoleBinding"), *of_kind(objects, "ClusterRoleBinding")]:
        role = binding["roleRef"]
        assert (role["kind"], role["name"]) in there
        assert binding["subjects"][0]["name"] == pod_of(objects)["spec"]["serviceAccountName"]
    container = container_of(objects)
    listening = {key for port in container.get("ports", []) for key in (port["name"], port["containerPort"])}
    for service in of_kind(objects, "Service"):
        assert service["spec"]["selector"].items() <= pod_of(objects)["metadata"]["labels"].items()
        assert {port["targetPort"] for port in service["spec"]["ports"]} <= listening
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        assert probe not in container or container[probe]["httpGet"]["port"] in listening
    assert ("ConfigMap", pod_of(objects)["spec"]["volumes"][0]["configMap"]["name"]) in there


def test_by_default_two_replicas_elect_a_leader_on_two_nodes(helm: Helm) -> None:
    objects = helm.rendered()
    deployment = only(objects, "Deployment")
    assert deployment["spec"]["replicas"] == 2
    assert load(config_of(objects), "", settings_by_name()).fields.leader_election.leader_elect
    by_node, by_zone = pod_of(objects)["spec"]["topologySpreadConstraints"]
    assert (by_node["topologyKey"], by_node["whenUnsatisfiable"]) == ("kubernetes.io/hostname", "DoNotSchedule")
    assert by_zone["whenUnsatisfiable"] == "ScheduleAnyway"
    assert only(objects, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1
    container = container_of(objects)
    assert container["livenessProbe"]["httpGet"]["path"] == "/livez"
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"


def test_a_pod_has_longer_to_end_than_the_controller_takes(helm: Helm) -> None:
    grace = defaults(settings_by_name()).fields.migration.shutdown_grace_period
    assert pod_of(helm.rendered())["spec"]["terminationGracePeriodSeconds"] > grace


def test_a_change_of_the_configuration_rolls_no_pods(helm: Helm) -> None:
    before, after = helm.rendered(), helm.rendered({"config": {"cpuThreshold": 70, "approval": "required"}})
    assert config_of(before) != config_of(after)
    assert only(before, "Deployment") == only(after, "Deployment")


@pytest.mark.parametrize(
    "config",
    [
        {"leaderElection": {"leaseDuration": "30s"}},
        {"clientConnection": {"qps": 20}},
        {"web": {"page": False}},
        {"webhook": {"timeout": "3s"}},
        {"extender": {"enabled": True}},
    ],
    ids=lambda config: next(iter(config)),
)
def test_what_is_looked_at_only_once_rolls_the_pods(helm: Helm, config: Json) -> None:
    assert pod_of(helm.rendered()) != pod_of(helm.rendered({"config": config}))


def test_rights_are_given_for_what_is_wanted_alone(helm: Helm) -> None:
    least = {"page": False, "webhook": False, "metrics": False}
    objects = helm.rendered({"rbac": least, "config": {"webhook": {"enabled": False}}, "crds": {"by": "nobody"}})
    roles = [*of_kind(objects, "ClusterRole"), *of_kind(objects, "Role")]
    assert {each["metadata"]["name"] for each in roles} == {"kube-rescheduler"}
    rules = [rule for role in roles for rule in role["rules"]]
    named = {resource for rule in rules for resource in rule["resources"]}
    assert not named & {"secrets", "customresourcedefinitions", "mutatingwebhookconfigurations", "tokenreviews"}
    assert "metrics.k8s.io" not in {group for rule in rules for group in rule["apiGroups"]}
    assert not of_kind(objects, "CustomResourceDefinition")


@pytest.mark.parametrize("values", [{}, *VARIANTS.values()])
def test_no_rule_has_a_wildcard(helm: Helm, values: Json) -> None:
    for role in helm.rendered(values):
        for rule in role.get("rules", []):
            assert "*" not in [*rule["apiGroups"], *rule["resources"], *rule["verbs"]]


def test_whoever_installs_the_definition_is_the_only_one(helm: Helm) -> None:
    """Two who apply the same definition would undo each other's work when versions differ."""
    for by, in_chart, has_right in (("chart", True, False), ("controller", False, True), ("nobody", False, False)):
        objects = helm.rendered({"crds": {"by": by}})
        assert bool(of_kind(objects, "CustomResourceDefinition")) == in_chart
        assert (("ClusterRole", "kube-rescheduler-crds") in names(objects)) == has_right


def test_the_definition_outlives_the_release_unless_that_is_not_wanted(helm: Helm) -> None:
    keep = "helm.sh/resource-policy"
    assert only(helm.rendered(), "CustomResourceDefinition")["metadata"]["annotations"][keep] == "keep"
    dropped = helm.rendered({"crds": {"keep": False}})
    assert keep not in only(dropped, "CustomResourceDefinition")["metadata"]["annotations"]


def test_every_option_brings_its_object(helm: Helm) -> None:
    more = names(helm.rendered(EVERYTHING)) - names(helm.rendered())
    assert more == {
        ("PriorityClass", "kube-rescheduler"),
        ("NetworkPolicy", "kube-rescheduler"),
        ("ServiceMonitor", "kube-rescheduler"),
        ("PrometheusRule", "kube-rescheduler"),
        ("ConfigMap", "kube-rescheduler-dashboard"),
    }


def test_the_network_policy_lets_in_what_is_served(helm: Helm) -> None:
    objects = helm.rendered(EVERYTHING)
    policy = only(objects, "NetworkPolicy")["spec"]
    let_in = {port["port"] for rule in policy["ingress"] for port in rule["ports"]}
    assert let_in == {port["containerPort"] for port in container_of(objects)["ports"]} == {8080, 9443, 9080}
    assert {53, 443, 6443, 9443, 9090} == {port["port"] for rule in policy["egress"] for port in rule["ports"]}


def test_the_service_monitor_finds_the_metrics_and_not_the_webhook(helm: Helm) -> None:
    objects = helm.rendered(EVERYTHING)
    wanted = only(objects, "ServiceMonitor")["spec"]["selector"]["matchLabels"].items()
    found = [each for each in of_kind(objects, "Service") if wanted <= each["metadata"]["labels"].items()]
    assert [each["metadata"]["name"] for each in found] == ["kube-rescheduler"]


def test_a_digest_goes_over_a_tag(helm: Helm) -> None:
    digest = "sha256:" + "0" * 64
    image = {"repository": "example.com/mover", "tag": "1.2", "digest": digest}
    assert container_of(helm.rendered({"image": image}))["image"] == f"example.com/mover@{digest}"
    assert container_of(helm.rendered({"image": {"tag": "1.2"}}))["image"].endswith(":1.2")


def test_the_notes_name_the_release_as_it_is(helm: Helm) -> None:
    said = helm("install", "mine", CHART, "--namespace", "here", "--dry-run=client")
    notes = said.partition("NOTES:")[2]
    for line in ("-n here scale deployment/mine-kube-rescheduler --replicas=0", "helm uninstall mine -n here"):
        assert line in notes
