"""DeschedulerConfiguration of koordinator (v1.6), with its own plugins and its MigrationController.

koordinator runs descheduler's plugins, too. What LowNodeLoad calls a node pool is a pool here; its thresholds outside
of pools are our fields at the top.
"""

from __future__ import annotations

from math import ceil

from rescheduler.convert.builder import ConfigBuilder, Path
from rescheduler.convert.descheduler import DRY, TOP, PluginSet, convert_profiles
from rescheduler.convert.descheduler_plugins import EVICTOR
from rescheduler.convert.descheduler_plugins import PLUGINS as THEIRS
from rescheduler.convert.values import (
    OPTIMIZATION,
    InputValue,
    Option,
    Plugin,
    Reader,
    choice,
    drop_node_count,
    duration,
    flag,
    idle,
    ignore,
    length_of,
    list_items,
    missing,
    more_than,
    namespaces,
    namespaces_of,
    nested,
    only_true,
    put_lower,
    put_upper,
    same,
    seconds,
    selector,
    selector_text,
    take_options,
    texts,
    unneeded,
    whole,
)
from rescheduler.model.fields import quote, wrong_type

_PAUSED = idle("only all strategies together can be paused", "rescheduler pause")
_DRY = idle("only all strategies together can be a dry run", "rescheduler run --dry-run")
_WEIGHTS = missing("hot nodes are cooled with as few moves as can be", "strategies.LoadBalancing.weights")
_PRODUCTION = missing("use is not split by priority", "of a hot node the lowest priorities that suffice go first")
_FIT = only_true("a pod is only moved to a node that can take it", "a move without a target is no move")
_MOST_CYCLES = 1000
_USUAL_CYCLES = 5


def _cycles(base: Path) -> Option:
    """After how many cycles a node is hot."""
    return Option(
        "anomalyCondition",
        "hotAfterCycles pools[].hotAfterCycles",
        nested(
            Option("consecutiveAbnormalities", "", lambda builder, item: _put_cycles(builder, base, item)),
            Option("consecutiveNormalities", "", missing("one cycle that is not hot resets the count")),
            Option("timeout", "", missing("a node is hot for as long as it is above a threshold")),
        ),
        'one more, except for 1: "more than" there',
    )


def _put_cycles(builder: ConfigBuilder, base: Path, item: InputValue) -> None:
    number = whole(builder, item)
    if number is None:
        return
    path, number = (*base, "hotAfterCycles"), number or _USUAL_CYCLES
    if number == 1:
        builder.put(path, 1, item.loc)
    else:
        comment = f"there more than {number} times in a row; a cycle is reschedulingInterval"
        builder.put(path, min(number + 1, _MOST_CYCLES), item.loc, comment)


def _pod_selectors(strategy: str) -> Option:
    """A list of selectors, of which one may select a pod; here there is one."""
    path: Path = ("strategies", strategy, "podSelector")

    def read(builder: ConfigBuilder, item: InputValue) -> None:
        selectors = list_items(builder, item)
        if len(selectors) > 1:
            builder.add_missing(item.loc, "only one selector is possible", "a label that all of these pods have")
            builder.add_wrong(item.loc, f"which of the {len(selectors)} selectors is the one to go by")
            return
        for each in selectors:
            name = Option("name", "", unneeded("it needs no name"))
            take_options(builder, each, (name, Option("selector", "", ignore)))
            chosen = each.child("selector")
            if chosen.value is not None and (text := selector_text(builder, chosen)):
                builder.put(path, text, chosen.loc)

    return Option("podSelectors", ".".join(map(str, path)), read, "one selector, as text")


_NODES = Option(
    "nodeSelector",
    "filters.nodeSelector",
    lambda builder, item: selector_text(builder, item) or None,
    "for all strategies",
    "there of this plugin, here of all strategies",
)


