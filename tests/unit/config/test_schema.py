"""Every field: its default, what it takes, and the sentence with which it refuses anything else."""

from __future__ import annotations

import pytest
from pydantic import Field

from rescheduler.config.loader import load_defaults
from rescheduler.config.schema import Configuration
from rescheduler.migration.settings import MigrationSettings
from rescheduler.model.policy import Concurrency, Limits, MigrationMethod, Policy
from rescheduler.planning.settings import StrategySettings
from rescheduler.recovery.settings import RecoverySettings as Recovering
from tests.support.configs import KNOWN, errors_of, native, parse

_COUNT = "an integer of at least 0 or the word unlimited"
_POSITIVE = "an integer of at least 1 or the word unlimited"
_UNKNOWN = "is not a known field"
_STRATEGIES = "known: LoadBalancing, NodeMaintenance, ResourceOptimization"
_SHARE = "an integer of at least 0 or a percentage such as 25%"
_QUOTES = "expected a string: put it in quotes"


def test_nothing_given_is_the_defaults_of_the_design() -> None:
    config = parse(native())
    assert config == load_defaults(KNOWN)
    fields = config.fields
    assert fields.rescheduling_interval == 30
    assert fields.enabled_strategies == ("LoadBalancing", "ResourceOptimization")
    assert (fields.cpu_threshold, fields.memory_threshold, fields.imbalance_threshold) == (80, 80, 20)
    assert fields.max_reschedule_pods == 10
    assert fields.excluded_namespaces == ("kube-system", "kube-public")
    assert fields.excluded_pod_selector == ""
    election = fields.leader_election
    assert (election.leader_elect, election.lease_duration, election.renew_deadline, election.retry_period) == (
        True,
        15,
        10,
        2,
    )
    assert fields.client_connection.kubeconfig == ""


