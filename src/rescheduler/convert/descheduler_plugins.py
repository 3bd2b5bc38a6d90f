"""descheduler's plugins that go by a pod's own state: its restarts, its age, its end.

`descheduler_plugins` has the others.
"""

from __future__ import annotations

from rescheduler.config.errors import wrong_type
from rescheduler.convert.builder import ConfigBuilder
from rescheduler.convert.values import (
    OPTIMIZATION,
    PACKING,
    InputValue,
    Option,
    Plugin,
    excluded_kinds_of,
    fields_of,
    flag,
    init_containers_of,
    labels_of,
    later,
    levels,
    missing,
    namespaces_of,
    one_more,
    only_true,
    put_lower,
    put_packing,
    put_upper,
    same,
    seconds,
    setting,
    take_options,
    texts,
    texts_of,
    whole,
)
from rescheduler.model.time import format_duration


def _conditions(builder: ConfigBuilder, item: InputValue) -> None:
    if not isinstance(item.value, list):
        builder.wrong(item.loc, wrong_type(item.value, "a list"))
        return
    kept: list[dict[str, object]] = []
    for index, each in enumerate(item.value):
        loc = (*item.loc, index)
        if not isinstance(each, dict):
            builder.wrong(loc, wrong_type(each, "a mapping"))
            continue
        one: dict[str, object] = {}
        for name, value in each.items():
            if name in ("type", "status", "reason"):
                one[name] = str(value)
            elif name == "minTimeSinceLastTransitionSeconds":
                number = whole(builder, InputValue(value, (*loc, name)))
                if number is not None:
                    one["minTime"] = format_duration(float(number))
            else:
                builder.unknown((*loc, name), "known are type, status, reason and minTimeSinceLastTransitionSeconds")
        if one.get("status") == "True" and one.get("type") in _HEALTHY:
            builder.miss(
                loc, f"{one['type']} is True on healthy pods, and those are not looked at", "states: [Succeeded]"
            )
        elif one:
            kept.append(one)
    if kept:
        builder.put(("strategies", "PodLifeTime", "conditions"), kept, item.loc)


_HEALTHY = ("Initialized", "Ready", "ContainersReady", "PodScheduled", "PodReadyToStartContainers")


def _owner_kinds(builder: ConfigBuilder, item: InputValue) -> None:
    base = ("strategies", "PodLifeTime")
    fields = {"include": "ownerKinds", "exclude": "excludedOwnerKinds"}
    take_options(builder, item, tuple(Option(name, (), texts(*base, field)) for name, field in fields.items()))


def _ages(builder: ConfigBuilder, args: InputValue) -> None:
    base = ("strategies", "PodLifeTime")
    conditions = args.child("conditions")
    if not any(args.child(name).value for name in _CRITERIA) and args.child(_CRITERIA[0]).value is None:
        builder.wrong(args.loc, f"none of {', '.join(_CRITERIA)} is given, and without any every pod would be meant")
    elif conditions.value and not builder.get((*base, "conditions")):
        builder.switch_off("PodLifeTime", conditions.loc, "without any of its conditions every pod would be meant")
    elif builder.get((*base, "maxAge")) is None:
        builder.put((*base, "maxAge"), "0s", args.loc, "not given there: pods of any age")


_CRITERIA = ("maxPodLifeTimeSeconds", "states", "podStatusPhases", "conditions", "exitCodes")
"""One of them has to be given; 0 seconds count."""


def _kept(builder: ConfigBuilder, args: InputValue) -> None:
    path = ("strategies", "FailedPods", "minAge")
    if args.child("minPodLifetimeSeconds").value is None:
        builder.put(path, "1h0m0s", args.loc, "the default there; 0s here")


def _restarts(builder: ConfigBuilder, item: InputValue) -> None:
    path = ("strategies", "TooManyRestarts", "restartThreshold")
    number = whole(builder, item)
    if number == 0:
        builder.wrong(item.loc, _NO_RESTARTS)
    elif number is not None:
        builder.put(path, number, item.loc)


