"""What the chart gives: sound by helm's own judgement, hardened, and as the values and the configuration say."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml

from rescheduler.config.loader import load, load_defaults
from rescheduler.model.json import Json
from rescheduler.model.labels import REGISTERED_BY
from rescheduler.strategies import settings_by_name
from tests.chart.rendered import config_of, container_of, names, of_kind, only, pod_of
from tests.support.cli import rescheduler
from tests.testbed.helm import CHART, Helm

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
    "by the rules of a company": {
        "commonLabels": {"team": "platform", "cost-centre": "42"},
        "deploymentAnnotations": {"example.com/owner": "platform"},
        "podAnnotations": {"example.com/scrape": "no"},
        "podLabels": {"team": "platform-pods", "sidecar": "no"},
        "imagePullSecrets": [{"name": "registry"}],
        "tolerations": [{"key": "infra", "operator": "Exists", "effect": "NoSchedule"}],
        "affinity": {"podAntiAffinity": {}},
        "dnsConfig": {"options": [{"name": "ndots", "value": "2"}]},
        "extraArgs": ["--request-timeout=30s"],
        "extraEnv": [{"name": "HTTPS_PROXY", "value": "http://proxy.example.com:3128"}],
        "priorityClassName": "system-cluster-critical",
    },
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


def test_labels_for_all_are_on_every_object_and_never_over_those_that_select(helm: Helm) -> None:
    mine = {"team": "platform", "app.kubernetes.io/name": "mine", "app.kubernetes.io/component": "mine"}
    objects = helm.rendered(EVERYTHING | {"commonLabels": mine, "podLabels": {"team": "pods"}})
    for each in objects:
        labels = each["metadata"]["labels"]
        assert (labels["team"], labels["app.kubernetes.io/name"] == "mine") == ("platform", False), each["kind"]
    assert pod_of(objects)["metadata"]["labels"]["team"] == "pods"
    selector = only(objects, "Deployment")["spec"]["selector"]["matchLabels"]
    assert "team" not in selector
    assert selector.items() <= pod_of(objects)["metadata"]["labels"].items()
    assert {each["metadata"]["labels"]["app.kubernetes.io/component"] for each in of_kind(objects, "Service")} == {
        "web", "webhook",
    }  # fmt: skip


def test_a_configuration_of_ones_own_is_mounted_in_the_place_of_the_charts(helm: Helm) -> None:
    objects = helm.rendered({"existingConfigMap": "mine"})
    assert not of_kind(objects, "ConfigMap")
    assert pod_of(objects)["spec"]["volumes"][0]["configMap"]["name"] == "mine"


def test_the_accounts_token_is_given_to_the_controllers_pods_alone(helm: Helm) -> None:
    objects = helm.rendered()
    assert only(objects, "ServiceAccount")["automountServiceAccountToken"] is False
    assert pod_of(objects)["spec"]["automountServiceAccountToken"] is True


def test_an_account_of_ones_own_is_bound_and_not_made(helm: Helm) -> None:
    objects = helm.rendered({"serviceAccount": {"create": False, "name": "theirs"}})
    assert not of_kind(objects, "ServiceAccount")
    bound = [*of_kind(objects, "RoleBinding"), *of_kind(objects, "ClusterRoleBinding")]
    assert {each["subjects"][0]["name"] for each in bound} == {"theirs"}
    assert pod_of(objects)["spec"]["serviceAccountName"] == "theirs"


def test_in_the_network_of_nodes_names_of_the_cluster_are_still_found(helm: Helm) -> None:
    pod = pod_of(helm.rendered({"hostNetwork": True}))["spec"]
    assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    assert not {"hostNetwork", "dnsPolicy"} & pod_of(helm.rendered())["spec"].keys()


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
    grace = load_defaults(settings_by_name()).fields.migration.shutdown_grace_period
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
    least = {"page": False, "webhook": False, "metrics": False, "view": False}
    objects = helm.rendered({"rbac": least, "config": {"webhook": {"enabled": False}}, "crds": {"by": "nobody"}})
    roles = [*of_kind(objects, "ClusterRole"), *of_kind(objects, "Role")]
    assert {each["metadata"]["name"] for each in roles} == {"kube-rescheduler"}
    rules = [rule for role in roles for rule in role["rules"]]
    named = {resource for rule in rules for resource in rule["resources"]}
    assert not named & {"secrets", "customresourcedefinitions", "mutatingwebhookconfigurations", "tokenreviews"}
    assert "metrics.k8s.io" not in {group for rule in rules for group in rule["apiGroups"]}
    assert not of_kind(objects, "CustomResourceDefinition")


def test_the_webhooks_configuration_is_installed_empty_and_the_controller_may_fill_this_one_alone(helm: Helm) -> None:
    objects = helm.rendered({"config": {"webhook": {"name": "mover"}}})
    made = only(objects, "MutatingWebhookConfiguration")
    assert made.keys() == {"apiVersion", "kind", "metadata"}
    assert made["metadata"]["name"] == "mover"
    assert made["metadata"]["annotations"] == {REGISTERED_BY: "kube-rescheduler"}
    assert only(objects, "ClusterRole", "kube-rescheduler-webhook")["rules"] == [
        {
            "apiGroups": ["admissionregistration.k8s.io"],
            "resources": ["mutatingwebhookconfigurations"],
            "resourceNames": ["mover"],
            "verbs": ["get", "patch"],
        }
    ]


@pytest.mark.parametrize("values", [VARIANTS["dry run"], VARIANTS["no webhook"], VARIANTS["nothing served"]])
def test_without_a_webhook_there_is_no_configuration_of_one(helm: Helm, values: Json) -> None:
    assert not of_kind(helm.rendered(values), "MutatingWebhookConfiguration")


def texts(where: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Whatever must be text: names, namespaces, labels and annotations, each with its place."""
    if isinstance(where, list):
        for each in where:
            yield from texts(each, path)
    for key, value in where.items() if isinstance(where, dict) else ():
        there = f"{path}.{key}"
        if key.lower().endswith(("name", "namespace")):
            yield there, value
        elif key in ("labels", "annotations", "matchLabels", "resourceNames"):
            yield from ((there, each) for each in (value.values() if isinstance(value, dict) else value))
        elif key == "selector" and "matchLabels" not in value:
            yield from ((there, each) for each in value.values())
        else:
            yield from texts(value, there)


