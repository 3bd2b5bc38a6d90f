"""Rows keep what marks an object as ours, so that garbage collection needs no list; others cost nothing."""

from __future__ import annotations

import json
from typing import Any

from rescheduler.decode.cache import ClusterCache
from rescheduler.model import labels
from rescheduler.model.objects import NOTHING
from rescheduler.runtime.orphans import MarkedObject, find_marked

OURS = {labels.MANAGED_BY: labels.MANAGER, labels.MIGRATION_ID: "m"}
RUNNING = {labels.MIGRATION_ID: "m", labels.MIGRATION_STATUS: "in-progress"}


def cached(*objects: tuple[str, dict[str, Any]]) -> ClusterCache:
    """A cache that was told of these: kind and metadata."""
    cache = ClusterCache("test")
    for kind, metadata in objects:
        body = {"metadata": {"namespace": "shop", "resourceVersion": "1"} | metadata, "spec": {}, "status": {}}
        cache.put(kind, json.dumps(body).encode())
    return cache


def test_pods_without_notes_of_ours_share_one_empty_mapping() -> None:
    notes = {"kubectl.kubernetes.io/restartedAt": "x", "example.io/rescheduler": "rescheduler.io"}
    cache = cached(("Pod", {"name": "a"}), ("Pod", {"name": "b", "annotations": notes}))
    assert all(row.annotations is NOTHING for row in cache.rows("Pod"))


def test_notes_of_ours_are_kept_and_others_are_not() -> None:
    notes = {labels.COST_BEFORE: "5", "example.com/other": "x"}
    (row,) = cached(("Pod", {"name": "a", "annotations": notes})).rows("Pod")
    assert row.annotations == {labels.COST_BEFORE: "5"}


def test_a_node_tells_that_we_cordoned_it_and_a_budget_whom_it_was_made_for() -> None:
    cache = cached(
        ("Node", {"name": "ours", "annotations": {labels.CORDONED: "2026-01-01T00:00:00Z"}}),
        ("Node", {"name": "other"}),
        ("PodDisruptionBudget", {"name": "ours", "labels": OURS}),
        ("PodDisruptionBudget", {"name": "other", "labels": {labels.MIGRATION_ID: "m"}}),
    )
    assert {row.name: row.cordoned for row in cache.rows("Node")} == {"ours": True, "other": False}
    assert {row.name: row.migration for row in cache.rows("PodDisruptionBudget")} == {"ours": "m", "other": ""}


def test_everything_that_is_marked_is_found_and_nothing_else() -> None:
    trace = {labels.MIGRATION_ID: "m", labels.MIGRATION_STATUS: "completed"}
    cache = cached(
        ("Pod", {"name": "running", "labels": RUNNING}),
        ("Pod", {"name": "cheap", "annotations": {labels.COST_BEFORE: ""}}),
        ("Pod", {"name": "moved", "labels": trace, "annotations": {labels.ORIGINAL_POD: "uid"}}),
        ("Pod", {"name": "plain", "labels": {"app": "web"}}),
        ("ReplicaSet", {"name": "steered", "annotations": {labels.AFFINITY_BEFORE: "{}"}}),
        ("Deployment", {"name": "paused", "annotations": {labels.PAUSED_BY: "m"}}),
        ("Deployment", {"name": "tuned", "annotations": {labels.MIGRATION_METHOD: "evict"}}),
        ("StatefulSet", {"name": "noted", "annotations": {labels.MIGRATION_ID: "m"}}),
        ("PodDisruptionBudget", {"name": "temporary", "labels": OURS}),
        ("PodDisruptionBudget", {"name": "theirs"}),
    )
    assert list(find_marked(cache)) == [
        MarkedObject("Pod", "shop", "running"),
        MarkedObject("Pod", "shop", "cheap"),
        MarkedObject("Deployment", "shop", "paused"),
        MarkedObject("ReplicaSet", "shop", "steered"),
        MarkedObject("StatefulSet", "shop", "noted"),
        MarkedObject("PodDisruptionBudget", "shop", "temporary"),
    ]
