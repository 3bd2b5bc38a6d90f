"""docs/strategies.md: the words of the strategies and of their settings."""

from __future__ import annotations

import inspect

from docs.generating.configuration import default_of, dump_defaults
from docs.generating.markdown import table
from rescheduler.config.validate import fields_by_name
from rescheduler.planning.api import Strategy
from rescheduler.planning.settings import StrategySettings
from rescheduler.strategies import discover

_STRATEGIES = """\
A strategy is one reason to move pods. It only proposes; the planner decides (see [architecture](architecture.md)).
Strategies run in the order below, whatever the order in `enabledStrategies`. Each sees the cluster as the moves before
it leave it. A strategy that is not named there is off. Settings go under `strategies.<name>` of the
[configuration](configuration.md):

```yaml
apiVersion: rescheduler.io/v1alpha1
kind: ReschedulerConfiguration
enabledStrategies: [NodeTaints, TooManyRestarts, ResourceOptimization, TopologySpread]
strategies:
  NodeTaints: {includedTaints: [dedicated=ci]}
  TooManyRestarts: {restartThreshold: 20, namespaces: [shop]}
  TopologySpread: {constraints: [DoNotSchedule, ScheduleAnyway]}
```

If pods of lower priority move first, then among pods of one priority those of lower [eviction cost](when.md#marks) move
first. Settings of a node pool override these (`pools[].strategies`). [Filters and guards](guards.md) say which pods may
move at all, [windows](when.md) when. A strategy of your own is one file: see [CONTRIBUTING](../CONTRIBUTING.md).
"""


def strategies() -> str:
    """A table of all, then one section a strategy, in the order in which they run."""
    found = discover()
    rows = [(f"[{name}](#{name.lower()})", _summary(strategy)) for name, strategy in found.items()]
    parts = ["# Strategies\n", _STRATEGIES, table(("strategy", "what it does"), rows)]
    for name, strategy in found.items():
        parts += [f"## {name}\n", f"Order {strategy.order}.\n", f"{inspect.cleandoc(strategy.__doc__ or '')}\n"]
        parts.append(_settings(strategy))
    return "\n".join(parts)


def _summary(strategy: type[Strategy[StrategySettings]]) -> str:
    """The first paragraph of its docstring."""
    return " ".join(inspect.cleandoc(strategy.__doc__ or "").partition("\n\n")[0].split())


def _settings(strategy: type[Strategy[StrategySettings]]) -> str:
    model = strategy.settings_type
    if not model.model_fields:
        return "It has no settings of its own.\n"
    defaults = dump_defaults(model)
    rows = [
        (f"`{name}`", default_of(defaults[name]), " ".join((info.description or "").split()))
        for name, info in fields_by_name(model).items()
    ]
    words = inspect.cleandoc(model.__dict__.get("__doc__") or "")
    opening = f"Its settings: {words[0].lower()}{words[1:]}\n\n" if words else ""
    return opening + table(("setting", "default", "description"), rows)
