"""koordinator's own plugins (v1.6): LowNodeLoad, and those that have little or nothing like them here.

`koordinator` joins them with descheduler's plugins, which koordinator runs too. What LowNodeLoad calls a node pool is a
pool here; a pool that selects every node says what holds at the top.
"""

from __future__ import annotations

from rescheduler.config.conversion.draft import Draft, Path
from rescheduler.config.conversion.levels import OPTIMIZATION, put_lower, put_upper
from rescheduler.config.conversion.options import Given, Option, Plugin, take_options
from rescheduler.config.conversion.values import (
    idle,
    missing,
    namespaces,
    one_more,
    only_true,
    seconds,
    selector_text,
    settled,
    whole,
)
from rescheduler.config.errors import shown, wrong_type

_PAUSED = idle("only all strategies together can be paused", "rescheduler pause")
_DRY = idle("only all strategies together can be a dry run", "rescheduler run --dry-run")
_WEIGHTS = missing("hot nodes are cooled with as few moves as can be", "strategies.LoadBalancing.weights")
_PRODUCTION = missing("use is not told apart by priority", "of a hot node the lowest priorities that suffice go first")
_FIT = only_true("a pod is only moved to a node that can take it", "a move without a target is no move")
_MOST_CYCLES = 1000


def _later(draft: Draft, given: Given) -> None:
    """`finish` sees to it, together with other options."""


def _cycles(base: Path) -> Option:
    """After how many cycles a node is hot."""

    def convert(draft: Draft, given: Given) -> None:
        parts = (
            Option("consecutiveAbnormalities", (), lambda d, g: _hot_after(d, base, g)),
            Option("consecutiveNormalities", (), missing("one cycle that is not hot begins anew")),
            Option("timeout", (), missing("a node is hot for as long as it is above a threshold")),
        )
        take_options(draft, given, parts)

    words = "one more, but for 1: there a node is hot after more than so many times"
    return Option("anomalyCondition", ("hotAfterCycles", "pools[].hotAfterCycles"), convert, words)


def _hot_after(draft: Draft, base: Path, given: Given) -> None:
    number = whole(draft, given)
    if number is None:
        return
    path, number = (*base, "hotAfterCycles"), number or _USUAL
    if number == 1:
        draft.put(path, 1, given.loc)
    else:
        comment = f"there more than {number} times in a row; a cycle is reschedulingInterval"
        draft.put(path, min(number + 1, _MOST_CYCLES), given.loc, comment)


_USUAL = 5


def _pod_selectors(strategy: str) -> Option:
    """One of several may select a pod there; one text says it here."""
    path = ("strategies", strategy, "podSelector")

    def convert(draft: Draft, given: Given) -> None:
        if not isinstance(given.value, list):
            draft.wrong(given.loc, wrong_type(given.value, "a list"))
            return
        if len(given.value) > 1:
            draft.miss(given.loc, "only one selector is possible", "a label that all of these pods have")
            draft.wrong(given.loc, f"which of the {len(given.value)} selectors is the one to go by")
            return
        for index, each in enumerate(given.value):
            one = Given(each, (*given.loc, index))
            take_options(draft, one, (Option("name", (), settled("it needs no name")), Option("selector", (), _later)))
            chosen = one.inner("selector")
            if chosen.value is not None and (text := selector_text(draft, chosen)):
                draft.put(path, text, chosen.loc)

    return Option("podSelectors", (".".join(path),), convert, "one selector, as text")


def _nodes(draft: Draft, given: Given) -> None:
    if text := selector_text(draft, given):
        draft.put(("filters", "nodeSelector"), text, given.loc, "there of this plugin, here of all strategies")