def test_the_default_policy_is_the_policy_of_the_model() -> None:
    policy = load_defaults(KNOWN).policy()
    assert policy == Policy(strategy_settings=policy.strategy_settings)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("cpuThreshold: 180", "cpuThreshold: 180 is not between 0 and 100"),
        ("memoryThreshold: -1", "memoryThreshold: -1 is not between 0 and 100"),
        ("imbalanceThreshold: 0", "imbalanceThreshold: 0 is not between 0 and 100 (0 itself excluded)"),
        ("cpuThreshold: true", "cpuThreshold: true is a boolean, expected a number"),
        ('cpuThreshold: "80"', 'cpuThreshold: "80" is a string, expected a number: write 80, without quotes'),
        ("cpuThreshold: 80%", 'cpuThreshold: "80%" is a string, expected a number'),
        ("cpuThreshold: [80]", "cpuThreshold: is a list, expected a number"),
        ("cpuThreshold: .nan", "cpuThreshold: nan is not a finite number"),
        (
            "reschedulingInterval: 30",
            "reschedulingInterval: 30 is a number, expected a duration such as 30s: write 30s for seconds",
        ),
        ("reschedulingInterval: 0s", "reschedulingInterval: 0s is not at least 1s"),
        ("reschedulingInterval: 1d", "reschedulingInterval: '1d' has the unknown unit 'd': use h, m, s, ms, us or ns"),
        ("maxReschedulePods: -1", f"maxReschedulePods: -1 is not {_COUNT}"),
        ("maxReschedulePods: 10.0", f"maxReschedulePods: 10.0 is not {_COUNT}: write 10"),
        ("maxReschedulePods: many", f'maxReschedulePods: "many" is not {_COUNT}'),
        (
            "maxReschedulePods: '10'",
            f'maxReschedulePods: "10" is a string, expected {_COUNT}: write 10, without quotes',
        ),
        ("limits: {perNodeIn: 0}", f"limits.perNodeIn: 0 is not {_POSITIVE}"),
        ("limits: 3", "limits: 3 is a number, expected a mapping"),
        (
            "excludedNamespaces: kube-system",
            'excludedNamespaces: "kube-system" is a string, expected a list: write [kube-system]',
        ),
        ("excludedNamespaces: [on]", f"excludedNamespaces[0]: true is a boolean, {_QUOTES}"),
        ("excludedNamespaces: [a, 3]", f"excludedNamespaces[1]: 3 is a number, {_QUOTES}"),
        ("excludedNamespaces: [null]", "excludedNamespaces[0]: is null, expected a string"),
        (
            "excludedPodSelector: {app: db}",
            "excludedPodSelector: is a mapping, expected a label selector as text, such as app=web,tier!=db",
        ),
        (
            "enabledStrategies: [LoadBalancing, LoadBalancing]",
            'enabledStrategies[1]: "LoadBalancing" is listed already, at enabledStrategies[0]',
        ),
        ("allow: {jobs: 'yes'}", 'allow.jobs: "yes" is a string, expected true or false'),
        ("migrationMethod: evcit", 'migrationMethod: "evcit" is not one of auto, handoff, evict, did you mean evict?'),
        ("recovery: {crashRestarts: 0}", "recovery.crashRestarts: 0 is not between 1 and 1000"),
        (
            "recovery: {failedReasons: [Evicted, Out Of]}",
            'recovery.failedReasons[1]: "Out Of" is not a reason such as Evicted or OutOf*',
        ),
        ("webhook: {timeout: 31s}", "webhook.timeout: 31s is not at most 30s"),
        ("webhook: {timeout: 1500ms}", "webhook.timeout: 1.5s is not a whole number of seconds"),
        *(
            (f"webhook: {{url: '{url}'}}", f'webhook.url: "{url}" is not an address such as https://10.0.0.7:9443')
            for url in ("https://a..b:443", "https://ex ample:1", "https://h:9443/some/path")
        ),
        (
            "webhook: {certificates: {certificateFile: a.pem}}",
            "webhook.certificates.keyFile: is needed too: a certificate and its key belong together",
        ),
        (
            "webhook: {certificates: {caFile: ca.pem}}",
            "webhook.certificates.caFile: cannot be given without certificateFile and keyFile",
        ),
        (
            "extender: {enabled: true}",
            (
                "extender: has no certificate to be served with: enable the webhook, give webhook.certificates, or "
                "give extender.insecurePort"
            ),
        ),
        (
            "web: {port: 8080}\nwebhook: {enabled: true, port: 8080}",
            "webhook.port: 8080 is web.port as well: give one of them another port",
        ),
        (
            "web: {port: 9443}\nwebhook: {enabled: true, bindAddress: 10.0.0.7}",
            "webhook.port: 9443 is web.port as well: give one of them another port",
        ),
        (
            "web: {port: 8080}\nextender: {enabled: true, insecurePort: 8080}",
            "extender.insecurePort: 8080 is web.port as well: give one of them another port",
        ),
        (
            "webhook: {enabled: true}\nextender: {enabled: true, insecurePort: 9443}",
            "extender.insecurePort: 9443 is webhook.port as well: give one of them another port",
        ),
        ("migration: {attempts: 0}", "migration.attempts: 0 is not between 1 and 100"),
        ("migration: {retryDelay: 10m}", "migration.maxRetryDelay: 5m0s is shorter than retryDelay (10m0s)"),
        ("migration: {keepFinished: -1s}", "migration.keepFinished: -1s is not at least 0s"),
        *(
            (f"migration: {{temporaryBudget: {value}}}", f"migration.temporaryBudget{error}")
            for value, error in (
                ("[]", ": is a list, expected a mapping"),
                ("{minAvailable: 101%}", '.minAvailable: "101%" is not between 0% and 100%'),
                ("{minAvailable: half}", f'.minAvailable: "half" is not {_SHARE}'),
                ("{minAvailable: '1'}", f'.minAvailable: "1" is a string, expected {_SHARE}: write 1, without quotes'),
                ("{maxUnavailable: 2147483648}", ".maxUnavailable: 2147483648 is not at most 2147483647"),
                (
                    "{maxUnavailable: 1, minAvailable: 1}",
                    ".maxUnavailable: cannot be given beside minAvailable: leave one of them out",
                ),
            )
        ),
        (
            "leaderElection: {leaseDuration: 10s}",
            "leaderElection.renewDeadline: 10s is not shorter than leaseDuration (10s)",
        ),
        (
            "leaderElection: {retryPeriod: 1m}",
            "leaderElection.retryPeriod: 1m0s is not shorter than renewDeadline (10s)",
        ),
        ("clientConnection: {qps: 0}", "clientConnection.qps: 0 is not above 0"),
        ("strategies: [a]", "strategies: is a list, expected a mapping of strategies to settings"),
        (
            "strategies: {LoadBalancing: {maxRounds: 10}}",
            "strategies.LoadBalancing.maxRounds: 10 is not between 1 and 9",
        ),
        (
            "strategies: {ResourceOptimization: {order: [.inf]}}",
            "strategies.ResourceOptimization.order[0]: inf is not a finite number",
        ),
    ],
)
def test_a_wrong_value_is_refused_with_its_path_and_the_cure(body: str, error: str) -> None:
    assert errors_of(native(body)) == [error]


