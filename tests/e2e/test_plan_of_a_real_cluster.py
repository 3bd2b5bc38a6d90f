"""`plan`, `snapshot` and the client against a real kube-apiserver: listed, dumped or recorded, it is one cluster."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.support.cli import Ran, rescheduler, succeeded
from tests.support.signing_in import ACCESS_REVIEWS
from tests.testbed.cluster import ControlPlane
from tests.testbed.hollow import NodeShape, deployment
from tests.testbed.processes import until

pytestmark = pytest.mark.cluster

KINDS = "nodes,pods,namespaces,pdb,deployments,replicasets,statefulsets,daemonsets,jobs,pvc,pv,sc,csinodes,pc"
READER = {
    "": ["nodes", "pods", "namespaces", "persistentvolumeclaims", "persistentvolumes"],
    "apps": ["deployments", "replicasets", "statefulsets", "daemonsets"],
    "autoscaling": ["horizontalpodautoscalers"],
    "batch": ["jobs"],
    "policy": ["poddisruptionbudgets"],
    "storage.k8s.io": ["storageclasses", "csinodes"],
    "scheduling.k8s.io": ["priorityclasses"],
    "metrics.k8s.io": ["nodes", "pods"],
}


@pytest.fixture
def skewed(control_plane: ControlPlane, namespace: str) -> Iterator[list[str]]:
    """Four nodes; 16 pods that ask 250m each stand on the first two, because the others were cordoned."""
    names = control_plane.add_nodes(4, NodeShape(cpu="2", memory="8Gi"), prefix="skewed")
    for name in names[2:]:
        control_plane.kubectl("cordon", name)
    api = control_plane.api
    made = f"/apis/apps/v1/namespaces/{namespace}/deployments"
    api.post(made, deployment("web", 14, cpu="250m", memory="64Mi"))
    until("web is available", lambda: api.get(f"{made}/web").get("status", {}).get("readyReplicas") == 14)
    for name in names[2:]:
        control_plane.kubectl("uncordon", name)
    until("nodes are open", lambda: not any(api.get(f"/api/v1/nodes/{n}")["spec"].get("taints") for n in names))
    yield names
    control_plane.remove_nodes(names)


@pytest.fixture
def config(tmp_path: Path) -> str:
    """A policy under which pods that were just made may move."""
    path = tmp_path / "config.yaml"
    path.write_text(
        "apiVersion: rescheduler.io/v1alpha1\nkind: ReschedulerConfiguration\n"
        "minPodAge: 0s\nmaxReschedulePods: unlimited\nenabledStrategies: [ResourceOptimization]\n"
    )
    return str(path)


def live(control_plane: ControlPlane, config: str, *flags: str) -> Ran:
    return succeeded("plan", "--kubeconfig", str(control_plane.kubeconfig), "--config", config, "-o", "json", *flags)


def test_the_cluster_its_kubectl_dump_and_its_recording_give_one_plan(
    control_plane: ControlPlane, skewed: list[str], config: str, tmp_path: Path
) -> None:
    dump, yaml_dump, recording = tmp_path / "dump.json", tmp_path / "dump.yaml", tmp_path / "recording.json"
    dump.write_text(control_plane.kubectl("get", KINDS, "-A", "-o", "json"))
    yaml_dump.write_text(control_plane.kubectl("get", KINDS, "-A", "-o", "yaml"))
    succeeded("snapshot", "--kubeconfig", str(control_plane.kubeconfig), "-o", str(recording))
    flags = ("--config", config, "-o", "json")
    read = [succeeded("plan", "-f", str(path), *flags).data for path in (dump, yaml_dump, recording)]
    plans = [live(control_plane, config).data, *read]
    for plan in plans:
        assert plan["moves"] == plans[0]["moves"]
        assert plan["after"] == plans[0]["after"]
    assert recording.stat().st_size < dump.stat().st_size / 2


def test_what_a_recording_keeps_of_a_real_pod_holds_no_secret(
    control_plane: ControlPlane, skewed: list[str], namespace: str, tmp_path: Path
) -> None:
    pod: dict[str, Any] = {
        "metadata": {"name": "secretive", "annotations": {"note": "hush-annotation"}},
        "spec": {
            "containers": [
                {
                    "name": "c",
                    "image": "registry.example/hush-image",
                    "command": ["hush-command"],
                    "env": [{"name": "PASSWORD", "value": "hush-env"}],
                }
            ]
        },
    }
    control_plane.kubectl(
        "apply", "-n", namespace, "-f", "-", stdin=json.dumps({"apiVersion": "v1", "kind": "Pod", **pod})
    )
    until(
        "it runs",
        lambda: control_plane.api.get(f"/api/v1/namespaces/{namespace}/pods/secretive")["spec"].get("nodeName"),
    )
    recording = tmp_path / "recording.json"
    succeeded("snapshot", "--kubeconfig", str(control_plane.kubeconfig), "-o", str(recording))
    text = recording.read_text()
    assert "secretive" in text
    assert "hush" not in text


def kubeconfig_of(control_plane: ControlPlane, user: dict[str, Any], path: Path) -> str:
    """The admin's kubeconfig with another user in it."""
    content = yaml.safe_load(Path(control_plane.kubeconfig).read_text())
    content["users"] = [{"name": content["users"][0]["name"], "user": user}]
    path.write_text(yaml.safe_dump(content))
    return str(path)


