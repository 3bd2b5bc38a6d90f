"""A configuration that has been read and found sound: what the rest of the program gets.

`load`, `with_overrides` and `defaults` (in `loader`) make it. The planner takes `policy()`, the migrations'
lifecycle `manner()` and their admission `concurrency()`; the runtime takes the interval, leader election and connection
from `fields`; `config show` prints `effective_yaml()`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from rescheduler.config.document import dump_document
from rescheduler.config.schema import NATIVE_KIND, NATIVE_VERSION, Fields, PoolFields
from rescheduler.config.validate import thresholds_of
from rescheduler.migration.lifecycle import MigrationSettings
from rescheduler.model.policy import POD_GROUP, Allowances, Concurrency, Limits, Policy, Pool, Thresholds
from rescheduler.model.selector import EVERYTHING, parse_selector
from rescheduler.model.usage import UsageSettings
from rescheduler.planning.settings import StrategySettings
from rescheduler.recovery.settings import RecoverySettings as Recovering


@dataclass(frozen=True, slots=True)
class Configuration:
    """All fields with their defaults filled in; two are equal when they tell the program the same.

    `fields.strategies` holds every setting of every strategy as a file would give it, except those inherited from a
    field of the same name; `settings` holds them all, ready for the strategies.
    """

    fields: Fields
    settings: Mapping[str, StrategySettings]
    pools: tuple[Mapping[str, StrategySettings], ...] = ()
    """The settings of the strategies of each of `fields.pools`."""
    kind: str = field(default=NATIVE_KIND, compare=False)
    known: Mapping[str, type[StrategySettings]] = field(default_factory=dict, compare=False, repr=False)

    def policy(self) -> Policy:
        """What planning is told; a strategy's settings are under its name, by their Python (snake_case) names."""
        fields = self.fields
        excluded = parse_selector(fields.excluded_pod_selector)
        top = thresholds_of(fields)
        return Policy(
            enabled_strategies=fields.enabled_strategies,
            strategy_settings={name: settings.model_dump() for name, settings in self.settings.items()},
            thresholds=top,
            limits=Limits(
                total=fields.max_reschedule_pods,
                per_node_in=fields.limits.per_node_in,
                per_node_out=fields.limits.per_node_out,
                per_namespace=fields.limits.per_namespace,
                per_workload=fields.limits.per_workload,
            ),
            allow=Allowances(
                jobs=fields.allow.jobs,
                local_storage=fields.allow.local_storage,
                single_replica=fields.allow.single_replica,
            ),
            excluded_namespaces=frozenset(fields.excluded_namespaces),
            # To a selector of Kubernetes nothing said is everything; to an operator, an empty exclusion is none.
            excluded_pods=None if excluded == EVERYTHING else excluded,
            min_pod_age=fields.min_pod_age,
            cool_down=fields.cool_down,
            longest_rest=fields.outcomes.longest_rest,
            migration_method=fields.migration_method,
            utilization=fields.utilization,
            hot_after=fields.hot_after_cycles,
            pod_group_labels=(POD_GROUP, *fields.pod_group_labels),
            pools=tuple(
                _pool(pool, self, settings, top) for pool, settings in zip(fields.pools, self.pools, strict=True)
            ),
            filters=fields.filters.filters(),
            timing=fields.when.timing(),
        )

    def manner(self) -> MigrationSettings:
        """How moves are carried out."""
        migration = self.fields.migration
        return MigrationSettings(
            grace=int(migration.eviction_grace_period),
            budget=migration.temporary_budget.model_dump(by_alias=True, exclude_none=True),
            timeout=migration.timeout,
            attempts=migration.attempts,
            first_pause=migration.retry_delay,
            longest_pause=migration.max_retry_delay,
            restore_after=migration.restore_after,
        )

    def concurrency(self) -> Concurrency:
        """How many migrations may be under way at once."""
        limits = self.fields.migration.concurrency
        return Concurrency(
            total=limits.total,
            per_node=limits.per_node,
            per_namespace=limits.per_namespace,
            per_workload=limits.per_workload,
        )

    def recovery(self) -> Recovering:
        """What is done about failed pods."""
        return self.fields.recovery.settings()

    def usage(self) -> UsageSettings:
        """Where measured usage comes from."""
        return self.fields.usage.settings()

    def effective(self) -> dict[str, object]:
        """Everything, in the native form, as plain data."""
        header = {"apiVersion": NATIVE_VERSION, "kind": NATIVE_KIND}
        return header | self.fields.model_dump(mode="json", by_alias=True)

    def effective_yaml(self) -> str:
        """Everything, in the native form, as YAML that loads to an equal Configuration."""
        return dump_document(self.effective())


def _pool(pool: PoolFields, config: Configuration, settings: Mapping[str, StrategySettings], top: Thresholds) -> Pool:
    enabled, cycles = pool.enabled_strategies, pool.hot_after_cycles
    return Pool(
        name=pool.name,
        nodes=parse_selector(pool.node_selector),
        thresholds=pool.within(top),
        hot_after=config.fields.hot_after_cycles if cycles is None else cycles,
        enabled_strategies=config.fields.enabled_strategies if enabled is None else enabled,
        strategy_settings={name: values.model_dump() for name, values in settings.items()},
    )
