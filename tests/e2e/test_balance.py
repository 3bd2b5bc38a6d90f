"""Scenario: pods of every kind crowd on a third of the nodes. The controller spreads them, and no workload notices.

There are 32 pods on 6 nodes, and where many examples are wanted 200 on 20.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rescheduler.model.json import Json
from tests.support.both_clusters import Space, name_of
from tests.support.controller_process import Controller, write_config
from tests.support.examples import examples
from tests.support.pod_record import recorded
from tests.support.skewed_cluster import LARGE, SMALL, SkewedCluster, landing_node, migrations, skewed_cluster

MIGRATION_ID = "scheduler.alpha.kubernetes.io/migration-id"
STRATEGIES = ["LoadBalancing", "ResourceOptimization"]


@pytest.fixture
def skewed(space: Space) -> Iterator[SkewedCluster]:
    with skewed_cluster(space, [SMALL, LARGE][examples(few=0, many=1)]) as made:
        yield made


def test_a_skewed_cluster_reaches_balance_and_no_workload_notices(
    skewed: SkewedCluster, space: Space, tmp_path: Path
) -> None:
    config = write_config(tmp_path / "config.yaml", space.name, enabledStrategies=STRATEGIES)
    with (
        recorded(space) as record,
        Controller(space.cluster.kubeconfig, config, tmp_path / "controller.log") as controller,
    ):
        plan = skewed.reaches_balance(controller, config)
        assert controller.stop() == 0
    skewed.assert_within_thresholds(plan)
    skewed.assert_all_ready()
    skewed.assert_no_rollout()
    skewed.assert_never_below(record)

    done = migrations(space)
    failed = [each["status"] for each in done if each["status"]["phase"] == "Failed"]
    assert not failed
    methods = {each["status"]["method"] for each in done}
    assert methods == {"handoff", "copy", "evict"}
    steered = [each for each in done if each["status"]["method"] != "evict"]
    elsewhere = [each["status"] for each in steered if landing_node(each, record) != each["status"]["target"]]
    assert not elsewhere
    for each in done:
        if each["status"]["method"] == "evict":
            says_where_it_landed(space, each)


def says_where_it_landed(space: Space, migration: Json) -> None:
    """Nothing steers a StatefulSet's pod yet: it lands where the scheduler likes, and the migration says where."""
    status, pod = migration["status"], space.get("Pod", migration["spec"]["pod"]["name"])
    if pod["metadata"]["labels"].get(MIGRATION_ID) != name_of(migration):
        return  # it was moved on by another migration
    node = pod["spec"]["nodeName"]
    said = "" if node == status["target"] else f"landed on {node}, not on {status['target']}"
    assert status.get("message", "") == said