def _finish_load(builder: ConfigBuilder, args: InputValue) -> None:
    deviating = args.child("useDeviationThresholds").value is True
    _put_thresholds(builder, (), args, deviating=deviating)
    comment = "koordlet measures there; here metrics.k8s.io or Prometheus (usage)"
    builder.put(("utilization",), "usage", args.loc, comment)
    if args.child("anomalyCondition").value is None:
        _put_cycles(builder, (), InputValue(_USUAL_CYCLES, args.loc))
    for each in list_items(builder, args.child("nodePools")):
        _convert_pool(builder, each)
    drop_node_count(builder, args, "without lowThresholds no node is underused")


def _convert_pool(builder: ConfigBuilder, item: InputValue) -> None:
    if not isinstance(item.value, dict):
        builder.add_wrong(item.loc, wrong_type(item.value, "a mapping"))
        return
    chosen = item.child("nodeSelector")
    text = selector_text(builder, chosen) if chosen.value is not None else ""
    if not text:
        builder.add_missing(item.loc, "a pool that selects every node is what the fields at the top are for")
        return
    base, name = builder.add_pool(), item.child("name")
    builder.put((*base, "name"), name.value or f"pool-{len(builder.data['pools'])}", name.loc)
    builder.put((*base, "nodeSelector"), text, chosen.loc)
    parts = (
        *(Option(each, "", ignore) for each in ("name", "nodeSelector", "highThresholds", "lowThresholds")),
        Option("useDeviationThresholds", "", _threshold_mode(base)),
        Option("resourceWeights", "", _WEIGHTS),
        Option("prodHighThresholds", "", _PRODUCTION),
        Option("prodLowThresholds", "", _PRODUCTION),
        _cycles(base),
    )
    take_options(builder, item, parts)
    _put_thresholds(builder, base, item, deviating=builder.get((*base, "thresholdMode")) == "deviation")


def _put_thresholds(builder: ConfigBuilder, base: Path, item: InputValue, *, deviating: bool) -> None:
    """Write upper and lower thresholds; a pool without any has those of the top."""
    high, low = item.child("highThresholds"), item.child("lowThresholds")
    left_out: set[str] = set()
    if deviating and (low.mapping or not base):
        left_out = {name for name in (*high.mapping, *low.mapping) if not low.mapping.get(name)}
    upper = put_upper(builder, base, high, left_out) if high.value is not None or not base else {}
    put_lower(builder, base, low, {} if deviating else upper, left_out)


def _threshold_mode(base: Path) -> Reader:
    def read(builder: ConfigBuilder, item: InputValue) -> None:
        if isinstance(item.value, bool):
            builder.put((*base, "thresholdMode"), "deviation" if item.value else "absolute", item.loc)
        else:
            builder.add_wrong(item.loc, wrong_type(item.value, "true or false"))

    return read


_LOAD = str(OPTIMIZATION[-1])
_LOW_NODE_LOAD = Plugin(
    "LowNodeLoad",
    _LOAD,
    (
        Option("paused", "", _PAUSED, "the strategy stays off; `rescheduler pause` pauses all"),
        Option("dryRun", "", _DRY, "the strategy stays off; `run --dry-run` is for all"),
        more_than(_LOAD, "one more; counted for each pool"),
        Option("nodeMetricExpirationSeconds", "usage.maxAge", seconds, "3m by default, as there"),
        namespaces_of(_LOAD, "evictableNamespaces"),
        _NODES,
        _pod_selectors(_LOAD),
        Option("nodeFit", "", _FIT, "always"),
        Option("useDeviationThresholds", "thresholdMode", _threshold_mode(())),
        Option("highThresholds", "cpuThreshold memoryThreshold thresholds", ignore, "100 for other resources"),
        Option("lowThresholds", f"strategies.{_LOAD}.lowThresholds", ignore, "0 is left out with deviation"),
        Option("prodHighThresholds", "", _PRODUCTION),
        Option("prodLowThresholds", "", _PRODUCTION),
        Option("resourceWeights", "", _WEIGHTS, "`strategies.LoadBalancing.weights` weighs the gap between nodes"),
        _cycles(()),
        Option("detectorCacheTimeout", "", missing("a new leader counts from nothing")),
        Option(
            "nodePools",
            "pools",
            ignore,
            "the first pool that selects a node counts; missing fields come from the top",
        ),
    ),
    "With measured usage (`utilization: usage`)",
    _finish_load,
)


