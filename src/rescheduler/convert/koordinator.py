"""koordinator's own plugins (v1.6): LowNodeLoad, and those that have little or nothing like them here.

`koordinator` joins them with descheduler's plugins, which koordinator runs too. What LowNodeLoad calls a node pool is a
pool here; a pool that selects every node says what holds at the top.
"""

from __future__ import annotations

from math import ceil

from rescheduler.config.errors import quote, wrong_type
from rescheduler.convert.builder import ConfigBuilder, Path
from rescheduler.convert.descheduler import DRY, TOP, PluginSet, take_profiles
from rescheduler.convert.descheduler_plugins import PLUGINS as THEIRS
from rescheduler.convert.evictor import EVICTOR, OPTIONS
from rescheduler.convert.values import (
    OPTIMIZATION,
    InputValue,
    Option,
    Plugin,
    duration,
    flag,
    idle,
    length_of,
    missing,
    namespaces,
    one_more,
    only_true,
    put_lower,
    put_upper,
    same,
    seconds,
    selector,
    selector_text,
    settled,
    take_options,
    texts_of,
    whole,
)

_PAUSED = idle("only all strategies together can be paused", "rescheduler pause")
_DRY = idle("only all strategies together can be a dry run", "rescheduler run --dry-run")
_WEIGHTS = missing("hot nodes are cooled with as few moves as can be", "strategies.LoadBalancing.weights")
_PRODUCTION = missing("use is not told apart by priority", "of a hot node the lowest priorities that suffice go first")
_FIT = only_true("a pod is only moved to a node that can take it", "a move without a target is no move")
_MOST_CYCLES = 1000


def _later(builder: ConfigBuilder, item: InputValue) -> None:
    """`finish` sees to it, together with other options."""


def _cycles(base: Path) -> Option:
    """After how many cycles a node is hot."""

    def convert(builder: ConfigBuilder, item: InputValue) -> None:
        parts = (
            Option("consecutiveAbnormalities", (), lambda d, g: _hot_after(d, base, g)),
            Option("consecutiveNormalities", (), missing("one cycle that is not hot begins anew")),
            Option("timeout", (), missing("a node is hot for as long as it is above a threshold")),
        )
        take_options(builder, item, parts)

    words = "one more, but for 1: there a node is hot after more than so many times"
    return Option("anomalyCondition", ("hotAfterCycles", "pools[].hotAfterCycles"), convert, words)


def _hot_after(builder: ConfigBuilder, base: Path, item: InputValue) -> None:
    number = whole(builder, item)
    if number is None:
        return
    path, number = (*base, "hotAfterCycles"), number or _USUAL
    if number == 1:
        builder.put(path, 1, item.loc)
    else:
        comment = f"there more than {number} times in a row; a cycle is reschedulingInterval"
        builder.put(path, min(number + 1, _MOST_CYCLES), item.loc, comment)


_USUAL = 5


def _pod_selectors(strategy: str) -> Option:
    """One of several may select a pod there; one text says it here."""
    path = ("strategies", strategy, "podSelector")

    def convert(builder: ConfigBuilder, item: InputValue) -> None:
        if not isinstance(item.value, list):
            builder.wrong(item.loc, wrong_type(item.value, "a list"))
            return
        if len(item.value) > 1:
            builder.miss(item.loc, "only one selector is possible", "a label that all of these pods have")
            builder.wrong(item.loc, f"which of the {len(item.value)} selectors is the one to go by")
            return
        for index, each in enumerate(item.value):
            one = InputValue(each, (*item.loc, index))
            take_options(
                builder, one, (Option("name", (), settled("it needs no name")), Option("selector", (), _later))
            )
            chosen = one.child("selector")
            if chosen.value is not None and (text := selector_text(builder, chosen)):
                builder.put(path, text, chosen.loc)

    return Option("podSelectors", (".".join(path),), convert, "one selector, as text")


def _nodes(builder: ConfigBuilder, item: InputValue) -> None:
    if text := selector_text(builder, item):
        builder.put(("filters", "nodeSelector"), text, item.loc, "there of this plugin, here of all strategies")


def _pools(builder: ConfigBuilder, args: InputValue) -> None:
    deviating = args.child("useDeviationThresholds").value is True
    _put_both(builder, (), args, deviating=deviating)
    builder.put(
        ("utilization",), "usage", args.loc, "koordlet measures there; here metrics.k8s.io or Prometheus (usage)"
    )
    if args.child("anomalyCondition").value is None:
        _hot_after(builder, (), InputValue(_USUAL, args.loc))
    pools = args.child("nodePools")
    if pools.value is None:
        pass
    elif not isinstance(pools.value, list):
        builder.wrong(pools.loc, wrong_type(pools.value, "a list"))
    else:
        for index, each in enumerate(pools.value):
            _pool(builder, InputValue(each, (*pools.loc, index)))
    path = (*OPTIMIZATION, "minUnderusedNodes")
    if builder.get(path) is not None and not builder.get((*OPTIMIZATION, "lowThresholds")):
        builder.drop(path)
        builder.miss(args.child("numberOfNodes").loc, "without lowThresholds no node is underused")


