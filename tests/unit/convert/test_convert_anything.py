"""Whatever a policy is made of, it converts to a configuration that loads, and nothing of it is dropped silently."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.config.errors import Loc, format_path
from rescheduler.config.loader import load
from rescheduler.convert.convert import Conversion, convert_text
from rescheduler.convert.descheduler import TOP
from rescheduler.convert.descheduler_plugins import EVICTOR, PLUGINS
from rescheduler.convert.koordinator import CONFIGURATION, KOORDINATOR, MIGRATION
from rescheduler.convert.values import Plugin
from rescheduler.strategies import settings_by_name

KNOWN = settings_by_name()
NUMBERS = st.sampled_from([0, 1, 3, 100, 1000, 5_000_000])
NAMES = st.lists(st.sampled_from(["a", "kube-system", "Job", "x=y", "Pending", "*"]), max_size=2)
LABELS = st.sampled_from(
    [
        {},
        {"matchLabels": {"app": "web"}},
        {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["db"]}]},
        {"matchExpressions": [{"key": "tier", "operator": "Exists"}]},
        {"matchExpressions": [{"key": "tier", "operator": "Near"}]},
        {"matchLabels": {"not a label": "x"}},
        "app=web",
    ]
)
LEVELS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "pods", "nvidia.com/gpu", "MetricResource"]),
    st.sampled_from([0, 20, 50.5, 100, "45%", 120, -1]),
)
SPACES = st.dictionaries(st.sampled_from(["include", "exclude", "other"]), NAMES)
LENGTHS = st.sampled_from(["0s", "5m", "1h30m", "soon"])
BOOLS = st.booleans()
POOLS = st.lists(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["a", "b", "Not A Name"])},
        optional={
            "nodeSelector": LABELS,
            "highThresholds": LEVELS,
            "lowThresholds": LEVELS,
            "useDeviationThresholds": BOOLS,
            "anomalyCondition": st.dictionaries(st.sampled_from(["consecutiveAbnormalities"]), NUMBERS),
        },
    ),
    max_size=3,
)
BY_NAME: dict[str, st.SearchStrategy[Any]] = {
    **dict.fromkeys(("namespaces", "evictableNamespaces", "ownerKinds"), SPACES),
    **dict.fromkeys(("labelSelector", "namespaceLabelSelector", "nodeSelector"), LABELS),
    **dict.fromkeys(
        ("thresholds", "targetThresholds", "highThresholds", "lowThresholds", "prodHighThresholds"), LEVELS
    ),
    **dict.fromkeys(("minPodAge", "defaultJobTTL", "deschedulingInterval", "detectorCacheTimeout"), LENGTHS),
    "nodePools": POOLS,
    "strategy": st.sampled_from(["CalculateOnly", "EvictDirectly", "Else"]),
    "exitCodes": st.lists(st.integers(0, 255), max_size=2),
    "priorityThreshold": st.dictionaries(
        st.sampled_from(["value", "name"]), st.sampled_from([5, "high", "system-cluster-critical", ""])
    ),
    "noEvictionPolicy": st.sampled_from(["Preferred", "Mandatory", "Sometimes"]),
    "constraints": st.lists(st.sampled_from(["DoNotSchedule", "ScheduleAnyway", "Else"]), max_size=2),
    "metricsUtilization": st.sampled_from(
        [{}, {"source": "KubernetesMetrics"}, {"source": "Prometheus", "prometheus": {"query": "x"}}]
    ),
    "podProtections": st.fixed_dictionaries(
        {},
        optional={
            "extraEnabled": st.lists(st.sampled_from(["PodsWithPVC", "PodsWithoutPDB", "Other"]), unique=True),
            "defaultDisabled": st.lists(st.sampled_from(["PodsWithLocalStorage", "DaemonSetPods"]), unique=True),
            "config": st.just({"PodsWithPVC": {"protectedStorageClasses": [{"name": "fast"}]}}),
        },
    ),
    "conditions": st.lists(
        st.fixed_dictionaries(
            {},
            optional={
                "type": st.sampled_from(["Ready", "Other"]),
                "status": st.sampled_from(["True", "False"]),
                "minTimeSinceLastTransitionSeconds": NUMBERS,
            },
        ),
        max_size=2,
    ),
    "podSelectors": st.lists(st.fixed_dictionaries({"name": st.just("n"), "selector": LABELS}), max_size=2),
    "anomalyCondition": st.dictionaries(
        st.sampled_from(["consecutiveAbnormalities", "consecutiveNormalities"]), NUMBERS
    ),
    "objectLimiters": st.dictionaries(
        st.sampled_from(["workload", "namespace"]),
        st.fixed_dictionaries({}, optional={"duration": LENGTHS, "maxMigrating": NUMBERS}),
    ),
    "metricsProviders": st.lists(
        st.fixed_dictionaries(
            {"source": st.sampled_from(["Prometheus", "KubernetesMetrics", "Else"])},
            optional={"prometheus": st.sampled_from([{"url": "http://p:9090"}, {"url": "p"}, {}])},
        ),
        max_size=2,
    ),
}
ANYTHING = st.one_of(NUMBERS, BOOLS, NAMES, LENGTHS, st.just({"x": 1}), st.just("text"))


def args_of(plugin: Plugin) -> st.SearchStrategy[dict[str, Any]]:
    """Some of a plugin's options, most with values that make sense."""
    sensible = {option.name: BY_NAME.get(option.name, st.one_of(NUMBERS, BOOLS, NAMES)) for option in plugin.options}
    options = {name: st.one_of(values, values, values, ANYTHING) for name, values in sensible.items()}
    return st.fixed_dictionaries({}, optional=options | {"unheardOf": st.just(1)})