def _finish_packing(builder: ConfigBuilder, args: InputValue) -> None:
    item = args.child("strategy")
    if item.value == "EvictDirectly":
        builder.add_unneeded(item.loc, "pods are moved, off whole nodes")
    elif item.value in (None, "CalculateOnly"):
        why = "pods get no deletion cost for an autoscaler to go by, and moving them was not wanted there"
        builder.switch_off("Consolidation", item.loc, why)
    else:
        builder.add_wrong(item.loc, f"{quote(item.value)} is not one of CalculateOnly, EvictDirectly")


_SCALE_DOWN = Plugin(
    "ScaleDownBinPack",
    "Consolidation",
    (
        Option("paused", "", _PAUSED, "the strategy stays off; `rescheduler pause` pauses all"),
        Option("strategy", "", ignore, "`EvictDirectly` only"),
        Option("maxPodsToEvict", "maxReschedulePods", same),
        _NODES,
        _pod_selectors("Consolidation"),
        namespaces_of("Consolidation", "evictableNamespaces"),
        Option("resources", "", missing("CPU, memory and what has a threshold count", "thresholds")),
        Option("resourceWeights", "", missing("nodes are chosen by price", "strategies.Consolidation.prices")),
    ),
    "Whole nodes, by price",
    _finish_packing,
)


def _unlike(name: str, options: str, words: str) -> Plugin:
    """A plugin without a counterpart."""
    common = "paused dryRun nodeSelector evictableNamespaces podSelectors nodeFit"
    nearest = "Consolidation (whole nodes, by price), LoadBalancing, MakeRoom"
    return Plugin(
        name,
        "",
        tuple(Option(each, "", ignore) for each in f"{common} {options}".split()),
        words,
        lambda builder, args: builder.add_missing(args.loc, "there is no such strategy", nearest),
    )


PLUGINS = (
    _LOW_NODE_LOAD,
    _SCALE_DOWN,
    _unlike(
        "FragmentationAware",
        "resources imbalanceThreshold minImprovementThreshold",
        "MakeRoom makes room for a pending pod; LoadBalancing evens nodes out",
    ),
    _unlike("CustomPriority", "evictionOrder mode autoCordon", "Consolidation empties the most expensive nodes"),
)


_CONCURRENCY: Path = ("migration", "concurrency")
_PER_NODE = 2  # koordinator's default; ours is 4
_HOUR = 3600.0


def _at_once(name: str, field: str) -> Option:
    path: Path = (*_CONCURRENCY, field)

    def read(builder: ConfigBuilder, item: InputValue) -> None:
        if item.value == 0:
            builder.put(path, "unlimited", item.loc, "0 is no limit there")
        else:
            builder.put(path, item.value, item.loc)

    return Option(name, ".".join(map(str, path)), read)


def _put_auto(builder: ConfigBuilder, item: InputValue) -> None:
    comment = "auto: the replacement is Ready before the pod goes, where that is possible"
    builder.put(("migrationMethod",), "auto", item.loc, comment)


_MODE = choice({"ReservationFirst": _put_auto, "EvictDirectly": "evict"})
_ALWAYS = unneeded("the Eviction API is always used")
_POLICY = choice(
    {
        "Eviction": _ALWAYS,
        "": _ALWAYS,
        "Delete": missing("the Eviction API is always used, by intent", "migrationMethod: handoff needs no eviction"),
        "SoftEviction": missing("pods are only marked there, for others to move", "approval: required", limits=True),
    }
)