@pytest.mark.parametrize("name", ["123", "true", "0x1f", "null"])
def test_a_name_that_looks_like_something_else_is_text(helm: Helm, name: str) -> None:
    values = EVERYTHING | {
        "nameOverride": name,
        "fullnameOverride": name,
        "serviceAccount": {"name": name},
        "priorityClassName": name,
        "config": {
            "extender": {"enabled": True, "insecurePort": 9080},
            "leaderElection": {"resourceName": name},
            "webhook": {"name": name, "serviceName": name},
        },
    }
    given = ("--namespace", name, "--values", "-")
    for more in ({}, {"existingConfigMap": name}):
        shown = helm("template", name, CHART, *given, stdin=yaml.safe_dump(values | more))
        for each in filter(None, yaml.safe_load_all(shown)):
            if each["kind"] != "CustomResourceDefinition":
                assert not [(path, found) for path, found in texts(each) if not isinstance(found, str)], each["kind"]


def test_who_may_see_pods_may_see_their_moves_and_nothing_more(helm: Helm) -> None:
    role = only(helm.rendered(), "ClusterRole", "kube-rescheduler-view")
    assert role["metadata"]["labels"]["rbac.authorization.k8s.io/aggregate-to-view"] == "true"
    assert role["rules"] == [
        {"apiGroups": ["rescheduler.io"], "resources": ["podmigrations"], "verbs": ["get", "list", "watch"]}
    ]


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


def test_a_network_policy_can_name_everybody_who_talks_to_the_pods(helm: Helm) -> None:
    def only_from(cidr: str) -> list[Json]:
        return [{"ipBlock": {"cidr": cidr}}]

    named = {
        "webFrom": only_from("10.0.1.0/24"),
        "webhookFrom": only_from("10.0.2.0/24"),
        "apiServerTo": only_from("10.0.3.0/24"),
        "apiServerPorts": [6443],
        "dnsTo": only_from("10.0.4.0/24"),
    }
    policy = only(helm.rendered({"networkPolicy": {"enabled": True, **named}}), "NetworkPolicy")["spec"]
    ours = {"podSelector": policy["podSelector"]}
    assert [rule["from"] for rule in policy["ingress"]] == [named["webFrom"], [*only_from("10.0.2.0/24"), ours]]
    assert [rule["to"] for rule in policy["egress"]] == [named["dnsTo"], named["apiServerTo"], [ours]]
    assert [port["port"] for port in policy["egress"][1]["ports"]] == [6443]


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
    assert "\n  rescheduler cleanup --crds\n" in notes


def test_the_notes_have_cleanup_told_of_names_that_are_not_the_usual_ones(helm: Helm) -> None:
    values = ("--set", "config.leaderElection.resourceName=mover")
    said = helm("install", "mine", CHART, "--namespace", "here", "--dry-run=client", *values)
    kept = "kubectl -n here get configmap mine-kube-rescheduler -o jsonpath='{.data.config\\.yaml}' > config.yaml"
    assert f"\n  {kept}\n  rescheduler cleanup --crds --config config.yaml\n" in said