def _pool(builder: ConfigBuilder, item: InputValue) -> None:
    made = builder.get(("pools",))
    number = len(made) if isinstance(made, list) else 0
    base: Path = ("pools", number)
    if not isinstance(item.value, dict):
        builder.wrong(item.loc, wrong_type(item.value, "a mapping"))
        return
    chosen = item.child("nodeSelector")
    text = selector_text(builder, chosen) if chosen.value is not None else ""
    if not text:
        builder.miss(item.loc, "a pool that selects every node is what the fields at the top are for")
        return
    name = item.child("name")
    builder.put((*base, "name"), name.value or f"pool-{number + 1}", name.loc)
    builder.put((*base, "nodeSelector"), text, chosen.loc)
    parts = (
        *(Option(each, (), _later) for each in ("name", "nodeSelector", "highThresholds", "lowThresholds")),
        Option("useDeviationThresholds", (), lambda d, g: _deviates(d, base, g)),
        Option("resourceWeights", (), _WEIGHTS),
        Option("prodHighThresholds", (), _PRODUCTION),
        Option("prodLowThresholds", (), _PRODUCTION),
        _cycles(base),
    )
    take_options(builder, item, parts)
    deviating = builder.get((*base, "thresholdMode")) == "deviation"
    _put_both(builder, base, item, deviating=deviating)


def _put_both(builder: ConfigBuilder, base: Path, item: InputValue, *, deviating: bool) -> None:
    """Upper and lower thresholds; a pool that says nothing of either has those of the top."""
    high, low = item.child("highThresholds"), item.child("lowThresholds")
    names, lows = (each.value if isinstance(each.value, dict) else {} for each in (high, low))
    left_out = {name for name in (*names, *lows) if not lows.get(name)} if deviating and (lows or not base) else set()
    upper = put_upper(builder, base, high, left_out) if high.value is not None or not base else {}
    put_lower(builder, base, low, {} if deviating else upper, left_out)


def _deviates(builder: ConfigBuilder, base: Path, item: InputValue) -> None:
    if isinstance(item.value, bool):
        builder.put((*base, "thresholdMode"), "deviation" if item.value else "absolute", item.loc)
    else:
        builder.wrong(item.loc, wrong_type(item.value, "true or false"))


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


def _nothing_like(builder: ConfigBuilder, args: InputValue) -> None:
    builder.miss(
        args.loc, "there is no such strategy", "Consolidation (whole nodes, by price), LoadBalancing, MakeRoom"
    )


def _packs(builder: ConfigBuilder, args: InputValue) -> None:
    item = args.child("strategy")
    if item.value == "EvictDirectly":
        builder.settled(item.loc, "pods are moved, off whole nodes")
    elif item.value in (None, "CalculateOnly"):
        why = "pods get no deletion cost for an autoscaler to go by, and moving them was not wanted there"
        builder.switch_off("Consolidation", item.loc, why)
    else:
        builder.wrong(item.loc, f"{quote(item.value)} is not one of CalculateOnly, EvictDirectly")


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


_SHARED = ("labelSelector", "priorityThreshold", "nodeFit", "evictLocalStoragePods", "evictFailedBarePods")
_CONCURRENCY: Path = ("migration", "concurrency")
_PER_NODE = 2  # koordinator's default; ours is 4
_HOUR = 3600.0


def _at_once(field: str) -> Option:
    path = (*map(str, _CONCURRENCY), field)
    theirs = {"total": "maxMigratingGlobally"}.get(field, f"maxMigrating{field[0].upper()}{field[1:]}")

    def convert(builder: ConfigBuilder, item: InputValue) -> None:
        if item.value == 0:
            builder.put(path, "unlimited", item.loc, "0 is no limit there")
        else:
            builder.put(path, item.value, item.loc)

    return Option(theirs, (".".join(path),), convert)


def _unavailable(builder: ConfigBuilder, item: InputValue) -> None:
    comment = "there of all workloads; here where a workload has no disruption budget of its own"
    builder.put(("migration", "temporaryBudget", "maxUnavailable"), item.value, item.loc, comment)


def _mode(builder: ConfigBuilder, item: InputValue) -> None:
    if item.value == "ReservationFirst":
        comment = "auto: the replacement is Ready before the pod goes, where that is possible"
        builder.put(("migrationMethod",), "auto", item.loc, comment)
    elif item.value == "EvictDirectly":
        builder.put(("migrationMethod",), "evict", item.loc)
    else:
        builder.wrong(item.loc, f"{quote(item.value)} is not one of ReservationFirst, EvictDirectly")


