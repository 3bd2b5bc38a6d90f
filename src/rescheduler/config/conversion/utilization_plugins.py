"""descheduler's LowNodeUtilization and HighNodeUtilization: thresholds of nodes, which are fields of the top here.

`descheduler_plugins` has the others.
"""

from __future__ import annotations

from rescheduler.config.conversion.draft import Draft
from rescheduler.config.conversion.levels import OPTIMIZATION, PACKING, levels, put_lower, put_packing, put_upper
from rescheduler.config.conversion.options import Given, Option, Plugin, take_options
from rescheduler.config.conversion.strategy_options import (
    fields_of,
    later,
    namespaces_of,
    setting,
)
from rescheduler.config.conversion.values import (
    flag,
    missing,
    one_more,
    texts_of,
    whole,
)

_INDEX = "a strategy goes by cores and bytes, of nodes and of pods, to know what a move brings"


_LOW = "ResourceOptimization"


def _deviating(draft: Draft, given: Given) -> None:
    if given.value is True:
        draft.put(
            ("thresholdMode",),
            "deviation",
            given.loc,
            "points above what all nodes use together, not above the mean of their percentages",
        )
    else:
        flag("thresholdMode")(draft, given)


def _eviction_modes(draft: Draft, given: Given) -> None:
    for index, mode in enumerate(texts_of(draft, given) or ()):
        if mode == "OnlyThresholdingResources":
            why = "a pod that takes nothing of the hot resource is never chosen, for that would not help"
            draft.settled((*given.loc, index), why)
        else:
            draft.unknown((*given.loc, index), "known is OnlyThresholdingResources")


def _measured(draft: Draft, given: Given) -> None:
    take_options(draft, given, _METRICS)


def _source(draft: Draft, given: Given) -> None:
    if given.value == "KubernetesMetrics":
        draft.put(("utilization",), "usage", given.loc, "averaged over usage.window (5m)")
    elif given.value == "Prometheus":
        draft.miss(given.loc, _INDEX, "utilization: usage with usage.source: prometheus")
    else:
        draft.unknown(given.loc, "known are KubernetesMetrics and Prometheus")


def _server(draft: Draft, given: Given) -> None:
    if given.value is True:
        draft.put(("utilization",), "usage", given.loc, "averaged over usage.window (5m)")
    else:
        flag("utilization")(draft, given)


_METRICS = (
    Option("metricsServer", ("utilization", "usage.source"), _server),
    Option("source", ("utilization", "usage.source"), _source, "`KubernetesMetrics` only"),
    Option("prometheus", (), missing(_INDEX, "usage.prometheus.queries: four queries, in cores and bytes")),
)


def _limits(draft: Draft, given: Given) -> None:
    take_options(draft, given, (Option("node", ("limits.perNodeOut",), _node_limit),))


def _node_limit(draft: Draft, given: Given) -> None:
    number = whole(draft, given)
    if number:
        draft.put(("limits", "perNodeOut"), number, given.loc, "there of this plugin alone, here of all strategies")
    elif number == 0:
        draft.wrong(given.loc, "a limit of 0 leaves nothing to do")


def _hot_nodes(draft: Draft, args: Given) -> None:
    deviating = args.inner("useDeviationThresholds").value is True
    upper, lower = args.inner("targetThresholds"), args.inner("thresholds")
    names = {*(upper.value if isinstance(upper.value, dict) else ())}
    if names <= {"MetricResource"}:
        for given in (upper, lower):
            levels(draft, given)
        draft.switch_off(_LOW, args.loc, "without targetThresholds of resources no node is hot")
        return
    if not lower.value:
        draft.wrong(lower.loc, "thresholds are needed there: pods are only evicted where a node is underused")
    in_force = put_upper(draft, (), upper)
    put_lower(draft, (), lower, {} if deviating else in_force)
    path = (*OPTIMIZATION, "minUnderusedNodes")
    if draft.get(path) is not None and not draft.get((*OPTIMIZATION, "lowThresholds")):
        draft.drop(path)
        draft.miss(args.inner("numberOfNodes").loc, "without thresholds no node is underused", "lowThresholds")


def _under_emptied(draft: Draft, args: Given) -> None:
    thresholds = args.inner("thresholds")
    if thresholds.value:
        put_packing(draft, thresholds)
    else:
        draft.wrong(thresholds.loc, "without any every node would be worth emptying")


LOW_UTILIZATION = Plugin(
    "LowNodeUtilization",
    _LOW,
    (
        Option("useDeviationThresholds", ("thresholdMode",), _deviating, "points above the mean of the pool"),
        Option(
            "targetThresholds",
            ("cpuThreshold", "memoryThreshold", "thresholds"),
            later,
            "resources that are not named are at 100; an index of one's own (`MetricResource`) has no counterpart",
        ),
        Option("thresholds", fields_of(_LOW, "lowThresholds"), later, "points below the mean with `deviation`"),
        setting(
            "numberOfNodes",
            _LOW,
            "minUnderusedNodes",
            one_more(*map(str, OPTIMIZATION), "minUnderusedNodes"),
            "there more than so many, here at least so many: one more",
        ),
        Option("evictionModes", (), _eviction_modes, "always so: what would not help is not moved"),
        Option("metricsUtilization", ("utilization", "usage.source"), _measured, "`KubernetesMetrics` only"),
        Option("evictionLimits", ("limits.perNodeOut",), _limits, "of all strategies"),
        namespaces_of(_LOW, "evictableNamespaces"),
    ),
    "Besides, LoadBalancing brings nodes near each other",
    _hot_nodes,
)
HIGH_UTILIZATION = Plugin(
    "HighNodeUtilization",
    "Consolidation",
    (
        Option(
            "thresholds",
            fields_of("Consolidation", "maxUtilizationOf"),
            later,
            "whole nodes or nothing; with `maxUtilization: 100`, for resources that are not named",
        ),
        setting(
            "numberOfNodes",
            "Consolidation",
            "minUnderusedNodes",
            one_more(*map(str, PACKING), "minUnderusedNodes"),
            "one more; nodes that bear nothing do not count",
        ),
        Option(
            "evictionModes",
            (),
            missing("a node is emptied as a whole", "strategies.Consolidation.podSelector", limits=True),
            "the strategy stays off: a node is emptied as a whole",
        ),
        namespaces_of("Consolidation", "evictableNamespaces"),
    ),
    "Whole nodes, by price, and only where all of their pods fit elsewhere",
    _under_emptied,
)
