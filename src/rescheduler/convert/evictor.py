"""Priority thresholds, which are numbers or names of PriorityClasses, and which of several is the lowest.

`evictor` asks. What a PriorityClass stands for is known of the built-in ones alone, and of all others that it is below
those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rescheduler.config.errors import Loc, format_path, quote, wrong_type
from rescheduler.convert.builder import ConfigBuilder, Path
from rescheduler.convert.values import (
    InputValue,
    Option,
    Plugin,
    duration,
    flag,
    only_false,
    only_true,
    selector,
    take_options,
    texts_of,
    whole,
)
from rescheduler.model.time import parse_duration

THRESHOLD: Path = ("filters", "priorityThreshold")
_BUILT_IN = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}
_HIGHEST = 1_000_000_000  # of a PriorityClass that is not built in


def priority(builder: ConfigBuilder, item: InputValue) -> None:
    """`{value, name}`, of which one may be given."""
    take_options(builder, item, (Option("value", (), _number), Option("name", (), _name)))
    if item.child("value").value is not None and item.child("name").value:
        builder.wrong(item.loc, "value and name are not possible at once")


def _number(builder: ConfigBuilder, item: InputValue) -> None:
    if isinstance(item.value, int) and not isinstance(item.value, bool):
        builder.put(THRESHOLD, item.value, item.loc)
    else:
        builder.wrong(item.loc, wrong_type(item.value, "an integer"))


def _name(builder: ConfigBuilder, item: InputValue) -> None:
    if item.value == "":
        builder.settled(item.loc, "it names no PriorityClass")
    elif isinstance(item.value, str):
        builder.put(THRESHOLD, item.value, item.loc)
    else:
        builder.wrong(item.loc, wrong_type(item.value, "the name of a PriorityClass"))


def lowest(thresholds: Sequence[int | str]) -> int | str | None:
    """The threshold that protects most pods; None if that cannot be told."""
    names = {each for each in thresholds if isinstance(each, str) and each not in _BUILT_IN}
    known = {each: _BUILT_IN[each] if isinstance(each, str) else each for each in thresholds if each not in names}
    if not names:
        return min(known, key=lambda each: known[each])
    if len(names) == 1 and all(value >= _HIGHEST for value in known.values()):
        return names.pop()
    return None


_LOCAL: Path = ("allow", "localStorage")
_VOLUMES: Path = ("filters", "persistentVolumes")
_BUDGETS: Path = ("filters", "withoutDisruptionBudget")
_FAILED_BARE: Path = ("strategies", "FailedPods", "withoutController")
_NEVER = "never moved here, by intent"


def _allow(path: Path) -> Callable[[ConfigBuilder, InputValue], None]:
    return flag(*map(str, path))


def _forbid(path: Path) -> Callable[[ConfigBuilder, InputValue], None]:
    """`ignorePvcPods: true` is `persistentVolumes: false`."""

    def convert(builder: ConfigBuilder, item: InputValue) -> None:
        if item.value is True:
            builder.put(path, value=False, loc=item.loc)
        else:
            flag()(builder, item)

    return convert


def _replicas(builder: ConfigBuilder, item: InputValue) -> None:
    if (number := whole(builder, item)) is not None:
        builder.put(("filters", "minReplicas"), number, item.loc)


def _no_eviction(builder: ConfigBuilder, item: InputValue) -> None:
    policies = {"Preferred": "preferred", "Mandatory": "mandatory"}
    if item.value not in [*policies]:
        builder.wrong(item.loc, f"{quote(item.value)} is not one of Preferred, Mandatory")
    elif item.value == "Preferred":
        why = "preferred is the default here, and stricter: such a pod is moved only off a node under maintenance"
        builder.settled(item.loc, why)
    else:
        builder.put(("filters", "noEvictionPolicy"), "mandatory", item.loc)


def _protections(builder: ConfigBuilder, item: InputValue) -> None:
    take_options(
        builder,
        item,
        (
            Option("extraEnabled", (), lambda d, g: _each(d, g, _EXTRA)),
            Option("defaultDisabled", (), lambda d, g: _each(d, g, _DISABLED, protects=False)),
            Option("config", (), lambda d, g: take_options(d, g, (Option("PodsWithPVC", (), _classes),))),
        ),
    )


def _each(
    builder: ConfigBuilder,
    item: InputValue,
    known: dict[str, Callable[[ConfigBuilder, Loc], None]],
    *,
    protects: bool = True,
) -> None:
    for index, name in enumerate(texts_of(builder, item) or ()):
        loc = (*item.loc, index)
        if name in known:
            known[name](builder, loc)
        elif protects:
            builder.unknown(loc, f"{quote(name)} is none of {', '.join(known)}")
        else:
            builder.miss(loc, f"{quote(name)} is none of {', '.join(known)}; what is protected stays so")


_EXTRA: dict[str, Callable[[ConfigBuilder, Loc], None]] = {
    "PodsWithPVC": lambda builder, loc: builder.put(_VOLUMES, value=False, loc=loc),
    "PodsWithoutPDB": lambda builder, loc: builder.put(_BUDGETS, value=False, loc=loc),
    "PodsWithResourceClaims": lambda builder, loc: builder.settled(loc, "devices do not follow a pod: never moved"),
    "PodsWithPDBBlockingSingleReplicaOwner": lambda builder, loc: builder.settled(
        loc, "a disruption budget that allows nothing is never passed over, and single replicas are left alone"
    ),
}
_DISABLED: dict[str, Callable[[ConfigBuilder, Loc], None]] = {
    "PodsWithLocalStorage": lambda builder, loc: builder.put(_LOCAL, value=True, loc=loc),
    "FailedBarePods": lambda builder, loc: builder.put(_FAILED_BARE, value=True, loc=loc),
    "DaemonSetPods": lambda builder, loc: builder.miss(loc, f"pods of DaemonSets are {_NEVER}"),
    "SystemCriticalPods": lambda builder, loc: builder.miss(loc, f"pods of system-critical priority are {_NEVER}"),
}


def _classes(builder: ConfigBuilder, item: InputValue) -> None:
    take_options(builder, item, (Option("protectedStorageClasses", (), _class_names),))


def _class_names(builder: ConfigBuilder, item: InputValue) -> None:
    if not isinstance(item.value, list):
        builder.wrong(item.loc, wrong_type(item.value, "a list"))
        return
    names = [each["name"] for each in item.value if isinstance(each, dict) and isinstance(each.get("name"), str)]
    if len(names) < len(item.value):
        builder.wrong(item.loc, "each is a mapping with a name")
    if names:
        builder.put(("filters", "protectedStorageClasses"), names, item.loc)


def _finish(builder: ConfigBuilder, args: InputValue) -> None:
    path = ("filters", "protectedStorageClasses")
    if builder.get(path) and builder.get(_VOLUMES) is not False:
        loc = builder.origins[path]
        builder.drop(path)
        builder.miss(loc, "it says nothing unless PodsWithPVC is enabled", "filters.persistentVolumes: false")


def _targets(builder: ConfigBuilder, item: InputValue) -> None:
    nearest = "a nodeSelector of the pods, or pools; filters.nodeSelector says from where pods are moved"
    if item.value:
        why = "it limits the nodes that nodeFit counts as targets"
        builder.miss(item.loc, why, nearest, limits=item.parent.get("nodeFit") is True)
    else:
        builder.settled(item.loc, "it says nothing")


OPTIONS: tuple[Option, ...] = (
    Option(
        "nodeSelector",
        (),
        _targets,
        "no counterpart: it limits targets, not the nodes that pods are moved from; with `nodeFit` nothing is moved",
    ),
    Option("labelSelector", ("filters.podSelector",), selector("filters", "podSelector"), "as text"),
    Option(
        "namespaceLabelSelector", ("filters.namespaceSelector",), selector("filters", "namespaceSelector"), "as text"
    ),
    Option("priorityThreshold", ("filters.priorityThreshold",), priority, "a number or a name"),
    Option("nodeFit", (), only_true("always so", "a move without a target is no move"), "always"),
    Option("minReplicas", ("filters.minReplicas",), _replicas),
    Option("minPodAge", ("minPodAge",), duration("minPodAge"), "one minute by default"),
    Option(
        "noEvictionPolicy",
        ("filters.noEvictionPolicy",),
        _no_eviction,
        "`preferred` is stricter here: moved only off a node under maintenance",
    ),
    Option(
        "podProtections",
        (
            "filters.persistentVolumes",
            "filters.protectedStorageClasses",
            "filters.withoutDisruptionBudget",
            "allow.localStorage",
            "strategies.FailedPods.withoutController",
        ),
        _protections,
        "`DaemonSetPods` and `SystemCriticalPods` cannot be turned off, `PodsWithResourceClaims` is always on",
    ),
    Option("evictLocalStoragePods", ("allow.localStorage",), _allow(_LOCAL)),
    Option("evictFailedBarePods", ("strategies.FailedPods.withoutController",), _allow(_FAILED_BARE)),
    Option("ignorePvcPods", ("filters.persistentVolumes",), _forbid(_VOLUMES), "the other way round"),
    Option("ignorePodsWithoutPDB", ("filters.withoutDisruptionBudget",), _forbid(_BUDGETS), "the other way round"),
    Option("evictDaemonSetPods", (), only_false(f"pods of DaemonSets are {_NEVER}"), "never"),
    Option("evictSystemCriticalPods", (), only_false(f"pods of system-critical priority are {_NEVER}"), "never"),
)
EVICTOR = Plugin("DefaultEvictor", "", OPTIONS, "What it protects is protected here by guards", _finish)

_DEFAULTS: dict[Path, object] = {
    _LOCAL: False,
    _FAILED_BARE: False,
    _VOLUMES: True,
    _BUDGETS: True,
    ("filters", "minReplicas"): 0,
    ("minPodAge",): "0s",
    ("filters", "podSelector"): "",
    ("filters", "namespaceSelector"): "",
    ("filters", "nodeSelector"): "",
    ("filters", "noEvictionPolicy"): "preferred",
    THRESHOLD: None,
    ("filters", "protectedStorageClasses"): [],
}
"""What holds in a profile whose evictor says nothing of it."""


def merged(builder: ConfigBuilder, parts: Sequence[ConfigBuilder]) -> None:
    """Put the evictors of all profiles into one; where they differ, the strictest holds."""
    for part in parts:
        builder.remarks += [remark for remark in part.remarks if remark not in builder.remarks]
        builder.named |= part.named
        builder.taken |= part.taken
    for path, default in _DEFAULTS.items():
        _merge(builder, parts, path, default)
    for part in parts:
        _add(builder, part)


def _merge(builder: ConfigBuilder, parts: Sequence[ConfigBuilder], path: Path, default: object) -> None:
    """One field that several evictors may have a word on."""
    item = [part for part in parts if part.get(path) is not None]
    if not item:
        return
    values = [default if (found := part.get(path)) is None else found for part in parts]
    value, comment = _strictest(path, values), "the strictest of the profiles"
    if value is None:
        value, comment = item[0].get(path), "of the first profile"
        builder.halt(item[0].origins[path], "which priority threshold of the profiles is the lowest cannot be told")
    if value != default or path == ("minPodAge",):  # of which our own default is another
        alike = len({*map(str, values)}) == 1
        builder.put(path, value, item[0].origins[path], "" if alike else comment)
        for said in item[0].comments.get(path, ()):
            builder.say(path, said)
    else:
        for part in item:
            if part.get(path) == default:
                builder.settled(part.origins[path], "it is the default here, too")
    for index, each in enumerate(values):
        if each != value:
            where = parts[index].origins.get(path, ("profiles", index))
            why = f"{format_path(path)} is {quote(each)} in this profile; here {quote(value)} holds for all strategies"
            builder.miss(where, why, "filters of single strategies, or node pools (pools)")


def _add(builder: ConfigBuilder, part: ConfigBuilder) -> None:
    """What else an evictor says: the first profile that says it has its way."""
    for path, loc in part.origins.items():
        if path not in _DEFAULTS and (value := part.get(path)) is not None:
            builder.put(path, value, loc, " ".join(part.comments.get(path, ())))
    if part.halted:
        builder.halt(*part.halted)


def _strictest(path: Path, values: Sequence[Any]) -> object:
    """None where it cannot be told."""
    match path[-1]:
        case "localStorage" | "withoutController":
            return all(values)
        case "persistentVolumes" | "withoutDisruptionBudget":
            return all(values)
        case "minReplicas":
            return max(values)
        case "minPodAge":
            return max(values, key=parse_duration)
        case "noEvictionPolicy":
            return "mandatory" if "mandatory" in values else "preferred"
        case "priorityThreshold":
            return lowest([each for each in values if each is not None])
        case "protectedStorageClasses":
            # The fewer are named, the more is protected where one profile protects all.
            return [] if [] in values else [*dict.fromkeys(name for each in values for name in each)]
        case _:  # selectors: all of them must let a pod
            return ",".join(dict.fromkeys(each for each in values if each))