_NO_RESTARTS = "a threshold of at least 1 is needed, for without any every pod would be meant"


def _counted(builder: ConfigBuilder, args: InputValue) -> None:
    if args.child("podRestartThreshold").value is None:
        builder.wrong(args.loc, f"podRestartThreshold is not given: {_NO_RESTARTS}")


RESTARTS = Plugin(
    "RemovePodsHavingTooManyRestarts",
    "TooManyRestarts",
    (
        setting("podRestartThreshold", "TooManyRestarts", "restartThreshold", _restarts),
        setting("states", "TooManyRestarts", "states", texts("strategies", "TooManyRestarts", "states")),
        init_containers_of("TooManyRestarts"),
        labels_of("TooManyRestarts"),
        namespaces_of("TooManyRestarts"),
    ),
    "Pods with `scheduling-retries` are left to recovery",
    _counted,
)
LIFE_TIME = Plugin(
    "PodLifeTime",
    "PodLifeTime",
    (
        setting("maxPodLifeTimeSeconds", "PodLifeTime", "maxAge", seconds("strategies", "PodLifeTime", "maxAge")),
        setting(
            "states",
            "PodLifeTime",
            "states",
            texts("strategies", "PodLifeTime", "states"),
            "`Succeeded` and `Failed` are removed rather than moved",
        ),
        setting(
            "podStatusPhases",
            "PodLifeTime",
            "states",
            texts("strategies", "PodLifeTime", "states"),
            "older spelling",
        ),
        Option(
            "conditions",
            fields_of("PodLifeTime", "conditions"),
            _conditions,
            "`minTimeSinceLastTransitionSeconds` is `minTime`; not those that are True on healthy pods",
        ),
        setting("exitCodes", "PodLifeTime", "exitCodes", same("strategies", "PodLifeTime", "exitCodes")),
        Option("ownerKinds", fields_of("PodLifeTime", "ownerKinds", "excludedOwnerKinds"), _owner_kinds),
        init_containers_of("PodLifeTime"),
        setting(
            "includingEphemeralContainers",
            "PodLifeTime",
            "includeEphemeralContainers",
            flag("strategies", "PodLifeTime", "includeEphemeralContainers"),
        ),
        labels_of("PodLifeTime"),
        namespaces_of("PodLifeTime"),
    ),
    "Pods are moved, and those that have ended are removed",
    _ages,
)
FAILED_PODS = Plugin(
    "RemoveFailedPods",
    "FailedPods",
    (
        setting("reasons", "FailedPods", "reasons", texts("strategies", "FailedPods", "reasons"), "`OutOf*` too"),
        setting("exitCodes", "FailedPods", "exitCodes", same("strategies", "FailedPods", "exitCodes")),
        setting(
            "minPodLifetimeSeconds",
            "FailedPods",
            "minAge",
            seconds("strategies", "FailedPods", "minAge"),
            "1h where it is not given, as there",
        ),
        init_containers_of("FailedPods"),
        excluded_kinds_of("FailedPods"),
        labels_of("FailedPods"),
        namespaces_of("FailedPods"),
    ),
    finish=_kept,
)


_INDEX = "a strategy goes by cores and bytes, of nodes and of pods, to know what a move brings"


_LOW = "ResourceOptimization"


def _deviating(builder: ConfigBuilder, item: InputValue) -> None:
    if item.value is True:
        builder.put(
            ("thresholdMode",),
            "deviation",
            item.loc,
            "points above what all nodes use together, not above the mean of their percentages",
        )
    else:
        flag("thresholdMode")(builder, item)


def _eviction_modes(builder: ConfigBuilder, item: InputValue) -> None:
    for index, mode in enumerate(texts_of(builder, item) or ()):
        if mode == "OnlyThresholdingResources":
            why = "a pod that takes nothing of the hot resource is never chosen, for that would not help"
            builder.settled((*item.loc, index), why)
        else:
            builder.unknown((*item.loc, index), "known is OnlyThresholdingResources")