def _policy(builder: ConfigBuilder, item: InputValue) -> None:
    if item.value in ("Eviction", ""):
        builder.settled(item.loc, "the Eviction API is always used")
    elif item.value == "Delete":
        builder.miss(
            item.loc, "the Eviction API is always used, by intent", "migrationMethod: handoff needs no eviction"
        )
    elif item.value == "SoftEviction":
        builder.miss(item.loc, "pods are only marked there, for others to move", "approval: required", limits=True)
    else:
        builder.wrong(item.loc, f"{quote(item.value)} is not one of Eviction, Delete, SoftEviction")


def _limiters(builder: ConfigBuilder, item: InputValue) -> None:
    take_options(builder, item, (Option("workload", (), _of_workload), Option("namespace", (), _of_namespace)))


def _of_workload(builder: ConfigBuilder, item: InputValue) -> None:
    lost = missing("a workload rests as a whole after a move", "coolDown, migration.concurrency.perWorkload")
    take_options(
        builder,
        item,
        (
            Option("duration", (), duration("coolDown", comment="longer after moves that do not pay")),
            Option("maxMigrating", (), lost),
        ),
    )


def _of_namespace(builder: ConfigBuilder, item: InputValue) -> None:
    most, length = item.child("maxMigrating"), item.child("duration")
    take_options(
        builder, item, (Option("duration", (), _handled_by_caller), Option("maxMigrating", (), _handled_by_caller))
    )
    lasting = length_of(builder, length) if length.value is not None else None
    number = whole(builder, most) if most.value is not None else None
    nearest = "when.movesPerHourPerNamespace"
    if not number or not lasting:
        builder.miss(item.loc, "it needs a duration and a number of moves", nearest, limits=bool(lasting))
        return
    # All moves of an hour may begin at once, so a limit within 10 minutes is one within the hour, too.
    rate = number // ceil(lasting / _HOUR)
    if not rate:
        builder.miss(item.loc, "fewer moves than one in an hour are not possible", nearest, limits=True)
        return
    comment = "" if lasting == _HOUR else f"there {number} within {length.value}; here within any 60 minutes"
    builder.put(("when", "movesPerHourPerNamespace"), rate, item.loc, comment)


def _handled_by_caller(builder: ConfigBuilder, item: InputValue) -> None:
    """Seen to by whoever asked."""


def _grace(builder: ConfigBuilder, item: InputValue) -> None:
    lost = missing("the Eviction API is always used, with a grace period", "migration.evictionGracePeriod")
    dry = missing(
        "it is a dry run there, and here that is a flag of the command", "rescheduler run --dry-run", limits=True
    )
    options = (
        Option("gracePeriodSeconds", (), seconds("migration", "evictionGracePeriod")),
        *(Option(name, (), lost) for name in ("preconditions", "orphanDependents", "propagationPolicy")),
        Option("dryRun", (), dry),
    )
    take_options(builder, item, options)


def _selected(builder: ConfigBuilder, item: InputValue) -> None:
    selector("filters", "nodeSelector", comment="pods are moved from these nodes alone")(builder, item)


def _meant(builder: ConfigBuilder, item: InputValue) -> None:
    include = item.child("include")
    if include.value:
        namespaces("filters")(builder, item)
    elif (found := texts_of(builder, item.child("exclude")) if item.child("exclude").value else None) is not None:
        kept = [*dict.fromkeys((*found, "kube-system", "kube-public"))]
        comment = "" if {*kept} == {*found} else "with those that are excluded here by default"
        builder.put(("excludedNamespaces",), kept, item.loc, comment)
    else:
        builder.settled(item.loc, "it names no namespaces")


def _bare(builder: ConfigBuilder, item: InputValue) -> None:
    if item.value is True:
        builder.put(("filters", "withoutController"), value=True, loc=item.loc, comment="by a copy")
    else:
        flag()(builder, item)


