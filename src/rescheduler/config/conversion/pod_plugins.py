"""descheduler's plugins that go by a pod's own state: its restarts, its age, its end.

`descheduler_plugins` has the others.
"""

from __future__ import annotations

from rescheduler.config.conversion.draft import Draft
from rescheduler.config.conversion.options import Given, Option, Plugin, take_options
from rescheduler.config.conversion.strategy_options import (
    excluded_kinds_of,
    fields_of,
    init_containers_of,
    labels_of,
    namespaces_of,
    setting,
)
from rescheduler.config.conversion.values import (
    flag,
    same,
    seconds,
    texts,
    whole,
)
from rescheduler.config.errors import wrong_type
from rescheduler.model.duration import format_duration


def _conditions(draft: Draft, given: Given) -> None:
    if not isinstance(given.value, list):
        draft.wrong(given.loc, wrong_type(given.value, "a list"))
        return
    kept: list[dict[str, object]] = []
    for index, each in enumerate(given.value):
        loc = (*given.loc, index)
        if not isinstance(each, dict):
            draft.wrong(loc, wrong_type(each, "a mapping"))
            continue
        one: dict[str, object] = {}
        for name, value in each.items():
            if name in ("type", "status", "reason"):
                one[name] = str(value)
            elif name == "minTimeSinceLastTransitionSeconds":
                number = whole(draft, Given(value, (*loc, name)))
                if number is not None:
                    one["minTime"] = format_duration(float(number))
            else:
                draft.unknown((*loc, name), "known are type, status, reason and minTimeSinceLastTransitionSeconds")
        if one.get("status") == "True" and one.get("type") in _HEALTHY:
            draft.miss(
                loc, f"{one['type']} is True on healthy pods, and those are not looked at", "states: [Succeeded]"
            )
        elif one:
            kept.append(one)
    if kept:
        draft.put(("strategies", "PodLifeTime", "conditions"), kept, given.loc)


_HEALTHY = ("Initialized", "Ready", "ContainersReady", "PodScheduled", "PodReadyToStartContainers")


def _owner_kinds(draft: Draft, given: Given) -> None:
    base = ("strategies", "PodLifeTime")
    fields = {"include": "ownerKinds", "exclude": "excludedOwnerKinds"}
    take_options(draft, given, tuple(Option(name, (), texts(*base, field)) for name, field in fields.items()))


def _ages(draft: Draft, args: Given) -> None:
    base = ("strategies", "PodLifeTime")
    conditions = args.inner("conditions")
    if not any(args.inner(name).value for name in _CRITERIA) and args.inner(_CRITERIA[0]).value is None:
        draft.wrong(args.loc, f"none of {', '.join(_CRITERIA)} is given, and without any every pod would be meant")
    elif conditions.value and not draft.get((*base, "conditions")):
        draft.switch_off("PodLifeTime", conditions.loc, "without any of its conditions every pod would be meant")
    elif draft.get((*base, "maxAge")) is None:
        draft.put((*base, "maxAge"), "0s", args.loc, "not given there: pods of any age")


_CRITERIA = ("maxPodLifeTimeSeconds", "states", "podStatusPhases", "conditions", "exitCodes")
"""One of them has to be given; 0 seconds count."""


def _kept(draft: Draft, args: Given) -> None:
    path = ("strategies", "FailedPods", "minAge")
    if args.inner("minPodLifetimeSeconds").value is None:
        draft.put(path, "1h0m0s", args.loc, "the default there; 0s here")


def _restarts(draft: Draft, given: Given) -> None:
    path = ("strategies", "TooManyRestarts", "restartThreshold")
    number = whole(draft, given)
    if number == 0:
        draft.wrong(given.loc, _NO_RESTARTS)
    elif number is not None:
        draft.put(path, number, given.loc)


_NO_RESTARTS = "a threshold of at least 1 is needed, for without any every pod would be meant"


def _counted(draft: Draft, args: Given) -> None:
    if args.inner("podRestartThreshold").value is None:
        draft.wrong(args.loc, f"podRestartThreshold is not given: {_NO_RESTARTS}")


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
