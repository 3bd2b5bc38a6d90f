"""descheduler's plugins (v0.34 to v0.36) and their options: what each is called here, and how its values come over.

`policy` asks for the plugins that a profile enables. The evictor is in `evictor`, for its options hold for all of them.
"""

from __future__ import annotations

from rescheduler.config.conversion.draft import Draft
from rescheduler.config.conversion.options import Given, Option, Plugin
from rescheduler.config.conversion.pod_plugins import FAILED_PODS, LIFE_TIME, RESTARTS
from rescheduler.config.conversion.strategy_options import (
    excluded_kinds_of,
    labels_of,
    namespaces_of,
    setting,
)
from rescheduler.config.conversion.utilization_plugins import HIGH_UTILIZATION, LOW_UTILIZATION
from rescheduler.config.conversion.values import (
    flag,
    only_true,
    texts,
    texts_of,
)

_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"


_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def _affinity(draft: Draft, given: Given) -> None:
    types = texts_of(draft, given) or []
    for index, kind in enumerate(types):
        if kind not in (_PREFERRED, _REQUIRED):
            draft.unknown((*given.loc, index), f"known are {_REQUIRED} and {_PREFERRED}")
    if _PREFERRED in types and _REQUIRED not in types:
        draft.miss(given.loc, "required node affinity always counts as well", f"add {_REQUIRED}", limits=True)
    elif _PREFERRED in types:
        draft.put(("strategies", "NodeAffinity", "includePreferred"), value=True, loc=given.loc)
    elif types:
        draft.settled(given.loc, "required node affinity always counts")


def _typed(draft: Draft, args: Given) -> None:
    given = args.inner("nodeAffinityType")
    if not given.value:
        draft.wrong(given.loc, "it is needed there")


def _excluded_taints(draft: Draft, given: Given) -> None:
    if (found := texts_of(draft, given)) is None:
        return
    path = ("strategies", "NodeTaints", "excludedTaints")
    kept = [*dict.fromkeys((*found, *BY_THE_CLUSTER))]
    draft.put(path, kept, given.loc, _TROUBLED.partition(";")[0])


def _usual_taints(draft: Draft, args: Given) -> None:
    if args.inner("excludedTaints").value is None and not args.inner("includedTaints").value:
        path = ("strategies", "NodeTaints", "excludedTaints")
        draft.put(path, [*BY_THE_CLUSTER], args.loc, _TROUBLED)


_TROUBLED = "the taints of nodes that are cordoned or in trouble count there, and not here; [] has them count"
BY_THE_CLUSTER = tuple(
    f"node.kubernetes.io/{what}"
    for what in (
        *("unschedulable", "not-ready", "unreachable", "network-unavailable"),
        *("memory-pressure", "disk-pressure", "pid-pressure"),
    )
)
"""The taints that NodeTaints leaves alone if nothing is said; a test keeps them the same."""


def _soft(draft: Draft, given: Given) -> None:
    if given.value is True:
        draft.put(("strategies", "TopologySpread", "constraints"), ["DoNotSchedule", "ScheduleAnyway"], given.loc)
    else:
        flag("constraints")(draft, given)


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
