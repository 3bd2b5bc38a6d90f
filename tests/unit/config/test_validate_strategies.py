"""What is wrong with strategies' settings and node pools is told as with any field: by path, reason and cure."""

from __future__ import annotations

import pytest

from rescheduler.config.loader import load, override
from rescheduler.config.schema import Fields
from rescheduler.config.validate import Model, fields_by_name, nested_model
from rescheduler.convert.convert import FIELDS, STRATEGIES
from rescheduler.strategies import settings_by_name
from tests.support.configs import errors_of, native

KNOWN = settings_by_name()
CONDITIONS = "allowed here: type, status, reason, minTime"
REFUSED = [
    (
        "PodLifeTime: {maxAge: 3600}",
        "PodLifeTime.maxAge: 3600 is a number, expected a duration such as 30s: write 3600s for seconds",
    ),
    (
        "RemoveDuplicates: {podSelector: {matchLabels: {app: web}}}",
        "RemoveDuplicates.podSelector: is a mapping, expected a label selector as text, such as app=web,tier!=db",
    ),
    (
        "PodLifeTime: {conditions: [{type: Ready}, {reason: X, typ: Ready}]}",
        f"PodLifeTime.conditions[1].typ: is not a known field, did you mean type? {CONDITIONS}",
    ),
    (
        "PodLifeTime: {conditions: [{}]}",
        "PodLifeTime.conditions[0]: says nothing: give it a type, status, reason or minTime",
    ),
    (
        "PodLifeTime: {conditions: [{minTime: -1s}]}",
        "PodLifeTime.conditions[0].minTime: -1s is not at least 0s",
    ),
]


@pytest.mark.parametrize(("settings", "error"), REFUSED, ids=[settings for settings, _ in REFUSED])
def test_settings_are_refused_with_their_path_and_the_cure(settings: str, error: str) -> None:
    assert errors_of(native(f"strategies: {{{settings}}}"), KNOWN) == [f"strategies.{error}"]


def test_null_means_left_out_within_lists_too() -> None:
    text = native("strategies: {PodLifeTime: {conditions: [{type: Ready, reason: null}]}}")
    assert errors_of(text, KNOWN) == []


def test_fields_of_pools_are_told_apart_like_those_at_the_top() -> None:
    (error,) = errors_of(native("pools: [{name: a, nodeSelector: p=a, cpuTreshold: 70}]"), KNOWN)
    assert error.startswith(
        "pools[0].cpuTreshold: is not a known field, did you mean cpuThreshold? allowed here: name,"
    )


def test_a_selector_of_nodes_is_text() -> None:
    (error,) = errors_of(native("pools: [{name: a, nodeSelector: {matchLabels: {p: a}}}]"), KNOWN)
    assert error == ("pools[0].nodeSelector: is a mapping, expected a label selector as text, such as app=web,tier!=db")


def test_all_pools_are_checked_at_once() -> None:
    pools = (
        "[{name: a, nodeSelector: p=a}, {name: a, nodeSelector: p=b, enabledStrategies: [Nope]}, "
        "{name: c, nodeSelector: p=c, strategies: {LoadBalancing: {imbalanceThreshold: 0}}}]"
    )
    paths = [error.partition(": ")[0] for error in errors_of(native(f"pools: {pools}"), KNOWN)]
    assert paths == [
        "pools[1].name",
        "pools[1].enabledStrategies[0]",
        "pools[2].strategies.LoadBalancing.imbalanceThreshold",
    ]


INHERITED_MISTAKES = [
    ("a pool that says nothing", "{LoadBalancing: {imbalanceThreshold: 500}}", "", []),
    ("a pool with another field", "{LoadBalancing: {imbalanceThreshold: 500}}", ", imbalanceThreshold: 10", []),
    (
        "the same mistake in the pool",
        "{LoadBalancing: {imbalanceThreshold: 500}}",
        ", strategies: {LoadBalancing: {imbalanceThreshold: 500}}",
        ["pools[0].strategies.LoadBalancing.imbalanceThreshold"],
    ),
    (
        "a pool that only makes it whole",
        "{NodeTaints: {excludedTaints: [a]}}",
        ", strategies: {NodeTaints: {includedTaints: [b]}}",
        ["pools[0].strategies.NodeTaints"],
    ),
]


