"""Where `rescheduler convert` finds a policy: in ConfigMaps, lists, values of a chart, and what carries those."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml

from rescheduler.convert.builder import RemarkKind
from tests.support.cli import rescheduler, succeeded
from tests.support.conversions import remarks, result
from tests.unit.convert.test_convert_careful import SCHEDULER, seed

PROFILES: list[Any] = [
    {
        "name": "default",
        "pluginConfig": [{"name": "DefaultEvictor", "args": {"minReplicas": 2}}, {"name": "RemoveDuplicates"}],
        "plugins": {"balance": {"enabled": ["RemoveDuplicates"]}},
    }
]
VALUES: dict[str, Any] = {
    "kind": "Deployment",
    "replicas": 2,
    "deschedulingInterval": "5m",
    "deschedulerPolicyAPIVersion": "descheduler/v1alpha2",
    "deschedulerPolicy": {"maxNoOfPodsToEvictPerNode": 3, "profiles": PROFILES},
}


def flux(values: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "helm.toolkit.fluxcd.io/v2", "kind": "HelmRelease", "spec": {"values": values}}


def argo(helm: dict[str, Any]) -> dict[str, Any]:
    spec = {"sources": [{"repoURL": "https://example.com", "helm": helm}]}
    return {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "spec": spec}


CARRIED = [
    VALUES,
    flux(VALUES),
    argo({"valuesObject": VALUES}),
    argo({"values": yaml.safe_dump(VALUES)}),
    {"apiVersion": "v1", "kind": "ConfigMap", "data": {"values.yaml": yaml.safe_dump(VALUES)}},
]


@pytest.mark.parametrize("document", CARRIED)
def test_the_policy_in_values_of_the_chart_is_found(document: dict[str, Any]) -> None:
    data = result(yaml.safe_dump(document))
    assert data["enabledStrategies"] == ["RemoveDuplicates"]
    assert data["limits"] == {"perNodeOut": 3}
    assert data["reschedulingInterval"] == "5m0s"
    assert data["filters"]["minReplicas"] == 2


def test_paths_lead_through_what_carries_the_policy() -> None:
    values = VALUES | {"deschedulerPolicy": {"profiles": PROFILES, "colour": "red"}}
    (told,) = remarks(yaml.safe_dump(flux(values)), RemarkKind.UNKNOWN)
    assert told.startswith("spec.values.deschedulerPolicy.colour: is not known")


def test_a_cron_job_has_no_interval_and_that_is_told() -> None:
    values = VALUES | {"kind": "CronJob", "schedule": "*/2 * * * *"}
    text = yaml.safe_dump(values)
    assert "reschedulingInterval" not in result(text)
    (told,) = remarks(text, RemarkKind.MISSING)
    assert told.startswith("schedule: has no counterpart")


@pytest.mark.parametrize("version", [None, "descheduler/v1alpha1"])
def test_values_of_an_old_chart_are_refused_as_the_old_policy_is(version: str | None) -> None:
    values: dict[str, Any] = {"deschedulerPolicy": {"strategies": {"RemoveDuplicates": {"enabled": True}}}}
    if version:
        values["deschedulerPolicyAPIVersion"] = version
    ran = rescheduler("convert", "-f", "-", stdin=yaml.safe_dump(values))
    assert (ran.code, ran.out) == (2, "")
    assert "bring it to descheduler/v1alpha2 first" in ran.said


def test_an_operators_own_object_leads_to_the_policy_that_it_makes() -> None:
    ran = rescheduler("convert", "-f", "-", stdin="apiVersion: operator.openshift.io/v1\nkind: KubeDescheduler\n")
    assert ran.code == 2
    assert "convert the ConfigMap that its operator writes" in ran.said


NATIVE = "ReschedulerConfiguration: it is in the native form already"


def listed(*kinds: str) -> str:
    return yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": [{"kind": kind} for kind in kinds]})


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("kind: Pod\n---\nkind: Job\n---\na: b\n", '; it holds 3 documents of other kinds: "Job", "Pod", none'),
        (listed(*"GFEDCBA"), '; it holds 7 documents of other kinds: "A", "B", "C", "D", "E" and 2 more'),
        (
            listed("Pod", "ReschedulerConfiguration", "Pod"),
            f'; it holds 3 documents of other kinds: "Pod", "ReschedulerConfiguration"; {NATIVE}',
        ),
        ("kind: ConfigMap\ndata: {a: b, c: d}\n", '; it holds 1 document of another kind: "ConfigMap"'),
        (listed(), ""),
    ],
)
def test_a_file_without_a_policy_is_told_once_with_what_it_holds(text: str, said: str) -> None:
    ran = rescheduler("convert", "-f", "-", stdin=text)
    assert (ran.code, ran.out) == (2, "")
    assert ran.said == (
        "error: <stdin>: holds no DeschedulerPolicy (descheduler/v1alpha2) or DeschedulerConfiguration "
        f"(koordinator) or KubeSchedulerConfiguration{said}\n"
    )


def test_json_is_read_too() -> None:
    assert json.loads(json.dumps(VALUES)) == VALUES
    ran = succeeded("convert", "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "List", "items": [VALUES]}))
    assert yaml.safe_load(ran.out)["enabledStrategies"] == ["RemoveDuplicates"]


def test_paths_of_the_seeds_form_lead_through_a_configmap_too() -> None:
    carried = {"apiVersion": "v1", "kind": "ConfigMap", "data": {"config.yaml": seed(cpuThreshold=180)}}
    (told,) = remarks(yaml.safe_dump(carried), RemarkKind.WRONG)
    assert told.startswith('data["config.yaml"].profiles[0].pluginConfig[0].args.cpuThreshold: is not understood')
    carried["data"] = {"config.yaml": yaml.safe_dump({**SCHEDULER, "profiles": 5})}
    assert 'data["config.yaml"].profiles: ' in rescheduler("convert", "-f", "-", stdin=yaml.safe_dump(carried)).said


def test_a_scheduler_of_kse_rescheduler_becomes_a_configuration_that_only_looks_after_failed_pods() -> None:
    plugins = {"multiPoint": {"enabled": [{"name": "Podrescheduling"}]}}
    election, connection = {"leaderElect": True}, {"kubeconfig": "/etc/kubernetes/scheduler.conf"}
    document = {
        **SCHEDULER,
        "apiVersion": "kubescheduler.config.k8s.io/v1beta3",
        "leaderElection": election,
        "clientConnection": connection,
        "profiles": [{"schedulerName": "default-scheduler", "plugins": plugins}],
    }
    text = yaml.safe_dump(document)
    data = result(text)
    assert data["enabledStrategies"] == []
    assert "clientConnection" not in data
    assert "leaderElection" not in data
    assert remarks(text, RemarkKind.MISSING) == []
    ran = succeeded("convert", "-f", "-", stdin=text)
    assert "kse-rescheduler" in ran.out