def profile(plugins: list[Plugin], evictors: list[Plugin], *, mappings: bool) -> st.SearchStrategy[dict[str, Any]]:
    chosen = st.lists(st.sampled_from(plugins), max_size=4, unique_by=lambda plugin: plugin.name)

    @st.composite
    def made(draw: st.DrawFn) -> dict[str, Any]:
        mine = draw(chosen)
        configs = [{"name": each.name, "args": draw(args_of(each))} for each in (*mine, *evictors) if draw(BOOLS)]
        names: list[Any] = [{"name": each.name} if mappings else each.name for each in mine]
        nodes = {"nodeSelector": draw(LABELS)} if mappings and draw(BOOLS) else {}
        return {"name": "p", "pluginConfig": configs, "plugins": {"balance": {"enabled": names}}, **nodes}

    return made()


def document(kind: str, top: dict[str, st.SearchStrategy[Any]], one: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    header = {"apiVersion": st.just("descheduler/v1alpha2"), "kind": st.just(kind)}
    return st.fixed_dictionaries(header | {"profiles": st.lists(one, max_size=2)}, optional=top)


def fields(plugin: Plugin) -> dict[str, st.SearchStrategy[Any]]:
    return {option.name: BY_NAME.get(option.name, st.one_of(NUMBERS, BOOLS)) for option in plugin.options}


POLICIES = document("DeschedulerPolicy", fields(Plugin("top", "", TOP)), profile([*PLUGINS], [EVICTOR], mappings=False))
CONFIGURATIONS = document(
    "DeschedulerConfiguration",
    fields(CONFIGURATION),
    profile([*KOORDINATOR.plugins.values()], [MIGRATION, EVICTOR], mappings=True),
)


def leaves(value: object, loc: Loc = ()) -> Iterator[Loc]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from leaves(inner, (*loc, name))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from leaves(inner, (*loc, index))
    elif value not in ({}, []):
        yield loc


def unaccounted(policy: object, conversion: Conversion) -> list[str]:
    """Values of the input of which nothing is told and nothing is taken."""
    places = {*conversion.taken, *(remark.loc for remark in conversion.remarks)}
    found = []
    for leaf in leaves(policy):
        if leaf in (("apiVersion",), ("kind",)) or "plugins" in leaf:
            continue
        if leaf[-1] == "name" and leaf[-3:-2] == ("pluginConfig",):
            continue
        if not any(place and leaf[: len(place)] == place for place in places):
            found.append(format_path(leaf))
    return found


@given(policy=st.one_of(POLICIES, CONFIGURATIONS))
@settings(deadline=None)
def test_any_policy_converts_to_a_configuration_that_loads_and_drops_nothing_silently(policy: dict[str, Any]) -> None:
    text = yaml.safe_dump(policy)
    conversion = convert_text(text, "policy.yaml", KNOWN)
    assert conversion == convert_text(text, "policy.yaml", KNOWN), "the same policy gives the same text"
    load(conversion.text, "result", KNOWN)
    assert unaccounted(policy, conversion) == []


@pytest.mark.parametrize(
    "plugin", [*KOORDINATOR.plugins.values(), EVICTOR, MIGRATION, CONFIGURATION], ids=lambda p: p.name
)
def test_every_field_that_a_table_names_exists(plugin: Plugin) -> None:
    known = load("apiVersion: rescheduler.io/v1alpha1\nkind: ReschedulerConfiguration\n", "", KNOWN).effective()
    for option in plugin.options:
        for path in option.here:
            at: Any = known
            for part in path.replace("pools[].", "").split("."):
                assert part in at, path
                at = at[part]