@pytest.mark.parametrize(
    ("body", "start", "end"),
    [
        (
            "cpuTreshold: 1",
            f"cpuTreshold: {_UNKNOWN}, did you mean cpuThreshold? allowed here: resch",
            ", clientConnection",
        ),
        ("cpu_threshold: 1", f"cpu_threshold: {_UNKNOWN}, did you mean cpuThreshold?", ""),
        ("zzz: null", f"zzz: {_UNKNOWN}; allowed here: resch", ""),
        ("a.b: 1", f'["a.b"]: {_UNKNOWN}', ""),
        ("limits: {perPod: 1}", f"limits.perPod: {_UNKNOWN}", "perNodeIn, perNodeOut, perNamespace, perWorkload"),
        (
            "strategies: {LoadBalancing: {max_rounds: 1}}",
            f"strategies.LoadBalancing.max_rounds: {_UNKNOWN}, did you mean maxRounds?",
            "allowed here: imbalanceThreshold, maxRounds",
        ),
        (
            "strategies: {LoadBalancer: {}}",
            'strategies.LoadBalancer: "LoadBalancer" is not a known strategy, did you mean LoadBalancing?',
            _STRATEGIES,
        ),
        (
            "enabledStrategies: [nodemaintenance]",
            'enabledStrategies[0]: "nodemaintenance" is not a known strategy, did you mean NodeMaintenance?',
            _STRATEGIES,
        ),
        ("excludedNamespaces: [Kube_1]", 'excludedNamespaces[0]: "Kube_1" is not a namespace', "first and last"),
        ("excludedPodSelector: a in b", 'excludedPodSelector: "a in b" is not a label selector: ', ""),
    ],
)
def test_a_wrong_name_is_refused_with_a_hint_and_what_is_allowed(body: str, start: str, end: str) -> None:
    (error,) = errors_of(native(body))
    assert error.startswith(start)
    assert error.endswith(end)


@pytest.mark.parametrize(
    "body",
    [
        "web: {port: 9443}\nextender: {insecurePort: 9443}",  # of the three only the first listens
        "web: {port: 9443, bindAddress: 127.0.0.1}\nwebhook: {enabled: true, bindAddress: 10.0.0.7}",
    ],
)
def test_one_port_is_fine_where_only_one_server_listens_at_an_address(body: str) -> None:
    assert parse(native(body)).fields.web.port == 9443


def test_every_error_is_reported_at_once_in_the_order_of_the_file() -> None:
    body = (
        "memoryThreshold: 0\nfoo: 1\nenabledStrategies: [X]\n"
        "strategies: {LoadBalancing: {maxRounds: 0}}\ncpuThreshold: no\n"
    )
    paths = [error.partition(":")[0] for error in errors_of(native(body))]
    assert paths == [
        "memoryThreshold",
        "foo",
        "enabledStrategies[0]",
        "strategies.LoadBalancing.maxRounds",
        "cpuThreshold",
    ]


