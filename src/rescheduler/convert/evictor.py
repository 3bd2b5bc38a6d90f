"""DefaultEvictor: the options that say which pods descheduler and koordinator may evict, which guards say here."""

from __future__ import annotations

from collections.abc import Callable

from rescheduler.config.errors import Loc
from rescheduler.convert.builder import ConfigBuilder, Path
from rescheduler.convert.values import (
    InputValue,
    Option,
    Plugin,
    duration,
    flag,
    negated,
    nested,
    only_false,
    only_true,
    selector,
    take_options,
    texts,
    whole,
)
from rescheduler.model.fields import quote, wrong_type

_THRESHOLD: Path = ("filters", "priorityThreshold")
_LOCAL: Path = ("allow", "localStorage")
_VOLUMES: Path = ("filters", "persistentVolumes")
_CLASSES: Path = ("filters", "protectedStorageClasses")
_BUDGETS: Path = ("filters", "withoutDisruptionBudget")
_FAILED_BARE: Path = ("strategies", "FailedPods", "withoutController")
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


def _read_no_eviction(builder: ConfigBuilder, item: InputValue) -> str | None:
    if item.value == "Mandatory":
        return "mandatory"
    if item.value == "Preferred":
        why = "preferred is the default here, and stricter: such a pod is moved only off a node under maintenance"
        builder.add_unneeded(item.loc, why)
    else:
        builder.add_wrong(item.loc, f"{quote(item.value)} is not one of Preferred, Mandatory")
    return None


_Write = Callable[[ConfigBuilder, Loc], None]
_EXTRA: dict[str, _Write] = {
    "PodsWithPVC": lambda builder, loc: builder.put(_VOLUMES, value=False, loc=loc),
    "PodsWithoutPDB": lambda builder, loc: builder.put(_BUDGETS, value=False, loc=loc),
    "PodsWithResourceClaims": lambda builder, loc: builder.add_unneeded(
        loc, "devices do not follow a pod: never moved"
    ),
    "PodsWithPDBBlockingSingleReplicaOwner": lambda builder, loc: builder.add_unneeded(
        loc, "a disruption budget that allows nothing is never passed over, and single replicas are left alone"
    ),
}
_DISABLED: dict[str, _Write] = {
    "PodsWithLocalStorage": lambda builder, loc: builder.put(_LOCAL, value=True, loc=loc),
    "FailedBarePods": lambda builder, loc: builder.put(_FAILED_BARE, value=True, loc=loc),
    "DaemonSetPods": lambda builder, loc: builder.add_missing(loc, f"pods of DaemonSets are {_NEVER}"),
    "SystemCriticalPods": lambda builder, loc: builder.add_missing(
        loc, f"pods of system-critical priority are {_NEVER}"
    ),
}


def _read_extra(builder: ConfigBuilder, item: InputValue) -> None:
    for name, loc in _names(builder, item):
        if name in _EXTRA:
            _EXTRA[name](builder, loc)
        else:
            builder.add_unknown(loc, f"{quote(name)} is none of {', '.join(_EXTRA)}")


def _read_disabled(builder: ConfigBuilder, item: InputValue) -> None:
    for name, loc in _names(builder, item):
        if name in _DISABLED:
            _DISABLED[name](builder, loc)
        else:
            builder.add_missing(loc, f"{quote(name)} is none of {', '.join(_DISABLED)}; what is protected stays so")


def _names(builder: ConfigBuilder, item: InputValue) -> list[tuple[str, Loc]]:
    return [(name, (*item.loc, index)) for index, name in enumerate(texts(builder, item) or ())]


def _read_classes(builder: ConfigBuilder, item: InputValue) -> None:
    if not isinstance(item.value, list):
        builder.add_wrong(item.loc, wrong_type(item.value, "a list"))
        return
    names = [each["name"] for each in item.value if isinstance(each, dict) and isinstance(each.get("name"), str)]
    if len(names) < len(item.value):
        builder.add_wrong(item.loc, "each is a mapping with a name")
    if names:
        builder.put(_CLASSES, names, item.loc)


def _read_target_nodes(builder: ConfigBuilder, item: InputValue) -> None:
    nearest = "a nodeSelector of the pods, or pools; filters.nodeSelector says from where pods are moved"
    if item.value:
        why = "it limits the nodes that nodeFit counts as targets"
        builder.add_missing(item.loc, why, nearest, limits=item.parent.get("nodeFit") is True)
    else:
        builder.add_unneeded(item.loc, "it says nothing")


def _finish(builder: ConfigBuilder, args: InputValue) -> None:
    if builder.get(_CLASSES) and builder.get(_VOLUMES) is not False:
        loc = builder.origins[_CLASSES]
        builder.drop(_CLASSES)
        builder.add_missing(loc, "it says nothing unless PodsWithPVC is enabled", "filters.persistentVolumes: false")


OPTIONS: tuple[Option, ...] = (
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
    Option("minReplicas", "filters.minReplicas", whole),
    Option("minPodAge", "minPodAge", duration, "one minute by default"),
    Option(
        "noEvictionPolicy",
        "filters.noEvictionPolicy",
        _read_no_eviction,
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
    Option("ignorePvcPods", "filters.persistentVolumes", negated, "inverted"),
    Option("ignorePodsWithoutPDB", "filters.withoutDisruptionBudget", negated, "inverted"),
    Option("evictDaemonSetPods", "", only_false(f"pods of DaemonSets are {_NEVER}"), "never"),
    Option("evictSystemCriticalPods", "", only_false(f"pods of system-critical priority are {_NEVER}"), "never"),
)
EVICTOR = Plugin("DefaultEvictor", "", OPTIONS, "What it protects is protected here by guards", _finish)

_DEFAULTS: dict[Path, object] = {
    _LOCAL: False,
    _FAILED_BARE: False,
    _VOLUMES: True,
    _BUDGETS: True,
    ("filters", "minReplicas"): 0,
    ("minPodAge",): None,  # our default is not theirs
    ("filters", "podSelector"): "",
    ("filters", "namespaceSelector"): "",
    ("filters", "nodeSelector"): "",
    ("filters", "noEvictionPolicy"): "preferred",
    _THRESHOLD: None,
    _CLASSES: [],
}
"""The fields of an evictor in the order in which they are written, with their defaults."""


def merge_evictor(builder: ConfigBuilder, evictor: ConfigBuilder) -> None:
    """Write what the evictors of the profiles say, after all plugins."""
    builder.remarks += [remark for remark in evictor.remarks if remark not in builder.remarks]
    builder.named |= evictor.named
    builder.taken |= evictor.taken
    others = (path for path in evictor.origins if path not in _DEFAULTS)
    for path in (*_DEFAULTS, *others):
        value = evictor.get(path)
        if value is None:
            continue
        if value == _DEFAULTS.get(path):
            builder.add_unneeded(evictor.origins[path], "it is the default here, too")
        else:
            builder.put(path, value, evictor.origins[path])
            for comment in evictor.comments.get(path, ()):
                builder.comment_on(path, comment)
    if evictor.halted:
        builder.halt(*evictor.halted)
