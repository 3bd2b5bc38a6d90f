"""Settings of strategies that do not fit the thresholds of their nodes are refused, at the top and in each pool."""

from __future__ import annotations

import pytest

from rescheduler.config.errors import ConfigErrors
from rescheduler.config.loader import load, override
from rescheduler.strategies import settings_by_name
from tests.support.configs import errors_of, native

KNOWN = settings_by_name()
LOW = "strategies.ResourceOptimization.lowThresholds"
COUNTED = "give it one of the thresholds; those that count are cpu, memory"
NOWHERE = (
    "is none of cpu, memory, pods and ephemeral-storage: give it one of the thresholds, too (100 makes no node hot)"
)


def low(resources: str) -> str:
    return f"strategies: {{ResourceOptimization: {{lowThresholds: {{{resources}}}}}}}\n"


def pools(*more: str) -> str:
    listed = (f"{{name: p{n}, nodeSelector: p={n}{', ' * bool(each)}{each}}}" for n, each in enumerate(more))
    return f"pools: [{', '.join(listed)}]\n"


OWN = "cpuThreshold: 30, strategies: {ResourceOptimization: {lowThresholds: {cpu: %d}}}"
INHERITED = f"it comes from {LOW}.cpu; give the pool one of its own"

REFUSED: list[tuple[str, str, list[str]]] = [
    (
        "nothing to count by",
        "strategies: {ResourceOptimization: {minUnderusedNodes: 2}}",
        ["strategies.ResourceOptimization.minUnderusedNodes: needs lowThresholds: they say which nodes are underused"],
    ),
    ("CPU", low("cpu: 81, memory: 80"), [f"{LOW}.cpu: 81 is above cpuThreshold (80)"]),
    ("memory", low("memory: 70") + "memoryThreshold: 60", [f"{LOW}.memory: 70 is above memoryThreshold (60)"]),
    ("another resource", low("pods: 60") + "thresholds: {pods: 50}", [f"{LOW}.pods: 60 is above thresholds.pods (50)"]),
    ("no resource", low("cpus: 10"), [f"{LOW}.cpus: does not count: {COUNTED}"]),
    (
        "no resource that counts",
        low("example.com/gpu: 10") + "thresholds: {pods: 50}",
        [f'{LOW}["example.com/gpu"]: does not count: {COUNTED}, pods'],
    ),
    (
        "out of bounds",
        low("cpu: 101, memory: -1"),
        [f"{LOW}.cpu: 101 is not at most 100", f"{LOW}.memory: -1 is not at least 0"],
    ),
    ("a list", "strategies: {ResourceOptimization: {lowThresholds: [cpu]}}", [f"{LOW}: is a list, expected a mapping"]),
    ("a pool's own", pools(OWN % 40), [f"pools[0].{LOW}.cpu: 40 is above cpuThreshold (30)"]),
    (
        "a pool's from the top",
        low("cpu: 40") + pools("", "cpuThreshold: 30"),
        [f"pools[1].{LOW}.cpu: 40 is above cpuThreshold (30) ({INHERITED})"],
    ),
    ("told once", low("cpu: 90") + pools("", ""), [f"{LOW}.cpu: 90 is above cpuThreshold (80)"]),
    ("not beside an error", low("cpu: 90") + "cpuThreshold: 200", ["cpuThreshold: 200 is not between 0 and 100"]),
    (
        "a weight of nothing",
        "strategies: {LoadBalancing: {weights: {cpus: 2}}}",
        [f"strategies.LoadBalancing.weights.cpus: does not count: {COUNTED}"],
    ),
    (
        "no weight at all",
        "strategies: {LoadBalancing: {weights: {cpu: 0, memory: 0}}}",
        ["strategies.LoadBalancing.weights: leave nothing to balance: give one of cpu, memory more than 0"],
    ),
    (
        "a weight below nothing",
        "strategies: {LoadBalancing: {weights: {cpu: -1}}}",
        ["strategies.LoadBalancing.weights.cpu: -1 is not at least 0"],
    ),
    (
        "a limit of what may be a slip",
        "strategies: {Consolidation: {maxUtilizationOf: {disk: 2}}}",
        [f"strategies.Consolidation.maxUtilizationOf.disk: {NOWHERE}"],
    ),
]


@pytest.mark.parametrize(("text", "errors"), [pytest.param(*row[1:], id=row[0]) for row in REFUSED])
def test_what_cannot_be_meant_is_refused_with_its_place_and_the_cure(text: str, errors: list[str]) -> None:
    assert errors_of(native(text), KNOWN) == errors


SOUND: list[tuple[str, str]] = [
    ("as much as the upper threshold", low("cpu: 80")),
    ("points below the mean and above it", low("cpu: 30") + "thresholdMode: deviation\ncpuThreshold: 10"),
    ("a resource that counts in a pool", low("pods: 60") + pools("thresholds: {pods: 90}")),
    ("a pool in which it does not run", low("cpu: 40") + pools("cpuThreshold: 30, enabledStrategies: []")),
    (
        "nodes of no pool, where it does not run",
        low("cpu: 60")
        + "cpuThreshold: 50\nenabledStrategies: []\n"
        + pools("cpuThreshold: 90, enabledStrategies: [ResourceOptimization]"),
    ),
    ("a pool with one of its own", low("cpu: 40") + pools(OWN % 20)),
    (
        "a limit of what has no threshold",
        "strategies: {Consolidation: {maxUtilizationOf: {pods: 2, ephemeral-storage: 3}}}",
    ),
    ("one weight left", "strategies: {LoadBalancing: {weights: {cpu: 0}}}"),
    (
        "one weight left of another resource",
        "strategies: {LoadBalancing: {weights: {cpu: 0, memory: 0}}}\nthresholds: {pods: 90}",
    ),
]


@pytest.mark.parametrize("text", [pytest.param(row[1], id=row[0]) for row in SOUND])
def test_what_can_be_meant_is_not_refused(text: str) -> None:
    assert errors_of(native(text), KNOWN) == []


def test_a_flag_that_does_not_fit_is_refused_too() -> None:
    config = load(native(low("cpu: 60")), "c.yaml", KNOWN)
    with pytest.raises(ConfigErrors, match=r"--cpu-threshold: .*60 is above cpuThreshold") as refused:
        override(config, {"cpuThreshold": 50.0})
    assert f"{LOW}.cpu" in str(refused.value)


def test_what_is_told_resource_by_resource_survives_being_printed() -> None:
    text = native(
        "strategies: {ResourceOptimization: {lowThresholds: {cpu: 20}, minUnderusedNodes: 3}, LoadBalancing: "
        "{weights: {memory: 0.5}}, Consolidation: {maxUtilizationOf: {cpu: 0}}}"
    )
    config = load(text, "c.yaml", KNOWN)
    assert load(config.effective_yaml(), "c.yaml", KNOWN) == config
    assert config.policy().strategy_settings["ResourceOptimization"]["low_thresholds"] == {"cpu": 20}