@pytest.fixture
def token(control_plane: ControlPlane, namespace: str) -> str:
    """A real service account's token, good for an hour; the account may do nothing yet."""
    api = control_plane.api
    accounts = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    api.post(accounts, {"metadata": {"name": "reader"}})
    asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
    granted: str = api.post(f"{accounts}/reader/token", asked)["status"]["token"]
    return granted


@pytest.fixture
def reader_role(control_plane: ControlPlane, namespace: str) -> Iterator[None]:
    """What planning reads, and nothing else, for that account."""
    api = control_plane.api
    group = "/apis/rbac.authorization.k8s.io/v1"
    rules = [{"apiGroups": [g], "resources": r, "verbs": ["list"]} for g, r in READER.items()]
    api.post(f"{group}/clusterroles", {"metadata": {"name": namespace}, "rules": rules})
    subject = {"kind": "ServiceAccount", "name": "reader", "namespace": namespace}
    role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": namespace}
    api.post(f"{group}/clusterrolebindings", {"metadata": {"name": namespace}, "roleRef": role, "subjects": [subject]})
    attributes = {"verb": "list", "group": "scheduling.k8s.io", "resource": "priorityclasses"}
    spec = {"user": f"system:serviceaccount:{namespace}:reader", "resourceAttributes": attributes}
    asked = {"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec}
    until("the account has its rights", lambda: api.post(ACCESS_REVIEWS, asked)["status"]["allowed"])
    yield
    api.delete(f"{group}/clusterrolebindings/{namespace}")
    api.delete(f"{group}/clusterroles/{namespace}")


def test_a_service_account_without_rights_is_told_which_it_needs(
    control_plane: ControlPlane, skewed: list[str], token: str, tmp_path: Path
) -> None:
    path = kubeconfig_of(control_plane, {"token": token}, tmp_path / "kubeconfig")
    ran = rescheduler("plan", "--kubeconfig", path)
    assert ran.code == 1
    assert "list" in ran.said
    assert "pods" in ran.said


@pytest.mark.usefixtures("reader_role")
def test_the_right_to_list_is_all_that_planning_needs_by_token_file_or_plugin(
    control_plane: ControlPlane, skewed: list[str], config: str, token: str, tmp_path: Path
) -> None:
    file = tmp_path / "token"
    file.write_text(token)
    credential = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": token}}
    script = tmp_path / "plugin.py"
    script.write_text(f"print({json.dumps(json.dumps(credential))})")
    exec_user = {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1",
            "command": sys.executable,
            "args": [str(script)],
            "interactiveMode": "Never",
        }
    }
    expected = live(control_plane, config).data["moves"]
    users: list[dict[str, Any]] = [{"token": token}, {"tokenFile": str(file)}, exec_user]
    for number, user in enumerate(users):
        path = kubeconfig_of(control_plane, user, tmp_path / f"kubeconfig-{number}")
        ran = succeeded("plan", "--kubeconfig", path, "--config", config, "-o", "json")
        assert ran.data["moves"] == expected


def test_an_administrator_can_plan_as_somebody_else(
    control_plane: ControlPlane, skewed: list[str], config: str
) -> None:
    flags = ("--as", "someone", "--as-group", "system:masters")
    assert live(control_plane, config, *flags).data["moves"] == live(control_plane, config).data["moves"]
    ran = rescheduler("plan", "--kubeconfig", str(control_plane.kubeconfig), "--as", "someone")
    assert ran.code == 1
    assert "someone" in ran.said
