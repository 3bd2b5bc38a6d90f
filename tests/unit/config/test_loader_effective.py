"""The effective configuration prints and loads again to the same; flags go over files and are checked alike."""

from __future__ import annotations

import pytest
from docs.generating.configuration import NATIVE_EXAMPLE, POOLS_EXAMPLE, SCHEDULER_EXAMPLE, reference_markdown
from hypothesis import given, settings
from hypothesis import strategies as st

from rescheduler.config.document import dump_document
from rescheduler.config.errors import ConfigErrors
from rescheduler.config.loader import load_defaults, override
from rescheduler.config.schema import Fields
from rescheduler.config.validate import Model, fields_by_name, item_model, nested_model
from rescheduler.model.time import format_duration
from rescheduler.planning.settings import StrategySettings
from rescheduler.strategies import settings_by_name
from tests.support.configs import KNOWN, native, parse, plugin_form

_durations = st.integers(1000, 10**9).map(lambda milliseconds: format_duration(milliseconds / 1000))
_percents = st.one_of(st.integers(1, 100), st.floats(0, 100, exclude_min=True))
_counts = st.one_of(st.just("unlimited"), st.integers(1, 2**31))
_namespaces = st.from_regex(r"[a-z0-9]([-a-z0-9]{0,20}[a-z0-9])?", fullmatch=True)
_counts_or_shares = st.one_of(_counts, st.integers(1, 100).map("{}%".format))
_shares = st.one_of(st.integers(0, 2**31 - 1), st.integers(0, 100).map("{}%".format))
_texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=100)


_RENEWAL = "leaderElection.renewDeadline: 10s is not shorter than leaseDuration"


def _some(**fields: st.SearchStrategy[object]) -> st.SearchStrategy[dict[str, object]]:
    return st.fixed_dictionaries({}, optional=fields)


_files = _some(
    reschedulingInterval=_durations,
    enabledStrategies=st.lists(st.sampled_from(sorted(KNOWN)), unique=True),
    cpuThreshold=_percents,
    memoryThreshold=_percents,
    imbalanceThreshold=_percents,
    maxReschedulePods=_counts,
    excludedNamespaces=st.lists(_namespaces),
    excludedPodSelector=st.sampled_from(["", "a=b", "a in (x,y),!c", "1e3=1e3"]),
    limits=_some(perNodeIn=_counts, perNodeOut=_counts, perNamespace=_counts, perWorkload=_counts),
    minPodAge=_durations,
    coolDown=_durations,
    allow=_some(jobs=st.booleans(), localStorage=st.booleans(), singleReplica=st.booleans()),
    migrationMethod=st.sampled_from(["auto", "handoff", "evict"]),
    migration=_some(
        timeout=_durations,
        attempts=st.integers(1, 100),
        retryDelay=st.just("1s"),
        maxRetryDelay=st.integers(10, 10**6).map("{}s".format),
        evictionGracePeriod=st.integers(0, 10**6).map("{}s".format),
        temporaryBudget=st.one_of(_some(minAvailable=_shares), _some(maxUnavailable=_shares)),
        restoreAfter=_durations,
        keepFinished=_durations,
        shutdownGracePeriod=_durations,
        concurrency=_some(total=_counts, perNode=_counts, perNamespace=_counts, perWorkload=_counts_or_shares),
    ),
    recovery=_some(
        enabled=st.booleans(),
        crashRestarts=st.integers(1, 9),
        failedReasons=st.lists(st.just("OutOf*")),
        startTimeout=_durations,
        delay=_durations,
        faultNodes=st.integers(2, 9),
    ),
    webhook=_some(
        enabled=st.booleans(),
        port=st.integers(1, 32767),
        url=st.just("https://10.0.0.7:9443"),
        timeout=st.integers(1, 30).map("{}s".format),
        steering=st.sampled_from(["prefer", "nominate"]),
        certificates=st.just({"certificateFile": "a", "keyFile": "b"}),
    ),
    extender=_some(enabled=st.just(False), insecurePort=st.integers(0, 65535)),
    web=_some(bindAddress=st.just("127.0.0.1"), port=st.just(0) | st.integers(32768, 65535)),
    strategies=_some(
        LoadBalancing=_some(imbalanceThreshold=_percents, maxRounds=st.integers(1, 9)),
        ResourceOptimization=_some(cpuThreshold=_percents, order=st.lists(_texts)),
    ),
    leaderElection=_some(leaderElect=st.booleans(), resourceName=_namespaces, resourceNamespace=_namespaces),
    clientConnection=_some(kubeconfig=_texts, qps=st.floats(0.1, 1e6), burst=st.integers(1, 10**6)),
)


@settings(deadline=None)
@given(_files)
def test_the_effective_configuration_loads_again_to_the_same(data: dict[str, object]) -> None:
    config = parse(native(dump_document(data) if data else ""))
    again = parse(config.effective_yaml())
    assert again == config
    assert again.policy() == config.policy()
    assert again.fields.migration == config.fields.migration
    assert again.effective_yaml() == config.effective_yaml()


def test_the_effective_configuration_shows_every_field() -> None:
    shown = load_defaults(KNOWN).effective()
    assert list(shown) == ["apiVersion", "kind", *fields_by_name(Fields)]
    assert shown["maxReschedulePods"] == 10
    assert shown["limits"] == dict.fromkeys(["perNodeIn", "perNodeOut", "perNamespace", "perWorkload"], "unlimited")
    assert shown["minPodAge"] == "1m0s"