_NOT_NEEDED = settled("not needed: the planner decides before anything is ordered")
_RATE = missing("moves are limited by the hour", "when.movesPerHour; clientConnection.qps and burst")
_EVICTOR = {option.name: option for option in OPTIONS}
MIGRATION = Plugin(
    "MigrationController",
    "",
    (
        Option("dryRun", (), DRY, "nothing is moved; `run --dry-run`"),
        Option("maxConcurrentReconciles", (), _NOT_NEEDED, "not needed"),
        *(_EVICTOR[name] for name in (*_SHARED, "evictSystemCriticalPods", "ignorePvcPods")),
        Option("evictAllBarePods", ("filters.withoutController",), _bare, "true by default, by a copy"),
        Option("namespaces", ("filters.namespaces", "excludedNamespaces"), _meant),
        Option("nodeSelector", ("filters.nodeSelector",), _selected),
        _at_once("total"),
        _at_once("perNode"),
        _at_once("perNamespace"),
        _at_once("perWorkload"),
        Option(
            "maxUnavailablePerWorkload",
            ("migration.temporaryBudget.maxUnavailable",),
            _unavailable,
            "where a workload has no budget of its own; never more than half of the replicas in one plan",
        ),
        Option("skipCheckExpectedReplicas", ("allow.singleReplica",), flag("allow", "singleReplica")),
        Option(
            "objectLimiters",
            ("coolDown", "when.movesPerHourPerNamespace"),
            _limiters,
            "the workload's duration is `coolDown`; as many moves of a namespace within an hour as there within less",
        ),
        Option("defaultJobMode", ("migrationMethod",), _mode, "`ReservationFirst`: `auto`; `EvictDirectly`: `evict`"),
        Option("defaultJobTTL", ("migration.timeout",), duration("migration", "timeout"), "10m by default"),
        Option("schedulerNames", (), settled("any scheduler"), "any scheduler"),
        Option("evictQPS", (), _RATE),
        Option("evictBurst", (), _RATE),
        Option("evictionPolicy", (), _policy, "the Eviction API, always; with `SoftEviction` nothing is moved"),
        Option("defaultDeleteOptions", ("migration.evictionGracePeriod",), _grace),
        Option("arbitrationArgs", (), _NOT_NEEDED, "the planner decides before anything is ordered"),
        Option("flowControlQPS", (), _RATE, "older spelling"),
        Option("flowControlBurst", (), _RATE, "older spelling"),
    ),
    "PodMigrationJob is PodMigration (`kubectl get pmig`)",
)
KOORDINATOR = PluginSet(
    {each.name: each for each in (*PLUGINS, *THEIRS)},
    {EVICTOR.name: EVICTOR, MIGRATION.name: MIGRATION},
    selects_nodes=True,
)


def _election(builder: ConfigBuilder, item: InputValue) -> None:
    path = "leaderElection"
    own = settled("our Lease has a name and a namespace of its own: two programs never share one")
    durations = ("leaseDuration", "renewDeadline", "retryPeriod")
    options = (
        Option("leaderElect", (), same(path, "leaderElect")),
        *(Option(name, (), duration(path, name)) for name in durations),
        Option("resourceLock", (), settled("it is always a Lease")),
        Option("resourceName", (), own),
        Option("resourceNamespace", (), own),
    )
    take_options(builder, item, options)


def _connection(builder: ConfigBuilder, item: InputValue) -> None:
    path = "clientConnection"
    json = settled("JSON is spoken")
    names = ("kubeconfig", "qps", "burst")
    options = (
        *(Option(name, (), same(path, name)) for name in names),
        Option("contentType", (), json),
        Option("acceptContentTypes", (), json),
    )
    take_options(builder, item, options)


_SERVED = missing("health, metrics and the page have one address", "web.bindAddress and web.port")
_PROFILING = missing("there is no profiling endpoint", "web.port: metrics, and health")
_CONFIGURATION: tuple[Option, ...] = (
    *(option for option in TOP if option.name.startswith("maxNoOf")),
    Option("nodeSelector", ("filters.nodeSelector",), _selected, "pods may be moved to other nodes"),
    Option("deschedulingInterval", ("reschedulingInterval",), duration("reschedulingInterval")),
    Option("dryRun", (), DRY, "nothing is moved; `run --dry-run`"),
    Option("leaderElection", ("leaderElection",), _election, "its Lease is our own"),
    Option("clientConnection", ("clientConnection",), _connection),
    Option("healthzBindAddress", (), _SERVED, "`web.port`"),
    Option("metricsBindAddress", (), _SERVED, "`web.port`"),
    Option("enableProfiling", (), _PROFILING),
    Option("enableContentionProfiling", (), _PROFILING),
)
CONFIGURATION = Plugin("DeschedulerConfiguration", "", _CONFIGURATION)


def convert_koordinator(builder: ConfigBuilder, config: InputValue) -> None:
    """The whole of a DeschedulerConfiguration."""
    profiles = Option("profiles", ("enabledStrategies",), lambda d, g: take_profiles(d, g, KOORDINATOR))
    take_options(builder, config, (*_CONFIGURATION, profiles))
    builder.data.setdefault("enabledStrategies", [])
    if builder.get((*_CONCURRENCY, "perNode")) is None:
        builder.put((*_CONCURRENCY, "perNode"), _PER_NODE, (), "koordinator's default; 4 is ours")