def _read_namespace_limit(builder: ConfigBuilder, item: InputValue) -> None:
    most, length = item.child("maxMigrating"), item.child("duration")
    take_options(builder, item, (Option("duration", "", ignore), Option("maxMigrating", "", ignore)))
    period = length_of(builder, length) if length.value is not None else None
    number = whole(builder, most) if most.value is not None else None
    nearest = "when.movesPerHourPerNamespace"
    if not number or not period:
        builder.add_missing(item.loc, "it needs a duration and a number of moves", nearest, limits=bool(period))
        return
    # All moves of an hour may begin at once, so a limit within 10 minutes is also one within the hour.
    rate = number // ceil(period / _HOUR)
    if not rate:
        builder.add_missing(item.loc, "fewer moves than one in an hour are not possible", nearest, limits=True)
        return
    comment = "" if period == _HOUR else f"there {number} within {length.value}; here within any 60 minutes"
    builder.put(("when", "movesPerHourPerNamespace"), rate, item.loc, comment)


_DELETION = missing("the Eviction API is always used, with a grace period", "migration.evictionGracePeriod")
_DRY_DELETION = missing(
    "it is a dry run there, and here that is a flag of the command", "rescheduler run --dry-run", limits=True
)


def _read_namespaces(builder: ConfigBuilder, item: InputValue) -> None:
    exclude = item.child("exclude")
    if item.child("include").value:
        namespaces("filters")(builder, item)
    elif (found := texts(builder, exclude) if exclude.value else None) is not None:
        kept = [*dict.fromkeys((*found, "kube-system", "kube-public"))]
        comment = "" if {*kept} == {*found} else "with those that are excluded here by default"
        builder.put(("excludedNamespaces",), kept, item.loc, comment)
    else:
        builder.add_unneeded(item.loc, "it names no namespaces")


_NOT_NEEDED = unneeded("not needed: the planner decides before anything is ordered")
_RATE = missing("moves are limited by the hour", "when.movesPerHour; clientConnection.qps and burst")
_SHARED = (
    *("labelSelector", "priorityThreshold", "nodeFit", "evictLocalStoragePods", "evictFailedBarePods"),
    *("evictSystemCriticalPods", "ignorePvcPods"),
)
_EVICTOR = {option.name: option for option in EVICTOR.options}
_FROM_NODES = Option("nodeSelector", "filters.nodeSelector", selector, comment="pods are moved from these nodes alone")
MIGRATION = Plugin(
    "MigrationController",
    "",
    (
        Option("dryRun", "", DRY, "nothing is moved; `run --dry-run`"),
        Option("maxConcurrentReconciles", "", _NOT_NEEDED, "not needed"),
        *(_EVICTOR[name] for name in _SHARED),
        Option("evictAllBarePods", "filters.withoutController", flag, "true by default; moved by copy", "by a copy"),
        Option("namespaces", "filters.namespaces excludedNamespaces", _read_namespaces),
        _FROM_NODES,
        _at_once("maxMigratingGlobally", "total"),
        _at_once("maxMigratingPerNode", "perNode"),
        _at_once("maxMigratingPerNamespace", "perNamespace"),
        _at_once("maxMigratingPerWorkload", "perWorkload"),
        Option(
            "maxUnavailablePerWorkload",
            "migration.temporaryBudget.maxUnavailable",
            same,
            "if the workload has no disruption budget; never more than half of the replicas in one plan",
            "there of all workloads; here where a workload has no disruption budget of its own",
        ),
        Option("skipCheckExpectedReplicas", "allow.singleReplica", flag),
        Option(
            "objectLimiters",
            "coolDown when.movesPerHourPerNamespace",
            nested(
                Option(
                    "workload",
                    "",
                    nested(
                        Option("duration", "coolDown", duration, comment="longer after moves that do not pay"),
                        Option(
                            "maxMigrating",
                            "",
                            missing(
                                "a workload rests as a whole after a move",
                                "coolDown, migration.concurrency.perWorkload",
                            ),
                        ),
                    ),
                ),
                Option("namespace", "", _read_namespace_limit),
            ),
            "the workload's duration is `coolDown`; a namespace's limit counts for an hour",
        ),
        Option("defaultJobMode", "migrationMethod", _MODE, "`ReservationFirst`: `auto`; `EvictDirectly`: `evict`"),
        Option("defaultJobTTL", "migration.timeout", duration, "10m by default"),
        Option("schedulerNames", "", unneeded("any scheduler"), "any scheduler"),
        Option("evictQPS", "", _RATE),
        Option("evictBurst", "", _RATE),
        Option("evictionPolicy", "", _POLICY, "the Eviction API, always; with `SoftEviction` nothing is moved"),
        Option(
            "defaultDeleteOptions",
            "migration.evictionGracePeriod",
            nested(
                Option("gracePeriodSeconds", "migration.evictionGracePeriod", seconds),
                *(Option(name, "", _DELETION) for name in ("preconditions", "orphanDependents", "propagationPolicy")),
                Option("dryRun", "", _DRY_DELETION),
            ),
        ),
        Option("arbitrationArgs", "", _NOT_NEEDED, "not needed: the planner decides before anything moves"),
        Option("flowControlQPS", "", _RATE, "older spelling"),
        Option("flowControlBurst", "", _RATE, "older spelling"),
    ),
    "PodMigrationJob is PodMigration (`kubectl get pmig`)",
)
KOORDINATOR = PluginSet(
    {each.name: each for each in (*PLUGINS, *THEIRS)},
    {EVICTOR.name: EVICTOR, MIGRATION.name: MIGRATION},
    selects_nodes=True,
)

