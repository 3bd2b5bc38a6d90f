"""descheduler's plugins: those that choose pods, and DefaultEvictor, which says which pods may go at all."""

from __future__ import annotations

from rescheduler.convert.builder import ConfigBuilder, Path
from rescheduler.convert.values import (
    InputValue,
    Option,
    Plugin,
    Reader,
    above_zero,
    choice,
    constant,
    drop_node_count,
    duration,
    excluded_kinds_of,
    fields_of,
    flag,
    if_true,
    ignore,
    init_containers_of,
    levels,
    list_items,
    missing,
    more_than,
    namespaces_of,
    nested,
    only_false,
    only_true,
    pods_of,
    put_lower,
    put_packing,
    put_upper,
    same,
    seconds,
    selector,
    setting,
    take_options,
    text_items,
    texts,
    unneeded,
    whole,
)
from rescheduler.model.fields import quote, wrong_type
from rescheduler.model.time import format_duration

_HEALTHY = ("Initialized", "Ready", "ContainersReady", "PodScheduled", "PodReadyToStartContainers")
_CRITERIA = ("maxPodLifeTimeSeconds", "states", "podStatusPhases", "conditions", "exitCodes")
"""PodLifeTime needs one of them; 0 seconds count."""


def _read_conditions(builder: ConfigBuilder, item: InputValue) -> list[dict[str, object]] | None:
    kept: list[dict[str, object]] = []
    for each in list_items(builder, item):
        if not isinstance(each.value, dict):
            builder.add_wrong(each.loc, wrong_type(each.value, "a mapping"))
            continue
        condition = _read_condition(builder, each)
        if condition.get("status") == "True" and condition.get("type") in _HEALTHY:
            why = f"{condition['type']} is True on healthy pods, and those are not looked at"
            builder.add_missing(each.loc, why, "states: [Succeeded]")
        elif condition:
            kept.append(condition)
    return kept or None


def _read_condition(builder: ConfigBuilder, item: InputValue) -> dict[str, object]:
    condition: dict[str, object] = {}
    for name, value in item.mapping.items():
        if name in ("type", "status", "reason"):
            condition[name] = str(value)
        elif name == "minTimeSinceLastTransitionSeconds":
            number = whole(builder, item.child(name))
            if number is not None:
                condition["minTime"] = format_duration(float(number))
        else:
            known = "known are type, status, reason and minTimeSinceLastTransitionSeconds"
            builder.add_unknown((*item.loc, name), known)
    return condition


def _finish_life_time(builder: ConfigBuilder, args: InputValue) -> None:
    base = ("strategies", "PodLifeTime")
    conditions = args.child("conditions")
    if not any(args.child(name).value for name in _CRITERIA) and args.child(_CRITERIA[0]).value is None:
        builder.add_wrong(
            args.loc, f"none of {', '.join(_CRITERIA)} is given, and without any every pod would be meant"
        )
    elif conditions.value and not builder.get((*base, "conditions")):
        builder.switch_off("PodLifeTime", conditions.loc, "without any of its conditions every pod would be meant")
    elif builder.get((*base, "maxAge")) is None:
        builder.put((*base, "maxAge"), "0s", args.loc, "not given there: pods of any age")


def _finish_failed_pods(builder: ConfigBuilder, args: InputValue) -> None:
    if args.child("minPodLifetimeSeconds").value is None:
        builder.put(("strategies", "FailedPods", "minAge"), "1h0m0s", args.loc, "the default there; 0s here")


_NO_RESTARTS = "a threshold of at least 1 is needed, for without any every pod would be meant"


def _finish_restarts(builder: ConfigBuilder, args: InputValue) -> None:
    if args.child("podRestartThreshold").value is None:
        builder.add_wrong(args.loc, f"podRestartThreshold is not given: {_NO_RESTARTS}")


def _read_eviction_modes(builder: ConfigBuilder, item: InputValue) -> None:
    for each in text_items(builder, item):
        _EVICTION_MODE(builder, each)


_EVICTION_MODE = choice(
    {
        "OnlyThresholdingResources": unneeded(
            "a pod that takes nothing of the hot resource is never chosen, for that would not help"
        )
    },
    known="OnlyThresholdingResources",
)
_INDEX = "a strategy goes by cores and bytes, of nodes and of pods, to know what a move brings"
_MEASURED = "averaged over usage.window (5m)"