def test_control_characters_of_a_file_never_reach_the_terminal() -> None:
    (error,) = errors_of(native(r'"a\x1b[2J": 1'))
    assert error.isprintable()


@pytest.mark.parametrize(
    ("body", "limits"),
    [
        ("maxReschedulePods: unlimited", (None, Limits())),
        ("limits: {perNodeIn: 1, perNodeOut: 2, perNamespace: 3, perWorkload: unlimited}", (10, Limits(1, 2, 3))),
    ],
)
def test_limits_reach_the_policy(body: str, limits: tuple[int | None, Limits]) -> None:
    policy = parse(native(body)).policy()
    assert (policy.max_reschedule_pods, policy.limits) == limits


def test_all_else_that_planning_is_told_reaches_the_policy() -> None:
    policy = parse(
        native(
            "enabledStrategies: []\ncpuThreshold: 70\nmemoryThreshold: 60.5\nexcludedNamespaces: [a, b]\n"
            "excludedPodSelector: app=db\nminPodAge: '0'\ncoolDown: 1h30m\nallow: {jobs: true, singleReplica: true}\n"
            "migrationMethod: evict\n"
        )
    ).policy()
    assert policy.enabled_strategies == ()
    assert (policy.node_thresholds.cpu, policy.node_thresholds.memory) == (70, 60.5)
    assert policy.excluded_namespaces == ("a", "b")
    assert str(policy.excluded_pods) == "app=db"
    assert (policy.min_pod_age, policy.cool_down) == (0, 5400)
    assert (policy.allow.jobs, policy.allow.local_storage, policy.allow.single_replica) == (True, False, True)
    assert policy.migration_method is MigrationMethod.EVICT


def test_the_default_manner_and_concurrency_are_those_of_the_model() -> None:
    config = load_defaults(KNOWN)
    assert config.fields.migration == MigrationSettings()
    assert config.fields.migration.concurrency == Concurrency()


def test_all_that_is_said_about_failed_pods_reaches_recovery() -> None:
    config = parse(
        native(
            "recovery:\n  {enabled: false, crashRestarts: 1, failedReasons: [Evicted], startTimeout: 1m,\n"
            "  imagePullTimeout: 2m, nodeNotReady: 3m, delay: 0s, sameNodeDelay: 6m, clearAfter: 4m,\n"
            "  forgetAfter: 5m, faultNodes: 2}"
        )
    )
    assert config.fields.recovery == Recovering(
        enabled=False, crash_restarts=1, failed_reasons=("Evicted",), start_timeout=60, image_pull_timeout=120,
        node_not_ready=180, delay=0, same_node_delay=360, clear_after=240, forget_after=300, fault_nodes=2,
    )  # fmt: skip
    assert parse(native("")).fields.recovery == Recovering()


def test_all_that_migrations_are_told_reaches_them() -> None:
    config = parse(
        native(
            "migration:\n  {timeout: 1m, attempts: 1, retryDelay: 1s, maxRetryDelay: 2s, minOverlap: 4s,\n"
            "   evictionGracePeriod: 0s, restoreAfter: 3s, keepFinished: 0s, shutdownGracePeriod: 5s,\n"
            "   concurrency: {total: 1, perNode: 2, perNamespace: 3, perWorkload: unlimited}}\n"
        )
    )
    assert config.fields.migration == MigrationSettings(
        60,
        1,
        1,
        2,
        4,
        0,
        restore_after=3,
        keep_finished=0,
        shutdown_grace_period=5,
        concurrency=Concurrency(1, 2, 3, None),
    )
    assert config.fields.migration.concurrency == Concurrency(1, 2, 3, None)
    assert (config.fields.migration.keep_finished, config.fields.migration.shutdown_grace_period) == (0, 5)