def _measured(builder: ConfigBuilder, item: InputValue) -> None:
    take_options(builder, item, _METRICS)


def _source(builder: ConfigBuilder, item: InputValue) -> None:
    if item.value == "KubernetesMetrics":
        builder.put(("utilization",), "usage", item.loc, "averaged over usage.window (5m)")
    elif item.value == "Prometheus":
        builder.miss(item.loc, _INDEX, "utilization: usage with usage.source: prometheus")
    else:
        builder.unknown(item.loc, "known are KubernetesMetrics and Prometheus")


def _server(builder: ConfigBuilder, item: InputValue) -> None:
    if item.value is True:
        builder.put(("utilization",), "usage", item.loc, "averaged over usage.window (5m)")
    else:
        flag("utilization")(builder, item)


_METRICS = (
    Option("metricsServer", ("utilization", "usage.source"), _server),
    Option("source", ("utilization", "usage.source"), _source, "`KubernetesMetrics` only"),
    Option("prometheus", (), missing(_INDEX, "usage.prometheus.queries: four queries, in cores and bytes")),
)


def _limits(builder: ConfigBuilder, item: InputValue) -> None:
    take_options(builder, item, (Option("node", ("limits.perNodeOut",), _node_limit),))


def _node_limit(builder: ConfigBuilder, item: InputValue) -> None:
    number = whole(builder, item)
    if number:
        builder.put(("limits", "perNodeOut"), number, item.loc, "there of this plugin alone, here of all strategies")
    elif number == 0:
        builder.wrong(item.loc, "a limit of 0 leaves nothing to do")


def _hot_nodes(builder: ConfigBuilder, args: InputValue) -> None:
    deviating = args.child("useDeviationThresholds").value is True
    upper, lower = args.child("targetThresholds"), args.child("thresholds")
    names = {*(upper.value if isinstance(upper.value, dict) else ())}
    if names <= {"MetricResource"}:
        for item in (upper, lower):
            levels(builder, item)
        builder.switch_off(_LOW, args.loc, "without targetThresholds of resources no node is hot")
        return
    if not lower.value:
        builder.wrong(lower.loc, "thresholds are needed there: pods are only evicted where a node is underused")
    in_force = put_upper(builder, (), upper)
    put_lower(builder, (), lower, {} if deviating else in_force)
    path = (*OPTIMIZATION, "minUnderusedNodes")
    if builder.get(path) is not None and not builder.get((*OPTIMIZATION, "lowThresholds")):
        builder.drop(path)
        builder.miss(args.child("numberOfNodes").loc, "without thresholds no node is underused", "lowThresholds")


def _under_emptied(builder: ConfigBuilder, args: InputValue) -> None:
    thresholds = args.child("thresholds")
    if thresholds.value:
        put_packing(builder, thresholds)
    else:
        builder.wrong(thresholds.loc, "without any every node would be worth emptying")


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


_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _affinity(builder: ConfigBuilder, item: InputValue) -> None:
    types = texts_of(builder, item) or []
    for index, kind in enumerate(types):
        if kind not in (_PREFERRED, _REQUIRED):
            builder.unknown((*item.loc, index), f"known are {_REQUIRED} and {_PREFERRED}")
    if _PREFERRED in types and _REQUIRED not in types:
        builder.miss(item.loc, "required node affinity always counts as well", f"add {_REQUIRED}", limits=True)
    elif _PREFERRED in types:
        builder.put(("strategies", "NodeAffinity", "includePreferred"), value=True, loc=item.loc)
    elif types:
        builder.settled(item.loc, "required node affinity always counts")


def _typed(builder: ConfigBuilder, args: InputValue) -> None:
    item = args.child("nodeAffinityType")
    if not item.value:
        builder.wrong(item.loc, "it is needed there")


