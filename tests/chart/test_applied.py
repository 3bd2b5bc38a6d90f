"""A real API server takes what the chart renders and deploy/ holds: without a warning, in a restricted namespace."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import yaml
from charts.generate import ROOT

from rescheduler.model.json import Json
from tests.chart.rendered import pod_of
from tests.chart.test_rendering import VARIANTS
from tests.testbed.cluster import ControlPlane
from tests.testbed.helm import Helm
from tests.testbed.processes import until

pytestmark = pytest.mark.cluster

HOME = "kube-rescheduler"
OF_THE_OPERATOR = ("ServiceMonitor", "PrometheusRule")
"""Kinds that no server here has."""
INSTALL = ROOT / "deploy" / "install.yaml"


def is_there(control_plane: ControlPlane, namespace: str) -> bool:
    found = control_plane.api.get("/api/v1/namespaces")["items"]
    return namespace in {each["metadata"]["name"] for each in found}


def removed(control_plane: ControlPlane) -> None:
    control_plane.kubectl("delete", "namespace", HOME, "--ignore-not-found")
    until(f"{HOME} is gone", lambda: not is_there(control_plane, HOME))


@pytest.fixture
def home(control_plane: ControlPlane) -> Iterator[str]:
    """The namespace, in which only pods that the strictest standard allows are taken."""
    control_plane.kubectl("create", "namespace", HOME)
    for what in ("enforce", "warn"):
        control_plane.kubectl("label", "namespace", HOME, f"pod-security.kubernetes.io/{what}=restricted")
    yield HOME
    removed(control_plane)


@pytest.mark.parametrize("values", VARIANTS.values(), ids=VARIANTS)
def test_a_real_server_takes_it_without_a_warning(
    control_plane: ControlPlane, helm: Helm, home: str, values: Json
) -> None:
    objects = [each for each in helm.rendered(values) if each["kind"] not in OF_THE_OPERATOR]
    checked = ("apply", "--dry-run=server", "--validate=strict", "--warnings-as-errors", "-f", "-")
    control_plane.kubectl(*checked, stdin=yaml.safe_dump_all(objects))


def test_a_restricted_namespace_takes_its_pods(control_plane: ControlPlane, helm: Helm, home: str) -> None:
    """The default account stands in for its own, which is not there in a dry run."""
    template = pod_of(helm.rendered())
    spec = {**template["spec"], "serviceAccountName": "default"}
    accounts = f"/api/v1/namespaces/{home}/serviceaccounts"
    until("the namespace has its account", lambda: control_plane.api.get(accounts)["items"])
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "one", "namespace": home}, "spec": spec}
    control_plane.kubectl("create", "--dry-run=server", "-f", "-", stdin=yaml.safe_dump(pod))


def test_the_plain_manifests_are_applied_in_one_go_and_deleted_again(control_plane: ControlPlane) -> None:
    try:
        control_plane.kubectl("apply", "--validate=strict", "--warnings-as-errors", "-f", str(INSTALL))
        again = control_plane.kubectl("apply", "-f", str(INSTALL))
        changed = [line for line in again.splitlines() if not line.endswith(" unchanged")]
        # kubectl always sends the selector of a disruption budget anew, and calls that a change.
        assert changed == ["poddisruptionbudget.policy/rescheduler configured"]
        (budget,) = control_plane.api.get(f"/apis/policy/v1/namespaces/{HOME}/poddisruptionbudgets")["items"]
        assert budget["metadata"]["generation"] == 1
        pods = f"/api/v1/namespaces/{HOME}/pods"
        until("both replicas are made", lambda: len(control_plane.api.get(pods)["items"]) == 2)
    finally:
        control_plane.kubectl("delete", "--ignore-not-found", "-f", str(INSTALL))
    assert not is_there(control_plane, HOME)