_METRICS = choice(
    {
        "KubernetesMetrics": "usage",
        "Prometheus": missing(_INDEX, "utilization: usage with usage.source: prometheus"),
    },
    known="KubernetesMetrics and Prometheus",
)


def _finish_low_utilization(builder: ConfigBuilder, args: InputValue) -> None:
    deviating = args.child("useDeviationThresholds").value is True
    upper, lower = args.child("targetThresholds"), args.child("thresholds")
    if upper.mapping.keys() <= {"MetricResource"}:
        for item in (upper, lower):
            levels(builder, item)
        why = "without targetThresholds of resources no node is hot"
        builder.switch_off("ResourceOptimization", args.loc, why)
        return
    if not lower.value:
        builder.add_wrong(lower.loc, "thresholds are needed there: pods are only evicted where a node is underused")
    in_force = put_upper(builder, (), upper)
    put_lower(builder, (), lower, {} if deviating else in_force)
    drop_node_count(builder, args, "without thresholds no node is underused", "lowThresholds")


def _finish_high_utilization(builder: ConfigBuilder, args: InputValue) -> None:
    thresholds = args.child("thresholds")
    if thresholds.value:
        put_packing(builder, thresholds)
    else:
        builder.add_wrong(thresholds.loc, "without any every node would be worth emptying")


_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _read_affinity(builder: ConfigBuilder, item: InputValue) -> bool | None:
    types = texts(builder, item) or []
    for index, kind in enumerate(types):
        if kind not in (_PREFERRED, _REQUIRED):
            builder.add_unknown((*item.loc, index), f"known are {_REQUIRED} and {_PREFERRED}")
    if _PREFERRED in types and _REQUIRED not in types:
        builder.add_missing(item.loc, "required node affinity always counts as well", f"add {_REQUIRED}", limits=True)
    elif _PREFERRED in types:
        return True
    elif types:
        builder.add_unneeded(item.loc, "required node affinity always counts")
    return None


def _finish_affinity(builder: ConfigBuilder, args: InputValue) -> None:
    item = args.child("nodeAffinityType")
    if not item.value:
        builder.add_wrong(item.loc, "it is needed there")


BY_THE_CLUSTER = tuple(
    f"node.kubernetes.io/{what}"
    for what in (
        *("unschedulable", "not-ready", "unreachable", "network-unavailable"),
        *("memory-pressure", "disk-pressure", "pid-pressure"),
    )
)
"""The taints that NodeTaints ignores by default; a test keeps them the same."""
_TROUBLED = "the taints of nodes that are cordoned or in trouble count there, and not here"


def _read_excluded_taints(builder: ConfigBuilder, item: InputValue) -> list[str] | None:
    found = texts(builder, item)
    return None if found is None else [*dict.fromkeys((*found, *BY_THE_CLUSTER))]


def _finish_taints(builder: ConfigBuilder, args: InputValue) -> None:
    if args.child("excludedTaints").value is None and not args.child("includedTaints").value:
        path = ("strategies", "NodeTaints", "excludedTaints")
        builder.put(path, [*BY_THE_CLUSTER], args.loc, f"{_TROUBLED}; [] has them count")