def _pools(draft: Draft, args: Given) -> None:
    deviating = args.inner("useDeviationThresholds").value is True
    _put_both(draft, (), args, deviating=deviating)
    draft.put(("utilization",), "usage", args.loc, "koordlet measures there; here metrics.k8s.io or Prometheus (usage)")
    if args.inner("anomalyCondition").value is None:
        _hot_after(draft, (), Given(_USUAL, args.loc))
    pools = args.inner("nodePools")
    if pools.value is None:
        pass
    elif not isinstance(pools.value, list):
        draft.wrong(pools.loc, wrong_type(pools.value, "a list"))
    else:
        for index, each in enumerate(pools.value):
            _pool(draft, Given(each, (*pools.loc, index)))
    path = (*OPTIMIZATION, "minUnderusedNodes")
    if draft.get(path) is not None and not draft.get((*OPTIMIZATION, "lowThresholds")):
        draft.drop(path)
        draft.miss(args.inner("numberOfNodes").loc, "without lowThresholds no node is underused")


def _pool(draft: Draft, given: Given) -> None:
    made = draft.get(("pools",))
    number = len(made) if isinstance(made, list) else 0
    base: Path = ("pools", number)
    if not isinstance(given.value, dict):
        draft.wrong(given.loc, wrong_type(given.value, "a mapping"))
        return
    chosen = given.inner("nodeSelector")
    text = selector_text(draft, chosen) if chosen.value is not None else ""
    if not text:
        draft.miss(given.loc, "a pool that selects every node is what the fields at the top are for")
        return
    name = given.inner("name")
    draft.put((*base, "name"), name.value or f"pool-{number + 1}", name.loc)
    draft.put((*base, "nodeSelector"), text, chosen.loc)
    parts = (
        *(Option(each, (), _later) for each in ("name", "nodeSelector", "highThresholds", "lowThresholds")),
        Option("useDeviationThresholds", (), lambda d, g: _deviates(d, base, g)),
        Option("resourceWeights", (), _WEIGHTS),
        Option("prodHighThresholds", (), _PRODUCTION),
        Option("prodLowThresholds", (), _PRODUCTION),
        _cycles(base),
    )
    take_options(draft, given, parts)
    deviating = draft.get((*base, "thresholdMode")) == "deviation"
    _put_both(draft, base, given, deviating=deviating)


def _put_both(draft: Draft, base: Path, given: Given, *, deviating: bool) -> None:
    """Upper and lower thresholds; a pool that says nothing of either has those of the top."""
    high, low = given.inner("highThresholds"), given.inner("lowThresholds")
    names, lows = (each.value if isinstance(each.value, dict) else {} for each in (high, low))
    left_out = {name for name in (*names, *lows) if not lows.get(name)} if deviating and (lows or not base) else set()
    upper = put_upper(draft, base, high, left_out) if high.value is not None or not base else {}
    put_lower(draft, base, low, {} if deviating else upper, left_out)


def _deviates(draft: Draft, base: Path, given: Given) -> None:
    if isinstance(given.value, bool):
        draft.put((*base, "thresholdMode"), "deviation" if given.value else "absolute", given.loc)
    else:
        draft.wrong(given.loc, wrong_type(given.value, "true or false"))


def _none_of(*names: str) -> tuple[Option, ...]:
    return tuple(Option(name, (), _later) for name in names)