@pytest.mark.parametrize(("top", "of_pool", "paths"), [pytest.param(*row[1:], id=row[0]) for row in INHERITED_MISTAKES])
def test_what_is_wrong_at_the_top_is_not_told_again_of_pools_that_do_not_say_it(
    top: str, of_pool: str, paths: list[str]
) -> None:
    text = f"enabledStrategies: [LoadBalancing]\nstrategies: {top}\npools: [{{name: a, nodeSelector: p=a{of_pool}}}]"
    told = [error.partition(": ")[0] for error in errors_of(native(text), KNOWN)]
    assert [path for path in told if path.startswith("pools")] == paths


def test_a_flag_that_names_strategies_leaves_pools_alone_in_which_none_run() -> None:
    pools = "pools: [{name: a, nodeSelector: p=a, enabledStrategies: []}, {name: b, nodeSelector: p=b}]"
    config = override(load(native(pools), "c.yaml", KNOWN), {"enabledStrategies": ("NodeTaints",)})
    assert [pool.enabled_strategies for pool in config.policy().node_pools] == [(), ("NodeTaints",)]


def test_strategies_that_a_flag_names_run_in_pools_instead_of_theirs() -> None:
    pools = "pools: [{name: a, nodeSelector: p=a, enabledStrategies: [Consolidation], cpuThreshold: 50}]"
    config = override(load(native(pools), "c.yaml", KNOWN), {"enabledStrategies": ("NodeTaints",)})
    (pool,) = config.policy().node_pools
    assert pool.enabled_strategies == ("NodeTaints",)
    assert pool.thresholds.cpu == 50, "and the rest of the pool stays"


FOREIGN = [
    ("LowNodeUtilization", "ResourceOptimization and LoadBalancing"),
    ("LowNodeLoad", "ResourceOptimization"),
]


@pytest.mark.parametrize(("name", "ours"), FOREIGN, ids=[name for name, _ in FOREIGN])
def test_names_of_other_deschedulers_are_translated(name: str, ours: str) -> None:
    (error,) = errors_of(native(f"enabledStrategies: [{name}]"), KNOWN)
    assert error.startswith(f'enabledStrategies[0]: "{name}" is not a known strategy, here it is {ours}')


FOREIGN_FIELDS = [
    ("strategies: {ResourceOptimization: {numberOfNodes: 3}}", "minUnderusedNodes"),
    ("strategies: {Consolidation: {thresholds: {cpu: 20}}}", "maxUtilizationOf"),
    ("strategies: {PodLifeTime: {maxPodLifeTimeSeconds: 60}}", "maxAge"),
    ("nodePools: []", "pools"),
    ("pools: [{name: a, nodeSelector: p=a, highThresholds: {}}]", "cpuThreshold and memoryThreshold and thresholds"),
]


@pytest.mark.parametrize(("text", "ours"), FOREIGN_FIELDS)
def test_options_of_other_deschedulers_are_translated_where_there_is_such_a_field(text: str, ours: str) -> None:
    (error,) = errors_of(native(text), KNOWN)
    assert f": is not a known field, here it is {ours}; allowed here: " in error


def test_options_of_other_deschedulers_are_not_translated_where_there_is_no_such_field() -> None:
    (error,) = errors_of(native("strategies: {NodeTaints: {numberOfNodes: 3}}"), KNOWN)
    assert "here it is" not in error


def test_what_other_names_are_translated_to_exists() -> None:
    models: list[Model] = [Fields, *KNOWN.values()]
    fields: set[str] = set()
    while models:
        found = fields_by_name(models.pop())
        fields |= found.keys()
        models += [section for info in found.values() if (section := nested_model(info)) is not None]
    assert {ours for names in FIELDS.values() for ours in names} <= fields
    assert {ours for names in STRATEGIES.values() for ours in names} <= KNOWN.keys()