_DUPLICATES = Plugin(
    "RemoveDuplicates",
    "RemoveDuplicates",
    (excluded_kinds_of("RemoveDuplicates"), namespaces_of("RemoveDuplicates")),
)
_LOW = "ResourceOptimization"
_LOW_UTILIZATION = Plugin(
    "LowNodeUtilization",
    _LOW,
    (
        Option(
            "useDeviationThresholds",
            "thresholdMode",
            if_true("deviation"),
            "points above the mean of the pool",
            "points above what all nodes use together, not above the mean of their percentages",
        ),
        Option(
            "targetThresholds",
            "cpuThreshold memoryThreshold thresholds",
            ignore,
            "100 for resources that are not named; a custom index (`MetricResource`) has no counterpart",
        ),
        setting("thresholds", _LOW, "lowThresholds", ignore, "points below the mean with `deviation`"),
        more_than(_LOW, 'one more: "more than" there, "at least" here'),
        Option("evictionModes", "", _read_eviction_modes, "always: pods that would not help are not moved"),
        Option(
            "metricsUtilization",
            "utilization usage.source",
            nested(
                Option("metricsServer", "utilization", if_true("usage"), comment=_MEASURED),
                Option("source", "utilization", _METRICS, comment=_MEASURED),
                Option("prometheus", "", missing(_INDEX, "usage.prometheus.queries: four queries, in cores and bytes")),
            ),
            "`KubernetesMetrics` only",
        ),
        Option(
            "evictionLimits",
            "limits.perNodeOut",
            nested(
                Option(
                    "node",
                    "limits.perNodeOut",
                    above_zero("a limit of 0 leaves nothing to do"),
                    comment="there of this plugin alone, here of all strategies",
                )
            ),
            "for all strategies",
        ),
        namespaces_of(_LOW, "evictableNamespaces"),
    ),
    "LoadBalancing also evens nodes out",
    _finish_low_utilization,
)
_HIGH_UTILIZATION = Plugin(
    "HighNodeUtilization",
    "Consolidation",
    (
        setting(
            "thresholds",
            "Consolidation",
            "maxUtilizationOf",
            ignore,
            "whole nodes or nothing; `maxUtilization: 100` for resources that are not named",
        ),
        more_than("Consolidation", "one more; empty nodes do not count"),
        Option(
            "evictionModes",
            "",
            missing("a node is emptied as a whole", "strategies.Consolidation.podSelector", limits=True),
            "the strategy stays off: nodes are emptied as a whole",
        ),
        namespaces_of("Consolidation", "evictableNamespaces"),
    ),
    "Whole nodes, by price, and only where all of their pods fit elsewhere",
    _finish_high_utilization,
)
_ANTI_AFFINITY = Plugin(
    "RemovePodsViolatingInterPodAntiAffinity",
    "PodAntiAffinity",
    pods_of("PodAntiAffinity"),
    "As few moves as possible",
)
_NODE_AFFINITY = Plugin(
    "RemovePodsViolatingNodeAffinity",
    "NodeAffinity",
    (
        setting(
            "nodeAffinityType",
            "NodeAffinity",
            "includePreferred",
            _read_affinity,
            "required affinity always counts; with preferred affinity alone the strategy stays off",
        ),
        *pods_of("NodeAffinity"),
    ),
    finish=_finish_affinity,
)
_NODE_TAINTS = Plugin(
    "RemovePodsViolatingNodeTaints",
    "NodeTaints",
    (
        Option(
            "excludedTaints",
            fields_of("NodeTaints", "excludedTaints"),
            _read_excluded_taints,
            "taints of nodes that are cordoned, not ready or under pressure are excluded by default",
            _TROUBLED,
        ),
        setting("includedTaints", "NodeTaints", "includedTaints", texts),
        setting("includePreferNoSchedule", "NodeTaints", "includePreferNoSchedule", flag),
        *pods_of("NodeTaints"),
    ),
    finish=_finish_taints,
)
_NODE_FIT = only_true("a pod is only moved to a node that can take it", "a move without a target is no move")
_SPREAD = Plugin(
    "RemovePodsViolatingTopologySpreadConstraint",
    "TopologySpread",
    (
        setting("constraints", "TopologySpread", "constraints", texts),
        setting(
            "includeSoftConstraints",
            "TopologySpread",
            "constraints",
            if_true(["DoNotSchedule", "ScheduleAnyway"]),
            "until v0.26",
        ),
        Option("topologyBalanceNodeFit", "", _NODE_FIT, "always"),
        *pods_of("TopologySpread"),
    ),
)
_RESTARTS = Plugin(
    "RemovePodsHavingTooManyRestarts",
    "TooManyRestarts",
    (
        setting("podRestartThreshold", "TooManyRestarts", "restartThreshold", above_zero(_NO_RESTARTS)),
        setting("states", "TooManyRestarts", "states", texts),
        init_containers_of("TooManyRestarts"),
        *pods_of("TooManyRestarts"),
    ),
    "Pods with `scheduling-retries` are left to recovery",
    _finish_restarts,
)
_LIFE_TIME = Plugin(
    "PodLifeTime",
    "PodLifeTime",
    (
        setting("maxPodLifeTimeSeconds", "PodLifeTime", "maxAge", seconds),
        setting("states", "PodLifeTime", "states", texts, "`Succeeded` and `Failed` pods are removed, not moved"),
        setting("podStatusPhases", "PodLifeTime", "states", texts, "older spelling"),
        setting(
            "conditions",
            "PodLifeTime",
            "conditions",
            _read_conditions,
            "`minTimeSinceLastTransitionSeconds` is `minTime`; conditions that are True on healthy pods are left out",
        ),
        setting("exitCodes", "PodLifeTime", "exitCodes", same),
        Option(
            "ownerKinds",
            fields_of("PodLifeTime", "ownerKinds", "excludedOwnerKinds"),
            nested(
                setting("include", "PodLifeTime", "ownerKinds", texts),
                setting("exclude", "PodLifeTime", "excludedOwnerKinds", texts),
            ),
        ),
        init_containers_of("PodLifeTime"),
        setting("includingEphemeralContainers", "PodLifeTime", "includeEphemeralContainers", flag),
        *pods_of("PodLifeTime"),
    ),
    "Pods are moved, and those that have ended are removed",
    _finish_life_time,
)
_FAILED_PODS = Plugin(
    "RemoveFailedPods",
    "FailedPods",
    (
        setting("reasons", "FailedPods", "reasons", texts, "`OutOf*` too"),
        setting("exitCodes", "FailedPods", "exitCodes", same),
        setting("minPodLifetimeSeconds", "FailedPods", "minAge", seconds, "1h if it is not set, as there"),
        init_containers_of("FailedPods"),
        excluded_kinds_of("FailedPods"),
        *pods_of("FailedPods"),
    ),
    finish=_finish_failed_pods,
)
PLUGINS: tuple[Plugin, ...] = (
    _DUPLICATES,
    _LOW_UTILIZATION,
    _HIGH_UTILIZATION,
    _ANTI_AFFINITY,
    _NODE_AFFINITY,
    _NODE_TAINTS,
    _SPREAD,
    _RESTARTS,
    _LIFE_TIME,
    _FAILED_PODS,
)
"""The plugins that choose pods, in the order of the documentation."""