def _excluded_taints(builder: ConfigBuilder, item: InputValue) -> None:
    if (found := texts_of(builder, item)) is None:
        return
    path = ("strategies", "NodeTaints", "excludedTaints")
    kept = [*dict.fromkeys((*found, *BY_THE_CLUSTER))]
    builder.put(path, kept, item.loc, _TROUBLED.partition(";")[0])


def _usual_taints(builder: ConfigBuilder, args: InputValue) -> None:
    if args.child("excludedTaints").value is None and not args.child("includedTaints").value:
        path = ("strategies", "NodeTaints", "excludedTaints")
        builder.put(path, [*BY_THE_CLUSTER], args.loc, _TROUBLED)


_TROUBLED = "the taints of nodes that are cordoned or in trouble count there, and not here; [] has them count"
BY_THE_CLUSTER = tuple(
    f"node.kubernetes.io/{what}"
    for what in (
        *("unschedulable", "not-ready", "unreachable", "network-unavailable"),
        *("memory-pressure", "disk-pressure", "pid-pressure"),
    )
)
"""The taints that NodeTaints leaves alone if nothing is said; a test keeps them the same."""


def _soft(builder: ConfigBuilder, item: InputValue) -> None:
    if item.value is True:
        builder.put(("strategies", "TopologySpread", "constraints"), ["DoNotSchedule", "ScheduleAnyway"], item.loc)
    else:
        flag("constraints")(builder, item)


_NODE_FIT = only_true("a pod is only moved to a node that can take it", "a move without a target is no move", "")
PLUGINS: tuple[Plugin, ...] = (
    Plugin(
        "RemoveDuplicates",
        "RemoveDuplicates",
        (excluded_kinds_of("RemoveDuplicates"), namespaces_of("RemoveDuplicates")),
    ),
    LOW_UTILIZATION,
    HIGH_UTILIZATION,
    Plugin(
        "RemovePodsViolatingInterPodAntiAffinity",
        "PodAntiAffinity",
        (labels_of("PodAntiAffinity"), namespaces_of("PodAntiAffinity")),
        "As few moves as can be",
    ),
    Plugin(
        "RemovePodsViolatingNodeAffinity",
        "NodeAffinity",
        (
            setting(
                "nodeAffinityType",
                "NodeAffinity",
                "includePreferred",
                _affinity,
                "required affinity always counts; with preferred affinity alone the strategy stays off",
            ),
            labels_of("NodeAffinity"),
            namespaces_of("NodeAffinity"),
        ),
        finish=_typed,
    ),
    Plugin(
        "RemovePodsViolatingNodeTaints",
        "NodeTaints",
        (
            setting(
                "excludedTaints",
                "NodeTaints",
                "excludedTaints",
                _excluded_taints,
                "the taints of cordoned, not ready and short nodes are excluded by default",
            ),
            setting(
                "includedTaints", "NodeTaints", "includedTaints", texts("strategies", "NodeTaints", "includedTaints")
            ),
            setting(
                "includePreferNoSchedule",
                "NodeTaints",
                "includePreferNoSchedule",
                flag("strategies", "NodeTaints", "includePreferNoSchedule"),
            ),
            labels_of("NodeTaints"),
            namespaces_of("NodeTaints"),
        ),
        finish=_usual_taints,
    ),
    Plugin(
        "RemovePodsViolatingTopologySpreadConstraint",
        "TopologySpread",
        (
            setting(
                "constraints", "TopologySpread", "constraints", texts("strategies", "TopologySpread", "constraints")
            ),
            setting("includeSoftConstraints", "TopologySpread", "constraints", _soft, "until v0.26"),
            Option("topologyBalanceNodeFit", (), _NODE_FIT, "always"),
            labels_of("TopologySpread"),
            namespaces_of("TopologySpread"),
        ),
    ),
    RESTARTS,
    LIFE_TIME,
    FAILED_PODS,
)
"""Those that decide; `evictor` has the one that guards."""
