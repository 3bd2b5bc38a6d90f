"""Priority thresholds, which are numbers or names of PriorityClasses, and which of several is the lowest.

`evictor` asks. What a PriorityClass stands for is known of the built-in ones alone, and of all others that it is below
those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rescheduler.config.errors import Loc, path_of, shown, wrong_type
from rescheduler.convert.draft import Draft, Path
from rescheduler.convert.values import (
    Given,
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


def priority(draft: Draft, given: Given) -> None:
    """`{value, name}`, of which one may be given."""
    take_options(draft, given, (Option("value", (), _number), Option("name", (), _name)))
    if given.inner("value").value is not None and given.inner("name").value:
        draft.wrong(given.loc, "value and name are not possible at once")


def _number(draft: Draft, given: Given) -> None:
    if isinstance(given.value, int) and not isinstance(given.value, bool):
        draft.put(THRESHOLD, given.value, given.loc)
    else:
        draft.wrong(given.loc, wrong_type(given.value, "an integer"))


def _name(draft: Draft, given: Given) -> None:
    if given.value == "":
        draft.settled(given.loc, "it names no PriorityClass")
    elif isinstance(given.value, str):
        draft.put(THRESHOLD, given.value, given.loc)
    else:
        draft.wrong(given.loc, wrong_type(given.value, "the name of a PriorityClass"))


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


def _allow(path: Path) -> Callable[[Draft, Given], None]:
    return flag(*map(str, path))


def _forbid(path: Path) -> Callable[[Draft, Given], None]:
    """`ignorePvcPods: true` is `persistentVolumes: false`."""

    def convert(draft: Draft, given: Given) -> None:
        if given.value is True:
            draft.put(path, value=False, loc=given.loc)
        else:
            flag()(draft, given)

    return convert


def _replicas(draft: Draft, given: Given) -> None:
    if (number := whole(draft, given)) is not None:
        draft.put(("filters", "minReplicas"), number, given.loc)


def _no_eviction(draft: Draft, given: Given) -> None:
    policies = {"Preferred": "preferred", "Mandatory": "mandatory"}
    if given.value not in [*policies]:
        draft.wrong(given.loc, f"{shown(given.value)} is not one of Preferred, Mandatory")
    elif given.value == "Preferred":
        why = "preferred is the default here, and stricter: such a pod is moved only off a node under maintenance"
        draft.settled(given.loc, why)
    else:
        draft.put(("filters", "noEvictionPolicy"), "mandatory", given.loc)


def _protections(draft: Draft, given: Given) -> None:
    take_options(
        draft,
        given,
        (
            Option("extraEnabled", (), lambda d, g: _each(d, g, _EXTRA)),
            Option("defaultDisabled", (), lambda d, g: _each(d, g, _DISABLED, protects=False)),
            Option("config", (), lambda d, g: take_options(d, g, (Option("PodsWithPVC", (), _classes),))),
        ),
    )


def _each(draft: Draft, given: Given, known: dict[str, Callable[[Draft, Loc], None]], *, protects: bool = True) -> None:
    for index, name in enumerate(texts_of(draft, given) or ()):
        loc = (*given.loc, index)
        if name in known:
            known[name](draft, loc)
        elif protects:
            draft.unknown(loc, f"{shown(name)} is none of {', '.join(known)}")
        else:
            draft.miss(loc, f"{shown(name)} is none of {', '.join(known)}; what is protected stays so")


_EXTRA: dict[str, Callable[[Draft, Loc], None]] = {
    "PodsWithPVC": lambda draft, loc: draft.put(_VOLUMES, value=False, loc=loc),
    "PodsWithoutPDB": lambda draft, loc: draft.put(_BUDGETS, value=False, loc=loc),
    "PodsWithResourceClaims": lambda draft, loc: draft.settled(loc, "devices do not follow a pod: never moved"),
    "PodsWithPDBBlockingSingleReplicaOwner": lambda draft, loc: draft.settled(
        loc, "a disruption budget that allows nothing is never passed over, and single replicas are left alone"
    ),
}
_DISABLED: dict[str, Callable[[Draft, Loc], None]] = {
    "PodsWithLocalStorage": lambda draft, loc: draft.put(_LOCAL, value=True, loc=loc),
    "FailedBarePods": lambda draft, loc: draft.put(_FAILED_BARE, value=True, loc=loc),
    "DaemonSetPods": lambda draft, loc: draft.miss(loc, f"pods of DaemonSets are {_NEVER}"),
    "SystemCriticalPods": lambda draft, loc: draft.miss(loc, f"pods of system-critical priority are {_NEVER}"),
}


def _classes(draft: Draft, given: Given) -> None:
    take_options(draft, given, (Option("protectedStorageClasses", (), _class_names),))


def _class_names(draft: Draft, given: Given) -> None:
    if not isinstance(given.value, list):
        draft.wrong(given.loc, wrong_type(given.value, "a list"))
        return
    names = [each["name"] for each in given.value if isinstance(each, dict) and isinstance(each.get("name"), str)]
    if len(names) < len(given.value):
        draft.wrong(given.loc, "each is a mapping with a name")
    if names:
        draft.put(("filters", "protectedStorageClasses"), names, given.loc)


def _finish(draft: Draft, args: Given) -> None:
    path = ("filters", "protectedStorageClasses")
    if draft.get(path) and draft.get(_VOLUMES) is not False:
        loc = draft.origins[path]
        draft.drop(path)
        draft.miss(loc, "it says nothing unless PodsWithPVC is enabled", "filters.persistentVolumes: false")


def _targets(draft: Draft, given: Given) -> None:
    nearest = "a nodeSelector of the pods, or pools; filters.nodeSelector says from where pods are moved"
    if given.value:
        why = "it limits the nodes that nodeFit counts as targets"
        draft.miss(given.loc, why, nearest, limits=given.around.get("nodeFit") is True)
    else:
        draft.settled(given.loc, "it says nothing")


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


def merged(draft: Draft, parts: Sequence[Draft]) -> None:
    """Put the evictors of all profiles into one; where they differ, the strictest holds."""
    for part in parts:
        draft.remarks += [remark for remark in part.remarks if remark not in draft.remarks]
        draft.named |= part.named
        draft.taken |= part.taken
    for path, default in _DEFAULTS.items():
        _merge(draft, parts, path, default)
    for part in parts:
        _add(draft, part)


def _merge(draft: Draft, parts: Sequence[Draft], path: Path, default: object) -> None:
    """One field that several evictors may have a word on."""
    given = [part for part in parts if part.get(path) is not None]
    if not given:
        return
    values = [default if (found := part.get(path)) is None else found for part in parts]
    value, comment = _strictest(path, values), "the strictest of the profiles"
    if value is None:
        value, comment = given[0].get(path), "of the first profile"
        draft.halt(given[0].origins[path], "which priority threshold of the profiles is the lowest cannot be told")
    if value != default or path == ("minPodAge",):  # of which our own default is another
        alike = len({*map(str, values)}) == 1
        draft.put(path, value, given[0].origins[path], "" if alike else comment)
        for said in given[0].comments.get(path, ()):
            draft.say(path, said)
    else:
        for part in given:
            if part.get(path) == default:
                draft.settled(part.origins[path], "it is the default here, too")
    for index, each in enumerate(values):
        if each != value:
            where = parts[index].origins.get(path, ("profiles", index))
            why = f"{path_of(path)} is {shown(each)} in this profile; here {shown(value)} holds for all strategies"
            draft.miss(where, why, "filters of single strategies, or node pools (pools)")


def _add(draft: Draft, part: Draft) -> None:
    """What else an evictor says: the first profile that says it has its way."""
    for path, loc in part.origins.items():
        if path not in _DEFAULTS and (value := part.get(path)) is not None:
            draft.put(path, value, loc, " ".join(part.comments.get(path, ())))
    if part.halted:
        draft.halt(*part.halted)


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
