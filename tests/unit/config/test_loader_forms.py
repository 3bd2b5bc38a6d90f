"""The seed's form and the native form say the same; in the seed's, what is kube-scheduler's is left alone."""

from __future__ import annotations

import json

import pytest

from tests.support.configs import KNOWN, NATIVE_HEADER, SEED_HEADER, errors_of, native, parse, plugin_form

_ARGS = "profiles[1].pluginConfig[1].args"
_ALL = (
    "rescheduler.io/v1alpha1, kubescheduler.config.k8s.io/v1, kubescheduler.config.k8s.io/v1beta3, "
    "kubescheduler.config.k8s.io/v1beta2"
)
_SEEDS = _ALL.partition(", ")[2]
_KINDS = "ReschedulerConfiguration, KubeSchedulerConfiguration"
_NONE = "no pluginConfig is named Rescheduler"
_PLANNING = "cpuThreshold: 70\nlimits: {perNodeIn: 3}\ncoolDown: 5m\nstrategies: {LoadBalancing: {maxRounds: 2}}\n"

# From seeds/000, word for word.
_SEED_000 = """\
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
leaderElection:
  leaderElect: false
clientConnection:
  kubeconfig: "/path/to/your/kubeconfig"
profiles:
  - schedulerName: rescheduler-scheduler
    plugins:
      # Rescheduler插件会在后台运行，不需要特定的扩展点
    pluginConfig:
      - name: Rescheduler
        args:
          reschedulingInterval: "30s"
          enabledStrategies:
            - "LoadBalancing"
            - "ResourceOptimization"
            - "NodeMaintenance"
          cpuThreshold: 80.0
          memoryThreshold: 80.0
          imbalanceThreshold: 20.0
          maxReschedulePods: 10
          excludedNamespaces:
            - "kube-system"
            - "kube-public"
"""


def test_the_seeds_example_is_accepted_as_it_stands() -> None:
    config = parse(_SEED_000)
    assert config.kind == "KubeSchedulerConfiguration"
    assert config.fields.enabled_strategies == ("LoadBalancing", "ResourceOptimization", "NodeMaintenance")
    assert config.fields.leader_election.leader_elect is False
    assert config.fields.client_connection.kubeconfig == "/path/to/your/kubeconfig"


@pytest.mark.parametrize("version", ["v1", "v1beta2", "v1beta3"])
def test_each_version_of_the_schedulers_configuration_is_accepted(version: str) -> None:
    assert parse(plugin_form().replace("k8s.io/v1", f"k8s.io/{version}")).policy() == parse(native()).policy()


def test_both_forms_and_json_give_equal_configurations() -> None:
    plain = parse(native(_PLANNING + "leaderElection: {leaseDuration: 20s}\n"))
    assert parse(plugin_form(_PLANNING, "leaderElection: {leaseDuration: 20s}")) == plain
    assert parse(json.dumps(plain.effective())) == plain


def test_args_may_carry_their_own_type() -> None:
    args = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: ReschedulerArgs\ncpuThreshold: 70\n"
    assert parse(plugin_form(args)).fields.cpu_threshold == 70


@pytest.mark.parametrize("args", ["null", "{}", ""])
def test_a_plugin_without_args_has_the_defaults(args: str) -> None:
    assert parse(plugin_form(args)) == parse(native())


def test_what_belongs_to_the_scheduler_is_left_alone() -> None:
    top = (
        "parallelism: lots\nextenders: 3\nleaderElection: {resourceLock: leases, leaseDuration: 20s}\n"
        "clientConnection: {qps: -1, burst: many, contentType: x, kubeconfig: /k}\n"
    )
    fields = parse(plugin_form(top=top)).fields
    assert fields.leader_election.lease_duration == 20
    assert (fields.client_connection.kubeconfig, fields.client_connection.qps) == ("/k", None)


