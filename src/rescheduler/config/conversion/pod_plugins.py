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
    elif given.value:
        draft.switch_off("PodLifeTime", given.loc, "without any of its conditions every pod would be meant")


_HEALTHY = ("Initialized", "Ready", "ContainersReady", "PodScheduled", "PodReadyToStartContainers")


def _owner_kinds(draft: Draft, given: Given) -> None:
    base = ("strategies", "PodLifeTime")
    fields = {"include": "ownerKinds", "exclude": "excludedOwnerKinds"}
    take_options(draft, given, tuple(Option(name, (), texts(*base, field)) for name, field in fields.items()))


def _ages(draft: Draft, args: Given) -> None:
    enabled = draft.data.get("enabledStrategies")
    path = ("strategies", "PodLifeTime", "maxAge")
    if isinstance(enabled, list) and "PodLifeTime" in enabled and draft.get(path) is None:
        draft.put(path, "0s", args.loc, "not given there: pods of any age")


def _restarts(draft: Draft, given: Given) -> None:
    path = ("strategies", "TooManyRestarts", "restartThreshold")
    number = whole(draft, given)
    if number == 0:
        draft.put(path, 1, given.loc, "there 0, which would mean every pod")
    elif number is not None:
        draft.put(path, number, given.loc)


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
        setting("minPodLifetimeSeconds", "FailedPods", "minAge", seconds("strategies", "FailedPods", "minAge")),
        init_containers_of("FailedPods"),
        excluded_kinds_of("FailedPods"),
        labels_of("FailedPods"),
        namespaces_of("FailedPods"),
    ),
)
