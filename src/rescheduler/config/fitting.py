"""Whether strategies' settings fit the thresholds of the nodes that they are for: at the top, and in each pool.

Strategies do not know the thresholds when their settings are read, so `checks` asks here once all of them are known.
What does not fit, the settings themselves say (`Settings.misfits`); where it stands in the file is found here.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence

from rescheduler.config.errors import Finding, Loc, path_of
from rescheduler.config.pool_fields import in_order
from rescheduler.config.schema import Fields
from rescheduler.model.policy import Thresholds
from rescheduler.planning.settings import Misfit, Settings

DECIDING = frozenset({"cpuThreshold", "memoryThreshold", "thresholds", "thresholdMode", "pools"})
"""The fields that say which thresholds nodes have."""


def thresholds_of(fields: Fields) -> Thresholds:
    """The thresholds of nodes that belong to no pool."""
    return Thresholds(fields.cpu_threshold, fields.memory_threshold, in_order(fields.thresholds), fields.threshold_mode)


def unfit(
    fields: Fields,
    settings: Mapping[str, Settings],
    pools: Sequence[Mapping[str, Settings]],
    configured: Collection[object],
) -> Iterator[Finding]:
    """What does not fit, of strategies that are enabled or configured; `configured` has those of the top."""
    top = thresholds_of(fields)
    of_pools = [pool.within(top) for pool in fields.pools]
    counted = [*dict.fromkeys(name for each in (top, *of_pools) for name in each.named())]
    told: set[tuple[str, Misfit]] = set()
    running = [
        fields.enabled_strategies if own.enabled_strategies is None else own.enabled_strategies for own in fields.pools
    ]
    only_in_pools = {name for names in running for name in names} - {*fields.enabled_strategies}
    for name, values in settings.items():
        if name in fields.enabled_strategies or (name in configured and name not in only_in_pools):
            for misfit in values.misfits(top, counted):
                told.add((name, misfit))
                yield Finding(("strategies", name, *misfit.path), misfit.why)
    for index, (pool, thresholds, mine) in enumerate(zip(fields.pools, of_pools, pools, strict=True)):
        own = pool.strategies or {}
        for name, values in mine.items():
            if name not in own and name not in running[index]:
                continue
            for misfit in values.misfits(thresholds, counted):
                if (name, misfit) not in told:  # what is wrong at the top already is not wrong here once more
                    at: Loc = ("strategies", name, *misfit.path)
                    yield Finding(("pools", index, *at), misfit.why + _inherited(misfit, own.get(name) or {}, at))


def _inherited(misfit: Misfit, own: Mapping[str, object], source: Loc) -> str:
    """Where a value comes from that the pool does not have of its own."""
    return "" if misfit.path[0] in own else f" (it comes from {path_of(source)}; give the pool one of its own)"