def test_the_schedulers_own_lease_is_never_taken() -> None:
    ours = parse(native()).fields.leader_election.resource_name
    assert (
        parse(plugin_form(top="leaderElection: {resourceName: kube-scheduler}")).fields.leader_election.resource_name
        == ours
    )
    assert parse(plugin_form(top="leaderElection: {resourceName: mine}")).fields.leader_election.resource_name == "mine"


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        (plugin_form("cpuThreshold: 180"), [f"{_ARGS}.cpuThreshold: 180 is not between 0 and 100"]),
        (
            plugin_form("leaderElection: {}"),
            [f"{_ARGS}.leaderElection: belongs at the top of the file, not in args"],
        ),
        (plugin_form("[a]"), [f"{_ARGS}: is a list, expected a mapping"]),
        (
            plugin_form(top="leaderElection: {leaderElect: 1}"),
            ["leaderElection.leaderElect: 1 is a number, expected true or false"],
        ),
        (plugin_form(top="leaderElection: yes"), ["leaderElection: true is a boolean, expected a mapping"]),
        (SEED_HEADER, [f"profiles: {_NONE}: add one, with its args, to profiles[0].pluginConfig"]),
        (SEED_HEADER + "profiles: 3", ["profiles: 3 is a number, expected a list: put it in [ ]"]),
        (SEED_HEADER + "profiles: [{pluginConfig: {}}]", ["profiles[0].pluginConfig: is a mapping, expected a list"]),
        (
            SEED_HEADER + "profiles: [3, {pluginConfig: [3, {name: 4}]}]",
            [f"profiles: {_NONE}: add one, with its args, to profiles[0].pluginConfig"],
        ),
        (
            SEED_HEADER + "profiles: [{pluginConfig: [{name: reschedular}]}]",
            [f'profiles: {_NONE}; did you mean it by "reschedular" at profiles[0].pluginConfig[0].name?'],
        ),
        (
            SEED_HEADER + "profiles: [{pluginConfig: [{name: Rescheduler}]}, {pluginConfig: [{name: Rescheduler}]}]",
            [
                (
                    "profiles[1].pluginConfig[0]: only one pluginConfig may be named Rescheduler, "
                    "found profiles[0].pluginConfig[0] and profiles[1].pluginConfig[0]"
                )
            ],
        ),
    ],
)
def test_an_error_in_the_seeds_form_names_the_place_in_that_file(text: str, errors: list[str]) -> None:
    assert errors_of(text) == errors


def test_an_unknown_arg_lists_only_what_args_may_hold() -> None:
    (error,) = errors_of(plugin_form("cpuTreshold: 1"))
    assert error.startswith(
        f"{_ARGS}.cpuTreshold: is not a known field, did you mean cpuThreshold? allowed here: resch"
    )
    assert "leaderElection" not in error


@pytest.mark.parametrize(
    ("text", "errors"),
    [
        ("a: 1", [f"apiVersion: is missing; accepted: {_ALL}", f"kind: is missing; accepted: {_KINDS}"]),
        ("kind: ReschedulerConfiguration", ["apiVersion: is missing; accepted: rescheduler.io/v1alpha1"]),
        ("apiVersion: rescheduler.io/v1alpha1", ["kind: is missing; accepted: ReschedulerConfiguration"]),
        (
            plugin_form().replace("apiVersion", "apiversion", 1),
            [f"apiVersion: is missing (apiversion is not it); accepted: {_SEEDS}"],
        ),
        ("apiVersion: [v1]\nkind: ReschedulerConfiguration", ["apiVersion: is a list, expected a string"]),
        (
            "apiVersion: rescheduler.io/v1\nkind: ReschedulerConfiguration",
            [
                (
                    'apiVersion: "rescheduler.io/v1" is not a known apiVersion of ReschedulerConfiguration, '
                    "did you mean rescheduler.io/v1alpha1? accepted: rescheduler.io/v1alpha1"
                )
            ],
        ),
        (
            NATIVE_HEADER.replace("kind: Re", "kind: re"),
            [
                (
                    'kind: "reschedulerConfiguration" is not a known kind, did you mean ReschedulerConfiguration? '
                    "accepted: ReschedulerConfiguration"
                )
            ],
        ),
        (
            "apiVersion: v1\nkind: Pod",
            [
                f'apiVersion: "v1" is not a known apiVersion; accepted: {_ALL}',
                f'kind: "Pod" is not a known kind; accepted: {_KINDS}',
            ],
        ),
    ],
)
def test_an_unknown_type_is_refused_with_what_is_accepted(text: str, errors: list[str]) -> None:
    assert errors_of(text) == errors


def test_a_wrong_version_does_not_hide_errors_in_the_fields() -> None:
    errors = errors_of("apiVersion: rescheduler.io/v2\nkind: ReschedulerConfiguration\ncpuThreshold: 180\n")
    assert len(errors) == 2
    assert errors[1] == "cpuThreshold: 180 is not between 0 and 100"


def test_no_strategies_known_is_said() -> None:
    (error,) = errors_of(native("enabledStrategies: [LoadBalancing]"), {})
    assert error.endswith("is not a known strategy; none are known")
    assert parse(native("enabledStrategies: []"), {}).policy().strategy_settings == {}
    assert set(parse(native()).settings) == set(KNOWN)