def test_an_inherited_setting_is_not_printed_so_that_it_goes_on_following_its_source() -> None:
    text = parse(native("cpuThreshold: 70")).effective_yaml()
    assert (
        parse(text.replace("cpuThreshold: 70", "cpuThreshold: 60")).policy()
        == parse(native("cpuThreshold: 60")).policy()
    )


def test_flags_go_over_the_file_and_reach_the_strategies() -> None:
    config = override(
        parse(plugin_form("cpuThreshold: 60\nmemoryThreshold: 50")),
        {
            "cpuThreshold": 70.0,
            "memoryThreshold": None,
            "enabledStrategies": ("NodeMaintenance",),
            "limits.perNodeIn": 3,
        },
    )
    policy = config.policy()
    assert (policy.node_thresholds.cpu, policy.node_thresholds.memory) == (70, 50)
    assert policy.strategy_settings["ResourceOptimization"]["cpu_threshold"] == 70
    assert policy.enabled_strategies == ("NodeMaintenance",)
    assert policy.limits.per_node_in == 3
    assert config.kind == "KubeSchedulerConfiguration"


def test_a_flag_for_another_field_leaves_the_temporary_budget_as_it_is() -> None:
    config = parse(native("migration: {temporaryBudget: {maxUnavailable: 25%}}"))
    assert override(config, {"cpuThreshold": 70.0}).fields.migration == config.fields.migration


def test_a_strategys_own_setting_in_the_file_stays_under_a_flag_for_the_field() -> None:
    config = parse(native("strategies: {ResourceOptimization: {cpuThreshold: 60}}"))
    policy = override(config, {"cpuThreshold": 70.0}).policy()
    assert policy.strategy_settings["ResourceOptimization"]["cpu_threshold"] == 60
    assert policy.node_thresholds.cpu == 70


def test_no_flags_change_nothing() -> None:
    config = parse(native("strategies: {ResourceOptimization: {cpuThreshold: 60}}\nmaxReschedulePods: unlimited"))
    assert override(config, {"cpuThreshold": None}) == config


@pytest.mark.parametrize(
    ("overrides", "errors"),
    [
        ({"cpuThreshold": 180.0}, ["--cpu-threshold: 180 is not between 0 and 100"]),
        ({"limits.perNodeIn": 0}, ["--per-node-in: 0 is not an integer of at least 1 or the word unlimited"]),
        ({"clientConnection.kubeconfig": "\udcff"}, ["--kubeconfig: is not Unicode text"]),
        ({"leaderElection.leaseDuration": "3s"}, [f"--lease-duration: {_RENEWAL} (3s)"]),
        (
            {"cpuThreshold": 101, "coolDown": "-1s"},
            ["--cpu-threshold: 101 is not between 0 and 100", "--cool-down: -1s is not at least 0s"],
        ),
    ],
)
def test_a_wrong_flag_is_refused_by_its_name(overrides: dict[str, object], errors: list[str]) -> None:
    with pytest.raises(ConfigErrors) as raised:
        override(load_defaults(KNOWN), overrides)
    assert str(raised.value).split("\n") == errors


def test_an_unknown_strategy_by_flag_is_refused_with_a_hint() -> None:
    with pytest.raises(ConfigErrors, match=r"--strategy: .* did you mean LoadBalancing"):
        override(load_defaults(KNOWN), {"enabledStrategies": ("LoadBalancer",)})


def test_the_defaults_need_the_strategies_that_they_enable() -> None:
    with pytest.raises(ConfigErrors, match=r"default configuration: .*LoadBalancing.* is not a known strategy"):
        load_defaults({})


def _sections_of(model: Model) -> list[Model]:
    fields = fields_by_name(model).values()
    own = [section for info in fields if (section := nested_model(info) or item_model(info))]
    return own + [deeper for section in own for deeper in _sections_of(section)]


def test_every_field_is_in_the_reference_with_a_description() -> None:
    text = reference_markdown(KNOWN)
    models: list[Model] = [Fields, *KNOWN.values(), *_sections_of(Fields)]
    for model in models:
        for name, info in fields_by_name(model).items():
            assert info.description
            assert f"| `{name}` |" in text
    assert "### migration.temporaryBudget\n" in text
    assert "## pools[]\n" in text
    assert "| `nodeSelector` | label selector | required |" in text
    assert "| `minAvailable` | integer, at least 0, or percentage |" in text
    assert "| `minPodAge` | duration | `1m0s` |" in text
    assert "| `cpuThreshold` | number, above 0, at most 100 | that of the field `cpuThreshold` |" in text
    assert "| `maxRounds` | integer, at least 1, at most 9 | `5` | Rounds \\| tries. |" in text
    assert "### strategies.NodeMaintenance\n\nIt has no settings.\n" in text


def test_a_strategy_without_settings_of_its_own_shows_nothing_of_the_base_class() -> None:
    assert "### strategies.Plain\n\nIt has no settings.\n" in reference_markdown({"Plain": StrategySettings})


def test_settings_that_are_lists_of_sections_have_one_of_their_own() -> None:
    text = reference_markdown(settings_by_name())
    assert "#### strategies.PodLifeTime.conditions[]\n" in text
    assert "| `minTime` | duration | `0s` |" in text


def test_the_examples_of_the_reference_load() -> None:
    assert POOLS_EXAMPLE in reference_markdown(KNOWN)
    assert [pool.name for pool in parse(POOLS_EXAMPLE, settings_by_name()).fields.pools] == ["batch", "gpu"]
    for example in (NATIVE_EXAMPLE, SCHEDULER_EXAMPLE):
        assert example in reference_markdown(KNOWN)
        assert parse(example).fields.enabled_strategies
