"""A checked configuration: what `load`, `override` and `load_defaults` (in `loader`) return.

The planner takes `policy()`, the lifecycle of migrations `manner()`; everything else reads `fields`. `config show`
prints `effective_yaml()`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from rescheduler.config.schema import NATIVE_KIND, NATIVE_VERSION, Fields
from rescheduler.model.policy import Policy
from rescheduler.planning.settings import StrategySettings

Settings = Mapping[str, StrategySettings]
"""The settings of strategies, by the strategy's name."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """All fields with their defaults; two are equal when they mean the same.

    `fields.strategies` holds the settings of strategies as a file would give them, without inherited ones; `settings`
    holds all of them, parsed.
    """

    fields: Fields
    settings: Settings
    pools: tuple[Settings, ...] = ()
    """The settings of the strategies of each of `fields.pools`."""
    kind: str = field(default=NATIVE_KIND, compare=False)
    known: Mapping[str, type[StrategySettings]] = field(default_factory=dict, compare=False, repr=False)

    def policy(self) -> Policy:
        """The part that planning reads, with the settings of all strategies."""
        own = {each.name: getattr(self.fields, each.name) for each in dataclasses.fields(Policy)}
        names = [pool.name for pool in self.fields.pools]
        return Policy(
            **own
            | {
                "strategy_settings": _as_data(self.settings),
                "pool_settings": dict(zip(names, map(_as_data, self.pools), strict=True)),
            }
        )

    def effective(self) -> dict[str, object]:
        """Everything, in the native form, as plain data."""
        from rescheduler.config.validate import dump  # noqa: PLC0415 - it brings pydantic's schema of all fields along

        return {"apiVersion": NATIVE_VERSION, "kind": NATIVE_KIND} | dump(self.fields)

    def effective_yaml(self) -> str:
        """Everything, in the native form, as YAML that loads to an equal Configuration."""
        from rescheduler.config.document import dump_document  # noqa: PLC0415 - plans need no YAML

        return dump_document(self.effective())


def _as_data(settings: Settings) -> dict[str, dict[str, object]]:
    return {name: values.model_dump() for name, values in settings.items()}