@pytest.mark.parametrize(("text", "limit"), [("3", 3), ("10%", "10%"), ("'050%'", "50%"), ("unlimited", None)])
def test_of_one_workload_so_many_or_such_a_share_move_at_once(text: str, limit: int | str | None) -> None:
    config = parse(native(f"migration: {{concurrency: {{perWorkload: {text}}}}}"))
    assert config.fields.migration.concurrency.per_workload == limit
    assert parse(config.effective_yaml()) == config


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("0", "0 is not an integer of at least 1, a percentage such as 10% or the word unlimited"),
        ("101%", '"101%" is not between 1% and 100%'),
        ("'10 %'", '"10 %" is not an integer of at least 1, a percentage such as 10% or the word unlimited'),
    ],
)
def test_what_is_no_number_and_no_share_of_a_workload_is_refused(text: str, error: str) -> None:
    (found,) = errors_of(native(f"migration: {{concurrency: {{perWorkload: {text}}}}}"))
    assert found.startswith("migration.concurrency.perWorkload: ")
    assert found.endswith(error)


@pytest.mark.parametrize(
    ("text", "budget"),
    [
        ("{}", {"minAvailable": 1}),
        ("{minAvailable: 0}", {"minAvailable": 0}),
        ("{minAvailable: 050%}", {"minAvailable": "50%"}),
        ("{maxUnavailable: 25%}", {"maxUnavailable": "25%"}),
    ],
)
def test_a_temporary_budget_says_one_thing_and_one_pod_at_least_where_it_says_nothing(
    text: str, budget: dict[str, object]
) -> None:
    assert parse(native(f"migration: {{temporaryBudget: {text}}}")).fields.migration.temporary_budget.spec() == budget


@pytest.mark.parametrize("text", ["''", "' '"])
def test_an_empty_selector_excludes_nothing(text: str) -> None:
    assert parse(native(f"excludedPodSelector: {text}")).policy().excluded_pods is None


def test_null_means_not_given_everywhere() -> None:
    body = (
        "cpuThreshold: null\nmaxReschedulePods:\nlimits: {perNodeIn: null}\nallow: null\n"
        "strategies:\n  LoadBalancing:\n  ResourceOptimization: {order: null, cpuThreshold: ~}\n"
        "leaderElection: {leaderElect: null}\n"
    )
    assert parse(native(body)) == load_defaults(KNOWN)


def _settings(config: Configuration, strategy: str) -> dict[str, object]:
    return dict(config.policy().strategy_settings[strategy])


def test_a_top_level_threshold_is_the_default_of_the_strategies() -> None:
    config = parse(native("cpuThreshold: 70"))
    assert _settings(config, "ResourceOptimization") == {"cpu_threshold": 70, "memory_threshold": 80, "order": ("cpu",)}
    assert _settings(config, "LoadBalancing") == {"imbalance_threshold": 20, "max_rounds": 5}
    assert _settings(config, "NodeMaintenance") == {}


def test_a_strategys_own_setting_overrides_the_top_level() -> None:
    config = parse(native("cpuThreshold: 70\nstrategies: {ResourceOptimization: {cpuThreshold: 60, order: [a, b]}}"))
    expected = {"cpu_threshold": 60, "memory_threshold": 80, "order": ("a", "b")}
    assert _settings(config, "ResourceOptimization") == expected
    assert config.policy().node_thresholds.cpu == 70


class Narrow(StrategySettings):
    cpu_threshold: float = Field(default=10.0, le=50, description="Less.")


class Demanding(StrategySettings):
    zone: str = Field(description="Has no default.")


def test_an_inherited_value_that_a_strategy_refuses_is_blamed_on_its_source() -> None:
    body = "enabledStrategies: [Narrow]\ncpuThreshold: 70\n"
    expected = "cpuThreshold: 70 is not at most 50 (it is also the default of strategies.Narrow.cpuThreshold)"
    assert errors_of(native(body), {"Narrow": Narrow}) == [expected]


def test_a_required_setting_is_asked_for_only_where_the_strategy_is_used() -> None:
    known: dict[str, type[StrategySettings]] = {"Demanding": Demanding, **KNOWN}
    assert "Demanding" not in parse(native(), known).settings
    error = "strategies.Demanding.zone: is required"
    assert errors_of(native("enabledStrategies: [Demanding]"), known) == [error]
    assert errors_of(native("strategies: {Demanding: {}}"), known) == [error]