_LOAD = "ResourceOptimization"
LOW_NODE_LOAD = Plugin(
    "LowNodeLoad",
    _LOAD,
    (
        Option("paused", (), _PAUSED, "the strategy stays off; `rescheduler pause` is of all"),
        Option("dryRun", (), _DRY, "the strategy stays off; `run --dry-run` is of all"),
        Option(
            "numberOfNodes",
            (f"strategies.{_LOAD}.minUnderusedNodes",),
            one_more(*map(str, OPTIMIZATION), "minUnderusedNodes"),
            "one more; in a pool its own nodes count",
        ),
        Option("nodeMetricExpirationSeconds", ("usage.maxAge",), seconds("usage", "maxAge"), "3m there, too"),
        Option(
            "evictableNamespaces",
            (f"strategies.{_LOAD}.namespaces", f"strategies.{_LOAD}.excludedNamespaces"),
            namespaces("strategies", _LOAD),
            "one of the two",
        ),
        Option("nodeSelector", ("filters.nodeSelector",), _nodes, "of all strategies"),
        _pod_selectors(_LOAD),
        Option("nodeFit", (), _FIT, "always"),
        Option("useDeviationThresholds", ("thresholdMode",), lambda d, g: _deviates(d, (), g)),
        Option("highThresholds", ("cpuThreshold", "memoryThreshold", "thresholds"), _later, "others are at 100"),
        Option("lowThresholds", (f"strategies.{_LOAD}.lowThresholds",), _later, "0 with deviation is left out"),
        Option("prodHighThresholds", (), _PRODUCTION),
        Option("prodLowThresholds", (), _PRODUCTION),
        Option("resourceWeights", (), _WEIGHTS, "`strategies.LoadBalancing.weights` is for nodes near each other"),
        _cycles(()),
        Option("detectorCacheTimeout", (), missing("a new leader counts from nothing")),
        Option(
            "nodePools",
            ("pools",),
            _later,
            "the first that selects a node has it; what it does not say it takes from the top",
        ),
    ),
    "With measured use (`utilization: usage`)",
    _pools,
)


def _nothing_like(draft: Draft, args: Given) -> None:
    draft.miss(args.loc, "there is no such strategy", "Consolidation (whole nodes, by price), LoadBalancing, MakeRoom")


def _packs(draft: Draft, args: Given) -> None:
    given = args.inner("strategy")
    if given.value == "EvictDirectly":
        draft.settled(given.loc, "pods are moved, off whole nodes")
    elif given.value in (None, "CalculateOnly"):
        why = "pods get no deletion cost for an autoscaler to go by, and moving them was not wanted there"
        draft.switch_off("Consolidation", given.loc, why)
    else:
        draft.wrong(given.loc, f"{shown(given.value)} is not one of CalculateOnly, EvictDirectly")


SCALE_DOWN = Plugin(
    "ScaleDownBinPack",
    "Consolidation",
    (
        Option("paused", (), _PAUSED, "the strategy stays off; `rescheduler pause` is of all"),
        Option("strategy", (), _later, "`EvictDirectly` only"),
        Option("maxPodsToEvict", ("maxReschedulePods",), lambda d, g: d.put(("maxReschedulePods",), g.value, g.loc)),
        Option("nodeSelector", ("filters.nodeSelector",), _nodes, "of all strategies"),
        _pod_selectors("Consolidation"),
        Option(
            "evictableNamespaces",
            ("strategies.Consolidation.namespaces", "strategies.Consolidation.excludedNamespaces"),
            namespaces("strategies", "Consolidation"),
            "one of the two",
        ),
        Option("resources", (), missing("CPU, memory and what has a threshold count", "thresholds")),
        Option("resourceWeights", (), missing("nodes are chosen by price", "strategies.Consolidation.prices")),
    ),
    "Whole nodes, by price",
    _packs,
)
_PLAIN = ("paused", "dryRun", "nodeSelector", "evictableNamespaces", "podSelectors", "nodeFit")
FRAGMENTATION = Plugin(
    "FragmentationAware",
    "",
    _none_of(*_PLAIN, "resources", "imbalanceThreshold", "minImprovementThreshold"),
    "MakeRoom makes room for a pod that waits; LoadBalancing evens nodes out",
    _nothing_like,
)
CUSTOM_PRIORITY = Plugin(
    "CustomPriority",
    "",
    _none_of(*_PLAIN, "evictionOrder", "mode", "autoCordon"),
    "Consolidation empties what costs most",
    _nothing_like,
)
PLUGINS = (LOW_NODE_LOAD, SCALE_DOWN, FRAGMENTATION, CUSTOM_PRIORITY)
