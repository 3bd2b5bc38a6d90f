"""What a converted configuration plans: the pods that descheduler would evict by the policy, and no others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

from tests.support.cli import succeeded
from tests.support.conversions import LOW, policy

ROOT = Path(__file__).parents[3]
CLUSTER = ROOT / "examples" / "cluster.yaml"
NOW = "2027-01-01T12:00:00Z"


def moved(text: str, cluster: Path, tmp_path: Path) -> dict[str, tuple[str, str | None]]:
    """By pod, from where and to where it goes."""
    config = tmp_path / "rescheduler.yaml"
    succeeded("convert", "-f", "-", "-o", str(config), stdin=text)
    plan = succeeded("plan", "-f", str(cluster), "--config", str(config), "--now", NOW, "-o", "json").data
    return {each["pod"]: (each["from"], each.get("to")) for each in plan["moves"]}


def failed(name: str, created: str, *, managed: bool = True) -> dict[str, Any]:
    above = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "cart-6d5f9c7b8", "uid": "uid-replicaset-cart"}
    metadata: dict[str, Any] = {"name": name, "namespace": "shop", "uid": name, "creationTimestamp": created}
    metadata |= {"ownerReferences": [above | {"controller": True}]} if managed else {}
    spec = {"nodeName": "worker-1", "containers": [{"name": "main", "image": "hollow"}]}
    status = {"phase": "Failed", "reason": "Evicted"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": status}


def test_low_node_utilization_takes_pods_off_the_hot_node_alone_and_to_the_underused_one_alone(tmp_path: Path) -> None:
    args = "{thresholds: {cpu: 20, memory: 20}, targetThresholds: {cpu: 70, memory: 70}}"
    found = moved(policy(LOW, args), CLUSTER, tmp_path)
    assert {*found.values()} == {("worker-1", "worker-3")}


def test_failed_pods_go_when_they_are_an_hour_old_and_those_that_nobody_manages_stay(tmp_path: Path) -> None:
    young, old = "2027-01-01T11:50:00Z", "2027-01-01T10:00:00Z"
    pods = [failed("young", young), failed("old", old), failed("bare", old, managed=False)]
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(CLUSTER.read_text(encoding="utf-8") + "---\n" + yaml.safe_dump_all(pods), encoding="utf-8")
    assert {*moved(policy("RemoveFailedPods"), cluster, tmp_path)} == {"old"}