_THRESHOLD: Path = ("filters", "priorityThreshold")
_VOLUMES: Path = ("filters", "persistentVolumes")
_CLASSES: Path = ("filters", "protectedStorageClasses")
_NEVER = "never moved here, by intent"


def _read_priority(builder: ConfigBuilder, item: InputValue) -> None:
    """Read `{value, name}`, of which one may be given."""
    path = ".".join(map(str, _THRESHOLD))
    take_options(builder, item, (Option("value", path, _read_number), Option("name", path, _read_class)))
    if item.child("value").value is not None and item.child("name").value:
        builder.add_wrong(item.loc, "value and name are not possible at once")


def _read_number(builder: ConfigBuilder, item: InputValue) -> int | None:
    if isinstance(item.value, int) and not isinstance(item.value, bool):
        return item.value
    builder.add_wrong(item.loc, wrong_type(item.value, "an integer"))
    return None


def _read_class(builder: ConfigBuilder, item: InputValue) -> str | None:
    if isinstance(item.value, str) and item.value:
        return item.value
    if item.value == "":
        builder.add_unneeded(item.loc, "it names no PriorityClass")
    else:
        builder.add_wrong(item.loc, wrong_type(item.value, "the name of a PriorityClass"))
    return None


def _read_min_replicas(builder: ConfigBuilder, item: InputValue) -> int | None:
    number = whole(builder, item)
    if number == 0:
        builder.add_unneeded(item.loc, "it is the default here, too")
    return number or None


_STRICTER = "preferred is the default here, and stricter: such a pod is moved only off a node under maintenance"
_NO_EVICTION = choice({"Preferred": unneeded(_STRICTER), "Mandatory": "mandatory"})
_EXTRA: dict[str, Reader] = {
    "PodsWithPVC": constant(_VOLUMES, value=False),
    "PodsWithoutPDB": constant(("filters", "withoutDisruptionBudget"), value=False),
    "PodsWithResourceClaims": unneeded("devices do not follow a pod: never moved"),
    "PodsWithPDBBlockingSingleReplicaOwner": unneeded(
        "a disruption budget that allows nothing is never passed over, and single replicas are left alone"
    ),
}
_DISABLED: dict[str, Reader] = {
    "PodsWithLocalStorage": constant(("allow", "localStorage"), value=True),
    "FailedBarePods": constant(("strategies", "FailedPods", "withoutController"), value=True),
    "DaemonSetPods": missing(f"pods of DaemonSets are {_NEVER}"),
    "SystemCriticalPods": missing(f"pods of system-critical priority are {_NEVER}"),
}