_OWN_LEASE = unneeded("our Lease has a name and a namespace of its own: two programs never share one")
_JSON = unneeded("JSON is spoken")
_SERVED = missing("health, metrics and the page have one address", "web.bindAddress and web.port")
_PROFILING = missing("there is no profiling endpoint", "web.port: metrics, and health")
CONFIGURATION = Plugin(
    "DeschedulerConfiguration",
    "",
    (
        *(option for option in TOP if option.name.startswith("maxNoOf")),
        Option(
            "nodeSelector",
            "filters.nodeSelector",
            selector,
            "pods may be moved to other nodes",
            "pods are moved from these nodes alone",
        ),
        Option("deschedulingInterval", "reschedulingInterval", duration),
        Option("dryRun", "", DRY, "nothing is moved; `run --dry-run`"),
        Option(
            "leaderElection",
            "leaderElection",
            nested(
                Option("leaderElect", "leaderElection.leaderElect", same),
                *(
                    Option(name, f"leaderElection.{name}", duration)
                    for name in ("leaseDuration", "renewDeadline", "retryPeriod")
                ),
                Option("resourceLock", "", unneeded("it is always a Lease")),
                Option("resourceName", "", _OWN_LEASE),
                Option("resourceNamespace", "", _OWN_LEASE),
            ),
            "with our own Lease",
        ),
        Option(
            "clientConnection",
            "clientConnection",
            nested(
                *(Option(name, f"clientConnection.{name}", same) for name in ("kubeconfig", "qps", "burst")),
                Option("contentType", "", _JSON),
                Option("acceptContentTypes", "", _JSON),
            ),
        ),
        Option("healthzBindAddress", "", _SERVED, "`web.port`"),
        Option("metricsBindAddress", "", _SERVED, "`web.port`"),
        Option("enableProfiling", "", _PROFILING),
        Option("enableContentionProfiling", "", _PROFILING),
    ),
)


def convert_koordinator(builder: ConfigBuilder, config: InputValue) -> None:
    """Convert a DeschedulerConfiguration."""
    profiles = Option("profiles", "", lambda b, each: convert_profiles(b, each, KOORDINATOR))
    take_options(builder, config, (*CONFIGURATION.options, profiles))
    builder.data.setdefault("enabledStrategies", [])
    if builder.get((*_CONCURRENCY, "perNode")) is None:
        builder.put((*_CONCURRENCY, "perNode"), _PER_NODE, (), "koordinator's default; 4 is ours")