def _read_extra(builder: ConfigBuilder, item: InputValue) -> None:
    for each in text_items(builder, item):
        if reader := _EXTRA.get(str(each.value)):
            reader(builder, each)
        else:
            builder.add_unknown(each.loc, f"{quote(each.value)} is none of {', '.join(_EXTRA)}")


def _read_disabled(builder: ConfigBuilder, item: InputValue) -> None:
    for each in text_items(builder, item):
        if reader := _DISABLED.get(str(each.value)):
            reader(builder, each)
        else:
            why = f"{quote(each.value)} is none of {', '.join(_DISABLED)}; what is protected stays so"
            builder.add_missing(each.loc, why)


def _read_classes(builder: ConfigBuilder, item: InputValue) -> None:
    names = [each.child("name").value for each in list_items(builder, item)]
    classes = [name for name in names if isinstance(name, str)]
    if len(classes) < len(names):
        builder.add_wrong(item.loc, "each is a mapping with a name")
    if classes:
        builder.put(_CLASSES, classes, item.loc)


def _read_target_nodes(builder: ConfigBuilder, item: InputValue) -> None:
    nearest = "a nodeSelector of the pods, or pools; filters.nodeSelector says from where pods are moved"
    if item.value:
        why = "it limits the nodes that nodeFit counts as targets"
        builder.add_missing(item.loc, why, nearest, limits=item.parent.get("nodeFit") is True)
    else:
        builder.add_unneeded(item.loc, "it says nothing")


def _finish_evictor(builder: ConfigBuilder, args: InputValue) -> None:
    if builder.get(_CLASSES) and builder.get(_VOLUMES) is not False:
        loc = builder.origins[_CLASSES]
        builder.drop(_CLASSES)
        builder.add_missing(loc, "it says nothing unless PodsWithPVC is enabled", "filters.persistentVolumes: false")


_GUARDS: tuple[Option, ...] = (
    Option(
        "nodeSelector",
        "",
        _read_target_nodes,
        "no counterpart: it limits targets, not the nodes that pods are moved from; with `nodeFit` nothing is moved",
    ),
    Option("labelSelector", "filters.podSelector", selector, "as text"),
    Option("namespaceLabelSelector", "filters.namespaceSelector", selector, "as text"),
    Option("priorityThreshold", "filters.priorityThreshold", _read_priority, "a number or a name"),
    Option("nodeFit", "", only_true("always so", "a move without a target is no move"), "always"),
    Option("minReplicas", "filters.minReplicas", _read_min_replicas),
    Option("minPodAge", "minPodAge", duration, "one minute by default"),
    Option(
        "noEvictionPolicy",
        "filters.noEvictionPolicy",
        _NO_EVICTION,
        "`preferred` is stricter here: moved only off a node under maintenance",
    ),
    Option(
        "podProtections",
        "filters.persistentVolumes filters.protectedStorageClasses filters.withoutDisruptionBudget "
        "allow.localStorage strategies.FailedPods.withoutController",
        nested(
            Option("extraEnabled", "", _read_extra),
            Option("defaultDisabled", "", _read_disabled),
            Option(
                "config",
                "",
                nested(Option("PodsWithPVC", "", nested(Option("protectedStorageClasses", "", _read_classes)))),
            ),
        ),
        "`DaemonSetPods` and `SystemCriticalPods` cannot be turned off, `PodsWithResourceClaims` is always on",
    ),
    Option("evictLocalStoragePods", "allow.localStorage", flag),
    Option("evictFailedBarePods", "strategies.FailedPods.withoutController", flag),
    Option("ignorePvcPods", "filters.persistentVolumes", if_true(value=False), "inverted"),
    Option("ignorePodsWithoutPDB", "filters.withoutDisruptionBudget", if_true(value=False), "inverted"),
    Option("evictDaemonSetPods", "", only_false(f"pods of DaemonSets are {_NEVER}"), "never"),
    Option("evictSystemCriticalPods", "", only_false(f"pods of system-critical priority are {_NEVER}"), "never"),
)
EVICTOR = Plugin("DefaultEvictor", "", _GUARDS, "What it protects is protected here by guards", _finish_evictor)
